// A trained model, executed: rows of tokens through embeddings, layers and heads. Immutable; every
// function may be called from several threads at once on different states.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "formats/config.h"
#include "kernels/rotary.h"
#include "runtime/layer_state.h"
#include "runtime/parameters.h"

namespace cosformer::runtime {

// What a text has left in a decoder.
struct TextState {
  std::vector<LayerState> layers;
  int64_t position = 0;     // tokens taken in
  std::vector<float> last;  // [width]: what follows the last token is predicted from it
};

// Tokens that follow those of a state.
struct Turn {
  TextState* state = nullptr;
  std::span<const int32_t> tokens;
};

class Network {
 public:
  // Throws Error for models that the runtime does not execute. endless: see AttentionOf().
  // threads: 0 for as many as OpenMP gives.
  Network(ModelConfig config, Parameters parameters, bool endless, int threads = 0);
  ~Network();

  // The same Errors, before there are weights.
  static void CheckSupported(const ModelConfig& config);

  const ModelConfig& config() const { return config_; }
  const Parameters& parameters() const { return parameters_; }
  const std::vector<LayerAttention>& attention() const { return attention_; }
  // Whether it was asked for; not all models can be.
  bool endless() const { return endless_; }
  int threads() const { return threads_; }
  // The most tokens that a text may have, and what says so, up to the number ("its
  // learned positions end at"); none: any.
  std::optional<int64_t> Limit() const { return limit_; }
  const char* LimitReason() const { return limit_reason_; }
  // The same of a text that may have begun otherwise than those that begin now.
  std::optional<int64_t> LimitOf(const TextState& state) const;
  // Of what it keeps from one pass to the next, beside the weights.
  size_t work_bytes() const;

  // ---- a decoder
  TextState NewText() const;
  // Takes in the tokens of all turns, whose states are different ones, in one pass over the weights
  // for every kPass of them together. hidden: null, or [all tokens, width], the rows of the turns
  // one after the other: what each token's successor is predicted from. Checks all turns before it
  // changes any state.
  void Advance(std::span<const Turn> turns, float* hidden = nullptr) const;

  // The Errors of Advance().
  void CheckTurn(const Turn& turn) const;
  // Those of tokens that follow so many others in a text with this limit.
  void CheckTokens(std::span<const int32_t> tokens, int64_t position,
                   std::optional<int64_t> limit) const;

  // ---- encoders: [length, width] of a whole text, or of an image's pixels
  std::vector<float> Encode(std::span<const int32_t> tokens) const;
  std::vector<float> EncodePixels(std::span<const uint8_t> pixels) const;
  // [classes]: of one text, or of two.
  std::vector<float> Classify(std::span<const float> hidden) const;
  std::vector<float> Classify(std::span<const float> first, std::span<const float> second) const;

  // ---- both: hidden [rows, width] -> [rows, vocabulary]
  void Logits(const float* hidden, int64_t rows, float* logits) const;

  // The queries and keys of one layer for a whole text, as they are projected: rotary positions and
  // feature maps are still to come.
  struct QueriesAndKeys {
    int64_t length = 0;
    std::vector<float> q;  // [length, heads, dim]
    std::vector<float> k;  // [length, kv_heads, dim]
    std::vector<float>
        keep;  // [length, kv_heads], with a gate: what each token keeps of all before
  };
  QueriesAndKeys QueriesAndKeysOf(std::span<const int32_t> tokens, size_t layer) const;

  // Rows. With 512 of width 512 their activations leave an L2 cache of 2 MiB, and a prompt takes 1
  // % longer; with 128 threads wait more for each other, 5 %.
  static constexpr int64_t kPass = 256;

 private:
  struct Work;
  // Memory for so many rows, of an earlier call where it left enough: pages that the system has to
  // clear anew take a fiftieth of the time of a prompt.
  std::unique_ptr<Work> TakeWork(int64_t rows) const;
  void KeepWork(std::unique_ptr<Work> work) const;
  void Embed(std::span<const int32_t> tokens, int64_t position, float* rows) const;
  void AddPositions(int64_t position, int64_t length, float* rows) const;
  template <class Attend>
  void RunLayers(Work& work, int64_t rows, const Attend& attend) const;
  void RunPass(std::span<const Turn> turns, int64_t rows, Work& work, float* hidden) const;
  std::vector<float> EncodeRows(std::vector<float> x, int64_t length) const;
  void AttendWholeText(size_t layer, int64_t length, const RotaryTable* rotary, Work& work) const;
  std::vector<float> Pooled(std::span<const float> hidden) const;

  ModelConfig config_;
  Parameters parameters_;
  std::vector<LayerAttention> attention_;
  bool endless_ = false;
  int threads_ = 1;
  std::optional<int64_t> limit_;
  const char* limit_reason_ = "";
  mutable std::mutex spare_mutex_;
  mutable std::unique_ptr<Work> spare_;
};

}  // namespace cosformer::runtime
