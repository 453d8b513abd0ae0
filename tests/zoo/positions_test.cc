// Rotary positions against their definition; stochastic positions against the means that they claim
// and against themselves, in pieces and packed; which systems take which.
#include "zoo/positions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "tests/zoo/naive.h"

namespace cosformer::testing {
namespace {

using zoo::Rotary;
using zoo::Rotate;

constexpr double kUnit = 0x1p-24;

// positions [n], of each row.
Tensor NaiveRotate(const Tensor& x, double base, const Tensor& positions) {
  const int64_t half = x.size(3) / 2;
  const Tensor frequencies =
      torch::pow(base, torch::arange(half, torch::kFloat64) * (-1.0 / static_cast<double>(half)));
  const Tensor angles = (positions.unsqueeze(1) * frequencies).unsqueeze(1);  // [n, 1, half]
  const Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  return torch::cat({a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()}, 3);
}

Tensor Range(int64_t begin, int64_t end) { return torch::arange(begin, end, torch::kFloat64); }

// Three roundings, and that of a cosine from the table: 4 u of the two terms' sizes.
void ExpectTurned(const Tensor& actual, const Tensor& exact) {
  ExpectClose("rotated", actual, exact, 2 * 4);
}

TEST(Rotary, AgreesWithItsDefinitionAndItsGradient) {
  for (const int64_t dim : {2, 6, 64}) {
    for (const int64_t position : {int64_t{0}, int64_t{300}, int64_t{65500}, int64_t{1} << 20}) {
      torch::manual_seed(static_cast<uint64_t>(dim));
      // Rows of a fused projection, and heads before the length.
      const Tensor fused = torch::randn({2, 70, 3 * dim + 5}).requires_grad_();
      const Tensor x = fused.narrow(2, 2, 3 * dim).view({2, 70, 3, dim});
      const Tensor twin = x.detach().to(torch::kFloat64).requires_grad_();
      const Tensor weights = torch::randn({2, 70, 3, dim});
      const Tensor y = Rotate(x, {.base = 5000}, position);
      const Tensor exact = NaiveRotate(twin, 5000, Range(position, position + 70));
      ExpectTurned(y, exact);
      const Tensor d_fused = torch::autograd::grad({(y * weights).sum()}, {fused})[0];
      const Tensor d_twin = torch::autograd::grad({(exact * weights).sum()}, {twin})[0];
      ExpectTurned(d_fused.narrow(2, 2, 3 * dim).reshape({2, 70, 3, dim}), d_twin);
      const Tensor by_head = x.detach().permute({0, 2, 1, 3}).contiguous().permute({0, 2, 1, 3});
      EXPECT_TRUE(torch::equal(Rotate(by_head, {.base = 5000}, position), y));
    }
  }
}

TEST(Rotary, ScoresDependOnTheDistanceOnly) {
  torch::manual_seed(1);
  const Tensor q = torch::randn({1, 1, 1, 32}), k = torch::randn({1, 1, 1, 32});
  const auto score = [&](int64_t i, int64_t j) {
    return (Rotate(q, {}, i) * Rotate(k, {}, j)).sum().item<double>();
  };
  const double scale = (q.norm() * k.norm()).item<double>();
  for (const int64_t distance : {0, 1, 17, 400}) {
    for (const int64_t at : {5, 1000, 30000}) {
      EXPECT_NEAR(score(at + distance, at), score(distance, 0), 32 * kUnit * scale);
    }
  }
  EXPECT_GT(std::abs(score(17, 0) - score(0, 17)), 1e-3 * scale);
}

TEST(Rotary, TurningBackUndoesIt) {
  const Tensor x = torch::randn({1, 40, 2, 16}).requires_grad_();
  const Tensor y = Rotate(x, {}, 9);
  // The gradient of y . d with respect to x is d turned back.
  const Tensor back = torch::autograd::grad({(y * y.detach()).sum()}, {x})[0];
  EXPECT_LT((back - x).abs().max().item<double>(), 16 * kUnit * x.abs().max().item<double>());
}

TEST(Rotary, IsDifferentiableTwice) {
  torch::manual_seed(2);
  const Tensor x = torch::randn({1, 5, 1, 4}).requires_grad_();
  const Tensor d = torch::autograd::grad({Rotate(x, {}, 3).pow(3).sum()}, {x}, {}, true, true)[0];
  const Tensor twin = x.detach().to(torch::kFloat64).requires_grad_();
  const Tensor exact = torch::autograd::grad({NaiveRotate(twin, 10000, Range(3, 8)).pow(3).sum()},
                                             {twin}, {}, true, true)[0];
  ExpectClose("second", torch::autograd::grad({d.square().sum()}, {x})[0],
              torch::autograd::grad({exact.square().sum()}, {twin})[0], 64);
}

TEST(Rotary, PackedSequencesBeginAtZero) {
  torch::manual_seed(3);
  const std::vector<int64_t> offsets = {2, 9, 9, 40};
  const Tensor x = torch::randn({1, 45, 2, 8}).requires_grad_();
  const Tensor y = Rotate(x, {}, 0, offsets);
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{2, 9}, {9, 40}}) {
    EXPECT_TRUE(torch::equal(y.slice(1, begin, end), Rotate(x.slice(1, begin, end), {}, 0)));
  }
  const Tensor back = torch::autograd::grad({(y * y.detach()).sum()}, {x})[0];
  EXPECT_LT((back - x).abs().max().item<double>(), 16 * kUnit * x.abs().max().item<double>());
}

std::shared_ptr<zoo::Positions> Make(const std::string& kind, const std::string& options,
                                     zoo::Geometry& geometry) {
  const nlohmann::json json = nlohmann::json::parse(options);
  OptionReader reader(json, "positions " + kind);
  auto positions = zoo::MakePositions(kind, reader, geometry);
  reader.Done();
  if (positions != nullptr) positions->eval();
  return positions;
}

zoo::Geometry SmallGeometry() { return {Direction::kCausal, 12, 4, 2, 6, 6, 300}; }

TEST(Rotary, ModuleTurnsQueriesAndKeysOfPackedAndCrossLayouts) {
  zoo::Geometry geometry = SmallGeometry();
  const auto positions = Make("rotary", R"({"base": 500})", geometry);
  EXPECT_EQ(geometry.dim, 6);
  const Rotary rotary = {.base = 500};
  const Tensor q = torch::randn({1, 20, 4, 6}), k = torch::randn({1, 30, 2, 6});
  const auto [q_turned, k_turned] = positions->Apply(q, k, 0, {});
  EXPECT_TRUE(torch::equal(q_turned, Rotate(q, rotary, 0)));
  EXPECT_TRUE(torch::equal(k_turned, Rotate(k, rotary, 0)));
  Layout layout = Layout::Packed({0, 8, 20});
  layout.key_offsets = {0, 25, 30};
  const auto packed = positions->Apply(q, k, 0, layout);
  EXPECT_TRUE(torch::equal(packed.first, Rotate(q, rotary, 0, {0, 8, 20})));
  EXPECT_TRUE(torch::equal(packed.second, Rotate(k, rotary, 0, {0, 25, 30})));
  ASSERT_NE(positions->rotary(), nullptr);
  EXPECT_EQ(positions->rotary()->base, 500);
}

// Linear attention rotates its features in the numerator alone.
TEST(Rotary, InsideLinearAttentionLeavesTheNormaliserAlone) {
  for (const Direction direction : {Direction::kCausal, Direction::kBidirectional}) {
    Problem problem{.system = "linear"};
    problem.geometry = {direction, 12, 4, 2, 8, 5, 50};
    problem.n = 33;
    const auto system = MakeSystem(problem);
    zoo::Inputs inputs = RandomInputs(problem, *system);
    const Rotary rotary = {.base = 100};
    inputs.rotary = &rotary;
    const Tensor o = system->Forward(inputs);

    const auto twin = [](const Tensor& x) {
      return x.detach().to(torch::kFloat64).requires_grad_();
    };
    const Tensor q = twin(inputs.q), k = twin(inputs.k), v = twin(inputs.v);
    const Tensor phi_q = torch::elu(q) + 1, phi_k = torch::elu(Repeated(k, 4)) + 1;
    const Tensor at = Range(0, 33);
    const auto weights = [&](const Tensor& a, const Tensor& b) {
      const Tensor all = torch::einsum("bihd,bjhd->bhij", {a, b});
      return problem.geometry.causal() ? all.tril() : all;
    };
    const Tensor sums =
        torch::matmul(weights(NaiveRotate(phi_q, 100, at), NaiveRotate(phi_k, 100, at)),
                      Repeated(v, 4).transpose(1, 2));
    const Tensor exact = (sums / weights(phi_q, phi_k).sum(-1, true)).transpose(1, 2);
    const double growth = 2 * GrowthOf(33 + 8, 1);
    ExpectClose("o", o, exact, growth);
    const Tensor loss = torch::randn(o.sizes());
    const auto actual = torch::autograd::grad({(o * loss).sum()}, {inputs.q, inputs.k, inputs.v});
    const auto wanted = torch::autograd::grad({(exact * loss).sum()}, {q, k, v});
    for (size_t i = 0; i < 3; ++i) ExpectClose("gradient", actual[i], wanted[i], growth);
  }
}

TEST(Rotary, AnOddDimIsRefused) {
  zoo::Geometry geometry = SmallGeometry();
  geometry.dim = 7;
  ExpectRefused([&] { Make("rotary", "{}", geometry); }, {"7", "even", "head_dim"});
  ExpectRefused([&] { Rotate(torch::randn({1, 2, 1, 3}), {}, 0); }, {"3", "even"});
  ExpectRefused([&] { Rotate(torch::randn({1, 2, 3}), {}, 0); }, {"[batch, length, heads, dim]"});
}

// Stochastic positions.

// Away from where they begin, so that nothing is symmetrical or zero.
void Unsettle(zoo::Positions& positions) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : positions.named_parameters()) {
    Tensor parameter = item.value();
    const double size = item.key().ends_with("filter") ? 0.15 : item.key() == "phases" ? 1 : 0.4;
    parameter.add_(torch::randn_like(parameter) * size);
    if (item.key() == "frequencies") parameter.add_(2.5);  // periods of some 10 positions
  }
}

// P_d(t) of a head by its definition.
double Kernel(const zoo::Positions& positions, const std::string& kind, int64_t head, int64_t d,
              int64_t t) {
  const auto parameters = positions.named_parameters();
  const auto of = [&](const char* name) {
    return parameters[name][head][d].detach().to(torch::kFloat64);
  };
  double sum = 0;
  if (kind == "spe-sine") {
    const Tensor turns = torch::sigmoid(of("frequencies")) / 2 * static_cast<double>(t);
    sum = (of("gains").square() * torch::cos(2 * std::numbers::pi * turns + of("phases")))
              .sum()
              .item<double>();
  } else {
    const Tensor q = of("query_filter"), k = of("key_filter");
    for (int64_t j = 0; j < q.size(0); ++j) {
      if (j + t >= 0 && j + t < k.size(0)) sum += (q[j] * k[j + t]).item<double>();
    }
  }
  if (!parameters.contains("gate")) return sum;
  const double share = torch::sigmoid(of("gate")).item<double>();
  return share + (1 - share) * sum;
}

struct Spe {
  const char* kind;
  const char* options;  // after realisations
};
const std::vector<Spe> kSpes = {{"spe-sine", R"(, "sines": 3)"},
                                {"spe-sine", R"(, "gated": false)"},
                                {"spe-conv", R"(, "kernel": 9)"},
                                {"spe-conv", R"(, "kernel": 100, "gated": false)"}};

std::string Options(const Spe& spe, int64_t realisations) {
  return c10::str(R"({"realisations": )", realisations, spe.options, "}");
}

TEST(StochasticPositions, ProductsHaveTheKernelAsMeanWithAnErrorOfOneOverRealisations) {
  const torch::NoGradGuard no_grad;
  for (const Spe& spe : kSpes) {
    torch::manual_seed(4);
    const int64_t n = 70, dim = 4;
    const Tensor q = torch::randn({1, n, 2, dim}), k = torch::randn({1, n, 1, dim});
    Tensor exact;
    std::map<int64_t, double> errors;
    for (const int64_t realisations : {64, 1024}) {
      torch::manual_seed(5);
      zoo::Geometry geometry = {Direction::kCausal, 12, 2, 1, dim, dim, 300};
      const auto positions = Make(spe.kind, Options(spe, realisations), geometry);
      EXPECT_EQ(geometry.dim, realisations);
      Unsettle(*positions);
      if (!exact.defined()) {
        Tensor kernel = torch::zeros({2 * n - 1, dim}, torch::kFloat64);
        for (int64_t t = 1 - n; t < n; ++t)
          for (int64_t d = 0; d < dim; ++d)
            kernel[t + n - 1][d] = Kernel(*positions, spe.kind, 0, d, t);
        const Tensor apart = torch::arange(n).unsqueeze(1) - torch::arange(n) + (n - 1);
        const Tensor p = kernel.index({apart});  // [n, n, dim]
        exact = torch::einsum("bihd,bjd,ijd->bhij",
                              {q.to(torch::kFloat64), k.select(2, 0).to(torch::kFloat64), p});
      }
      const int draws = 30;
      for (int draw = 0; draw < draws; ++draw) {
        positions->train();  // draws anew
        const auto [q_hat, k_hat] = positions->Apply(q, k, 0, {});
        const Tensor products =
            torch::einsum("bihr,bjr->bhij", {q_hat, k_hat.select(2, 0)}).to(torch::kFloat64);
        errors[realisations] += (products - exact).square().mean().item<double>() / draws;
      }
    }
    SCOPED_TRACE(c10::str(spe.kind, spe.options));
    // 16-fold; the 30 draws make each mean good to about a tenth.
    EXPECT_GT(errors[64] / errors[1024], 16 / 1.5);
    EXPECT_LT(errors[64] / errors[1024], 16 * 1.5);
    // The variance of a product is at most a few times the squares of its factors.
    const double scale = exact.square().mean().item<double>();
    EXPECT_LT(errors[1024], 0.1 * scale + 0.1);
  }
}

class Encoded {
 public:
  explicit Encoded(const Spe& spe) {
    torch::manual_seed(6);
    geometry = SmallGeometry();
    positions = Make(spe.kind, Options(spe, 8), geometry);
    Unsettle(*positions);
    const auto rows = [](int64_t heads) {
      return torch::randn({2, 200, heads * 6 + 3}).narrow(2, 1, heads * 6).view({2, 200, heads, 6});
    };
    q = rows(4);
    k = rows(2);
  }

  // Rows [begin, end) of q and k as a stream would ask for them.
  std::pair<Tensor, Tensor> Piece(int64_t begin, int64_t end) const {
    return positions->Apply(q.slice(1, begin, end), k.slice(1, begin, end), begin, {});
  }

  zoo::Geometry geometry;
  std::shared_ptr<zoo::Positions> positions;
  Tensor q, k;
};

// A sum over 6 dimensions, of codes that are sums over up to 128 noises.
void ExpectSame(const Tensor& actual, const Tensor& expected) {
  ExpectClose("codes", actual, expected.to(torch::kFloat64), GrowthOf(128 + 6, 1));
}

TEST(StochasticPositions, ACodeIsThatOfItsPositionWhateverTheLength) {
  for (const Spe& spe : kSpes) {
    const Encoded e(spe);
    const auto [q, k] = e.positions->Apply(e.q, e.k, 0, {});
    for (const bool gradients : {false, true}) {  // without, codes are kept from call to call
      const torch::AutoGradMode mode(gradients);
      for (const int64_t size : {1, 7, 64, 150}) {
        for (int64_t begin = 0; begin < 200; begin += size) {
          const int64_t end = std::min<int64_t>(200, begin + size);
          const auto piece = e.Piece(begin, end);
          ExpectSame(piece.first, q.slice(1, begin, end));
          ExpectSame(piece.second, k.slice(1, begin, end));
          if (size == 1) begin += 12;
        }
      }
    }
  }
}

TEST(StochasticPositions, PackedSequencesBeginAtZero) {
  for (const Spe& spe : kSpes) {
    const Encoded e(spe);
    const Tensor q = e.q.slice(0, 0, 1), k = e.k.slice(0, 0, 1);
    const std::vector<int64_t> offsets = {3, 100, 100, 190};
    const auto packed = e.positions->Apply(q, k, 0, Layout::Packed(offsets));
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{3, 100}, {100, 190}}) {
      const auto alone = e.positions->Apply(q.slice(1, begin, end), k.slice(1, begin, end), 0, {});
      ExpectSame(packed.first.slice(1, begin, end), alone.first);
      ExpectSame(packed.second.slice(1, begin, end), alone.second);
    }
    EXPECT_TRUE(packed.first.isfinite().all().item<bool>());
    EXPECT_TRUE(packed.second.isfinite().all().item<bool>());
  }
}

TEST(StochasticPositions, EachSideOfACrossAttentionCountsForItself) {
  for (const Spe& spe : kSpes) {
    const Encoded e(spe);
    const auto [q, k] = e.positions->Apply(e.q, e.k, 0, {});
    const auto cross = e.positions->Apply(e.q.slice(1, 0, 20), e.k.slice(1, 0, 150), 0, {});
    ExpectSame(cross.first, q.slice(1, 0, 20));
    ExpectSame(cross.second, k.slice(1, 0, 150));
  }
}

TEST(StochasticPositions, QueryHeadsHaveTheCodesOfTheirKeyHead) {
  for (const Spe& spe : kSpes) {
    Encoded e(spe);
    e.q = e.k.repeat_interleave(2, 2);
    const auto [q, k] = e.positions->Apply(e.q, e.k, 0, {});
    EXPECT_TRUE(torch::equal(q.select(2, 0), q.select(2, 1)));
    EXPECT_TRUE(torch::equal(q.select(2, 2), q.select(2, 3)));
    // The heads of keys have codes of their own.
    e.k = e.k.slice(2, 0, 1).repeat({1, 1, 2, 1});
    const Tensor same = e.positions->Apply(e.q, e.k, 0, {}).second;
    EXPECT_GT((same.select(2, 0) - same.select(2, 1)).abs().mean().item<double>(), 0.05);
  }
}

// A loss whose second differences are small against the step: the error of a central difference is
// that of rounding, u / step of the loss's terms, and step^2 of the third derivative.
TEST(StochasticPositions, GradientsAgreeWithDifferences) {
  for (const Spe& spe : kSpes) {
    SCOPED_TRACE(c10::str(spe.kind, spe.options));
    Encoded e(spe);
    e.q = e.q.detach().slice(1, 0, 90).requires_grad_();
    e.k = e.k.detach().slice(1, 0, 90).requires_grad_();
    const Tensor q_weights = torch::randn({2, 90, 4, 8}), k_weights = torch::randn({2, 90, 2, 8});
    const auto loss = [&] {
      const auto [q, k] = e.positions->Apply(e.q, e.k, 0, {});
      return (q * q_weights).sum(torch::kFloat64) + (k * k_weights).sum(torch::kFloat64);
    };
    std::vector<Tensor> of = {e.q, e.k};
    std::vector<std::string> names = {"q", "k"};
    for (const auto& item : e.positions->named_parameters()) {
      names.push_back(item.key());
      of.push_back(item.value());
    }
    const auto gradients = torch::autograd::grad({loss()}, of);
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < of.size(); ++i) {
      // Phases turn by 2 pi times the position, up to 90, for a change of 1 in the frequency.
      const double step = names[i] == "frequencies" ? 3e-4 : 1e-2;
      const Tensor direction = torch::randn_like(of[i]);
      const Tensor start = of[i].clone();
      of[i].copy_(start + step * direction);
      const double above = loss().item<double>();
      of[i].copy_(start - step * direction);
      const double below = loss().item<double>();
      of[i].copy_(start);
      const double slope = (above - below) / (2 * step);
      const Tensor terms = gradients[i] * direction;
      EXPECT_NEAR(slope, terms.sum(torch::kFloat64).item<double>(),
                  5e-3 * terms.norm().item<double>())
          << names[i];
    }
  }
}

TEST(StochasticPositions, DrawAnewInTrainingOnly) {
  for (const Spe& spe : kSpes) {
    const Encoded e(spe);
    const auto codes = [&] { return e.positions->Apply(e.q, e.k, 0, {}).first; };
    const Tensor first = codes();
    EXPECT_TRUE(torch::equal(codes(), first));
    e.positions->train();
    const Tensor second = codes();
    EXPECT_FALSE(torch::equal(second, first));
    EXPECT_FALSE(torch::equal(codes(), second));
  }
}

TEST(StochasticPositions, KeptCodesFollowTheParameters) {
  const torch::NoGradGuard no_grad;
  for (const Spe& spe : kSpes) {
    const Encoded e(spe);
    e.Piece(70, 71);
    Unsettle(*e.positions);
    ExpectSame(e.Piece(70, 71).first, e.positions->Apply(e.q, e.k, 0, {}).first.slice(1, 70, 71));
    e.positions->named_buffers()["seed"].fill_(77);
    ExpectSame(e.Piece(70, 71).first, e.positions->Apply(e.q, e.k, 0, {}).first.slice(1, 70, 71));
  }
}

TEST(Positions, BadOptionsAndKindsAreRefused) {
  zoo::Geometry geometry = SmallGeometry();
  EXPECT_EQ(Make("none", "{}", geometry), nullptr);
  ExpectRefused([&] { Make("alibi", "{}", geometry); },
                {"alibi", "rotary", "spe-sine", "spe-conv"});
  ExpectRefused([&] { Make("rotary", R"({"base": 0})", geometry); }, {"rotary", "base"});
  ExpectRefused([&] { Make("rotary", R"({"sines": 5})", geometry); }, {"sines", "base"});
  ExpectRefused([&] { Make("spe-sine", R"({"kernel": 5})", geometry); }, {"kernel", "sines"});
  ExpectRefused([&] { Make("spe-sine", R"({"realisations": 0})", geometry); }, {"realisations"});
  ExpectRefused([&] { Make("spe-conv", R"({"kernel": 0})", geometry); }, {"kernel"});
}

TEST(Positions, SystemsThatHaveNoUseForThemSayWhy) {
  const auto make = [](const char* system, const char* positions, Direction direction) {
    return [=] {
      Attention attention(AttentionConfig{.system = system,
                                          .direction = direction,
                                          .width = 16,
                                          .heads = 2,
                                          .positions = positions});
    };
  };
  ExpectRefused(make("linformer", "rotary", Direction::kBidirectional),
                {"linformer", "rotary", "because"});
  ExpectRefused(make("synthesizer", "rotary", Direction::kCausal),
                {"synthesizer", "rotary", "because"});
  ExpectRefused(make("softmax", "spe-sine", Direction::kCausal),
                {"softmax", "spe-sine", "because"});
}

}  // namespace
}  // namespace cosformer::testing
