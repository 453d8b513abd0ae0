// The models of language that a neural one has to beat: how likely a token is after the one or two
// before it, by counting. Interpolated modified Kneser-Ney (Chen and Goodman, 1998); a unigram adds
// one to each count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cosformer::data {

class NGramModel {
 public:
  // 1 to 3 tokens are looked at together. Throws Error for others, and for vocabularies beyond
  // 2,097,151.
  NGramModel(int64_t vocabulary, int order);

  // Takes note of a text. Each has a beginning of its own, before which there is nothing: no token
  // is counted as following one of another text. Throws Error for tokens outside the vocabulary.
  void Count(std::span<const int32_t> text);
  // Once, after all texts. What follows may then be called from several threads at once.
  void Finish();

  // Of `token` after the last of `before`, in nats; a text begins where there are too few of them.
  // Finite for every token, and the probabilities of all tokens sum to 1.
  double LogProbability(std::span<const int32_t> before, int32_t token) const;
  // Of a whole text from its beginning, each token given those before it. In nats. The first
  // `known` tokens are what stands before the others, and not among them.
  double NegativeLogLikelihood(std::span<const int32_t> text, size_t known = 0) const;

 private:
  // Tokens by what precedes them, with their counts, of which a part goes to tokens never seen.
  class Level {
   public:
    // `keys` ascend: a context, and below it a token. Instead of a discount, `added` is what all
    // tokens together have got on top of their counts; 0: they are discounted.
    Level(std::span<const uint64_t> keys, std::span<const uint32_t> counts, double added);
    // The share of the token among what follows the context, given that of the level below.
    double Probability(uint64_t context, uint64_t token, double below) const;

   private:
    std::array<double, 4> discounts_;  // of counts 0, 1, 2 and more
    std::vector<uint64_t> contexts_;
    std::vector<uint64_t> begins_;  // [contexts + 1] into the two below
    std::vector<uint32_t> tokens_;
    std::vector<uint32_t> counts_;
    std::vector<double> totals_;   // [contexts]
    std::vector<double> backoff_;  // [contexts] the share of the level below
  };

  void CheckTokens(std::span<const int32_t> text) const;
  // A gram is one number: the last `order` tokens, the latest lowest.
  uint64_t Beginning() const;
  uint64_t Append(uint64_t key, int32_t token) const;
  double Probability(uint64_t key) const;
  void Compact();

  int64_t vocabulary_;
  int order_;
  // While counting: grams as they came, and those before them, ascending, with their counts.
  std::vector<uint64_t> pending_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> counts_;
  std::vector<Level> levels_;  // the shortest context first
};

}  // namespace cosformer::data
