#include "train/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cosformer/error.h"
#include "kernels/random.h"

namespace cosformer {
namespace {

int32_t Draw(const torch::Tensor& logits, const SampleOptions& options, Random& random) {
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

void RequireWriting(const ModelConfig& config, const std::string& prompt) {
  if (config.kind == ModelKind::kEncoderDecoder) {
    if (!prompt.empty()) return;
    throw Error("this model writes one text from another: give the other with --prompt");
  }
  if (config.kind == ModelKind::kDecoder) return;
  throw Error("--write is for models that write text: this one tells classes or hidden tokens");
}

std::string Sample(ModelImpl& model, const Tokenizer& tokenizer, const std::string& prompt,
                   const SampleOptions& options) {
  torch::NoGradGuard no_grad;
  RequireWriting(model.config(), prompt);
  if (options.temperature < 0) throw Error("--temperature is negative; give 0 or more");
  const auto tensor = [](const std::vector<int32_t>& tokens) {
    return torch::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()), torch::kInt64)
        .unsqueeze(0);
  };
  const bool from_source = model.config().kind == ModelKind::kEncoderDecoder;
  std::vector<int32_t> given = tokenizer.Encode(prompt);
  if (given.empty()) {
    if (tokenizer.special().end < 0) {
      throw Error(
          "the prompt has no tokens, and the tokenizer none that ends a text: give a prompt");
    }
    given.push_back(tokenizer.special().end);
  }
  if (static_cast<int64_t>(given.size()) >= model.config().max_length) {
    throw Error(fmt::format("the prompt has {} tokens, and the model sees {}; give a shorter one",
                            given.size(), model.config().max_length));
  }
  model.eval();
  ModelStream stream =
      from_source ? model.NewStream(model.Encode(tensor(given))) : model.NewStream(1);
  std::vector<int32_t> next = from_source ? std::vector<int32_t>{tokenizer.special().begin} : given;
  const int64_t most =
      std::min(options.tokens, model.config().max_length - static_cast<int64_t>(next.size()));
  Random random(options.seed);
  std::vector<int32_t> written;
  while (static_cast<int64_t>(written.size()) < most) {
    const torch::Tensor hidden = model.Step(tensor(next), stream);
    const int32_t token =
        Draw(model.Logits(hidden.select(1, hidden.size(1) - 1)).contiguous(), options, random);
    // Words end their lines with it.
    if (token == tokenizer.special().end &&
        (from_source || tokenizer.kind() != TokenizerKind::kWords)) {
      break;
    }
    written.push_back(token);
    next = {token};
  }
  return tokenizer.Decode(written);
}

}  // namespace cosformer
