#include "tests/zoo/naive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "cosformer/error.h"

namespace cosformer::testing {
namespace {

constexpr double kUnit = 0x1p-24;

Tensor Doubled(const Tensor& t) {
  return t.defined() ? t.detach().to(torch::kFloat64).clone().requires_grad_() : Tensor();
}

// The loss is a random weighing of the outputs of real rows.
Tensor LossWeights(const Problem& problem, at::IntArrayRef shape) {
  Tensor weights = torch::randn(shape, torch::kFloat32);
  const auto lengths = problem.QueryLengths();
  for (int64_t b = 0; b < problem.batch; ++b) {
    weights[b].narrow(0, lengths[b], problem.n - lengths[b]).zero_();
  }
  return weights;
}

double LongestRow(const Tensor& t) { return t.defined() ? t.norm(2, -1).max().item<double>() : 0; }

// The slope of a score is a difference, p (d_o . v - d_o . o), and multiplies a row of q, k or x:
// the size of its terms, times the roundings of a product of rows.
double SlopeTerms(const zoo::Inputs& inputs, const Tensor& d_o) {
  const double rows =
      std::max({1.0, LongestRow(inputs.q), LongestRow(inputs.k), LongestRow(inputs.x)});
  return GrowthOf(d_o.size(3), 0) * LongestRow(d_o) * LongestRow(inputs.v) * rows;
}

double LargestScore(const zoo::Inputs& inputs) {
  if (!inputs.q.defined()) return 4;
  const Tensor& k = inputs.k.defined() ? inputs.k : inputs.q;
  return LongestRow(inputs.q) * LongestRow(k) / std::sqrt(static_cast<double>(inputs.q.size(3)));
}

zoo::Inputs Rows(const zoo::Inputs& inputs, int64_t begin, int64_t count) {
  zoo::Inputs rows = inputs;
  for (Tensor* t : {&rows.q, &rows.k, &rows.v, &rows.x}) {
    if (t->defined()) *t = t->narrow(1, begin, count);
  }
  return rows;
}

}  // namespace

Tensor Repeated(const Tensor& shared, int64_t heads) {
  return shared.repeat_interleave(heads / shared.size(2), 2);
}

Tensor NaiveWeighted(const Tensor& scores, const Tensor& counts, const Tensor& v) {
  const Tensor seen = counts > 0;
  const Tensor top = scores.detach().masked_fill(seen.logical_not(), -DBL_MAX).amax(-1, true);
  const Tensor weights = (scores - top).masked_fill(seen.logical_not(), -INFINITY).exp() * counts;
  const Tensor sums = weights.sum(-1, true);
  const Tensor shares = weights / sums.masked_fill(sums == 0, 1);
  return torch::matmul(shares, Repeated(v, scores.size(1)).transpose(1, 2)).transpose(1, 2);
}

Tensor NaiveSoftmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& counts,
                    double scale) {
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const Tensor keys = Repeated(k, q.size(2));
  return NaiveWeighted(torch::einsum("bihd,bjhd->bhij", {q, keys}) * scale, counts, v);
}

Tensor Counts(const std::vector<int64_t>& query_lengths, const std::vector<int64_t>& key_lengths,
              int64_t heads, int64_t n, int64_t m, const Sees& sees) {
  const int64_t batch = static_cast<int64_t>(query_lengths.size());
  Tensor counts = torch::zeros({batch, heads, n, m}, torch::kFloat64);
  auto at = counts.accessor<double, 4>();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < query_lengths[b]; ++i)
        for (int64_t j = 0; j < key_lengths[b]; ++j) at[b][h][i][j] = sees(key_lengths[b], h, i, j);
  return counts;
}

std::vector<int64_t> Problem::QueryLengths() const {
  return lengths.empty() ? std::vector<int64_t>(static_cast<size_t>(batch), n) : lengths;
}

std::vector<int64_t> Problem::KeyLengths() const {
  if (!key_lengths.empty()) return key_lengths;
  return m == 0 ? QueryLengths() : std::vector<int64_t>(static_cast<size_t>(batch), m);
}

std::string Describe(const Problem& p) {
  const zoo::Geometry& g = p.geometry;
  return c10::str(p.system, " ", p.options, " direction ", static_cast<int>(g.direction), " batch ",
                  p.batch, " n ", p.n, " m ", p.keys(), " heads ", g.heads, "/", g.kv_heads,
                  " dim ", g.dim, "/", g.value_dim, " max_length ", g.max_length, " lengths ",
                  p.lengths, " seed ", p.seed);
}

std::shared_ptr<zoo::System> MakeSystem(const Problem& problem) {
  torch::manual_seed(problem.seed);
  const nlohmann::json json = nlohmann::json::parse(problem.options);
  OptionReader options(json, "attention " + problem.system);
  auto system = zoo::FindEntry(problem.system).make(problem.geometry, options);
  options.Done();
  system->train(problem.training);
  return system;
}

zoo::Inputs RandomInputs(const Problem& p, const zoo::System& system) {
  torch::manual_seed(p.seed + 1000);
  const zoo::Geometry& g = p.geometry;
  const auto rows = [&](int64_t length, int64_t heads, int64_t dim) {
    const Tensor fused = torch::randn({p.batch, length, heads * dim + 5});
    return fused.narrow(2, 3, heads * dim).view({p.batch, length, heads, dim}).requires_grad_();
  };
  zoo::Inputs inputs;
  const zoo::Projections projections = system.projections();
  if (projections != zoo::Projections::kValue) inputs.q = rows(p.n, g.heads, g.dim);
  if (projections == zoo::Projections::kQueryKeyValue) inputs.k = rows(p.keys(), g.kv_heads, g.dim);
  inputs.v = rows(p.keys(), g.kv_heads, g.value_dim);
  inputs.x = torch::randn({p.batch, p.n, g.width}).requires_grad_();
  inputs.layout.query_lengths = p.lengths;
  inputs.layout.key_lengths = p.key_lengths;
  return inputs;
}

double GrowthOf(int64_t path, double scores) {
  return (2 * std::sqrt(static_cast<double>(path)) + 4) * (1 + scores);
}

void ExpectClose(const std::string& name, const Tensor& actual, const Tensor& exact, double growth,
                 double cancelled) {
  ASSERT_EQ(actual.sizes(), exact.sizes()) << name;
  if (exact.numel() == 0) return;
  EXPECT_TRUE(actual.isfinite().all().item<bool>()) << name << " is not finite";
  const Tensor difference = (actual.to(torch::kFloat64) - exact).abs();
  const double largest = exact.abs().max().item<double>();
  const double tolerance = growth * (kUnit * largest + FLT_MIN) + kUnit * cancelled;
  EXPECT_LE(difference.max().item<double>(), tolerance)
      << name << " at " << difference.argmax().item<int64_t>() << " of " << exact.sizes()
      << "; the largest is " << largest;
}

void ExpectAgrees(const Problem& problem, zoo::System& system, const Definition& definition) {
  SCOPED_TRACE(Describe(problem));
  const zoo::Inputs inputs = RandomInputs(problem, system);
  const Tensor o = system.Forward(inputs);
  const zoo::Geometry& g = problem.geometry;
  ASSERT_EQ(o.sizes(), (std::vector<int64_t>{problem.batch, problem.n, g.heads, g.value_dim}));

  Exact exact{
      Doubled(inputs.q), Doubled(inputs.k), Doubled(inputs.v), Doubled(inputs.x), {}, {}, {}};
  exact.query_lengths = problem.QueryLengths();
  exact.key_lengths = problem.KeyLengths();
  std::vector<std::string> names;
  std::vector<Tensor> given, twins;
  const auto add = [&](const std::string& name, const Tensor& tensor, const Tensor& twin) {
    if (!tensor.defined()) return;
    names.push_back(name);
    given.push_back(tensor);
    twins.push_back(twin);
  };
  add("q", inputs.q, exact.q);
  add("k", inputs.k, exact.k);
  add("v", inputs.v, exact.v);
  add("x", inputs.x, exact.x);
  for (const auto& item : system.named_parameters()) {
    exact.parameters[item.key()] = Doubled(item.value());
    add(item.key(), item.value(), exact.parameters[item.key()]);
  }
  const Tensor expected = definition(exact);

  EXPECT_TRUE(o.isfinite().all().item<bool>()) << "o is not finite";
  const double growth = GrowthOf(problem.keys() + g.dim + g.width, LargestScore(inputs));
  for (int64_t b = 0; b < problem.batch; ++b) {
    const int64_t length = exact.query_lengths[b];
    ExpectClose("o", o[b].narrow(0, 0, length), expected[b].narrow(0, 0, length), growth);
  }
  const Tensor weights = LossWeights(problem, o.sizes());
  const auto gradients = [&](const Tensor& out, const std::vector<Tensor>& of) {
    // What is not used has the gradient zero.
    auto list = torch::autograd::grad({(out * weights.to(out.scalar_type())).sum()}, of, {},
                                      /*retain_graph=*/false, /*create_graph=*/false,
                                      /*allow_unused=*/true);
    for (size_t i = 0; i < of.size(); ++i) {
      if (!list[i].defined()) list[i] = torch::zeros_like(of[i]);
    }
    return list;
  };
  const double cancelled = SlopeTerms(inputs, weights);
  const auto actual = gradients(o, given);
  const auto wanted = gradients(expected, twins);
  for (size_t i = 0; i < names.size(); ++i) {
    ExpectClose("the gradient of " + names[i], actual[i], wanted[i], growth, cancelled);
  }
}

void ExpectAgrees(const Problem& problem, const Definition& definition) {
  const auto system = MakeSystem(problem);
  ExpectAgrees(problem, *system, definition);
}

void ExpectCausal(const Problem& problem, zoo::System& system) {
  SCOPED_TRACE(Describe(problem));
  torch::NoGradGuard no_grad;
  const zoo::Inputs inputs = RandomInputs(problem, system);
  const Tensor o = system.Forward(inputs);
  const double growth =
      GrowthOf(problem.n + problem.geometry.dim + problem.geometry.width, LargestScore(inputs));
  std::mt19937_64 random(problem.seed);
  for (int trial = 0; trial < 6; ++trial) {
    const int64_t kept = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(problem.n));
    zoo::Inputs changed = inputs;
    for (Tensor* t : {&changed.q, &changed.k, &changed.v, &changed.x}) {
      if (!t->defined()) continue;
      *t = t->clone();
      t->narrow(1, kept, problem.n - kept).normal_(0, 3);
    }
    const Tensor other = system.Forward(changed);
    EXPECT_TRUE(torch::equal(other.narrow(1, 0, kept), o.narrow(1, 0, kept)))
        << "tokens from " << kept << " on changed what comes before";
    if (problem.lengths.empty()) {
      ExpectClose("the prefix alone", system.Forward(Rows(inputs, 0, kept)),
                  o.narrow(1, 0, kept).to(torch::kFloat64), growth);
    }
  }
}

void ExpectStreams(const Problem& problem, zoo::System& system) {
  SCOPED_TRACE(Describe(problem));
  torch::NoGradGuard no_grad;
  const zoo::Inputs inputs = RandomInputs(problem, system);
  const Tensor o = system.Forward(inputs);
  const double growth = GrowthOf(problem.n + problem.geometry.dim, LargestScore(inputs));
  std::mt19937_64 random(problem.seed);
  for (const int64_t longest : {int64_t{1}, int64_t{3}, problem.n}) {
    const auto stream = system.NewStream(problem.batch);
    std::vector<Tensor> parts;
    while (stream->position() < problem.n) {
      const int64_t at = stream->position();
      const int64_t size = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(longest));
      const int64_t count = std::min(problem.n - at, size);
      zoo::Inputs step = Rows(inputs, at, count);
      step.position = at;
      parts.push_back(stream->Step(step));
      ASSERT_EQ(stream->position(), at + count);
    }
    ExpectClose("the stream", torch::cat(parts, 1), o.to(torch::kFloat64), growth);
  }
}

std::vector<Problem> Shapes(const std::string& system, const std::string& options,
                            const std::vector<Direction>& directions, int64_t max_length) {
  std::vector<Problem> problems;
  uint64_t seed = 1;
  for (const Direction direction : directions) {
    for (const int64_t n : {int64_t{1}, int64_t{2}, max_length / 3, max_length - 2, max_length}) {
      for (const bool padded : {false, true}) {
        Problem p{.system = system, .options = options};
        const bool shared = seed % 2 == 0;
        p.geometry = {direction, 12, shared ? 4 : 2, 2, 8, seed % 3 == 0 ? 5 : 8, max_length};
        p.n = std::max<int64_t>(1, n);
        p.batch = padded ? 4 : 2;
        if (padded)
          p.lengths = {p.n, 0, std::max<int64_t>(1, p.n / 2), std::max<int64_t>(1, p.n - 3)};
        p.seed = seed++;
        problems.push_back(p);
      }
    }
  }
  return problems;
}

void ExpectRefused(const std::function<void()>& run, const std::vector<std::string>& mentions) {
  try {
    run();
    ADD_FAILURE() << "nothing was thrown; expected an error that mentions " << mentions.front();
  } catch (const Error& error) {
    for (const std::string& mention : mentions) {
      EXPECT_NE(std::string(error.what()).find(mention), std::string::npos)
          << "\"" << error.what() << "\" does not mention \"" << mention << "\"";
    }
  }
}

}  // namespace cosformer::testing
