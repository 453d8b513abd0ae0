// The Performer and Random Feature Attention against their definitions with the same draws, in
// double; that they estimate what they say they do; and when they draw anew.
#include "zoo/random_features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/zoo/naive.h"

namespace cosformer::testing {
namespace {

using zoo::RandomFeature;

Tensor Buffer(const zoo::System& system, const std::string& name) {
  return system.named_buffers()[name].detach().to(torch::kFloat64).clone();
}

Tensor UnitRows(const Tensor& x) {
  return x / (x.square().sum(-1, true) + zoo::kUnitLengthEpsilon).sqrt();
}

// x [batch, n, heads, dim] with w [groups, D, dim], by definition and without any shift.
Tensor NaiveFeatures(const Tensor& x, const Tensor& w, RandomFeature kind) {
  const Tensor of_heads = w.repeat_interleave(x.size(2) / w.size(0), 0);
  const auto product = [&](const Tensor& rows) {
    return torch::einsum("bnhd,hfd->bnhf", {rows, of_heads});
  };
  const double scale = 1 / std::sqrt(static_cast<double>(w.size(1)));
  switch (kind) {
    case RandomFeature::kPositiveQuery:
    case RandomFeature::kPositiveKey: {
      const Tensor scaled = x * std::pow(static_cast<double>(x.size(3)), -0.25);
      return torch::exp(product(scaled) - scaled.square().sum(-1, true) / 2);
    }
    case RandomFeature::kSineCosine: {
      const Tensor p = product(UnitRows(x));
      return torch::cat({p.sin(), p.cos()}, -1) * scale;
    }
    case RandomFeature::kArcCosine:
      return torch::relu(product(UnitRows(x))) * scale;
  }
  return {};
}

Tensor AwayFromZero(const Tensor& sums, double epsilon) {
  const Tensor least = torch::full({}, epsilon, sums.options());
  return torch::where(sums.abs() >= epsilon, sums, torch::where(sums < 0, -least, least));
}

// sum_j w_ij v_j / sum_j w_ij, w = phi(q) . phi(k) over the pairs that are seen.
Tensor NaiveLinear(const Tensor& phi_q, const Tensor& phi_k, const Exact& e, bool causal,
                   double epsilon) {
  const int64_t heads = phi_q.size(2);
  const Tensor counts =
      Counts(e.query_lengths, e.key_lengths, heads, phi_q.size(1), phi_k.size(1),
             [&](int64_t, int64_t, int64_t i, int64_t j) { return !causal || j <= i ? 1.0 : 0.0; });
  const Tensor weights = torch::einsum("bihf,bjhf->bhij", {phi_q, Repeated(phi_k, heads)}) * counts;
  const Tensor sums = torch::matmul(weights, Repeated(e.v, heads).transpose(1, 2));
  return (sums / AwayFromZero(weights.sum(-1, true), epsilon)).transpose(1, 2);
}

struct Kind {
  std::string name;
  RandomFeature query, key;
  double epsilon;
};
const Kind kPerformer = {"performer", RandomFeature::kPositiveQuery, RandomFeature::kPositiveKey,
                         1e-30};
const Kind kGaussian = {"rfa-gaussian", RandomFeature::kSineCosine, RandomFeature::kSineCosine,
                        0.1};
const Kind kArcCosine = {"rfa-arccos", RandomFeature::kArcCosine, RandomFeature::kArcCosine, 1e-6};

Tensor ProjectionOf(const zoo::System& system, const Exact& e) {
  if (system.named_buffers().contains("projection")) return Buffer(system, "projection");
  return Buffer(system, "projection.drawn") * e.parameters.at("projection.sigma");
}

Tensor NaiveRandomFeatures(const Kind& kind, const zoo::System& system, const Exact& e,
                           bool causal) {
  const Tensor w = ProjectionOf(system, e);
  return NaiveLinear(NaiveFeatures(e.q, w, kind.query), NaiveFeatures(e.k, w, kind.key), e, causal,
                     kind.epsilon);
}

// The recurrence, token by token.
Tensor NaiveGated(RandomFeature kind, const zoo::System& system, const Exact& e, double epsilon) {
  const Tensor w = ProjectionOf(system, e);
  const int64_t heads = e.q.size(2);
  const Tensor q = NaiveFeatures(e.q, w, kind), k = NaiveFeatures(e.k, w, kind);
  const Tensor gate = torch::sigmoid(
      torch::linear(e.x, e.parameters.at("gate_weight"), e.parameters.at("gate_bias")));
  Tensor state, sums;
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < q.size(1); ++t) {
    const Tensor g = gate.select(1, t).unsqueeze(2);  // [batch, kv_heads, 1]
    const Tensor k_t = k.select(1, t) * (1 - g);
    const Tensor kv = torch::einsum("bhf,bhe->bhfe", {k_t, e.v.select(1, t)});
    state = t == 0 ? kv : g.unsqueeze(3) * state + kv;
    sums = t == 0 ? k_t : g * sums + k_t;
    const Tensor q_t = q.select(1, t);
    const int64_t shared = heads / k.size(2);
    const Tensor o = torch::einsum("bhf,bhfe->bhe", {q_t, state.repeat_interleave(shared, 1)});
    const Tensor normaliser = (q_t * sums.repeat_interleave(shared, 1)).sum(-1, true);
    rows.push_back(o / AwayFromZero(normaliser, epsilon));
  }
  return torch::stack(rows, 1);
}

const std::vector<Direction> kAllDirections = {Direction::kCausal, Direction::kBidirectional,
                                               Direction::kCross};

void ExpectAgreesWithItsDefinition(const Kind& kind) {
  for (Problem problem : Shapes(kind.name, R"({"features": 24})", kAllDirections, 70)) {
    if (problem.geometry.direction == Direction::kCross) {
      problem.m = problem.n + 3;
      problem.key_lengths = problem.lengths;
    }
    const auto system = MakeSystem(problem);
    if (system->named_parameters().contains("projection.sigma")) {
      const torch::NoGradGuard no_grad;
      system->named_parameters()["projection.sigma"].uniform_(0.5, 1.2);
    }
    ExpectAgrees(problem, *system, [&](const Exact& e) {
      return NaiveRandomFeatures(kind, *system, e, problem.geometry.causal());
    });
  }
}

TEST(Performer, AgreesWithItsDefinition) { ExpectAgreesWithItsDefinition(kPerformer); }
TEST(RandomFeatureAttention, GaussianAgreesWithItsDefinition) {
  ExpectAgreesWithItsDefinition(kGaussian);
}
TEST(RandomFeatureAttention, ArcCosineAgreesWithItsDefinition) {
  ExpectAgreesWithItsDefinition(kArcCosine);
}

// Lengths from inside one chunk of 64 to beyond several. So many features that the Gaussian
// kernel's estimates are positive: sums of both signs would lose digits to cancellation.
std::vector<Problem> GatedProblems(const std::string& system) {
  std::vector<Problem> problems = Shapes(system, R"({"features": 128})", {Direction::kCausal}, 70);
  for (const int64_t n : {63, 64, 65, 128, 200}) {
    Problem problem{.system = system, .options = R"({"features": 128})"};
    problem.geometry = {Direction::kCausal, 12, 4, 2, 8, 6, 200};
    problem.n = n;
    problem.seed = static_cast<uint64_t>(n);
    problems.push_back(problem);
  }
  return problems;
}

void ExpectGatedAgrees(const std::string& name, RandomFeature kind, double epsilon) {
  for (const Problem& problem : GatedProblems(name)) {
    const auto system = MakeSystem(problem);
    {
      // Gates from nearly shut to nearly open.
      const torch::NoGradGuard no_grad;
      system->named_parameters()["gate_weight"].normal_();
    }
    ExpectAgrees(problem, *system,
                 [&](const Exact& e) { return NaiveGated(kind, *system, e, epsilon); });
    ExpectCausal(problem, *system);
    if (problem.lengths.empty()) ExpectStreams(problem, *system);
  }
}

TEST(GatedRandomFeatureAttention, GaussianAgreesWithTheRecurrence) {
  ExpectGatedAgrees("rfa-gate-gaussian", RandomFeature::kSineCosine, 0.01);
}
TEST(GatedRandomFeatureAttention, ArcCosineAgreesWithTheRecurrence) {
  ExpectGatedAgrees("rfa-gate-arccos", RandomFeature::kArcCosine, 1e-6);
}

TEST(GatedRandomFeatureAttention, GatesThatAreShutOrOpenOverflowNothing) {
  for (const double bias : {-20.0, 20.0}) {
    Problem problem{.system = "rfa-gate-arccos",
                    .options = c10::str(R"({"gate_bias": )", bias, "}")};
    problem.geometry = {Direction::kCausal, 12, 2, 2, 8, 8, 300};
    problem.n = 300;
    const auto system = MakeSystem(problem);
    zoo::Inputs inputs = RandomInputs(problem, *system);
    const Tensor o = system->Forward(inputs);
    EXPECT_TRUE(o.isfinite().all().item<bool>()) << bias;
    o.square().sum().backward();
    for (const Tensor& t : {inputs.q, inputs.k, inputs.v, inputs.x}) {
      EXPECT_TRUE(t.grad().isfinite().all().item<bool>()) << bias;
    }
    // A gate that lets nothing be remembered leaves the token's own value.
    if (bias < 0) {
      EXPECT_LT((o - inputs.v).abs().max().item<double>(), 1e-4);
    }
  }
}

TEST(Performer, IsCausalAndStreams) {
  for (const Kind& kind : {kPerformer, kGaussian, kArcCosine}) {
    for (const int64_t n : {1, 50, 97}) {
      Problem problem{.system = kind.name};
      problem.geometry = {Direction::kCausal, 12, 4, 2, 8, 6, 100};
      problem.n = n;
      const auto system = MakeSystem(problem);
      ExpectCausal(problem, *system);
      ExpectStreams(problem, *system);
    }
  }
}

TEST(Performer, LargeQueriesAndKeysStayFinite) {
  Problem problem{.system = "performer"};
  problem.geometry = {Direction::kCausal, 12, 2, 2, 64, 64, 100};
  problem.n = 100;
  const auto system = MakeSystem(problem);
  for (const double scale : {4.0, 30.0}) {
    zoo::Inputs inputs = RandomInputs(problem, *system);
    const Tensor o = system->Forward({inputs.q * scale, inputs.k * scale, inputs.v, inputs.x, {}});
    EXPECT_TRUE(o.isfinite().all().item<bool>()) << scale;
    o.sum().backward();
    for (const Tensor& t : {inputs.q, inputs.k, inputs.v}) {
      EXPECT_TRUE(t.grad().isfinite().all().item<bool>()) << scale;
    }
  }
}

// The mean squared error, over draws, of the outputs of a bidirectional system with so many
// features, from `expected` of its inputs.
double MeanSquaredError(const std::string& name, const std::string& more, int64_t features,
                        int draws, double size,
                        const std::function<Tensor(const zoo::Inputs&)>& expected) {
  const torch::NoGradGuard no_grad;
  double sum = 0;
  for (int draw = 0; draw < draws; ++draw) {
    Problem problem{.system = name, .options = c10::str(R"({"features": )", features, more, "}")};
    problem.geometry = {Direction::kBidirectional, 12, 2, 2, 16, 8, 40};
    problem.n = 40;
    problem.batch = 1;
    problem.seed = 7 + static_cast<uint64_t>(draw);
    const auto system = MakeSystem(problem);
    zoo::Inputs inputs = RandomInputs(problem, *system);
    inputs.q = inputs.q * size;
    inputs.k = inputs.k * size;
    sum += (system->Forward(inputs).to(torch::kFloat64) - expected(inputs))
               .square()
               .mean()
               .item<double>();
  }
  return sum / draws;
}

Tensor SoftmaxOf(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  const Tensor counts = torch::ones({1, 1, q.size(1), k.size(1)}, torch::kFloat64);
  return NaiveSoftmax(q.to(torch::kFloat64), k.to(torch::kFloat64), v.to(torch::kFloat64), counts,
                      scale);
}

// The error of a mean of m draws has a variance of 1 / m: from 64 to 4096 features it falls
// 64-fold. A kernel that is not the one claimed leaves an error that no number of features removes.
// With 12 draws the two means are each good to about a third.
void ExpectErrorFallsAsOneOverFeatures(const std::string& name, const std::string& more,
                                       double size,
                                       const std::function<Tensor(const zoo::Inputs&)>& expected) {
  const double few = MeanSquaredError(name, more, 64, 12, size, expected);
  const double some = MeanSquaredError(name, more, 512, 12, size, expected);
  const double many = MeanSquaredError(name, more, 4096, 12, size, expected);
  EXPECT_GT(few / some, 8 / 2.5) << few << " " << some;
  EXPECT_LT(few / some, 8 * 2.5) << few << " " << some;
  EXPECT_GT(few / many, 64 / 2.5) << few << " " << many;
  EXPECT_LT(few / many, 64 * 2.5) << few << " " << many;
}

TEST(Performer, ApproachesSoftmaxAsFeaturesGrow) {
  const auto softmax = [](const zoo::Inputs& in) { return SoftmaxOf(in.q, in.k, in.v, 0); };
  ExpectErrorFallsAsOneOverFeatures("performer", "", 0.35, softmax);
  ExpectErrorFallsAsOneOverFeatures("performer", R"(, "orthogonal": false)", 0.35, softmax);
}

TEST(RandomFeatureAttention, GaussianApproachesSoftmaxOfUnitRows) {
  for (const double temperature : {1.0, 0.5}) {
    ExpectErrorFallsAsOneOverFeatures("rfa-gaussian", c10::str(R"(, "temperature": )", temperature),
                                      1, [&](const zoo::Inputs& in) {
                                        return SoftmaxOf(UnitRows(in.q), UnitRows(in.k), in.v,
                                                         1 / temperature);
                                      });
  }
}

TEST(RandomFeatureAttention, ArcCosineApproachesItsKernel) {
  ExpectErrorFallsAsOneOverFeatures("rfa-arccos", "", 1, [](const zoo::Inputs& in) {
    const Tensor q = UnitRows(in.q.to(torch::kFloat64)), k = UnitRows(in.k.to(torch::kFloat64));
    const Tensor cosine = torch::einsum("bihd,bjhd->bhij", {q, k}).clamp(-1, 1);
    const Tensor angle = torch::acos(cosine);
    const Tensor kernel = torch::sin(angle) + (std::numbers::pi - angle) * cosine;
    const Tensor shares = kernel / kernel.sum(-1, true);
    return torch::matmul(shares, in.v.to(torch::kFloat64).transpose(1, 2)).transpose(1, 2);
  });
}

// E[max(w . x, 0) max(w . y, 0)] = |x| |y| (sin a + (pi - a) cos a) / (2 pi), also its size.
TEST(RandomFeatureAttention, ArcCosineFeaturesHaveTheKernelAsMean) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  const int64_t rows = 65536;
  const Tensor x = torch::randn({1, 6, 1, 8});
  const Tensor phi =
      zoo::RandomFeatures(x, zoo::DrawGaussian(rows, 8).unsqueeze(0), RandomFeature::kArcCosine)
          .view({6, rows});
  const Tensor unit = UnitRows(x.view({6, 8}));
  const Tensor cosine = torch::mm(unit, unit.t()).clamp(-1, 1);
  const Tensor angle = torch::acos(cosine);
  const Tensor kernel =
      (torch::sin(angle) + (std::numbers::pi - angle) * cosine) / (2 * std::numbers::pi);
  // A product of two such features has a deviation of at most sqrt(E[relu^4]) = sqrt(1.5).
  EXPECT_LT((torch::mm(phi, phi.t()) - kernel).abs().max().item<double>(),
            5 * std::sqrt(1.5 / static_cast<double>(rows)));
}

TEST(Performer, OrthogonalFeaturesBeatIndependentOnes) {
  const auto softmax = [](const zoo::Inputs& in) { return SoftmaxOf(in.q, in.k, in.v, 0); };
  const double orthogonal = MeanSquaredError("performer", "", 16, 200, 0.7, softmax);
  const double independent =
      MeanSquaredError("performer", R"(, "orthogonal": false)", 16, 200, 0.7, softmax);
  EXPECT_LT(orthogonal, 0.9 * independent);
}

TEST(Performer, OrthogonalRowsAreAtRightAnglesWithinBlocks) {
  torch::manual_seed(5);
  for (const bool equal : {true, false}) {
    const Tensor w = zoo::DrawOrthogonal(40, 16, equal).to(torch::kFloat64);
    ASSERT_EQ(w.sizes(), (std::vector<int64_t>{40, 16}));
    for (const int64_t begin : {0, 16, 32}) {
      const Tensor block = w.slice(0, begin, std::min<int64_t>(40, begin + 16));
      const Tensor products = torch::mm(block, block.t());
      const Tensor others = products - torch::diag(products.diagonal());
      // Products of lengths of 4 or 5, with the rounding of a float32 factorisation.
      EXPECT_LT(others.abs().max().item<double>(), 64 * 16 * 0x1p-23);
    }
    const Tensor lengths = w.norm(2, 1);
    if (equal) {
      EXPECT_LT((lengths - 4).abs().max().item<double>(), 1e-5);
    } else {
      EXPECT_GT(lengths.std().item<double>(), 0.2);  // that of a Gaussian row is 0.70
    }
  }
  const Tensor many = zoo::DrawOrthogonal(64000, 4, false);
  EXPECT_NEAR(many.square().sum(1).mean().item<double>(), 4, 0.1);
  EXPECT_NEAR(many.mean().item<double>(), 0, 0.01);
}

Problem Training(const std::string& system, const std::string& options) {
  Problem problem{.system = system, .options = options};
  problem.geometry = {Direction::kCausal, 12, 2, 2, 8, 8, 20};
  problem.training = true;
  return problem;
}

const char* DrawOf(const std::string& system) {
  return system == "performer" ? "projection" : "projection.drawn";
}

TEST(RandomFeatureAttention, DrawsAnewOnScheduleInTraining) {
  for (const std::string name : {"performer", "rfa-gaussian", "rfa-arccos", "rfa-gate-gaussian"}) {
    for (const int64_t redraw : {1, 3, 0}) {
      const Problem problem = Training(name, c10::str(R"({"redraw": )", redraw, "}"));
      const auto system = MakeSystem(problem);
      const zoo::Inputs inputs = RandomInputs(problem, *system);
      for (int64_t pass = 1; pass <= 7; ++pass) {
        const Tensor before = Buffer(*system, DrawOf(name));
        system->Forward(inputs);
        const bool drawn = !torch::equal(before, Buffer(*system, DrawOf(name)));
        EXPECT_EQ(drawn, redraw > 0 && pass % redraw == 0) << name << " " << redraw << " " << pass;
      }
    }
  }
}

TEST(RandomFeatureAttention, DrawsNothingInEvaluation) {
  for (const std::string name : {"performer", "rfa-gaussian", "rfa-arccos", "rfa-gate-gaussian"}) {
    const Problem problem = Training(name, R"({"redraw": 1})");
    const auto system = MakeSystem(problem);
    const zoo::Inputs inputs = RandomInputs(problem, *system);
    const Tensor first = system->Forward(inputs);
    const Tensor drawn = Buffer(*system, DrawOf(name));
    system->eval();
    EXPECT_TRUE(torch::equal(system->Forward(inputs), first)) << name;
    EXPECT_TRUE(torch::equal(Buffer(*system, DrawOf(name)), drawn)) << name;
    system->train();
    EXPECT_FALSE(torch::equal(system->Forward(inputs), first)) << name;
  }
}

TEST(RandomFeatureAttention, AGradientIsThatOfItsOwnDraw) {
  for (const std::string name : {"performer", "rfa-gaussian", "rfa-gate-arccos"}) {
    const Problem problem = Training(name, R"({"redraw": 1})");
    const auto system = MakeSystem(problem);
    const zoo::Inputs inputs = RandomInputs(problem, *system);
    const auto gradient = [&](bool another_pass_between) {
      torch::manual_seed(11);
      const Tensor o = system->Forward(inputs);
      if (another_pass_between) system->Forward(inputs);
      std::vector<Tensor> of = system->parameters();
      of.push_back(inputs.k);
      return torch::autograd::grad({o.square().sum()}, of);
    };
    const auto alone = gradient(false), after = gradient(true);
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_TRUE(torch::equal(alone[i], after[i])) << name << " " << i;
    }
  }
}

TEST(RandomFeatureAttention, OptionsOutsideTheirRangeAreRefused) {
  const auto make = [](const std::string& system, const std::string& options) {
    return [=] { MakeSystem(Training(system, options)); };
  };
  ExpectRefused(make("performer", R"({"features": 0})"), {"performer", "features", "1"});
  ExpectRefused(make("performer", R"({"norms": "long"})"), {"norms", "gaussian", "equal"});
  ExpectRefused(make("performer", R"({"redraw": -1})"), {"redraw", "0"});
  ExpectRefused(make("rfa-gaussian", R"({"temperature": 0})"), {"temperature"});
  ExpectRefused(make("rfa-gaussian", R"({"gate_bias": 3})"), {"gate_bias"});
  ExpectRefused(make("rfa-gate-gaussian", R"({"epsilon": 0})"), {"epsilon"});
}

}  // namespace
}  // namespace cosformer::testing
