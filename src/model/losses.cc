#include "model/losses.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "cosformer/error.h"
#include "kernels/cross_entropy.h"
#include "zoo/operators.h"

namespace cosformer {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Logits of one slice: 2^22 floats, 16 MiB, are enough rows for the matrix product to run at full
// speed (256 at 16k tokens) and few enough to stay in the last cache.
constexpr int64_t kSliceFloats = int64_t{1} << 22;
constexpr int64_t kLeastRows = 64;

void CheckSmoothing(double smoothing) {
  if (!(smoothing >= 0 && smoothing < 1)) {
    throw Error(
        fmt::format("loss: label smoothing is {}; it must be from 0 to below 1", smoothing));
  }
}

void CheckTargets(const Tensor& targets, int64_t rows, int64_t classes) {
  if (targets.scalar_type() != torch::kInt64 || targets.numel() != rows) {
    throw Error(
        fmt::format("loss: there are {} targets of type {} for {} rows; there must be one "
                    "int64 a row",
                    targets.numel(), torch::toString(targets.scalar_type()), rows));
  }
  if (rows == 0) return;
  const int64_t least = targets.min().item<int64_t>();
  const int64_t most = targets.max().item<int64_t>();
  if (least < kIgnoredTarget || most >= classes) {
    throw Error(
        fmt::format("loss: a target is {}; they must be below {}, or -1 for rows that do not "
                    "count",
                    least < kIgnoredTarget ? least : most, classes));
  }
}

struct Counts {
  int64_t counted = 0;
  int64_t correct = 0;
};

// Losses and, where wanted, gradients of all slices; `accumulate(rows, logits)` turns the gradient
// of a slice's logits into those of what they were made of.
template <class LogitsOf, class Accumulate>
double SumLosses(int64_t rows, int64_t classes, const Tensor& targets, double smoothing,
                 double scale, bool gradient, const LogitsOf& logits_of,
                 const Accumulate& accumulate, Counts& counts) {
  const int64_t slice = std::max(kLeastRows, kSliceFloats / classes);
  const int64_t* target = targets.data_ptr<int64_t>();
  double sum = 0;
  std::vector<float> losses;
  std::vector<int64_t> argmax;
  for (int64_t begin = 0; begin < rows; begin += slice) {
    const int64_t count = std::min(slice, rows - begin);
    Tensor logits = logits_of(begin, count);
    losses.resize(static_cast<size_t>(count));
    argmax.resize(static_cast<size_t>(count));
    CrossEntropyRows(logits.data_ptr<float>(), count, classes, classes, target + begin,
                     static_cast<float>(smoothing), static_cast<float>(scale), gradient,
                     losses.data(), argmax.data(), at::get_num_threads());
    for (int64_t i = 0; i < count; ++i) {
      sum += losses[static_cast<size_t>(i)];
      counts.correct += argmax[static_cast<size_t>(i)] == target[begin + i];
    }
    if (gradient) accumulate(begin, count, logits);
  }
  return sum;
}

int64_t Counted(const Tensor& targets) { return targets.ne(kIgnoredTarget).sum().item<int64_t>(); }

// loss, with gradients that were computed beforehand: they wait for the factor that comes back.
struct ReadyGradients : torch::autograd::Function<ReadyGradients> {
  static Tensor forward(AutogradContext* ctx, at::TensorList /*of*/, at::TensorList gradients,
                        double value) {
    ctx->save_for_backward(gradients.vec());
    return torch::scalar_tensor(value, torch::kFloat32);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& incoming) {
    zoo::RequireFirstDerivative();
    variable_list result;
    const double factor = incoming[0].item<double>();
    for (const Tensor& gradient : ctx->get_saved_variables()) {
      result.push_back(!gradient.defined() || factor == 1 ? gradient : gradient * factor);
    }
    // One for each of `gradients`, which need none, and one for the value.
    result.resize(result.size() * 2 + 1);
    return result;
  }
};

}  // namespace

LossResult CrossEntropy(const Tensor& hidden, const Tensor& weight, const Tensor& bias,
                        const Tensor& targets, double smoothing) {
  const int64_t rows = hidden.size(0);
  const int64_t classes = weight.size(0);
  const Tensor flat = targets.contiguous().view(-1);
  CheckTargets(flat, rows, classes);
  CheckSmoothing(smoothing);
  Counts counts;
  counts.counted = Counted(flat);
  const double scale = counts.counted == 0 ? 0 : 1.0 / static_cast<double>(counts.counted);
  const auto wanted = [](const Tensor& tensor) {
    return torch::GradMode::is_enabled() && tensor.defined() && tensor.requires_grad();
  };
  const bool of_hidden = wanted(hidden), of_weight = wanted(weight), of_bias = wanted(bias);
  const bool gradient = of_hidden || of_weight || of_bias;
  const Tensor h = hidden.detach().contiguous();
  const Tensor w = weight.detach();
  const Tensor b = bias.defined() ? bias.detach() : bias;
  Tensor dh, dw, db;
  if (of_hidden) dh = torch::empty_like(h);
  if (of_weight) dw = torch::zeros_like(w);
  if (of_bias) db = torch::zeros_like(b);
  torch::NoGradGuard no_grad;
  const double sum = SumLosses(
      rows, classes, flat, smoothing, scale, gradient,
      [&](int64_t begin, int64_t count) { return torch::linear(h.narrow(0, begin, count), w, b); },
      [&](int64_t begin, int64_t count, const Tensor& d_logits) {
        if (of_hidden) {
          Tensor to = dh.narrow(0, begin, count);
          torch::mm_out(to, d_logits, w);
        }
        if (of_weight) dw.addmm_(d_logits.t(), h.narrow(0, begin, count));
        if (of_bias) db += d_logits.sum(0);
      },
      counts);
  const double mean = sum * scale;
  if (!gradient)
    return {torch::scalar_tensor(mean, torch::kFloat32), counts.counted, counts.correct};
  torch::AutoGradMode grad(true);
  variable_list of, gradients;
  for (const auto& [tensor, slope] : {std::pair{hidden, dh}, {weight, dw}, {bias, db}}) {
    if (!slope.defined()) continue;
    of.push_back(tensor);
    gradients.push_back(slope);
  }
  return {ReadyGradients::apply(at::TensorList(of), at::TensorList(gradients), mean),
          counts.counted, counts.correct};
}

LossResult CrossEntropyOfLogits(const Tensor& logits, const Tensor& targets, double smoothing) {
  const int64_t rows = logits.size(0);
  const int64_t classes = logits.size(1);
  const Tensor flat = targets.contiguous().view(-1);
  CheckTargets(flat, rows, classes);
  CheckSmoothing(smoothing);
  Counts counts;
  counts.counted = Counted(flat);
  const double scale = counts.counted == 0 ? 0 : 1.0 / static_cast<double>(counts.counted);
  const bool gradient = torch::GradMode::is_enabled() && logits.requires_grad();
  Tensor own = logits.detach().clone(torch::MemoryFormat::Contiguous);
  const double sum = SumLosses(
      rows, classes, flat, smoothing, scale, gradient,
      [&](int64_t begin, int64_t count) { return own.narrow(0, begin, count); },
      [](int64_t, int64_t, const Tensor&) {}, counts);
  const double mean = sum * scale;
  if (!gradient)
    return {torch::scalar_tensor(mean, torch::kFloat32), counts.counted, counts.correct};
  return {ReadyGradients::apply(at::TensorList(logits), at::TensorList(own), mean), counts.counted,
          counts.correct};
}

LossResult OneVsEach(const Tensor& hidden, const Tensor& weight, const Tensor& bias,
                     const Tensor& targets, int64_t negatives) {
  const int64_t classes = weight.size(0);
  const Tensor flat = targets.contiguous().view(-1);
  CheckTargets(flat, hidden.size(0), classes);
  if (classes < 2 || negatives < 1) {
    throw Error(
        fmt::format("loss: one-vs-each with {} negatives over {} tokens; it needs at least 1 "
                    "and 2",
                    negatives, classes));
  }
  const Tensor kept = torch::nonzero(flat.ne(kIgnoredTarget)).view(-1);
  const int64_t counted = kept.numel();
  if (counted == 0) return {hidden.sum() * 0, 0, -1};
  const Tensor h = hidden.index_select(0, kept);
  const Tensor y = flat.index_select(0, kept);
  const Tensor sampled = negatives >= classes - 1
                             ? torch::arange(classes, torch::kInt64)
                             : torch::randint(classes, {negatives}, torch::kInt64);
  Tensor own = (h * weight.index_select(0, y)).sum(1, /*keepdim=*/true);  // [counted, 1]
  Tensor others = torch::mm(h, weight.index_select(0, sampled).t());      // [counted, sampled]
  if (bias.defined()) {
    own = own + bias.index_select(0, y).unsqueeze(1);
    others = others + bias.index_select(0, sampled);
  }
  const Tensor is_other = sampled.unsqueeze(0).ne(y.unsqueeze(1));
  const Tensor terms = torch::softplus(others - own).masked_fill(is_other.logical_not(), 0);
  const Tensor number = is_other.sum(1).clamp_min(1).to(torch::kFloat32);
  const Tensor bound = terms.sum(1) * (static_cast<double>(classes - 1) / number);
  return {bound.mean(), counted, -1};
}

}  // namespace cosformer
