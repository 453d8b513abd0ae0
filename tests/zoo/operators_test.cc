// The operators under autograd, and linear attention over feature maps with its options, against
// the definition written with torch in double precision.
#include "zoo/operators.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "cosformer/torch.h"

namespace cosformer {
namespace {

using torch::Tensor;

constexpr double kPi = 3.14159265358979323846;

Tensor Feature(const Tensor& x, const LinearKernel& kernel) {
  switch (kernel.feature_map) {
    case FeatureMap::kRelu:
      return torch::relu(x);
    case FeatureMap::kLeakyRelu:
      return torch::leaky_relu(x, kernel.leaky_slope);
    case FeatureMap::kEluPlusOne:
      return torch::elu(x) + 1;
    default:
      return x;
  }
}

// Weights [batch, heads, n, m] of q [batch, n, heads, dim] and k, heads repeated for groups.
Tensor Products(const Tensor& q, const Tensor& k) {
  const Tensor keys = k.repeat_interleave(q.size(2) / k.size(2), 2);
  return torch::einsum("bnhd,bmhd->bhnm", {q, keys});
}

Tensor Visible(int64_t n, int64_t m, bool causal) {
  const Tensor all = torch::ones({n, m}, torch::kFloat64);
  return causal ? all.tril(m - n) : all;
}

Tensor Sum(const Tensor& weights, const Tensor& v) {
  const Tensor values = v.repeat_interleave(weights.size(1) / v.size(2), 2);
  return torch::einsum("bhnm,bmhd->bnhd", {weights, values});
}

Tensor NaiveLinear(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& options,
                   const Tensor& log_keep = {}) {
  const LinearKernel& kernel = options.kernel;
  const int64_t n = q.size(1), m = k.size(1);
  Tensor weights = Products(Feature(q, kernel), Feature(k, kernel)) * Visible(n, m, options.causal);
  if (kernel.reweighting == Reweighting::kCos) {
    const int64_t offset = options.causal ? m - n : 0;
    const Tensor distance = torch::arange(n, torch::kFloat64).unsqueeze(1) + offset -
                            torch::arange(m, torch::kFloat64).unsqueeze(0);
    weights = weights * torch::cos(distance * (kPi / 2 / kernel.horizon));
  }
  if (log_keep.defined()) {
    const Tensor sums = log_keep.cumsum(1).transpose(1, 2);  // [batch, kv_heads, m]
    // Nothing above 0 for later keys, whose weights are 0: it would be infinite.
    const Tensor kept =
        (sums.narrow(2, m - n, n).unsqueeze(3) - sums.unsqueeze(2)).clamp_max(0).exp();
    weights = weights * kept.repeat_interleave(q.size(2) / k.size(2), 1);
  }
  if (kernel.normaliser == Normaliser::kSum) {
    weights = weights / weights.sum(-1, true).clamp_min(kernel.epsilon);
  }
  return Sum(weights, v);
}

Tensor NaiveSoftmax(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  const Tensor scores = Products(q, k) / std::sqrt(static_cast<double>(q.size(3)));
  const Tensor hidden = Visible(q.size(1), k.size(1), causal).eq(0);
  return Sum(torch::softmax(scores.masked_fill(hidden, -INFINITY), -1), v);
}

// The float32 result and gradients of `fast` against those of `naive` in double, of one random
// scalar of the output. Sums of some hundred terms of order one: 2^-24 * 1000 is generous, and a
// wrong sign or factor is far outside.
void ExpectSame(const std::vector<Tensor>& inputs,
                const std::function<Tensor(const std::vector<Tensor>&)>& fast,
                const std::function<Tensor(const std::vector<Tensor>&)>& naive) {
  std::vector<Tensor> narrow, wide;
  for (const Tensor& input : inputs) {
    narrow.push_back(input.detach().clone().requires_grad_());
    wide.push_back(input.detach().to(torch::kFloat64).requires_grad_());
  }
  const Tensor o = fast(narrow), exact = naive(wide);
  const auto close = [](const Tensor& a, const Tensor& b) {
    const double scale = b.abs().max().item<double>() + 1e-3;
    return (a.to(torch::kFloat64) - b).abs().max().item<double>() / scale;
  };
  EXPECT_LT(close(o, exact), 6e-5);
  const Tensor direction = torch::randn_like(o);
  (o * direction).sum().backward();
  (exact * direction.to(torch::kFloat64)).sum().backward();
  for (size_t i = 0; i < narrow.size(); ++i) {
    EXPECT_LT(close(narrow[i].grad(), wide[i].grad()), 2e-4) << "gradient of input " << i;
  }
}

std::vector<Tensor> Inputs(int64_t batch, int64_t n, int64_t m, int64_t heads, int64_t kv_heads,
                           int64_t dim, int64_t value_dim) {
  return {torch::randn({batch, n, heads, dim}), torch::randn({batch, m, kv_heads, dim}),
          torch::randn({batch, m, kv_heads, value_dim})};
}

TEST(OperatorsTest, LinearAttentionHasTheValuesAndGradientsOfItsDefinition) {
  torch::manual_seed(1);
  for (const FeatureMap map :
       {FeatureMap::kRelu, FeatureMap::kLeakyRelu, FeatureMap::kEluPlusOne}) {
    for (const Reweighting reweighting : {Reweighting::kCos, Reweighting::kNone}) {
      for (const bool causal : {true, false}) {
        LinearOptions options;
        options.kernel = {.feature_map = map, .reweighting = reweighting, .horizon = 90};
        if (map == FeatureMap::kLeakyRelu) options.kernel.normaliser = Normaliser::kNone;
        options.causal = causal;
        // A cached prefix where it is causal, cross attention where not; grouped heads.
        ExpectSame(
            Inputs(2, 37, 53, 4, 2, 16, 9),
            [&](const auto& in) { return LinearAttention(in[0], in[1], in[2], options); },
            [&](const auto& in) { return NaiveLinear(in[0], in[1], in[2], options); });
      }
    }
  }
}

TEST(OperatorsTest, LinearAttentionThatForgetsHasThemToo) {
  torch::manual_seed(3);
  for (const FeatureMap map : {FeatureMap::kRelu, FeatureMap::kEluPlusOne}) {
    for (const Normaliser normaliser : {Normaliser::kSum, Normaliser::kNone}) {
      LinearOptions options;
      options.kernel = {.feature_map = map, .horizon = 90, .normaliser = normaliser};
      std::vector<Tensor> inputs = Inputs(2, 37, 53, 4, 2, 16, 9);
      inputs.push_back(torch::log_sigmoid(torch::randn({2, 53, 2}) * 2 + 2));
      ExpectSame(
          inputs,
          [&](const auto& in) { return LinearAttention(in[0], in[1], in[2], options, in[3]); },
          [&](const auto& in) { return NaiveLinear(in[0], in[1], in[2], options, in[3]); });
    }
  }
}

// The gate is of the token itself, and reaches the output through all that come after it.
TEST(OperatorsTest, AGateHasTheGradientsOfItsDefinition) {
  torch::manual_seed(4);
  for (const std::string system : {"cosformer-gate", "linear-gate"}) {
    Attention attention(
        {.system = system, .width = 12, .heads = 2, .max_length = 40, .bias = false});
    const auto parameters = attention->named_parameters();
    const auto wide = [&](const char* name) {
      return parameters[name].detach().to(torch::kFloat64);
    };
    const Tensor gate_bias = torch::randn({2}) + 1;
    {
      const torch::NoGradGuard no_grad;
      parameters["system.gate_weight"].normal_();
      parameters["system.gate_bias"].copy_(gate_bias);
    }
    ExpectSame(
        {torch::randn({2, 39, 12})}, [&](const auto& x) { return attention->forward(x[0]); },
        [&](const auto& x) {
          const auto parts =
              torch::linear(x[0], wide("in_weight")).view({2, 39, 3, 2, 6}).unbind(2);
          LinearOptions options;
          options.kernel.horizon = 40;
          if (system == "linear-gate") {
            options.kernel = {.feature_map = FeatureMap::kEluPlusOne,
                              .reweighting = Reweighting::kNone};
          }
          const Tensor log_keep = torch::log_sigmoid(
              torch::linear(x[0], wide("system.gate_weight"), wide("system.gate_bias")));
          const Tensor o = NaiveLinear(parts[0], parts[1], parts[2], options, log_keep);
          return torch::linear(o.flatten(2), wide("out_weight"));
        });
    // And of the gate's own parameters, by differences.
    const Tensor x = torch::randn({1, 39, 12});
    const Tensor direction = torch::randn({1, 39, 12});
    const auto loss = [&] { return (attention->forward(x) * direction).sum(); };
    attention->zero_grad();
    loss().backward();
    const double slope = parameters["system.gate_bias"].grad()[0].item<double>();
    const torch::NoGradGuard no_grad;
    const auto at = [&](double step) {
      parameters["system.gate_bias"][0] += step;
      const double value = loss().item<double>();
      parameters["system.gate_bias"][0] -= step;
      return value;
    };
    EXPECT_NEAR((at(0.01) - at(-0.01)) / 0.02, slope, 0.02 * std::abs(slope) + 2e-3) << system;
  }
}

TEST(OperatorsTest, SoftmaxAttentionHasTheValuesAndGradientsOfItsDefinition) {
  torch::manual_seed(2);
  for (const bool causal : {true, false}) {
    SoftmaxOptions options;
    options.causal = causal;
    ExpectSame(
        Inputs(2, 70, 90, 4, 2, 24, 8),
        [&](const auto& in) { return SoftmaxAttention(in[0], in[1], in[2], options); },
        [&](const auto& in) { return NaiveSoftmax(in[0], in[1], in[2], causal); });
  }
}

TEST(OperatorsTest, PatternAttentionOverAllPairsIsSoftmax) {
  torch::manual_seed(3);
  auto pattern = std::make_shared<AttentionPattern>();
  for (int32_t i = 0; i < 75; ++i) {
    pattern->query_rows.push_back(i);
    pattern->key_rows.push_back(i);
  }
  pattern->tiles.push_back({.query_begin = 0, .query_count = 75, .key_begin = 0, .key_count = 75});
  pattern->causal = true;
  ExpectSame(
      Inputs(2, 75, 75, 4, 2, 16, 16),
      [&](const auto& in) { return zoo::PatternAttention(in[0], in[1], in[2], {pattern}); },
      [&](const auto& in) { return NaiveSoftmax(in[0], in[1], in[2], true); });
}

TEST(OperatorsTest, SequencesNeedNotOutliveTheForwardCall) {
  torch::manual_seed(4);
  const std::vector<Tensor> in = Inputs(2, 20, 20, 2, 2, 8, 8);
  std::vector<Tensor> leaves;
  for (const Tensor& tensor : in) leaves.push_back(tensor.clone().requires_grad_());
  Tensor o;
  {
    std::vector<int64_t> lengths = {20, 7};
    LinearOptions options;
    options.kernel.horizon = 20;
    options.sequences.query_lengths = lengths;
    o = LinearAttention(leaves[0], leaves[1], leaves[2], options);
    std::fill(lengths.begin(), lengths.end(), -1);
  }
  o.sum().backward();
  EXPECT_TRUE(o[1].slice(0, 7).eq(0).all().item<bool>());
  EXPECT_TRUE(leaves[1].grad()[1].slice(0, 7).eq(0).all().item<bool>());
  EXPECT_TRUE(leaves[2].grad()[0].ne(0).any().item<bool>());
}

TEST(OperatorsTest, StridesAreTakenAsTheyAre) {
  torch::manual_seed(5);
  LinearOptions options;
  options.kernel.horizon = 30;
  const Tensor all = torch::randn({2, 30, 3, 4, 8});
  const Tensor q = all.select(2, 0), k = all.select(2, 1), v = all.select(2, 2);
  const Tensor dense = LinearAttention(q.contiguous(), k.contiguous(), v.contiguous(), options);
  EXPECT_TRUE(LinearAttention(q, k, v, options).equal(dense));
  // Heads before length, as others keep them, and elements that do not adjoin.
  const Tensor turned = q.transpose(1, 2).contiguous().transpose(1, 2);
  EXPECT_TRUE(LinearAttention(turned, k, v, options).equal(dense));
  const Tensor spread = torch::stack({q, q}, -1).select(-1, 0);
  EXPECT_TRUE(LinearAttention(spread, k, v, options).equal(dense));
}

TEST(OperatorsTest, WhatTheyCannotTakeIsSaid) {
  const Tensor good = torch::randn({1, 4, 2, 8});
  const auto sentence = [&](const Tensor& q) -> std::string {
    try {
      SoftmaxAttention(q, good, good, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(sentence(good.to(torch::kFloat64)).find("float32 and bfloat16"), std::string::npos);
  EXPECT_NE(sentence(good[0]).find("[batch, length, heads, dim]"), std::string::npos);
  EXPECT_NE(sentence(Tensor()).find("no dimensions"), std::string::npos);
  EXPECT_NE(sentence(torch::randn({1, 4, 3, 8})).find("3"), std::string::npos);
  LinearOptions options;
  options.kernel.horizon = 4;
  const auto forgetting = [&](const Tensor& log_keep) -> std::string {
    try {
      LinearAttention(good, good, good, options, log_keep);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(forgetting(torch::zeros({1, 4, 2})), "");
  EXPECT_NE(forgetting(torch::zeros({1, 4, 2}, torch::kFloat64)).find("log_keep"),
            std::string::npos);
  EXPECT_NE(forgetting(torch::zeros({1, 3, 2})).find("6"), std::string::npos);
}

// arXiv 2210.10340: sums without a normaliser, then a norm.
TEST(OperatorsTest, CosformerWithANormHasUnitRootMeanSquareAndItsDefinitionsGradients) {
  torch::manual_seed(6);
  Attention attention({.system = "cosformer",
                       .options = R"({"normaliser": "norm"})",
                       .width = 12,
                       .heads = 2,
                       .max_length = 40,
                       .bias = false});
  const auto parameters = attention->named_parameters();
  const Tensor in = parameters["in_weight"].detach(), out = parameters["out_weight"].detach();
  ExpectSame(
      {torch::randn({2, 33, 12})}, [&](const auto& x) { return attention->forward(x[0]); },
      [&](const auto& x) {
        const auto parts =
            torch::linear(x[0], in.to(torch::kFloat64)).view({2, 33, 3, 2, 6}).unbind(2);
        LinearOptions options;
        options.kernel.horizon = 40;
        options.kernel.normaliser = Normaliser::kNone;
        const Tensor o = NaiveLinear(parts[0], parts[1], parts[2], options);
        const Tensor normed = o * torch::rsqrt(o.square().mean(-1, true) + 1e-6);
        return torch::linear(normed.flatten(2), out.to(torch::kFloat64));
      });
}

// In a stream the queries go on; the memory stands where it stood.
TEST(OperatorsTest, CrossAttentionGoesOnFromAPosition) {
  for (const std::string positions : {"none", "rotary", "spe-sine"}) {
    for (const std::string system : {"softmax", "cosformer", "linear", "performer"}) {
      if (positions == "spe-sine" && system == "softmax") continue;
      torch::manual_seed(8);
      Attention attention({.system = system,
                           .direction = Direction::kCross,
                           .width = 16,
                           .heads = 4,
                           .kv_heads = 2,
                           .max_length = 60,
                           .positions = positions});
      attention->eval();
      const Tensor x = torch::randn({2, 20, 16}), memory = torch::randn({2, 33, 16});
      const Layout layout{{}, {33, 21}, {}, {}};
      const Tensor whole = attention->forward(x, memory, layout).detach();
      const auto rest = [&] { return attention->forward(x.slice(1, 7), memory, layout, 7); };
      if (positions == "rotary" && system == "cosformer") {
        EXPECT_THROW(rest(), Error);
        continue;
      }
      EXPECT_LT((rest() - whole.slice(1, 7)).abs().max().item<double>(), 2e-5)
          << system << " " << positions;
    }
  }
}

TEST(OperatorsTest, LayoutsThatContradictThemselvesAreRefused) {
  Attention self({.system = "local", .width = 16, .heads = 4});
  const Tensor x = torch::randn({2, 9, 16});
  EXPECT_THROW(self->forward(x, Layout{{}, {9, 4}, {}, {}}), Error);
  EXPECT_THROW(self->forward(x, Layout{{9, 4}, {9, 5}, {}, {}}), Error);
  EXPECT_THROW(self->forward(x, Layout{{9, 4}, {}, {0, 9}, {}}), Error);
  EXPECT_THROW(self->forward(x, Layout::Padded({9})), Error);
  EXPECT_THROW(self->forward(x, Layout::Padded({9, 10})), Error);
  EXPECT_TRUE(self->forward(x, Layout{{9, 4}, {9, 4}, {}, {}})
                  .equal(self->forward(x, Layout::Padded({9, 4}))));
  EXPECT_THROW(self->forward(x.to(torch::kFloat64)), Error);
  EXPECT_THROW(self->forward(Tensor()), Error);
  EXPECT_THROW(Attention({.width = 16, .heads = 1 << 20, .head_dim = 1 << 20}), Error);
  EXPECT_THROW(Attention({.width = 16, .heads = 4, .position_options = R"({"base": 3})"}), Error);
  Attention cross({.direction = Direction::kCross, .width = 16, .heads = 4});
  EXPECT_THROW(cross->forward(x, x, {}, -1), Error);
  EXPECT_THROW(cross->forward(Tensor(), x), Error);
  EXPECT_THROW(cross->forward(x.slice(0, 0, 1), x.slice(0, 0, 1), Layout::Packed({0, 4, 9})),
               Error);
}

TEST(OperatorsTest, NoTokensGiveNoOutputs) {
  for (const SystemDescription& system : AttentionSystems()) {
    if (!system.abilities.causal) continue;
    Attention attention({.system = system.name, .width = 16, .heads = 4});
    attention->eval();
    EXPECT_EQ(attention->forward(torch::randn({2, 0, 16})).sizes(), torch::IntArrayRef({2, 0, 16}))
        << system.name;
  }
}

TEST(OperatorsTest, RandomPositionsStreamOnlyInEvaluation) {
  Attention attention({.system = "linear", .width = 16, .heads = 4, .positions = "spe-sine"});
  const auto stream = attention->NewStream(1);
  EXPECT_THROW(attention->Step(torch::randn({1, 2, 16}), *stream), Error);
  attention->eval();
  EXPECT_NO_THROW(attention->Step(torch::randn({1, 2, 16}), *stream));
  EXPECT_THROW(attention->Step(torch::randn({3, 2, 16}), *stream), Error);
}

}  // namespace
}  // namespace cosformer
