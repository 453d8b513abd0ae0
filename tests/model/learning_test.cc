// Each system learns: a tiny model of it overfits a small batch, and learns to copy a text that it
// sees once, which needs an attention that finds the token so many places before.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cosformer/torch.h"
#include "model/model.h"
#include "train/adamw.h"

namespace cosformer {
namespace {

using nlohmann::json;
using torch::Tensor;

constexpr int64_t kVocabulary = 8;  // and one more for the mask
constexpr int64_t kHalf = 6;        // tokens to copy
constexpr int64_t kLength = 2 * kHalf;

// Defaults, where the system is able to copy with them.
json AttentionOf(const std::string& system) {
  json attention = {{"system", system}};
  // Its window is a sixteenth of the length.
  if (system == "longformer") attention["window"] = kLength;
  // Weights of both signs sum to something near zero now and then, and the division by it undoes
  // what was learned.
  if (system.ends_with("identity")) attention["normaliser"] = "norm";
  return attention;
}

ModelConfig ConfigOf(const std::string& system, bool causal, int64_t layers) {
  return ParseConfig({{"model", causal ? "decoder" : "encoder"},
                      {"vocabulary", kVocabulary + 1},
                      {"width", 32},
                      {"layers", layers},
                      {"heads", 4},
                      {"hidden", 64},
                      {"max_length", kLength},
                      {"attention", AttentionOf(system)}},
                     "test");
}

struct Batch {
  Tensor input, targets;
};

// A random text and the same again. Causal: each token predicts the next. Bidirectional: the second
// half is masked and asked for.
Batch Copies(int64_t batch, bool causal) {
  const Tensor text = torch::randint(kVocabulary, {batch, kHalf}, torch::kInt64);
  const Tensor twice = torch::cat({text, text}, 1);
  Batch result{twice.clone(), torch::full({batch, kLength}, -1, torch::kInt64)};
  if (causal) {
    // Only what can be known: the second half.
    result.targets.slice(1, kHalf - 1, kLength - 1).copy_(text);
  } else {
    result.input.slice(1, kHalf).fill_(kVocabulary);
    result.targets.slice(1, kHalf).copy_(text);
  }
  return result;
}

double Train(Model& model, const std::function<Batch()>& next, int steps, double lr, double stop) {
  AdamW optimiser(GroupsOf(*model), {.beta2 = 0.98, .weight_decay = 0});
  model->train();
  double average = 10;
  for (int step = 0; step < steps && average > stop; ++step) {
    const Batch batch = next();
    const LossResult loss = model->Loss(model->Encode(batch.input), batch.targets);
    loss.loss.backward();
    optimiser.ClipGradients(1);
    optimiser.Step(lr * std::min(1.0, (step + 1) / 20.0));
    optimiser.ZeroGradients();
    average = step == 0 ? loss.loss.item<double>() : 0.8 * average + 0.2 * loss.loss.item<double>();
  }
  return average;
}

class LearningTest : public ::testing::TestWithParam<std::string> {
 protected:
  bool Causal() const {
    for (const SystemDescription& system : AttentionSystems()) {
      if (system.name == GetParam()) return system.abilities.causal;
    }
    return false;
  }
};

TEST_P(LearningTest, OverfitsASmallBatch) {
  torch::manual_seed(1);
  Model model(ConfigOf(GetParam(), Causal(), 1));
  const Tensor input = torch::randint(kVocabulary, {4, kLength}, torch::kInt64);
  const Tensor targets = torch::randint(kVocabulary, {4, kLength}, torch::kInt64);
  EXPECT_LT(Train(
                model,
                [&] {
                  return Batch{input, targets};
                },
                400, 5e-3, 0.05),
            0.1);
}

TEST_P(LearningTest, LearnsToCopy) {
  torch::manual_seed(2);
  const bool causal = Causal();
  Model model(ConfigOf(GetParam(), causal, 2));
  Train(
      model, [&] { return Copies(32, causal); }, 1500, 3e-3, 0.02);
  model->eval();
  torch::NoGradGuard no_grad;
  const Batch fresh = Copies(200, causal);
  const LossResult result = model->Loss(model->Encode(fresh.input), fresh.targets);
  EXPECT_GT(static_cast<double>(result.correct) / static_cast<double>(result.counted), 0.9);
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const SystemDescription& system : AttentionSystems()) names.push_back(system.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, LearningTest, ::testing::ValuesIn(Names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace cosformer
