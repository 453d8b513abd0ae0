// Linformer, Synthesizer and Sinkhorn against their definitions, sequence by sequence and head by
// head in double.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/zoo/naive.h"
#include "zoo/operators.h"

namespace cosformer::testing {
namespace {

const std::vector<Direction> kDirections = {Direction::kCausal, Direction::kBidirectional};

// Runs body(b, length) for each sequence; it returns [length, heads, value_dim].
Tensor BySequence(const Problem& p, const Exact& e,
                  const std::function<Tensor(int64_t b, int64_t length)>& body) {
  std::vector<Tensor> rows;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t length = e.query_lengths[b];
    Tensor o = torch::zeros({p.n, p.geometry.heads, p.geometry.value_dim}, torch::kFloat64);
    if (length > 0) o = torch::constant_pad_nd(body(b, length), {0, 0, 0, 0, 0, p.n - length});
    rows.push_back(o);
  }
  return torch::stack(rows);
}

// What is seen without padding: the triangle, or everything. [n, m]
Tensor Triangle(bool causal, int64_t n, int64_t m) {
  const Tensor all = torch::ones({n, m}, torch::kFloat64);
  return causal ? all.tril() : all;
}

Definition LinformerOf(const Problem& p, bool own_projections) {
  return [=](const Exact& e) {
    const Tensor& key = e.parameters.at("key_projection");
    const auto found = e.parameters.find("value_projection");
    const Tensor& value = found == e.parameters.end() ? key : found->second;
    return BySequence(p, e, [&](int64_t b, int64_t length) {
      const int64_t rows = e.key_lengths[b];
      std::vector<Tensor> heads;
      for (int64_t h = 0; h < p.geometry.heads; ++h) {
        const int64_t kv = h / (p.geometry.heads / p.geometry.kv_heads);
        const auto project = [&](const Tensor& projection, const Tensor& from) {
          const Tensor of = own_projections ? projection[kv] : projection;
          return of.narrow(1, 0, rows).matmul(from[b].narrow(0, 0, rows).select(1, kv));
        };
        const Tensor q = e.q[b].narrow(0, 0, length).select(1, h);
        const Tensor scores =
            q.matmul(project(key, e.k).t()) / std::sqrt(static_cast<double>(p.geometry.dim));
        heads.push_back(scores.softmax(-1).matmul(project(value, e.v)));
      }
      return torch::stack(heads, 1);
    });
  };
}

TEST(LinformerTest, IsSoftmaxOverProjectedKeys) {
  for (const char* sharing : {"headwise", "key-value", "none"}) {
    const std::string options = R"({"k": 9, "sharing": ")" + std::string(sharing) + R"("})";
    for (const Problem& p : Shapes("linformer", options, {Direction::kBidirectional}, 31)) {
      ExpectAgrees(p, LinformerOf(p, sharing == std::string("none")));
    }
    // To a memory of another length.
    for (Problem p : Shapes("linformer", options, {Direction::kCross}, 31)) {
      p.m = 23;
      if (!p.lengths.empty()) p.key_lengths = {23, 5, 1, 20};
      ExpectAgrees(p, LinformerOf(p, sharing == std::string("none")));
    }
  }
}

TEST(LinformerTest, ProjectionsAreThoseOfTheSharing) {
  const std::tuple<const char*, size_t, std::vector<int64_t>> table[] = {
      {"headwise", 2, {256, 300}}, {"key-value", 1, {256, 300}}, {"none", 2, {2, 256, 300}}};
  for (const auto& [sharing, count, shape] : table) {
    Problem p{.system = "linformer",
              .options = R"({"sharing": ")" + std::string(sharing) + R"("})"};
    p.geometry = {Direction::kBidirectional, 12, 4, 2, 8, 8, 300};
    const auto system = MakeSystem(p);
    EXPECT_EQ(system->parameters().size(), count);
    for (const Tensor& projection : system->parameters()) {
      EXPECT_EQ(projection.sizes(), shape) << sharing;
      // 76800 numbers or more of deviation 1/16.
      EXPECT_NEAR(projection.std().item<double>(), 1.0 / 16, 0.001);
    }
  }
}

TEST(LinformerTest, WithIdentityProjectionsIsSoftmax) {
  for (const Problem& p : Shapes("linformer", R"({"k": 31})", {Direction::kBidirectional}, 31)) {
    if (p.n != 31 || !p.lengths.empty()) continue;
    const auto system = MakeSystem(p);
    for (Tensor& projection : system->parameters()) {
      torch::NoGradGuard no_grad;
      projection.copy_(torch::eye(31));
    }
    const zoo::Inputs inputs = RandomInputs(p, *system);
    SoftmaxOptions softmax;
    softmax.causal = false;
    ExpectClose("o", system->Forward(inputs),
                SoftmaxAttention(inputs.q, inputs.k, inputs.v, softmax).to(torch::kFloat64),
                GrowthOf(31 + 8, 10));
  }
}

// Scores [heads, length, length] of one sequence with inputs x [length, width].
using Scores = std::function<Tensor(const Exact& e, const Tensor& x, int64_t length)>;

Definition SynthesizerOf(const Problem& p, const Scores& scores) {
  return [=](const Exact& e) {
    return BySequence(p, e, [&](int64_t b, int64_t length) {
      const Tensor s = scores(e, e.x[b].narrow(0, 0, length), length).unsqueeze(0);
      const Tensor v = e.v[b].narrow(0, 0, length).unsqueeze(0);
      const Tensor counts =
          Triangle(p.geometry.causal(), length, length).view({1, 1, length, length});
      return NaiveWeighted(s, counts, v)[0];
    });
  };
}

// [length, heads, dim]
Tensor HiddenOf(const Problem& p, const Exact& e, const Tensor& x) {
  return torch::linear(x, e.parameters.at("hidden_weight"), e.parameters.at("hidden_bias"))
      .relu()
      .view({x.size(0), p.geometry.heads, p.geometry.dim});
}

void ExpectSynthesizer(const std::string& options, int64_t max_length,
                       const std::function<Scores(const Problem&)>& scores) {
  for (const Problem& p : Shapes("synthesizer", options, kDirections, max_length)) {
    const auto system = MakeSystem(p);
    {
      // No parameter is left at zero or one, where a mistake might not show.
      torch::NoGradGuard no_grad;
      for (Tensor& t : system->parameters()) t.add_(torch::randn_like(t), 0.3);
    }
    ExpectAgrees(p, *system, SynthesizerOf(p, scores(p)));
    if (p.geometry.causal()) ExpectCausal(p, *system);
  }
}

TEST(SynthesizerTest, DenseScoresComeFromEachQuery) {
  ExpectSynthesizer("{}", 37, [](const Problem& p) {
    return [p](const Exact& e, const Tensor& x, int64_t length) {
      const Tensor weight = e.parameters.at("weight").narrow(0, 0, length);
      const Tensor bias = e.parameters.at("bias").narrow(0, 0, length);
      return torch::einsum("ihd,jhd->hij", {HiddenOf(p, e, x), weight}) + bias.permute({1, 2, 0});
    };
  });
}

TEST(SynthesizerTest, RandomScoresAreLearned) {
  ExpectSynthesizer(R"({"kind": "random"})", 37, [](const Problem&) {
    return [](const Exact& e, const Tensor&, int64_t length) {
      return e.parameters.at("scores").narrow(1, 0, length).narrow(2, 0, length);
    };
  });
}

TEST(SynthesizerTest, RandomFactorsMultiply) {
  ExpectSynthesizer(R"({"kind": "factorized-random", "rank": 3})", 37, [](const Problem&) {
    return [](const Exact& e, const Tensor&, int64_t length) {
      return torch::einsum("ihr,jhr->hij", {e.parameters.at("queries").narrow(0, 0, length),
                                            e.parameters.at("keys").narrow(0, 0, length)});
    };
  });
}

TEST(SynthesizerTest, DenseFactorsAreTiledOverTheKeys) {
  // Beyond 256 rows the scores are made in slices.
  for (const int64_t max_length : {37, 300}) {
    ExpectSynthesizer(R"({"kind": "factorized-dense"})", max_length, [&](const Problem& p) {
      const int64_t inner = max_length == 37 ? 7 : 18;
      return [p, inner](const Exact& e, const Tensor& x, int64_t length) {
        const Tensor factors =
            torch::einsum("ihd,hdf->hif", {HiddenOf(p, e, x), e.parameters.at("weight")}) +
            e.parameters.at("bias");
        const Tensor j = torch::arange(length, torch::kInt64);
        const Tensor a = factors.index_select(2, j.remainder(inner));
        const Tensor b = factors.index_select(2, j.div(inner, "floor") + inner);
        return a * b;
      };
    });
  }
}

struct Sorting {
  int64_t block = 0, iterations = 0;
  double temperature = 0;
  Tensor noise;  // [batch, kv_heads, blocks, blocks] or none
};

// The sorting matrix of one sequence and key/value head from x [length, width], in numbers, not in
// logarithms: weights w(i, j) of block j at the place of block i.
Tensor OrderOf(const Problem& p, const Exact& e, const Sorting& s, const Tensor& x, int64_t b,
               int64_t kv) {
  const bool causal = p.geometry.causal();
  const int64_t length = x.size(0), blocks = (length + s.block - 1) / s.block;
  const int64_t max_blocks = (p.geometry.max_length + s.block - 1) / s.block;
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = causal ? 0 : i * s.block;
    const int64_t end = causal ? i * s.block + 1 : std::min(length, (i + 1) * s.block);
    const Tensor sum = x.narrow(0, begin, end - begin).sum(0);
    const Tensor weight = e.parameters.at("sort_weight").narrow(0, kv * max_blocks, blocks);
    const Tensor bias = e.parameters.at("sort_bias").narrow(0, kv * max_blocks, blocks);
    rows.push_back(weight.matmul(sum) + bias);
  }
  Tensor scores = torch::stack(rows);
  if (s.noise.defined()) {
    scores = scores + s.noise[b][kv].narrow(0, 0, blocks).narrow(1, 0, blocks);
  }
  Tensor w = (scores / s.temperature).exp();
  const Tensor seen = causal ? torch::ones_like(w).tril(-1) : torch::ones_like(w);
  w = w * seen;
  const auto divided = [](const Tensor& a, const Tensor& by) {
    return a / by.masked_fill(by == 0, 1);
  };
  for (int64_t iteration = 0; iteration < s.iterations; ++iteration) {
    w = divided(w, w.sum(1, true));
    w = divided(w, causal ? w.cumsum(0) : w.sum(0, true));
  }
  if (!causal) return w;
  Tensor first = torch::zeros_like(w);
  first[0][0] = 1;
  return w + first;
}

Definition SinkhornOf(const Problem& p, const Sorting& s) {
  return [=](const Exact& e) {
    return BySequence(p, e, [&](int64_t b, int64_t length) {
      const bool causal = p.geometry.causal();
      const int64_t blocks = (length + s.block - 1) / s.block;
      std::vector<Tensor> heads;
      for (int64_t h = 0; h < p.geometry.heads; ++h) {
        const int64_t kv = h / (p.geometry.heads / p.geometry.kv_heads);
        const Tensor order = OrderOf(p, e, s, e.x[b].narrow(0, 0, length), b, kv);
        const Tensor q = e.q[b].narrow(0, 0, length).select(1, h);
        const Tensor k = e.k[b].narrow(0, 0, length).select(1, kv);
        const Tensor v = e.v[b].narrow(0, 0, length).select(1, kv);
        const auto sorted = [&](const Tensor& rows, int64_t i) {
          const Tensor whole = torch::constant_pad_nd(rows, {0, 0, 0, blocks * s.block - length});
          const Tensor cut = whole.view({blocks, s.block, rows.size(1)});
          return (order[i].view({-1, 1, 1}) * cut).sum(0);
        };
        std::vector<Tensor> parts;
        for (int64_t i = 0; i < blocks; ++i) {
          const int64_t begin = i * s.block, count = std::min(s.block, length - begin);
          Tensor keys = k.narrow(0, begin, count), values = v.narrow(0, begin, count);
          Tensor seen = Triangle(causal, count, count);
          if (blocks > 1 && !(causal && i == 0)) {
            keys = torch::cat({keys, sorted(k, i)});
            values = torch::cat({values, sorted(v, i)});
            seen = torch::cat({seen, torch::ones({count, s.block}, torch::kFloat64)}, 1);
          }
          const Tensor scores = q.narrow(0, begin, count).matmul(keys.t()) /
                                std::sqrt(static_cast<double>(p.geometry.dim));
          parts.push_back(scores.masked_fill(seen == 0, -INFINITY).softmax(-1).matmul(values));
        }
        heads.push_back(torch::cat(parts));
      }
      return torch::stack(heads, 1);
    });
  };
}

TEST(SinkhornTest, BlocksSeeThemselvesAndWhatIsSortedToThem) {
  for (const int64_t iterations : {1, 2, 8}) {
    const std::string options =
        R"({"block": 5, "temperature": 0.9, "iterations": )" + std::to_string(iterations) + "}";
    for (const Problem& p : Shapes("sinkhorn", options, kDirections, 43)) {
      const auto system = MakeSystem(p);
      ExpectAgrees(p, *system, SinkhornOf(p, {5, iterations, 0.9, {}}));
      if (p.geometry.causal()) ExpectCausal(p, *system);
    }
  }
  for (const Problem& p : Shapes("sinkhorn", "{}", kDirections, 150)) {
    const auto system = MakeSystem(p);
    ExpectAgrees(p, *system, SinkhornOf(p, {64, 8, 0.75, {}}));
    if (p.geometry.causal()) ExpectCausal(p, *system);
  }
}

TEST(SinkhornTest, OneBlockIsSoftmax) {
  for (const Problem& p : Shapes("sinkhorn", R"({"block": 43})", kDirections, 43)) {
    ExpectAgrees(p, [&](const Exact& e) {
      const bool causal = p.geometry.causal();
      return NaiveSoftmax(
          e.q, e.k, e.v,
          Counts(e.query_lengths, e.key_lengths, p.geometry.heads, p.n, p.n,
                 [&](int64_t, int64_t, int64_t i, int64_t j) { return !causal || j <= i; }));
    });
  }
}

TEST(SinkhornTest, TrainingAddsGumbelNoise) {
  for (const Direction direction : kDirections) {
    Problem p{.system = "sinkhorn", .options = R"({"block": 5})", .training = true};
    p.geometry = {direction, 12, 4, 2, 8, 8, 43};
    p.n = 43;
    const auto system = MakeSystem(p);
    const zoo::Inputs inputs = RandomInputs(p, *system);
    const auto run = [&] { return system->Forward(inputs).detach(); };
    const Tensor first = run();
    const Tensor second = run();
    EXPECT_FALSE(torch::equal(first, second));
    torch::manual_seed(77);
    const Tensor third = run();
    torch::manual_seed(77);
    EXPECT_TRUE(torch::equal(third, run())) << "the noise must come from torch's generator";
    // As the generator stands when the inputs have been drawn.
    RandomInputs(p, *system);
    const Tensor noise = -torch::empty({p.batch, 2, 9, 9}).exponential_().log();
    ExpectAgrees(p, *system, SinkhornOf(p, {5, 8, 0.75, noise.to(torch::kFloat64)}));
    system->eval();
    EXPECT_TRUE(torch::equal(run(), run()));
  }
}

TEST(ProjectionsTest, SequencesBeyondTheTablesAreRefused) {
  for (const char* system : {"linformer", "synthesizer", "sinkhorn"}) {
    Problem p{.system = system, .options = "{}"};
    p.geometry = {Direction::kBidirectional, 12, 4, 2, 8, 8, 20};
    p.n = 21;
    const auto made = MakeSystem(p);
    const zoo::Inputs inputs = RandomInputs(p, *made);
    ExpectRefused([&] { made->Forward(inputs); }, {system, "21", "20", "max_length"});
  }
}

}  // namespace
}  // namespace cosformer::testing
