#include "pattern_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cosformer::testing {
namespace {

double Dot(const std::vector<double>& a, const std::vector<double>& b, bool magnitude) {
  double sum = 0;
  for (size_t e = 0; e < a.size(); ++e) sum += magnitude ? std::abs(a[e] * b[e]) : a[e] * b[e];
  return sum;
}

}  // namespace

Pairs PairsOf(const AttentionPattern& pattern, int64_t queries) {
  Pairs pairs(queries);
  for (const AttentionPattern::Tile& tile : pattern.tiles) {
    for (int64_t a = tile.query_begin; a < tile.query_begin + tile.query_count; ++a) {
      for (int64_t b = tile.key_begin; b < tile.key_begin + tile.key_count; ++b) {
        const int64_t i = pattern.query_rows[a], j = pattern.key_rows[b];
        const int64_t distance = std::abs(i - j);
        if (distance < tile.min_distance || distance > tile.max_distance) continue;
        if (pattern.causal && j > i) continue;
        if (!pattern.query_labels.empty() && pattern.query_labels[a] != pattern.key_labels[b]) {
          continue;
        }
        pairs[i].push_back(j);
      }
    }
  }
  return pairs;
}

Exact ExactOf(const PatternCase& c, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& d_o) {
  const auto row_of = [](const Tensor& x, int64_t b, int64_t i, int64_t h) {
    std::vector<double> row(x.view().dim);
    for (size_t e = 0; e < row.size(); ++e) row[e] = x.At(b, i, h, static_cast<int64_t>(e));
    return row;
  };
  const auto index = [](const Tensor& x, int64_t b, int64_t i, int64_t h) {
    return ((b * x.view().length + i) * x.view().heads + h) * x.view().dim;
  };
  const auto size = [](const Tensor& x) {
    return x.view().batch * x.view().length * x.view().heads * x.view().dim;
  };
  Exact exact;
  auto& [o, normaliser, magnitude, normaliser_magnitude] = exact.forward;
  auto& g = exact.backward;
  o.resize(size(d_o));
  magnitude.resize(size(d_o));
  normaliser.resize(c.batch * c.queries * c.heads, -std::numeric_limits<double>::infinity());
  normaliser_magnitude.resize(normaliser.size());
  for (auto* x : {&g.dq, &g.mq}) x->resize(size(q));
  for (auto* x : {&g.dk, &g.mk}) x->resize(size(k));
  for (auto* x : {&g.dv, &g.mv}) x->resize(size(v));
  std::vector<int64_t> shares(c.batch * c.keys * c.kv_heads);
  const double scale = c.scale != 0 ? c.scale : 1 / std::sqrt(static_cast<double>(c.dim));
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t kh = h / (c.heads / c.kv_heads);
      const double penalty = c.At(b, h).self_penalty;
      const Pairs pairs = PairsOf(c.At(b, h), c.queries);
      for (int64_t i = 0; i < c.queries; ++i) {
        const auto& seen = pairs[i];
        if (seen.empty()) continue;
        const auto query = row_of(q, b, i, h), d = row_of(d_o, b, i, h);
        std::vector<double> score, z;  // z: 1 + the magnitude of the score
        for (const int64_t j : seen) {
          const auto key = row_of(k, b, j, kh);
          score.push_back(scale * Dot(query, key, false) + (i == j ? penalty : 0));
          z.push_back(1 + std::abs(scale) * Dot(query, key, true) +
                      (i == j ? std::abs(penalty) : 0));
        }
        const double largest = *std::max_element(score.begin(), score.end());
        double sum = 0, spread = 0;
        for (const double s : score) sum += std::exp(s - largest);
        std::vector<double> p;
        for (size_t n = 0; n < seen.size(); ++n) {
          p.push_back(std::exp(score[n] - largest) / sum);
          spread += p[n] * z[n];
        }
        const double lse = largest + std::log(sum);
        normaliser[(b * c.queries + i) * c.heads + h] = lse;
        normaliser_magnitude[(b * c.queries + i) * c.heads + h] = spread + std::abs(lse);
        std::vector<double> out(c.value_dim), out_magnitude(c.value_dim);
        for (size_t n = 0; n < seen.size(); ++n) {
          const auto value = row_of(v, b, seen[n], kh);
          for (int64_t e = 0; e < c.value_dim; ++e) {
            out[e] += p[n] * value[e];
            out_magnitude[e] += p[n] * z[n] * std::abs(value[e]);
          }
        }
        for (int64_t e = 0; e < c.value_dim; ++e) {
          out_magnitude[e] += std::abs(out[e]) * spread;
          o[index(d_o, b, i, h) + e] = out[e];
          magnitude[index(d_o, b, i, h) + e] = out_magnitude[e];
        }
        const double do_o = Dot(d, out, false), do_o_magnitude = Dot(d, out, true);
        const double do_o_error = Dot(d, out_magnitude, true);
        for (size_t n = 0; n < seen.size(); ++n) {
          const int64_t j = seen[n];
          const auto key = row_of(k, b, j, kh), value = row_of(v, b, j, kh);
          const double p_magnitude = p[n] * (z[n] + spread + std::abs(lse));
          for (int64_t e = 0; e < c.value_dim; ++e) {
            g.dv[index(v, b, j, kh) + e] += p[n] * d[e];
            g.mv[index(v, b, j, kh) + e] += p_magnitude * std::abs(d[e]);
          }
          const double dz = p[n] * (Dot(d, value, false) - do_o) * scale;
          const double dz_magnitude =
              (p_magnitude * (Dot(d, value, true) + do_o_magnitude) + p[n] * do_o_error) *
              std::abs(scale);
          for (int64_t e = 0; e < c.dim; ++e) {
            g.dq[index(q, b, i, h) + e] += dz * key[e];
            g.mq[index(q, b, i, h) + e] += dz_magnitude * std::abs(key[e]);
            g.dk[index(k, b, j, kh) + e] += dz * query[e];
            g.mk[index(k, b, j, kh) + e] += dz_magnitude * std::abs(query[e]);
          }
          int64_t& share = shares[(b * c.keys + j) * c.kv_heads + kh];
          exact.longest = std::max({exact.longest, ++share, static_cast<int64_t>(seen.size())});
        }
      }
    }
  }
  return exact;
}

}  // namespace cosformer::testing
