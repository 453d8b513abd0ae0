// How well a model predicts a set of examples.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/batches.h"
#include "model/model.h"

namespace cosformer {

// Tokens of a text that lie side by side: those from `begin` on, before `end`.
struct TokenRange {
  int64_t begin = 0, end = 0;
};

struct Evaluation {
  // Sums over blocks of examples, each far enough from the others to be independent of them.
  std::vector<double> losses;         // in nats
  std::vector<double> counts;         // predictions
  int64_t correct = -1;               // of all predictions; -1: not counted
  double part = 1;                    // of the set that was evaluated
  std::vector<TokenRange> predicted;  // causal: in the order of the text
  double seconds = 0;

  double Loss() const;  // mean, a prediction
  double LossSum() const;
  int64_t Predictions() const;
  double Accuracy() const {
    return static_cast<double>(correct) / static_cast<double>(Predictions());
  }
};

// How much of the set is done, from 0 to 1.
using EvaluationProgress = std::function<void(double)>;

// In batches, as `options` makes them, without shuffling. At most some `tokens` of the set, in
// whole batches spread over it evenly; 0: all of it.
Evaluation Evaluate(ModelImpl& model, const data::Dataset& set, data::BatchOptions options,
                    int64_t tokens, const EvaluationProgress& progress = {});

// Causal models: the same, with a block for every stretch of the text, so that models with other
// windows have the same blocks: block i has what follows tokens i * stretch to (i + 1) * stretch -
// 1, as much of it as was predicted.
Evaluation EvaluateStretches(ModelImpl& model, const data::Dataset& set, data::BatchOptions options,
                             int64_t tokens, int64_t stretch,
                             const EvaluationProgress& progress = {});

// Causal models: as one text from beginning to end, `chunk` tokens at a time, with what the layers
// remember carried along.
Evaluation EvaluateCarried(ModelImpl& model, const data::Dataset& set, int64_t chunk,
                           const EvaluationProgress& progress = {});

}  // namespace cosformer
