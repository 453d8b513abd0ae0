#include "runtime/attention_map.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/rotary.h"

namespace cosformer::runtime {
namespace {

double Feature(double x, const LinearKernel& kernel) {
  switch (kernel.feature_map) {
    case FeatureMap::kRelu:
      return std::max(x, 0.0);
    case FeatureMap::kLeakyRelu:
      return x > 0 ? x : static_cast<double>(kernel.leaky_slope) * x;
    case FeatureMap::kEluPlusOne:
      return x > 0 ? x + 1 : std::exp(x);
    case FeatureMap::kIdentity:
    case FeatureMap::kGiven:
      break;
  }
  return x;
}

using Rows = std::vector<std::vector<double>>;

// A head's rows, through the feature map.
Rows RowsOf(const std::vector<float>& all, int64_t length, int64_t heads, int64_t head, int64_t dim,
            const LinearKernel* kernel) {
  Rows rows(static_cast<size_t>(length), std::vector<double>(static_cast<size_t>(dim)));
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t c = 0; c < dim; ++c) {
      const auto x = static_cast<double>(all[static_cast<size_t>((t * heads + head) * dim + c)]);
      rows[static_cast<size_t>(t)][static_cast<size_t>(c)] =
          kernel == nullptr ? x : Feature(x, *kernel);
    }
  }
  return rows;
}

void TurnRows(Rows& rows, double base) {
  for (size_t t = 0; t < rows.size(); ++t) {
    const size_t half = rows[t].size() / 2;
    for (size_t c = 0; c < half; ++c) {
      const double angle = static_cast<double>(t) *
                           std::pow(base, -static_cast<double>(c) / static_cast<double>(half));
      const double a = rows[t][c], b = rows[t][c + half];
      rows[t][c] = a * std::cos(angle) - b * std::sin(angle);
      rows[t][c + half] = a * std::sin(angle) + b * std::cos(angle);
    }
  }
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

// Adds the head's weights, times `share`, to the map.
void AddHead(const LayerAttention& attention, const Network::QueriesAndKeys& rows, int64_t head,
             bool causal, double share, std::vector<double>& map) {
  const LinearKernel* kernel = attention.softmax ? nullptr : &attention.options.kernel;
  const int64_t group = attention.heads / attention.kv_heads;
  Rows q = RowsOf(rows.q, rows.length, attention.heads, head, attention.dim, kernel);
  Rows k = RowsOf(rows.k, rows.length, attention.kv_heads, head / group, attention.dim, kernel);
  Rows plain_q, plain_k;  // what the normaliser is made of
  if (attention.rotary_base > 0) {
    plain_q = q;
    plain_k = k;
    TurnRows(q, attention.rotary_base);
    TurnRows(k, attention.rotary_base);
  }
  const auto length = static_cast<size_t>(rows.length);
  std::vector<double> weights(length);
  std::vector<double> kept(length, 1.0);  // of each key, at query i
  for (size_t i = 0; i < length; ++i) {
    const size_t end = causal ? i + 1 : length;
    for (size_t j = 0; !rows.keep.empty() && j < i; ++j) {
      kept[j] *= rows.keep[i * static_cast<size_t>(attention.kv_heads) +
                           static_cast<size_t>(head / group)];
    }
    double sum = 0, most = -std::numeric_limits<double>::infinity();
    for (size_t j = 0; j < end; ++j) {
      double score = Dot(q[i], k[j]);
      if (attention.softmax) {
        score /= std::sqrt(static_cast<double>(attention.dim));
        most = std::max(most, score);
      } else {
        const double cosine = kernel->reweighting == Reweighting::kCos
                                  ? std::cos(std::numbers::pi / 2 *
                                             (static_cast<double>(i) - static_cast<double>(j)) /
                                             static_cast<double>(kernel->horizon))
                                  : 1;
        score *= cosine * kept[j];
        sum += plain_q.empty() ? score : cosine * kept[j] * Dot(plain_q[i], plain_k[j]);
      }
      weights[j] = score;
    }
    if (attention.softmax) {
      for (size_t j = 0; j < end; ++j) sum += weights[j] = std::exp(weights[j] - most);
    } else if (std::abs(sum) < static_cast<double>(kernel->epsilon)) {
      sum = sum < 0 ? -static_cast<double>(kernel->epsilon) : static_cast<double>(kernel->epsilon);
    }
    for (size_t j = 0; j < end; ++j) map[i * length + j] += share * weights[j] / sum;
  }
}

void CheckIndex(const char* what, int64_t value, int64_t least, int64_t count) {
  if (value >= least && value < count) return;
  throw Error(fmt::format("{} {} is asked for; the model has {} {}s, 0 to {}", what, value, count,
                          what, count - 1));
}

}  // namespace

std::vector<float> AttentionMap(const Network& network, std::span<const int32_t> tokens,
                                int64_t layer, int64_t head) {
  CheckIndex("layer", layer, 0, static_cast<int64_t>(network.attention().size()));
  CheckIndex("head", head, -1, network.config().heads);
  const auto length = static_cast<int64_t>(tokens.size());
  if (length == 0 || length > kMostMapTokens) {
    throw Error(fmt::format("the text has {} tokens; an attention map is of 1 to {}", length,
                            kMostMapTokens));
  }
  const LayerAttention& attention = network.attention()[static_cast<size_t>(layer)];
  const Network::QueriesAndKeys rows = network.QueriesAndKeysOf(tokens, static_cast<size_t>(layer));
  const bool causal = network.config().kind == ModelKind::kDecoder;
  std::vector<double> sums(static_cast<size_t>(length * length), 0.0);
  if (head >= 0) {
    AddHead(attention, rows, head, causal, 1, sums);
  } else {
    for (int64_t h = 0; h < attention.heads; ++h) {
      AddHead(attention, rows, h, causal, 1.0 / static_cast<double>(attention.heads), sums);
    }
  }
  std::vector<float> map(sums.begin(), sums.end());
  for (int64_t i = 0; causal && i < length; ++i) {
    for (int64_t j = i + 1; j < length; ++j) {
      map[static_cast<size_t>(i * length + j)] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return map;
}

}  // namespace cosformer::runtime
