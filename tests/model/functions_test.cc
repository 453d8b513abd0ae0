// The fused functions against torch's own in double precision, and checkpointing against none.
#include "model/functions.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "cosformer/error.h"
#include "model/checkpoint.h"

namespace cosformer {
namespace {

using torch::Tensor;

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// Value and gradients; rounding of sums over some hundred rows.
void ExpectSame(const std::vector<Tensor>& inputs, const Function& fast, const Function& naive) {
  std::vector<Tensor> narrow, wide;
  for (const Tensor& input : inputs) {
    narrow.push_back(input.detach().clone().requires_grad_());
    wide.push_back(input.detach().to(torch::kFloat64).requires_grad_());
  }
  const Tensor y = fast(narrow), exact = naive(wide);
  const auto error = [](const Tensor& a, const Tensor& b) {
    return (a.to(torch::kFloat64) - b).abs().max().item<double>() /
           (b.abs().max().item<double>() + 1e-6);
  };
  EXPECT_LT(error(y, exact), 1e-5);
  const Tensor direction = torch::randn_like(y);
  (y * direction).sum().backward();
  (exact * direction.to(torch::kFloat64)).sum().backward();
  for (size_t i = 0; i < narrow.size(); ++i) {
    EXPECT_LT(error(narrow[i].grad(), wide[i].grad()), 2e-5) << "gradient of input " << i;
  }
}

Tensor NaiveNorm(const Tensor& s, const Tensor& weight, const Tensor& bias, NormKind kind) {
  if (kind == NormKind::kLayerNorm) {
    return torch::layer_norm(s, {s.size(-1)}, weight, bias, 1e-5);
  }
  return s * torch::rsqrt(s.square().mean(-1, true) + 1e-5) * weight;
}

TEST(FunctionsTest, AddAndNormaliseIsTheSumAndItsNorm) {
  torch::manual_seed(1);
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    const bool layer = kind == NormKind::kLayerNorm;
    std::vector<Tensor> inputs = {torch::randn({3, 41, 50}), torch::randn({3, 41, 50}),
                                  torch::rand({50}) + 0.5};
    if (layer) inputs.push_back(torch::randn({50}));
    // Both outputs are used, as in a residual network.
    ExpectSame(
        inputs,
        [&](const auto& in) {
          const SumAndNorm r =
              AddAndNormalise(in[0], in[1], in[2], layer ? in[3] : Tensor(), kind, 1e-5f, 0);
          return r.norm + 0.5 * r.sum;
        },
        [&](const auto& in) {
          const Tensor s = in[0] + in[1];
          return NaiveNorm(s, in[2], layer ? in[3] : Tensor(), kind) + 0.5 * s;
        });
    // The norm alone, and without a branch.
    ExpectSame(
        {inputs[0], inputs[2]},
        [&](const auto& in) {
          return AddAndNormalise(in[0], {}, in[1], {}, kind, 1e-5f, 0.5f).norm;
        },
        [&](const auto& in) { return NaiveNorm(in[0], in[1], {}, kind); });
  }
}

TEST(FunctionsTest, TheSumAloneHasItsGradient) {
  const Tensor x = torch::randn({4, 8}).requires_grad_(), r = torch::randn({4, 8}).requires_grad_();
  const Tensor weight = torch::ones({8}).requires_grad_();
  AddAndNormalise(x, r, weight, {}, NormKind::kRmsNorm, 1e-5f, 0).sum.sum().backward();
  EXPECT_TRUE(x.grad().equal(torch::ones({4, 8})));
  EXPECT_TRUE(r.grad().equal(torch::ones({4, 8})));
}

TEST(FunctionsTest, ActivationsAreTheirDefinitions) {
  torch::manual_seed(2);
  for (const bool with_bias : {true, false}) {
    for (const Activation kind : {Activation::kGelu, Activation::kRelu, Activation::kSwiglu}) {
      const int64_t width = PreWidth(kind, 33);
      std::vector<Tensor> inputs = {2 * torch::randn({5, 7, width})};
      if (with_bias) inputs.push_back(torch::randn({width}));
      ExpectSame(
          inputs,
          [&](const auto& in) { return Activate(kind, in[0], with_bias ? in[1] : Tensor()); },
          [&](const auto& in) -> Tensor {
            const Tensor x = with_bias ? in[0] + in[1] : in[0];
            if (kind == Activation::kGelu) return torch::gelu(x);
            if (kind == Activation::kRelu) return torch::relu(x);
            const auto parts = x.chunk(2, -1);
            return torch::silu(parts[0]) * parts[1];
          });
    }
  }
}

TEST(FunctionsTest, DropoutIsTheSameInTheBackwardPassAndScalesWhatItKeeps) {
  torch::manual_seed(3);
  const Tensor x = torch::ones({200, 100}).requires_grad_();
  const Tensor y = DropOut(x, 0.25f);
  y.sum().backward();
  EXPECT_TRUE(y.detach().equal(x.grad()));
  EXPECT_NEAR(y.eq(0).to(torch::kFloat64).mean().item<double>(), 0.25, 0.02);
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.75, 1e-6);
  EXPECT_FALSE(DropOut(x, 0.25f).equal(y));
  EXPECT_TRUE(DropOut(x, 0).equal(x));
}

TEST(FunctionsTest, TheBranchIsDroppedAndItsGradientLikewise) {
  torch::manual_seed(4);
  const Tensor x = torch::zeros({50, 40}).requires_grad_();
  const Tensor r = torch::ones({50, 40}).requires_grad_();
  const Tensor weight = torch::ones({40}).requires_grad_();
  const SumAndNorm result = AddAndNormalise(x, r, weight, {}, NormKind::kRmsNorm, 1e-5f, 0.5f);
  result.sum.sum().backward();
  EXPECT_TRUE(r.grad().equal(result.sum.detach()));
  EXPECT_TRUE(x.grad().equal(torch::ones({50, 40})));
}

TEST(FunctionsTest, SeedsFollowTorchsGenerator) {
  torch::manual_seed(5);
  const uint64_t first = DrawSeed(), second = DrawSeed();
  EXPECT_NE(first, second);
  torch::manual_seed(5);
  EXPECT_EQ(DrawSeed(), first);
}

TEST(FunctionsTest, ACheckpointedPieceHasTheSameValuesAndGradientsToTheBit) {
  torch::manual_seed(6);
  const Tensor weight = torch::randn({16, 16}).requires_grad_();
  // A buffer that every run changes, as a redrawn feature matrix.
  torch::nn::Module module;
  Tensor count = module.register_buffer("count", torch::zeros({1}));
  const auto piece = [&](const TensorList& in) -> TensorList {
    {
      torch::NoGradGuard no_grad;
      count.add_(1);
    }
    const Tensor y = count.clone() * DropOut(torch::relu(torch::mm(in[0], weight)), 0.3f);
    return {y, y * 2 + (in[1].defined() ? in[1] : torch::zeros({1}))};
  };
  const auto run = [&](bool checkpointed, bool second) {
    torch::manual_seed(7);
    weight.mutable_grad() = Tensor();
    count.zero_();
    const Tensor x = torch::randn({9, 16}).requires_grad_();
    const Tensor other = second ? torch::randn({9, 16}).requires_grad_() : Tensor();
    const TensorList in = {x, other};
    const TensorList out = checkpointed ? Checkpointed(module, piece, in) : piece(in);
    const Tensor after = torch::randn({1});
    (out[0].sum() + (out[1] * out[1]).sum()).backward();
    const Tensor later = torch::randn({1});
    TensorList results = {out[0].detach(), out[1].detach(), x.grad(),     weight.grad(),
                          after,           later,           count.clone()};
    if (second) results.push_back(other.grad());
    return results;
  };
  for (const bool second : {false, true}) {
    const TensorList plain = run(false, second), replayed = run(true, second);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(plain[i].equal(replayed[i])) << i;
  }
}

TEST(FunctionsTest, SecondDerivativesAreRefusedRatherThanWrong) {
  const Tensor x = torch::randn({4, 8}).requires_grad_();
  const Tensor y = Activate(Activation::kGelu, x, {});
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true), Error);
  EXPECT_NO_THROW(torch::autograd::grad({y.sum()}, {x}));
}

}  // namespace
}  // namespace cosformer
