// Every function here is a double loop over queries and keys, meant to be read beside the
// definition in cosformer/attention.h.
#include "attention/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

namespace cosformer::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A sum that cancels to less than this part of its terms has lost half of float32's digits.
constexpr double kCancelled = 0x1p-12;

// The sequence that a query row belongs to, as rows of the tensors.
struct Place {
  bool padding = true;
  int64_t query_begin = 0, queries = 0;
  int64_t key_begin = 0, keys = 0;
};

Place PlaceOf(const ConstView& q, const ConstView& k, const Sequences& sequences, int64_t batch,
              int64_t row) {
  const auto or_else = [](std::span<const int64_t> given, std::span<const int64_t> otherwise) {
    return given.empty() ? otherwise : given;
  };
  if (!sequences.query_offsets.empty()) {
    const auto query = sequences.query_offsets;
    const auto key = or_else(sequences.key_offsets, query);
    for (size_t s = 0; s + 1 < query.size(); ++s) {
      if (query[s] <= row && row < query[s + 1]) {
        return {false, query[s], query[s + 1] - query[s], key[s], key[s + 1] - key[s]};
      }
    }
    return {};
  }
  const auto key_lengths = or_else(sequences.key_lengths, sequences.query_lengths);
  const int64_t queries =
      sequences.query_lengths.empty() ? q.length : sequences.query_lengths[batch];
  const int64_t keys = key_lengths.empty() ? k.length : key_lengths[batch];
  return {row >= queries, 0, queries, 0, keys};
}

// Where a query row stands in its sequence, and the rows of the keys it attends to.
struct Reach {
  int64_t position;
  int64_t key_begin, key_end;
  int64_t origin;  // the row of the key at position 0
};

Reach ReachOf(const Place& place, bool causal, int64_t row) {
  const int64_t i = row - place.query_begin;
  const int64_t position = causal ? i + place.keys - place.queries : i;
  const int64_t keys = causal ? position + 1 : place.keys;
  return {position, place.key_begin, place.key_begin + keys, place.key_begin};
}

int64_t KeyHead(const ConstView& q, const ConstView& k, int64_t head) {
  return head / (q.heads / k.heads);
}

double Feature(double x, const LinearKernel& kernel) {
  switch (kernel.feature_map) {
    case FeatureMap::kRelu:
      return x > 0 ? x : 0;
    case FeatureMap::kLeakyRelu:
      return x > 0 ? x : kernel.leaky_slope * x;
    case FeatureMap::kEluPlusOne:
      return x > 0 ? 1 + x : std::exp(x);
    case FeatureMap::kIdentity:
    case FeatureMap::kGiven:
      return x;
  }
  return x;
}

double FeatureSlope(double x, const LinearKernel& kernel) {
  switch (kernel.feature_map) {
    case FeatureMap::kRelu:
      return x > 0 ? 1 : 0;
    case FeatureMap::kLeakyRelu:
      return x > 0 ? 1 : kernel.leaky_slope;
    case FeatureMap::kEluPlusOne:
      return x > 0 ? 1 : std::exp(x);
    case FeatureMap::kIdentity:
    case FeatureMap::kGiven:
      return 1;
  }
  return 1;
}

double Cosine(const LinearKernel& kernel, int64_t distance) {
  if (kernel.reweighting == Reweighting::kNone) return 1;
  return std::cos(std::numbers::pi / 2 * static_cast<double>(distance) /
                  static_cast<double>(kernel.horizon));
}

double MovedFromZero(double sum, double epsilon) {
  if (std::abs(sum) >= epsilon) return sum;
  return sum < 0 ? -epsilon : epsilon;
}

double ScaleOf(const SoftmaxOptions& options, int64_t dim) {
  return options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(dim));
}

// A sum of products, and what it would be if no two of them cancelled.
struct Product {
  double value = 0, magnitude = 0;
};

Product Dot(const double* a, const double* b, int64_t dim) {
  Product product;
  for (int64_t f = 0; f < dim; ++f) {
    product.value += a[f] * b[f];
    product.magnitude += std::abs(a[f] * b[f]);
  }
  return product;
}

// A tensor in double, dense, each element through `map`: what all rows share is computed once.
class Wide {
 public:
  template <class Map>
  Wide(const ConstView& view, Map map) : view_(view) {
    values_.reserve(view.batch * view.length * view.heads * view.dim);
    for (int64_t b = 0; b < view.batch; ++b)
      for (int64_t i = 0; i < view.length; ++i)
        for (int64_t h = 0; h < view.heads; ++h)
          for (int64_t e = 0; e < view.dim; ++e) values_.push_back(map(At(view, b, i, h, e)));
  }
  explicit Wide(const ConstView& view) : Wide(view, [](double x) { return x; }) {}

  const double* Row(int64_t batch, int64_t row, int64_t head) const {
    return values_.data() + Index(batch, row, head);
  }
  size_t Index(int64_t batch, int64_t row, int64_t head) const {
    return ((batch * view_.length + row) * view_.heads + head) * view_.dim;
  }

 private:
  ConstView view_;
  std::vector<double> values_;
};

// The same for a row alone, in a buffer that the next one takes over.
template <class Map>
auto RowsOf(const ConstView& view, int64_t batch, int64_t head, Map map) {
  return [=, buffer = std::vector<double>(view.dim)](int64_t row) mutable {
    for (int64_t e = 0; e < view.dim; ++e) buffer[e] = map(At(view, batch, row, head, e));
    return buffer.data();
  };
}

constexpr auto kAsItIs = [](double x) { return x; };

Row ZeroRow(int64_t value_dim) {
  return {std::vector<double>(value_dim), 0, std::vector<double>(value_dim), 0};
}

// What every key of a head keeps of those before it; `k` is what it was given for.
class Kept {
 public:
  Kept(std::span<const float> keep, const ConstView& k, int64_t batch, int64_t head)
      : keep_(keep), heads_(k.heads), first_(batch * k.length * k.heads + head) {}
  double operator()(int64_t row) const { return keep_.empty() ? 1 : keep_[first_ + row * heads_]; }

 private:
  std::span<const float> keep_;
  int64_t heads_;
  int64_t first_;
};

// What each key in reach is re-weighted by: cosine(distance), times what is kept of it.
template <class CosineOf>
std::vector<double> ReweightingOf(const CosineOf& cosine, const Kept& kept, const Reach& reach) {
  std::vector<double> weights(reach.key_end - reach.key_begin);
  double left = 1;
  for (int64_t j = reach.key_end; j-- > reach.key_begin;) {
    weights[j - reach.key_begin] = left * cosine(reach.position - (j - reach.origin));
    left *= kept(j);
  }
  return weights;
}

// The definition. phi_q [dim]; phi_k(j) [dim] and v(j) [value_dim] give rows, `reweighting` has a
// number a key. Adds to `weights`, where it is asked for, s(i, j) of each key.
template <class KeyRows, class ValueRows>
Row LinearRowOf(const double* phi_q, KeyRows&& phi_k, ValueRows&& v,
                const std::vector<double>& reweighting, const Reach& reach, int64_t dim,
                int64_t value_dim, const LinearKernel& kernel,
                std::vector<Product>* weights = nullptr) {
  Row row = ZeroRow(value_dim);
  for (int64_t j = reach.key_begin; j < reach.key_end; ++j) {
    Product s = Dot(phi_q, phi_k(j), dim);
    s.value *= reweighting[j - reach.key_begin];
    s.magnitude *= reweighting[j - reach.key_begin];
    row.normaliser += s.value;
    row.normaliser_magnitude += s.magnitude;
    const double* value = v(j);
    for (int64_t e = 0; e < value_dim; ++e) {
      row.output[e] += s.value * value[e];
      row.magnitude[e] += s.magnitude * std::abs(value[e]);
    }
    if (weights != nullptr) weights->push_back(s);
  }
  if (kernel.normaliser == Normaliser::kNone) return row;
  const double divisor = MovedFromZero(row.normaliser, kernel.epsilon);
  const bool cancelled = std::abs(row.normaliser) < kCancelled * row.normaliser_magnitude;
  for (int64_t e = 0; e < value_dim; ++e) {
    row.output[e] /= divisor;
    row.magnitude[e] += std::abs(row.output[e]) * row.normaliser_magnitude;
    row.magnitude[e] = cancelled ? kInfinity : row.magnitude[e] / std::abs(divisor);
  }
  return row;
}

Row LinearRowOver(const ConstView& q, const ConstView& k, const ConstView& v,
                  const LinearKernel& kernel, std::span<const float> keep, int64_t batch,
                  int64_t row, int64_t head, const Reach& reach) {
  const auto feature = [&kernel](double x) { return Feature(x, kernel); };
  const int64_t key_head = KeyHead(q, k, head);
  auto phi_q = RowsOf(q, batch, head, feature);
  const auto cosine = [&](int64_t distance) { return Cosine(kernel, distance); };
  return LinearRowOf(
      phi_q(row), RowsOf(k, batch, key_head, feature), RowsOf(v, batch, key_head, kAsItIs),
      ReweightingOf(cosine, Kept(keep, k, batch, key_head), reach), reach, q.dim, v.dim, kernel);
}

// As LinearRowOf; q, k(j) and v(j) are rows, `scores` receives scale * q . k_j.
template <class KeyRows, class ValueRows>
Row SoftmaxRowOf(const double* q, KeyRows&& k, ValueRows&& v, double scale, const Reach& reach,
                 int64_t dim, int64_t value_dim, std::vector<Product>* scores) {
  Row row = ZeroRow(value_dim);
  double largest = -kInfinity;
  for (int64_t j = reach.key_begin; j < reach.key_end; ++j) {
    const Product product = Dot(q, k(j), dim);
    scores->push_back({scale * product.value, std::abs(scale) * product.magnitude});
    largest = std::max(largest, scores->back().value);
  }
  double sum = 0;
  for (const Product& z : *scores) sum += std::exp(z.value - largest);
  row.normaliser = scores->empty() ? -kInfinity : largest + std::log(sum);
  for (int64_t j = reach.key_begin; j < reach.key_end; ++j) {
    const Product& z = (*scores)[j - reach.key_begin];
    const double p = std::exp(z.value - largest) / sum;
    row.normaliser_magnitude += p * (1 + z.magnitude);
    const double* value = v(j);
    for (int64_t e = 0; e < value_dim; ++e) {
      row.output[e] += p * value[e];
      row.magnitude[e] += p * (1 + z.magnitude) * std::abs(value[e]);
    }
  }
  for (int64_t e = 0; e < value_dim; ++e) {
    row.magnitude[e] += std::abs(row.output[e]) * row.normaliser_magnitude;
  }
  if (!scores->empty()) row.normaliser_magnitude += std::abs(row.normaliser);
  return row;
}

// row_of(batch, row, head, reach) for all rows; those of padding are zero.
template <class Options, class RowOf>
Output AllRows(const ConstView& q, const ConstView& k, const ConstView& v, const Options& options,
               RowOf row_of) {
  Output all;
  for (int64_t b = 0; b < q.batch; ++b) {
    for (int64_t i = 0; i < q.length; ++i) {
      const Place place = PlaceOf(q, k, options.sequences, b, i);
      for (int64_t h = 0; h < q.heads; ++h) {
        const Row row =
            place.padding ? ZeroRow(v.dim) : row_of(b, i, h, ReachOf(place, options.causal, i));
        all.o.insert(all.o.end(), row.output.begin(), row.output.end());
        all.magnitude.insert(all.magnitude.end(), row.magnitude.begin(), row.magnitude.end());
        all.normaliser.push_back(row.normaliser);
        all.normaliser_magnitude.push_back(row.normaliser_magnitude);
      }
    }
  }
  return all;
}

// Cosine by distance, computed once for each.
class Cosines {
 public:
  Cosines(const LinearKernel& kernel, int64_t longest) {
    for (int64_t distance = 0; distance <= longest; ++distance) {
      table_.push_back(Cosine(kernel, distance));
    }
  }
  double operator()(int64_t distance) const { return table_[std::abs(distance)]; }

 private:
  std::vector<double> table_;
};

Gradients ZeroGradients(const ConstView& q, const ConstView& k, const ConstView& v) {
  Gradients g;
  for (auto* of_q : {&g.dq, &g.mq}) of_q->assign(q.batch * q.length * q.heads * q.dim, 0);
  for (auto* of_k : {&g.dk, &g.mk}) of_k->assign(k.batch * k.length * k.heads * k.dim, 0);
  for (auto* of_v : {&g.dv, &g.mv}) of_v->assign(v.batch * v.length * v.heads * v.dim, 0);
  return g;
}

// Calls add(batch, row, head, reach, d_o) for every query that has a gradient: one that is zero
// moves nothing, which lets a test look at a few rows of many.
template <class Options, class Add>
void ForGradients(const ConstView& q, const ConstView& k, const ConstView& d_o,
                  const Options& options, Add add) {
  const Wide wide(d_o);
  for (int64_t b = 0; b < q.batch; ++b) {
    for (int64_t i = 0; i < q.length; ++i) {
      const Place place = PlaceOf(q, k, options.sequences, b, i);
      if (place.padding) continue;
      for (int64_t h = 0; h < q.heads; ++h) {
        const double* d = wide.Row(b, i, h);
        if (std::all_of(d, d + d_o.dim, [](double x) { return x == 0; })) continue;
        add(b, i, h, ReachOf(place, options.causal, i), d);
      }
    }
  }
}

}  // namespace

double At(const ConstView& view, int64_t batch, int64_t row, int64_t head, int64_t element) {
  const int64_t index =
      batch * view.batch_stride + row * view.length_stride + head * view.head_stride + element;
  if (view.dtype == DType::kFloat32) return static_cast<const float*>(view.data)[index];
  const uint32_t upper = static_cast<const BFloat16*>(view.data)[index].bits;
  return std::bit_cast<float>(upper << 16);
}

Row LinearRow(const ConstView& q, const ConstView& k, const ConstView& v,
              const LinearOptions& options, int64_t batch, int64_t row, int64_t head) {
  const Place place = PlaceOf(q, k, options.sequences, batch, row);
  if (place.padding) return ZeroRow(v.dim);
  return LinearRowOver(q, k, v, options.kernel, options.keep, batch, row, head,
                       ReachOf(place, options.causal, row));
}

Row EndlessRow(const ConstView& q, const ConstView& k, const ConstView& v,
               const LinearKernel& kernel, int64_t batch, int64_t row, int64_t head,
               std::span<const float> keep) {
  const int64_t half = kernel.horizon / 2;
  const int64_t oldest = std::max<int64_t>(0, (row / half - 1) * half);
  return LinearRowOver(q, k, v, kernel, keep, batch, row, head, {row, oldest, row + 1, 0});
}

Row SoftmaxRow(const ConstView& q, const ConstView& k, const ConstView& v,
               const SoftmaxOptions& options, int64_t batch, int64_t row, int64_t head) {
  const Place place = PlaceOf(q, k, options.sequences, batch, row);
  if (place.padding) return ZeroRow(v.dim);
  const int64_t key_head = KeyHead(q, k, head);
  auto query = RowsOf(q, batch, head, kAsItIs);
  std::vector<Product> scores;
  return SoftmaxRowOf(query(row), RowsOf(k, batch, key_head, kAsItIs),
                      RowsOf(v, batch, key_head, kAsItIs), ScaleOf(options, q.dim),
                      ReachOf(place, options.causal, row), q.dim, v.dim, &scores);
}

Output LinearForward(const ConstView& q, const ConstView& k, const ConstView& v,
                     const LinearOptions& options) {
  const auto feature = [&](double x) { return Feature(x, options.kernel); };
  const Wide phi_q(q, feature), phi_k(k, feature), values(v);
  const Cosines cosines(options.kernel, std::max(q.length, k.length));
  return AllRows(q, k, v, options, [&](int64_t b, int64_t i, int64_t h, const Reach& reach) {
    const int64_t kh = KeyHead(q, k, h);
    return LinearRowOf(
        phi_q.Row(b, i, h), [&](int64_t j) { return phi_k.Row(b, j, kh); },
        [&](int64_t j) { return values.Row(b, j, kh); },
        ReweightingOf(cosines, Kept(options.keep, k, b, kh), reach), reach, q.dim, v.dim,
        options.kernel);
  });
}

Output SoftmaxForward(const ConstView& q, const ConstView& k, const ConstView& v,
                      const SoftmaxOptions& options) {
  const Wide queries(q), keys(k), values(v);
  return AllRows(q, k, v, options, [&](int64_t b, int64_t i, int64_t h, const Reach& reach) {
    const int64_t kh = KeyHead(q, k, h);
    std::vector<Product> scores;
    return SoftmaxRowOf(
        queries.Row(b, i, h), [&](int64_t j) { return keys.Row(b, j, kh); },
        [&](int64_t j) { return values.Row(b, j, kh); }, ScaleOf(options, q.dim), reach, q.dim,
        v.dim, &scores);
  });
}

// o = n / D with n = sum_j s_j v_j and D = sum_j s_j, so ds_j = (d_o . v_j - d_o . o) / D, the
// second term only where D was not moved; s_j = phi(q) . phi(k_j) cos_j g_(j+1) ... g_i.
Gradients LinearBackward(const ConstView& q, const ConstView& k, const ConstView& v,
                         const ConstView& d_o, const LinearOptions& options) {
  const LinearKernel& kernel = options.kernel;
  const auto feature = [&](double x) { return Feature(x, kernel); };
  const auto slope = [&](double x) { return FeatureSlope(x, kernel); };
  const Wide phi_q(q, feature), phi_k(k, feature), slope_q(q, slope), slope_k(k, slope), values(v);
  const Cosines cosines(kernel, std::max(q.length, k.length));
  Gradients g = ZeroGradients(q, k, v);
  g.d_log_keep.assign(options.keep.size(), 0);
  g.m_log_keep.assign(options.keep.size(), 0);
  ForGradients(
      q, k, d_o, options,
      [&](int64_t b, int64_t i, int64_t h, const Reach& reach, const double* d) {
        const int64_t kh = KeyHead(q, k, h);
        const std::vector<double> reweighting =
            ReweightingOf(cosines, Kept(options.keep, k, b, kh), reach);
        std::vector<Product> weights;
        const Row row = LinearRowOf(
            phi_q.Row(b, i, h), [&](int64_t j) { return phi_k.Row(b, j, kh); },
            [&](int64_t j) { return values.Row(b, j, kh); }, reweighting, reach, q.dim, v.dim,
            kernel, &weights);
        const bool divided = kernel.normaliser == Normaliser::kSum;
        const double divisor = divided ? MovedFromZero(row.normaliser, kernel.epsilon) : 1;
        const bool moved = !divided || std::abs(row.normaliser) < kernel.epsilon;
        const double terms = row.normaliser_magnitude;
        const bool unsure =
            divided && (std::abs(row.normaliser) < kCancelled * terms ||
                        std::abs(std::abs(row.normaliser) - kernel.epsilon) < kCancelled * terms);
        // The normaliser's error, relative to it, is that of everything divided by it.
        const double amplified = unsure    ? kInfinity
                                 : divided ? (1 + terms / std::abs(divisor)) / std::abs(divisor)
                                           : 1;
        const double do_o = Dot(d, row.output.data(), v.dim).value;
        const double do_o_magnitude = divided ? Dot(d, row.magnitude.data(), v.dim).magnitude : 0;
        const size_t at_q = phi_q.Index(b, i, h);
        Product earlier;  // w dw of the keys before j, of whose weights g_j is a factor
        for (int64_t j = reach.key_begin; j < reach.key_end; ++j) {
          const Product& s = weights[j - reach.key_begin];
          const Product do_v = Dot(d, values.Row(b, j, kh), v.dim);
          const size_t at_v = values.Index(b, j, kh);
          if (!options.keep.empty()) {
            const size_t at = (b * k.length + j) * k.heads + kh;
            g.d_log_keep[at] += earlier.value;
            // Where these cancel, this sum has roundings of its own, of 2^-53.
            g.m_log_keep[at] += earlier.magnitude * 0x1p-26;
            earlier.value += s.value * (do_v.value - (moved ? 0 : do_o)) / divisor;
            // Lower precision takes it from all keys from t on, and from the queries too where the
            // weights are not divided by their sum.
            const double term =
                unsure ? kInfinity : s.magnitude * (do_v.magnitude + do_o_magnitude) * amplified;
            earlier.magnitude += term;
            for (int64_t t = reach.origin; t <= (moved ? reach.key_end - 1 : j); ++t) {
              g.m_log_keep[(b * k.length + t) * k.heads + kh] += term;
            }
          }
          for (int64_t e = 0; e < v.dim; ++e) {
            g.dv[at_v + e] += s.value * d[e] / divisor;
            g.mv[at_v + e] += unsure ? kInfinity : s.magnitude * std::abs(d[e]) * amplified;
          }
          const double factor = reweighting[j - reach.key_begin];
          const double ds = (do_v.value - (moved ? 0 : do_o)) / divisor * factor;
          const double ds_magnitude = (do_v.magnitude + do_o_magnitude) * amplified * factor;
          const size_t at_k = phi_k.Index(b, j, kh);
          for (int64_t f = 0; f < q.dim; ++f) {
            const double to_q = phi_k.Row(b, j, kh)[f] * slope_q.Row(b, i, h)[f];
            const double to_k = phi_q.Row(b, i, h)[f] * slope_k.Row(b, j, kh)[f];
            g.dq[at_q + f] += ds * to_q;
            g.dk[at_k + f] += ds * to_k;
            g.mq[at_q + f] += unsure ? kInfinity : ds_magnitude * std::abs(to_q);
            g.mk[at_k + f] += unsure ? kInfinity : ds_magnitude * std::abs(to_k);
          }
        }
      });
  return g;
}

// p_j = softmax_j(z), z_j = scale q . k_j, so dz_j = p_j (d_o . v_j - d_o . o).
Gradients SoftmaxBackward(const ConstView& q, const ConstView& k, const ConstView& v,
                          const ConstView& d_o, const SoftmaxOptions& options) {
  const double scale = ScaleOf(options, q.dim);
  const Wide queries(q), keys(k), values(v);
  Gradients g = ZeroGradients(q, k, v);
  ForGradients(
      q, k, d_o, options,
      [&](int64_t b, int64_t i, int64_t h, const Reach& reach, const double* d) {
        const int64_t kh = KeyHead(q, k, h);
        std::vector<Product> scores;
        const Row row = SoftmaxRowOf(
            queries.Row(b, i, h), [&](int64_t j) { return keys.Row(b, j, kh); },
            [&](int64_t j) { return values.Row(b, j, kh); }, scale, reach, q.dim, v.dim, &scores);
        const Product do_o = Dot(d, row.output.data(), v.dim);
        const double do_o_error = Dot(d, row.magnitude.data(), v.dim).magnitude;
        const size_t at_q = queries.Index(b, i, h);
        for (int64_t j = reach.key_begin; j < reach.key_end; ++j) {
          const Product& z = scores[j - reach.key_begin];
          const double p = std::exp(z.value - row.normaliser);
          const double p_magnitude = p * (1 + z.magnitude + row.normaliser_magnitude);
          const Product do_v = Dot(d, values.Row(b, j, kh), v.dim);
          const size_t at_v = values.Index(b, j, kh);
          for (int64_t e = 0; e < v.dim; ++e) {
            g.dv[at_v + e] += p * d[e];
            g.mv[at_v + e] += p_magnitude * std::abs(d[e]);
          }
          const double dz = p * (do_v.value - do_o.value) * scale;
          const double dz_magnitude =
              (p_magnitude * (do_v.magnitude + do_o.magnitude) + p * do_o_error) * std::abs(scale);
          const size_t at_k = keys.Index(b, j, kh);
          for (int64_t f = 0; f < q.dim; ++f) {
            g.dq[at_q + f] += dz * keys.Row(b, j, kh)[f];
            g.dk[at_k + f] += dz * queries.Row(b, i, h)[f];
            g.mq[at_q + f] += dz_magnitude * std::abs(keys.Row(b, j, kh)[f]);
            g.mk[at_k + f] += dz_magnitude * std::abs(queries.Row(b, i, h)[f]);
          }
        }
      });
  return g;
}

}  // namespace cosformer::reference
