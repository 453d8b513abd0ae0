// From logits to the next token: the likeliest, or one drawn from a distribution that options
// shape.
//
// The steps, in this order, as Hugging Face's transformers have them:
//   1. logit_bias is added.
//   2. The repetition penalty of CTRL (Keskar et al. 2019), once for each token that is among the
//      recent ones: logits above 0 are divided by it, others multiplied.
//   3. All logits are divided by the temperature, and become probabilities. Temperature 0 ends
//      here: the likeliest token is taken.
//   4. top-k: the k likeliest tokens stay.
//   5. top-p: of those, the fewest likeliest that have a share of at least p of them; one at least.
//   6. min-p: of those, the ones that are at least min_p times as likely as the likeliest.
//   7. One of those is drawn by its probability: a number u in [0, 1), which depends on the seed
//      and on how many tokens were drawn before and on nothing else, falls into the share of one
//      token when their shares are laid side by side in the order of tokens.
// Logits after steps 1 and 2 are rounded to float, and stay finite where they were; of equal ones
// the lower token is the likelier. From there on the arithmetic is in double, but for sums over the
// whole vocabulary: these are in float for each 1024 tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cosformer/error.h"

namespace cosformer {

struct LogitBias {
  int32_t token = 0;
  float value = 0;  // -infinity: the token never comes
};

struct SamplingOptions {
  double temperature = 1;         // 0, or 1e-6 to 1e6
  int64_t top_k = 0;              // 0: all
  double top_p = 1;               // 0 to 1; 1: all
  double min_p = 0;               // 0 to 1; 0: all
  double repetition_penalty = 1;  // above 0; 1: none
  // The penalty is for the latest so many tokens, up to 1,048,576; 0: for all so far, however many.
  int64_t repetition_window = 64;
  std::vector<LogitBias> logit_bias{};  // one a token at most
  uint64_t seed = 0;
};

struct ScoredToken {
  int32_t token = -1;
  // Under the model's own distribution, the softmax of the logits as they are given.
  double log_probability = 0;
};

struct SampledToken {
  int32_t token = -1;
  double log_probability = 0;  // as above, whatever the options made of it
  // As many of the likeliest tokens as were asked for, the likeliest first, as above; fewer where
  // the logits of others are -infinity. They lie in the workspace, until it is used again.
  std::span<const ScoredToken> likeliest;
};

struct SamplingBuffers;

// Memory for calls of Sampler::Next: one for a thread, for any number of samplers. It holds nothing
// from one call to the next, and grows to 4 bytes for a token of the vocabulary (with a bias or a
// penalty) and 16 or 32 for each that top-k, top-p or min-p have to look at.
class SamplingWorkspace {
 public:
  SamplingWorkspace();
  ~SamplingWorkspace();
  SamplingWorkspace(SamplingWorkspace&&) noexcept;
  SamplingWorkspace& operator=(SamplingWorkspace&&) noexcept;

 private:
  friend class Sampler;
  std::unique_ptr<SamplingBuffers> buffers_;
};

// Draws the tokens of one text. A value: a copy goes on as the original would. It remembers, where
// there is a repetition penalty, 4 bytes for a token of the window and 8 for each different one.
class Sampler {
 public:
  // For logits of `vocabulary` tokens. Throws Error for options outside their ranges.
  Sampler(SamplingOptions options, int64_t vocabulary);

  // Tells of tokens that the text has already, oldest first: the prompt, for the repetition
  // penalty. Throws Error for tokens outside the vocabulary, with none remembered.
  void Observe(std::span<const int32_t> tokens);

  // Chooses the next token, observes it, and goes on to the next random number. Throws Error, with
  // nothing changed, when there are not as many logits as tokens, when one is NaN or +infinity, and
  // when no token is left that may come.
  SampledToken Next(std::span<const float> logits, SamplingWorkspace& workspace,
                    int64_t likeliest = 0);

 private:
  struct Recent {
    int32_t token;
    int32_t count;  // within the window; 1 when there is none
  };

  void Remember(int32_t token);
  std::span<const float> Adjusted(std::span<const float> logits, SamplingBuffers& buffers) const;

  SamplingOptions options_;
  int64_t vocabulary_ = 0;
  uint64_t draws_ = 0;
  std::vector<int32_t> window_;  // a ring, once it is full
  size_t oldest_ = 0;            // in the ring
  std::vector<Recent> recent_;   // in the order of tokens
};

}  // namespace cosformer
