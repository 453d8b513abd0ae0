// A trained model, run on a CPU without libtorch: load a directory, feed tokens, read logits.
//
//   cosformer::runtime::Model model = cosformer::runtime::Model::Load("runs/lm-cosformer/model");
//   cosformer::runtime::Session session(model);
//   session.Feed(model.Encode("Attention is"));
//   std::vector<float> logits = session.Logits();
//
// Contracts that hold for everything here:
//   - Bad input throws cosformer::Error, before anything is changed.
//   - Models are immutable and cheap to copy; all of their functions may be called from several
//     threads at once. Sessions are values: one thread each.
//   - Logits do not depend on the number of threads, nor on what else is in a batch, to the bit.
//     How a text is cut into calls changes them by rounding alone.
//   - What linear layers remember of a text does not grow with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cosformer/error.h"

namespace cosformer {
class Tokenizer;
}

namespace cosformer::runtime {

class Network;
struct TextState;

struct LoadOptions {
  // Texts go on past the horizon of cosFormer's layers, which then attend to the last half of it at
  // least. Models whose texts end otherwise, with their learned positions, are as they are without.
  // A saved session keeps to what it began with.
  bool endless = true;
  int threads = 0;  // 0: all cores
};

enum class Use : uint8_t {
  kLanguageModel,  // predicts the next token: Session
  kMaskedModel,    // predicts hidden tokens: Fill
  kClassifier,     // the class of a text: Classify
  kRetrieval,      // whether two texts belong together: Classify
};

struct Prediction {
  int32_t token = 0;  // or class
  double log_probability = 0;
};

class Model {
 public:
  // A directory with config.json, model.safetensors, and where the input is text a tokenizer. A
  // run's directory will do: its model is meant.
  static Model Load(const std::string& directory, const LoadOptions& options = {});

  Use use() const;
  bool reads_images() const;  // not text: ClassifyImage
  int64_t vocabulary() const;
  int64_t parameters() const;
  int64_t weight_bytes() const;
  // The most tokens of a text that begins now; none: any number.
  std::optional<int64_t> max_tokens() const;

  // Throws Error where the model has no tokenizer, and, but where tokens are bytes, for what is no
  // UTF-8.
  std::vector<int32_t> Encode(std::string_view text) const;
  std::string Decode(std::span<const int32_t> tokens) const;
  // The token that ends a text; -1: none.
  int32_t end_token() const;

  // ---- classifiers and retrieval: the classes, the likeliest first. Throws Error for an empty
  // text, and for one where the model was trained on two or the other way round.
  const std::vector<std::string>& labels() const;  // their names, if they have any
  std::vector<Prediction> Classify(std::string_view text) const;
  std::vector<Prediction> Classify(std::string_view first, std::string_view second) const;
  std::vector<Prediction> Classify(std::span<const int32_t> tokens) const;
  std::vector<Prediction> ClassifyImage(std::span<const uint8_t> pixels) const;

  // ---- masked models: a text in which <mask> stands for a token that is hidden (SentencePiece's
  // have the blank before them, which is hidden with them), and for every one of them the `count`
  // likeliest tokens
  std::vector<int32_t> EncodeMasked(std::string_view text) const;
  std::vector<std::vector<Prediction>> Fill(std::string_view text, int64_t count = 5) const;

  // What the parts of the library work with.
  const Network& network() const { return *network_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }  // null: none

 private:
  friend class ModelBuilder;
  Model() = default;
  std::shared_ptr<const Network> network_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const std::vector<std::string>> labels_;
  std::optional<bool> pairs_;  // whether a classifier reads two texts; none: not known
  bool images_ = false;        // whether what it was trained on were images
};

struct SessionOptions {
  // Earlier states to keep, so that an edited prompt can go back to one of them: each takes as much
  // memory as the session (a softmax layer's cache is not copied). They lie the closer the nearer
  // to the present; what is further back than the first of them is read again from the beginning.
  // 0: none.
  int checkpoints = 8;
};

// A text that a language model has read, and goes on reading.
class Session {
 public:
  explicit Session(Model model, const SessionOptions& options = {});
  Session(const Session&);  // a fork
  Session& operator=(const Session&);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const Model& model() const;
  int64_t position() const;  // tokens fed
  // The most that there may be; none: any number. The model's, but for a session that was saved
  // without LoadOptions::endless, which ends with the horizon.
  std::optional<int64_t> max_tokens() const;
  size_t bytes() const;  // of its states, checkpoints included
  size_t state_bytes() const;
  // The latest tokens fed, oldest first, kRecentTokens at most: fewer, or none, only where the text
  // is shorter or was saved by a program that did not keep them.
  std::vector<int32_t> recent() const;
  static constexpr size_t kRecentTokens = 1024;

  // The Errors that feeding these tokens would give.
  void Check(std::span<const int32_t> tokens) const;
  // Reads the next tokens.
  void Feed(std::span<const int32_t> tokens);
  void Feed(int32_t token) { Feed(std::span(&token, 1)); }
  // Reads the next tokens and gives the logits after each: [tokens, vocabulary].
  std::vector<float> FeedAll(std::span<const int32_t> tokens);
  // Of the token that follows: [vocabulary]. Error before anything was fed.
  std::vector<float> Logits() const;

  // Makes the text read so far be `tokens`: goes back to the last checkpoint within the part that
  // both share, or to the beginning, and feeds the rest. Returns how many tokens were fed anew.
  int64_t Edit(std::span<const int32_t> tokens);
  void Reset();

  // A few MB whatever the length, as far as layers are linear, and the latest tokens; checkpoints
  // are left out.
  void Save(const std::string& path) const;  // whole or not at all
  void Save(std::ostream& out) const;
  // Error for what is damaged, or was made with another model; and for what went past the horizon,
  // or was to, where the model is not endless.
  static Session Load(Model model, const std::string& path, const SessionOptions& options = {});
  static Session Load(Model model, std::istream& in, const SessionOptions& options = {});

  // One pass over the weights for all: feeds tokens[i] to sessions[i], which are different ones of
  // one model. Sessions may join and leave from call to call.
  static void FeedBatch(std::span<Session* const> sessions, std::span<const int32_t> tokens);
  // Parts of texts of any length, likewise.
  static void FeedBatch(std::span<Session* const> sessions,
                        std::span<const std::span<const int32_t>> tokens);
  // [sessions, vocabulary].
  static std::vector<float> LogitsBatch(std::span<Session* const> sessions);

 private:
  struct Impl;
  // Checked, then read in parts with checkpoints between them; hidden, where it is not null, is
  // that of one session.
  static void FeedParts(std::span<Session* const> sessions,
                        std::vector<std::span<const int32_t>> tokens, float* hidden);
  static Session Parse(Model model, std::string_view bytes, const std::string& where,
                       const SessionOptions& options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cosformer::runtime
