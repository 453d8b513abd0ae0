// A batch, put to a model: tensors of it, and the loss of what it is to predict.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/batches.h"
#include "model/model.h"

namespace cosformer {

// Makes of a model's config what the objective needs: the kind of model.
ModelKind KindFor(data::Objective objective);

// The mean loss over what the batch is to predict, as the model's config has it; with `smoothing`
// of the targets, while training. The batch must outlive the backward pass, which reads its tokens.
LossResult TrainingLoss(ModelImpl& model, const data::Batch& batch, data::Objective objective,
                        double smoothing);
// The same in cross-entropy whatever the config says, without gradients: what perplexity is made
// of.
LossResult EvaluationLoss(ModelImpl& model, const data::Batch& batch, data::Objective objective);

// Causal: the same for runs of the targets, each by itself.
struct TargetRun {
  int64_t begin = 0, count = 0;  // in batch.targets
};
std::vector<LossResult> EvaluationLosses(ModelImpl& model, const data::Batch& batch,
                                         std::span<const TargetRun> runs);

// Whether every layer of the model takes texts one after the other in one row.
bool CanPack(const ModelConfig& config);

}  // namespace cosformer
