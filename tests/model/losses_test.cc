// The losses against torch's cross-entropy in double precision and against their definitions.
#include "model/losses.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cosformer/error.h"

namespace cosformer {
namespace {

using torch::Tensor;

double Difference(const Tensor& a, const Tensor& b) {
  return (a.to(torch::kFloat64) - b).abs().max().item<double>() /
         (b.abs().max().item<double>() + 1e-9);
}

struct Problem {
  Problem(int64_t rows, int64_t width, int64_t classes, bool with_bias)
      : hidden(torch::randn({rows, width}).requires_grad_()),
        weight((torch::randn({classes, width}) * 0.3).requires_grad_()),
        targets(torch::randint(classes, {rows}, torch::kInt64)) {
    if (with_bias) bias = torch::randn({classes}).requires_grad_();
  }
  Tensor hidden, weight, bias, targets;
};

Tensor NaiveLoss(const Tensor& logits, const Tensor& targets, double smoothing) {
  namespace F = torch::nn::functional;
  return F::cross_entropy(logits, targets,
                          F::CrossEntropyFuncOptions().ignore_index(-1).label_smoothing(smoothing));
}

void ExpectCrossEntropy(Problem& p, double smoothing) {
  const LossResult result = CrossEntropy(p.hidden, p.weight, p.bias, p.targets, smoothing);
  (result.loss * 3).backward();  // a factor comes back
  const Tensor hidden = p.hidden.detach().to(torch::kFloat64).requires_grad_();
  const Tensor weight = p.weight.detach().to(torch::kFloat64).requires_grad_();
  const Tensor bias =
      p.bias.defined() ? p.bias.detach().to(torch::kFloat64).requires_grad_() : Tensor();
  const Tensor logits = torch::linear(hidden, weight, bias);
  const Tensor exact = NaiveLoss(logits, p.targets, smoothing);
  (exact * 3).backward();
  EXPECT_NEAR(result.loss.item<double>(), exact.item<double>(), 1e-5 * exact.item<double>());
  EXPECT_LT(Difference(p.hidden.grad(), hidden.grad()), 2e-5);
  EXPECT_LT(Difference(p.weight.grad(), weight.grad()), 2e-5);
  if (p.bias.defined()) {
    EXPECT_LT(Difference(p.bias.grad(), bias.grad()), 2e-5);
  }
  const Tensor counted = p.targets.ne(-1);
  EXPECT_EQ(result.counted, counted.sum().item<int64_t>());
  EXPECT_EQ(result.correct,
            logits.argmax(1).eq(p.targets).logical_and(counted).sum().item<int64_t>());
}

TEST(LossesTest, CrossEntropyInSlicesIsCrossEntropy) {
  torch::manual_seed(1);
  for (const double smoothing : {0.0, 0.1}) {
    Problem small(37, 12, 11, true);
    small.targets[3] = -1;
    ExpectCrossEntropy(small, smoothing);
    // 65,537 classes: slices of 64 rows, the last of 22.
    Problem large(150, 8, 65537, false);
    large.targets[149] = -1;
    large.targets[0] = -1;
    ExpectCrossEntropy(large, smoothing);
  }
}

TEST(LossesTest, WithoutGradientsTheLossIsTheSameToTheBit) {
  torch::manual_seed(2);
  Problem p(50, 8, 20, true);
  const double with = CrossEntropy(p.hidden, p.weight, p.bias, p.targets).loss.item<double>();
  torch::NoGradGuard no_grad;
  const LossResult without = CrossEntropy(p.hidden, p.weight, p.bias, p.targets);
  EXPECT_EQ(without.loss.item<double>(), with);
  EXPECT_FALSE(without.loss.requires_grad());
}

TEST(LossesTest, RowsThatDoNotCountGiveNoLossAndNoGradient) {
  Problem p(5, 4, 3, false);
  p.targets.fill_(-1);
  const LossResult result = CrossEntropy(p.hidden, p.weight, p.bias, p.targets);
  result.loss.backward();
  EXPECT_EQ(result.loss.item<double>(), 0);
  EXPECT_EQ(result.counted, 0);
  EXPECT_TRUE(p.hidden.grad().eq(0).all().item<bool>());
  EXPECT_TRUE(OneVsEach(p.hidden, p.weight, p.bias, p.targets, 2).loss.item<double>() == 0);
}

TEST(LossesTest, LogitsThatExistGiveTheSameLoss) {
  torch::manual_seed(3);
  const Tensor logits = torch::randn({30, 4}).requires_grad_();
  const Tensor targets = torch::randint(4, {30}, torch::kInt64);
  const LossResult result = CrossEntropyOfLogits(logits, targets, 0.1);
  result.loss.backward();
  const Tensor wide = logits.detach().to(torch::kFloat64).requires_grad_();
  const Tensor exact = NaiveLoss(wide, targets, 0.1);
  exact.backward();
  EXPECT_NEAR(result.loss.item<double>(), exact.item<double>(), 1e-5);
  EXPECT_LT(Difference(logits.grad(), wide.grad()), 1e-5);
}

// sum over c != y of log(1 + exp(f_c - f_y)).
double Bound(const Problem& p) {
  const Tensor logits = torch::linear(p.hidden, p.weight, p.bias).detach().to(torch::kFloat64);
  const Tensor own = logits.gather(1, p.targets.unsqueeze(1));
  const Tensor terms = torch::softplus(logits - own);
  return (terms.sum(1) - std::log(2.0)).mean().item<double>();
}

TEST(LossesTest, OneVsEachWithAllNegativesIsTheBoundAndAboveCrossEntropy) {
  torch::manual_seed(4);
  Problem p(40, 8, 30, true);
  const double loss = OneVsEach(p.hidden, p.weight, p.bias, p.targets, 29).loss.item<double>();
  EXPECT_NEAR(loss, Bound(p), 1e-5 * loss);
  EXPECT_GT(loss, CrossEntropy(p.hidden, p.weight, p.bias, p.targets).loss.item<double>());
}

TEST(LossesTest, SampledNegativesGiveTheBoundOnAverage) {
  torch::manual_seed(5);
  Problem p(20, 8, 200, true);
  torch::NoGradGuard no_grad;
  double sum = 0, squares = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    const double loss = OneVsEach(p.hidden, p.weight, p.bias, p.targets, 20).loss.item<double>();
    sum += loss;
    squares += loss * loss;
  }
  const double mean = sum / kDraws;
  const double error = std::sqrt((squares / kDraws - mean * mean) / kDraws);
  EXPECT_NEAR(mean, Bound(p), 5 * error);
  EXPECT_LT(error, 0.02 * mean);
}

TEST(LossesTest, OneVsEachHasTheGradientOfTheBound) {
  torch::manual_seed(6);
  Problem p(10, 6, 12, true);
  OneVsEach(p.hidden, p.weight, p.bias, p.targets, 11).loss.backward();
  const Tensor weight = p.weight.detach().to(torch::kFloat64).requires_grad_();
  const Tensor logits = torch::linear(p.hidden.detach().to(torch::kFloat64), weight,
                                      p.bias.detach().to(torch::kFloat64));
  const Tensor own = logits.gather(1, p.targets.unsqueeze(1));
  torch::softplus(logits - own).sum(1).mean().backward();
  EXPECT_LT(Difference(p.weight.grad(), weight.grad()), 1e-5);
}

TEST(LossesTest, TargetsOutsideTheVocabularyAreRefused) {
  Problem p(5, 4, 3, false);
  p.targets[2] = 3;
  EXPECT_THROW(CrossEntropy(p.hidden, p.weight, p.bias, p.targets), Error);
  p.targets[2] = -2;
  EXPECT_THROW(OneVsEach(p.hidden, p.weight, p.bias, p.targets, 2), Error);
  EXPECT_THROW(CrossEntropy(p.hidden, p.weight, p.bias, p.targets.slice(0, 0, 4)), Error);
  EXPECT_THROW(CrossEntropyOfLogits(p.hidden, p.targets.to(torch::kInt32)), Error);
}

TEST(LossesTest, OnlyWhatIsTrainedHasAGradient) {
  torch::manual_seed(7);
  Problem p(20, 6, 9, true), all(20, 6, 9, true);
  all.hidden = p.hidden.detach().clone().requires_grad_();
  all.weight = p.weight.detach().clone().requires_grad_();
  all.bias = p.bias.detach().clone().requires_grad_();
  CrossEntropy(all.hidden, all.weight, all.bias, p.targets).loss.backward();
  CrossEntropy(p.hidden.detach(), p.weight.detach(), p.bias, p.targets).loss.backward();
  EXPECT_TRUE(p.bias.grad().equal(all.bias.grad()));
  CrossEntropy(p.hidden, p.weight.detach(), p.bias.detach(), p.targets).loss.backward();
  EXPECT_TRUE(p.hidden.grad().equal(all.hidden.grad()));
  EXPECT_FALSE(p.weight.grad().defined());
  EXPECT_THROW(CrossEntropy(p.hidden, p.weight, p.bias, p.targets, 1.0), Error);
}

}  // namespace
}  // namespace cosformer
