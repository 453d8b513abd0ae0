// Text from a language model: token by token with sampling, many texts in one batch, or the
// likeliest continuations by beam search.
//
//   cosformer::runtime::Session session(model);
//   session.Feed(model.Encode("Attention is"));
//   cosformer::runtime::GenerateOptions options;
//   options.sampling.temperature = 0.8;
//   const auto result = cosformer::runtime::Generate(session, options, [](const auto& token) {
//     std::cout << token.text << std::flush;
//     return true;
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cosformer/runtime.h"
#include "cosformer/sampling.h"

namespace cosformer::runtime {

struct GenerateOptions {
  SamplingOptions sampling;
  // 0: any number. The text then goes on until something else ends it; what is returned grows with
  // it, and where nothing could end it, it is refused.
  int64_t max_tokens = 256;
  // The text ends before the first of these to be complete.
  std::vector<std::string> stop;
  // Whether the token that ends a text ends this one. It is not part of the text.
  bool stop_at_end = true;
  int64_t likeliest = 0;  // so many of the likeliest tokens are given with each
  // Tokens that the text goes on after, as a prompt: for the repetition penalty, and for whether
  // the text begins with a blank. They are not fed. Empty: those that the session remembers
  // (Session::recent()). Where none are known, as in a Generation by itself, the text begins as
  // within a line, and nothing before it is penalised.
  std::vector<int32_t> before;
};

enum class StopReason : uint8_t {
  kNone,        // it goes on
  kLength,      // max_tokens
  kEnd,         // the token that ends a text
  kStopString,  // one of `stop`
  kLimit,       // the longest text there may be (Session::max_tokens())
  kCancelled,   // the caller has had enough
};
const char* Name(StopReason reason);  // "length", "end", "stop", "limit", "cancelled"

struct GeneratedToken {
  int32_t token = 0;
  double log_probability = 0;  // under the model's own distribution
  std::vector<ScoredToken> likeliest;
  std::string text;  // what can be shown now; held back: halves of characters, beginnings of `stop`
};

struct Generated {
  std::vector<int32_t> tokens;  // those chosen, the last of which may not be shown
  std::vector<double> log_probabilities;
  std::string text;
  StopReason reason = StopReason::kNone;
};

// One text on its way: who has the logits asks it for the next token, and feeds that to the
// session. The same seed gives the same text, whatever else is in a batch.
class Generation {
 public:
  // Throws Error for options out of range. Without a tokenizer there is no text, and no `stop`.
  Generation(const Model& model, GenerateOptions options);
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;
  ~Generation();

  // Chooses a token. Only while reason() is kNone; where it is still kNone after, the token is to
  // be fed before the next call.
  GeneratedToken Next(std::span<const float> logits, SamplingWorkspace& workspace);
  // Ends it: the text so far is what there is.
  void Stop(StopReason reason);

  StopReason reason() const { return result_.reason; }
  // Complete once there is a reason.
  const Generated& result() const { return result_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  Generated result_;
};

// Goes on with the session, which was fed something before. The session ends with the last token
// that was fed: all of the result's but the last. `each` sees every token, and returns false to
// stop.
Generated Generate(Session& session, const GenerateOptions& options,
                   const std::function<bool(const GeneratedToken&)>& each = {});

// The same for many texts, each with its own options, in one pass over the weights a step; those
// that end leave the batch. `each` is told which text has the token, and returns false to stop that
// one.
std::vector<Generated> GenerateBatch(
    std::span<Session* const> sessions, std::span<const GenerateOptions> options,
    const std::function<bool(size_t, const GeneratedToken&)>& each = {});

struct BeamOptions {
  int64_t beams = 4;
  int64_t max_tokens = 64;
  // Results are ranked by their log-probability divided by their length to this power: 0 favours
  // short texts.
  double length_penalty = 1;
  bool stop_at_end = true;
  // Tokens that the text goes on after, as in GenerateOptions.
  std::vector<int32_t> before;
};

struct Beam {
  std::vector<int32_t> tokens;  // without the one that ends the text
  double log_probability = 0;   // of all tokens, that one included
  double score = 0;             // what it is ranked by
  bool ended = false;
  std::string text;
};

// The best `beams` continuations found, the best first. The session itself stays as it is.
std::vector<Beam> BeamSearch(const Session& session, const BeamOptions& options);

}  // namespace cosformer::runtime
