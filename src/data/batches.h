// From examples to batches: in which order, how many together, and what is to be predicted in each.
// The order of an epoch follows from the seed and the epoch's number, so a run that is resumed
// finds its place again.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "data/task.h"
#include "formats/tokenizer.h"

namespace cosformer::data {

// The texts on one side of a batch.
struct Side {
  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int64_t> tokens;   // [rows, length]
  std::vector<int64_t> lengths;  // padded rows: [rows]; empty when all are full
  std::vector<int64_t> offsets;  // packed, in one row: [sequences + 1]; otherwise empty

  int64_t Count() const;  // tokens that are no padding
};

struct Batch {
  Side input;
  Side second;  // retrieve: the other texts. Translate: what the decoder reads
  // What is to be predicted, -1 for nothing. Causal and masked: [as input.tokens]; translate: [as
  // second.tokens]; classes: [sequences].
  std::vector<int64_t> targets;
  int64_t sequences = 0;

  int64_t Tokens() const { return input.Count() + second.Count(); }
  int64_t Targets() const;  // that count
};

struct BatchOptions {
  Objective objective = Objective::kCausal;
  SpecialTokens special;
  int64_t length = 512;   // of a sequence at most; longer texts are cut
  int64_t tokens = 8192;  // of a batch at most, padding included; but never less than a sequence
  bool packing = false;   // texts one after the other; otherwise in rows of like lengths
  bool images = false;    // no token is put before the pixels
  bool shuffle = true;    // otherwise as evaluation takes them
  double masked = 0.15;   // of the tokens
  // Causal, not shuffled: windows begin so far apart, and each predicts what the last did not.
  // 0: the length.
  int64_t stride = 0;
  uint64_t seed = 1;
};

// Throws Error when the examples allow no batch, or the objective needs a token that the tokenizer
// lacks.
class Batches {
 public:
  Batches(const Dataset& set, const BatchOptions& options);

  // All batches of an epoch, each a list of examples or windows.
  struct Plan {
    int64_t epoch = 0;
    int64_t shift = 0;  // of the windows
    std::vector<int64_t> items;
    std::vector<int64_t> begins;  // in items: [batches + 1]

    int64_t batches() const { return static_cast<int64_t>(begins.size()) - 1; }
  };
  Plan PlanOf(int64_t epoch) const;
  Batch Make(const Plan& plan, int64_t index) const;
  // Causal and masked: where a window, one of a plan's items, begins in the text.
  int64_t WindowBegin(const Plan& plan, int64_t window) const {
    return plan.shift + window * Stride();
  }

  // Texts that are cut to fit.
  int64_t CountCut() const;

 private:
  bool Windows() const;
  int64_t Stride() const;
  int64_t WindowLength(int64_t window, int64_t shift) const;
  int64_t WholeLengthOf(int64_t example) const;  // of its longer side
  int64_t LengthOf(int64_t example) const;       // as it will stand in a batch
  int64_t SpecialCount() const;
  void Order(Plan& plan) const;
  void Group(Plan& plan) const;

  Batch MakeWindows(const Plan& plan, int64_t index) const;
  Batch MakeTexts(const Plan& plan, int64_t index) const;
  void Mask(uint64_t stream, Batch& batch) const;
  std::vector<int64_t> Sequence(int64_t example) const;
  std::vector<int64_t> Text(int64_t example, int64_t part, int64_t most) const;
  Side Join(const std::vector<std::vector<int64_t>>& texts, int64_t filler) const;

  const Dataset& set_;
  BatchOptions options_;
};

}  // namespace cosformer::data
