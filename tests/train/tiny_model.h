// Small models whose outputs are far from uniform, sets of examples for them, and their losses
// computed plainly: one text at a time, without layouts, in double precision from the logits on.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/make_dataset.h"
#include "kernels/random.h"
#include "model/model.h"

namespace cosformer::testing {

inline constexpr SpecialTokens kSpecial{
    .unknown = 95, .begin = 96, .end = 97, .separator = 98, .mask = 99};

// Over 100 tokens unless `changes` say otherwise. The weights are larger than a new model's: where
// all tokens are equally likely, no loss shows a mistake.
inline Model TinyModel(const nlohmann::json& changes, uint64_t seed = 1) {
  torch::manual_seed(seed);
  nlohmann::json config = {
      {"vocabulary", 100}, {"width", 16}, {"layers", 2}, {"heads", 2}, {"max_length", 64}};
  config.update(changes);
  Model model(ParseConfig(config, "test"));
  torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : model->parameters()) {
    parameter += 0.2 * torch::randn_like(parameter);
  }
  return model;
}

// Losses of these models go through some 2^8 roundings in a row (sums over the width, the hidden
// width and the text, in two layers), each of half an epsilon of what is around 10 at most.
inline double LossTolerance() { return 10 * 128 * std::numeric_limits<float>::epsilon(); }

// Texts of 1 to `longest` tokens below 95, with labels from 0 to 2.
inline data::Dataset RandomTexts(const std::string& path, int count, int parts, uint64_t seed,
                                 int longest = 12) {
  Random random(seed);
  std::vector<std::vector<std::vector<int32_t>>> texts;
  std::vector<int32_t> labels;
  for (int i = 0; i < count; ++i) {
    std::vector<std::vector<int32_t>> example;
    for (int part = 0; part < parts; ++part) {
      std::vector<int32_t>& text =
          example.emplace_back(1 + random.Below(static_cast<uint64_t>(longest)));
      for (int32_t& token : text) token = static_cast<int32_t>(random.Below(95));
    }
    texts.push_back(example);
    labels.push_back(static_cast<int32_t>(random.Below(3)));
  }
  return MakeDataset(path, texts, labels);
}

inline data::BatchOptions OptionsFor(data::Objective objective, int64_t tokens, bool packing) {
  data::BatchOptions options;
  options.objective = objective;
  options.special = kSpecial;
  options.length = 16;
  options.tokens = tokens;
  options.packing = packing;
  options.shuffle = false;
  options.masked = 0.4;
  return options;
}

inline torch::Tensor RowOf(const std::vector<int64_t>& numbers) {
  return torch::tensor(numbers, torch::kInt64).unsqueeze(0);
}

// The texts of a side, or what stands beside each of its tokens.
inline std::vector<std::vector<int64_t>> TextsOf(const data::Side& side,
                                                 const std::vector<int64_t>& numbers) {
  std::vector<std::vector<int64_t>> texts;
  if (!side.offsets.empty()) {
    for (size_t s = 0; s + 1 < side.offsets.size(); ++s) {
      texts.emplace_back(numbers.begin() + side.offsets[s], numbers.begin() + side.offsets[s + 1]);
    }
    return texts;
  }
  for (int64_t row = 0; row < side.rows; ++row) {
    const auto begin = numbers.begin() + row * side.length;
    texts.emplace_back(
        begin,
        begin + (side.lengths.empty() ? side.length : side.lengths[static_cast<size_t>(row)]));
  }
  return texts;
}

struct NaiveLoss {
  double sum = 0;
  int64_t counted = 0, correct = 0;

  double Mean() const { return sum / static_cast<double>(counted); }

  // logits [rows, classes]; targets of the rows, -1 for none.
  void Add(const torch::Tensor& logits, const std::vector<int64_t>& targets, double smoothing,
           bool one_vs_each) {
    const torch::Tensor f = logits.to(torch::kFloat64);
    const torch::Tensor log_p = f.log_softmax(-1);
    for (size_t i = 0; i < targets.size(); ++i) {
      const int64_t target = targets[i];
      if (target < 0) continue;
      const torch::Tensor row = log_p[static_cast<int64_t>(i)];
      if (one_vs_each) {
        const torch::Tensor own = f[static_cast<int64_t>(i)];
        // log 2 is the term of the target itself.
        sum += (torch::softplus(own - own[target]).sum() - std::log(2.0)).item<double>();
      } else {
        sum -= (1 - smoothing) * row[target].item<double>() + smoothing * row.mean().item<double>();
      }
      ++counted;
      correct += row.argmax().item<int64_t>() == target;
    }
  }
};

// What a batch adds, by the config's loss or by cross-entropy.
inline void AddNaively(ModelImpl& model, const data::Batch& batch, data::Objective objective,
                       double smoothing, bool one_vs_each, NaiveLoss& loss) {
  torch::NoGradGuard no_grad;
  const auto inputs = TextsOf(batch.input, batch.input.tokens);
  if (objective == data::Objective::kCausal || objective == data::Objective::kMasked) {
    const auto targets = TextsOf(batch.input, batch.targets);
    for (size_t i = 0; i < inputs.size(); ++i) {
      loss.Add(model.Logits(model.Encode(RowOf(inputs[i])))[0], targets[i], smoothing, one_vs_each);
    }
    return;
  }
  const auto seconds = TextsOf(batch.second, batch.second.tokens);
  if (objective == data::Objective::kTranslate) {
    const auto targets = TextsOf(batch.second, batch.targets);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const torch::Tensor memory = model.Encode(RowOf(inputs[i]));
      loss.Add(model.Logits(model.Decode(RowOf(seconds[i]), memory))[0], targets[i], smoothing,
               one_vs_each);
    }
    return;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const torch::Tensor logits = objective == data::Objective::kClassify
                                     ? model.Classify(RowOf(inputs[i]))
                                     : model.Classify(RowOf(inputs[i]), RowOf(seconds[i]));
    loss.Add(logits, {batch.targets[i]}, smoothing, false);
  }
}

}  // namespace cosformer::testing
