#include "train/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cosformer/error.h"
#include "data/random.h"

namespace cosformer {
namespace {

int32_t Draw(const torch::Tensor& logits, const SampleOptions& options, data::Random& random) {
  const float* values = logits.data_ptr<float>();
  std::vector<int32_t> order(static_cast<size_t>(logits.numel()));
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) { return values[a] > values[b]; };
  const size_t top = options.temperature == 0 ? 1
                     : options.top > 0 ? std::min(order.size(), static_cast<size_t>(options.top))
                                       : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(top), order.end(),
                    likelier);
  std::vector<double> weights(top);
  double sum = 0;
  for (size_t i = 0; i < top; ++i) {
    weights[i] =
        top == 1 ? 1 : std::exp((values[order[i]] - values[order[0]]) / options.temperature);
    sum += weights[i];
  }
  double rest = random.Uniform() * sum;
  for (size_t i = 0; i < top; ++i) {
    rest -= weights[i];
    if (rest < 0) return order[i];
  }
  return order[top - 1];
}

}  // namespace

std::string Sample(ModelImpl& model, const Tokenizer& tokenizer, const std::string& prompt,
                   const SampleOptions& options) {
  torch::NoGradGuard no_grad;
  if (options.temperature < 0) throw Error("--temperature is negative; give 0 or more");
  std::vector<int32_t> tokens = tokenizer.Encode(prompt);
  if (tokens.empty()) {
    if (tokenizer.special().end < 0) {
      throw Error(
          "the prompt has no tokens, and the tokenizer none that ends a text: give a prompt");
    }
    tokens.push_back(tokenizer.special().end);
  }
  const auto given = static_cast<int64_t>(tokens.size());
  if (given >= model.config().max_length) {
    throw Error(fmt::format("the prompt has {} tokens, and the model sees {}; give a shorter one",
                            given, model.config().max_length));
  }
  const int64_t most = std::min(given + options.tokens, model.config().max_length);
  model.eval();
  ModelStream stream = model.NewStream(1);
  data::Random random(options.seed);
  std::vector<int64_t> next(tokens.begin(), tokens.end());
  while (static_cast<int64_t>(tokens.size()) < most) {
    const torch::Tensor hidden =
        model.Step(torch::tensor(next, torch::kInt64).unsqueeze(0), stream);
    const int32_t token =
        Draw(model.Logits(hidden.select(1, hidden.size(1) - 1)).contiguous(), options, random);
    // Words end their lines with it.
    if (token == tokenizer.special().end && tokenizer.kind() != TokenizerKind::kWords) break;
    tokens.push_back(token);
    next = {token};
  }
  return tokenizer.Decode(std::span(tokens).subspan(static_cast<size_t>(given)));
}

}  // namespace cosformer
