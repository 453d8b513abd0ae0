// How likely a text is under a language model, token by token, and how far two models are apart on
// one. A text that is longer than a window is read in windows that overlap, so that every token is
// predicted once, and from a part of the text that lies before it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cosformer/runtime.h"
#include "cosformer/sampling.h"

namespace cosformer::runtime {

struct Windows {
  int64_t length = 0;  // tokens of each; the last may have fewer
  int64_t stride = 0;  // from the beginning of one to that of the next
  int64_t count = 0;
};

// For a text of so many tokens. length 0: the model's longest text, or all where it has no limit.
// stride 0: half the length. Throws Error for a length that the model can't read, and for a stride
// that would leave tokens without context; for a text of fewer than two tokens, as there is nothing
// to predict; and for models that are no language models.
Windows WindowsFor(const Model& model, int64_t tokens, int64_t length, int64_t stride);

// The logits for all tokens of a text but the first, in their order, some rows at a time.
class WindowedLogits {
 public:
  // The tokens must outlive this.
  WindowedLogits(const Model& model, std::span<const int32_t> tokens, const Windows& windows);

  // Goes on to the next rows; false when there are no more. Two models of one vocabulary, over the
  // same text and windows, give the same rows.
  bool Next();

  int64_t place() const { return place_; }  // of the token that the first row is for
  int64_t rows() const { return rows_; }
  std::span<const float> logits() const { return logits_; }  // [rows, vocabulary]

 private:
  Model model_;
  std::span<const int32_t> tokens_;
  Windows windows_;
  int64_t most_rows_ = 1;
  int64_t window_ = -1;
  int64_t end_ = 1;  // of what the window holds; all before was predicted
  Session session_;
  int64_t place_ = 0;
  int64_t rows_ = 0;
  std::vector<float> logits_;
};

struct TokenScore {
  int32_t token = 0;
  double log_probability = 0;
  int64_t rank = 0;  // 1: the likeliest. Of equal ones the lower token is likelier
  std::vector<ScoredToken> likeliest;  // the likeliest first
};

// How much is done: 0 to 1.
using ScoreProgress = std::function<void(double)>;

// Of all tokens but the first. Throws Error where the model computes what is no number.
std::vector<TokenScore> ScoreTokens(const Model& model, std::span<const int32_t> tokens,
                                    const Windows& windows, int64_t likeliest,
                                    const ScoreProgress& progress = {});

struct Comparison {
  int64_t predictions = 0;
  double log_probability[2] = {0, 0};  // sums, of the first model and of the second
  double divergence = 0;  // sum of the Kullback-Leibler divergences of the second from the first
  int64_t agreed = 0;     // predictions whose likeliest token is the same
};

// Of two models with one vocabulary. Throws as ScoreTokens() does.
Comparison Compare(const Model& first, const Model& second, std::span<const int32_t> tokens,
                   const Windows& windows, const ScoreProgress& progress = {});

}  // namespace cosformer::runtime
