#include "runtime/attend.h"

#include <cassert>
#include <cmath>

namespace cosformer::runtime {
namespace {

// The parts of a row.
struct Views {
  Views(const LayerAttention& attention, const Rows& rows) {
    const int64_t stride = (attention.heads + 2 * attention.kv_heads) * attention.dim;
    const auto view = [&](float* data, int64_t heads) {
      View one = View::Of(data, 1, rows.length, heads, attention.dim);
      one.length_stride = stride;
      return one;
    };
    q = view(rows.qkv, attention.heads);
    k = view(rows.qkv + attention.heads * attention.dim, attention.kv_heads);
    v = view(rows.qkv + (attention.heads + attention.kv_heads) * attention.dim, attention.kv_heads);
    assert(rows.o_stride >= attention.heads * attention.dim);
    o = View::Of(rows.o, 1, rows.length, attention.heads, attention.dim);
    o.length_stride = rows.o_stride;
    if (attention.options.gate) {
      keep = {rows.keep, static_cast<size_t>(rows.length * attention.kv_heads)};
    }
  }

  View q, k, v, o;
  std::span<const float> keep;
};

float* Data(const View& view) { return static_cast<float*>(view.data); }

RotaryStrides StridesOf(const View& view) {
  return {view.batch_stride, view.length_stride, view.head_stride};
}

void TurnViews(const RotaryTable& table, const View& from, const View& to, int threads) {
  RotaryTurn(table, Data(from), StridesOf(from), 1, from.length, from.heads, false, Data(to),
             StridesOf(to), 0, threads);
}

float Feature(float x, const LinearKernel& kernel) {
  switch (kernel.feature_map) {
    case FeatureMap::kRelu:
      return x > 0 ? x : 0;
    case FeatureMap::kLeakyRelu:
      return x > 0 ? x : kernel.leaky_slope * x;
    case FeatureMap::kEluPlusOne:
      return x > 0 ? x + 1 : std::exp(x);
    case FeatureMap::kIdentity:
    case FeatureMap::kGiven:
      break;
  }
  return x;
}

// A dense copy through the feature map.
struct Features {
  Features(const View& from, const LinearKernel& kernel)
      : numbers(static_cast<size_t>(from.length * from.heads * from.dim)),
        view(View::Of(numbers.data(), 1, from.length, from.heads, from.dim)) {
    float* to = numbers.data();
    for (int64_t t = 0; t < from.length; ++t) {
      for (int64_t h = 0; h < from.heads; ++h) {
        const float* row = Data(from) + t * from.length_stride + h * from.head_stride;
        for (int64_t c = 0; c < from.dim; ++c) *to++ = Feature(row[c], kernel);
      }
    }
  }

  AlignedFloats numbers;
  View view;
};

// Rotary positions turn the features in the numerator alone: the normaliser remains a sum of
// weights that are not negative. sum(q, k, v, o, normaliser) attends without one.
template <class Sum>
void AttendTurned(const LayerAttention& attention, const Views& views, const Rows& rows,
                  int threads, const Sum& sum) {
  assert(rows.rotary != nullptr);
  const LinearKernel& kernel = attention.options.kernel;
  Features q(views.q, kernel), k(views.k, kernel);
  if (!attention.options.norm) {
    AlignedFloats ones(static_cast<size_t>(rows.length * attention.kv_heads), 1.0f);
    AlignedFloats sums(static_cast<size_t>(rows.length * attention.heads));
    sum(q.view, k.view, View::Of(ones.data(), 1, rows.length, attention.kv_heads, 1),
        View::Of(sums.data(), 1, rows.length, attention.heads, 1), true);
    TurnViews(*rows.rotary, q.view, q.view, threads);
    TurnViews(*rows.rotary, k.view, k.view, threads);
    sum(q.view, k.view, views.v, views.o, false);
    const float* total = sums.data();
    for (int64_t t = 0; t < rows.length; ++t) {
      float* o = rows.o + t * rows.o_stride;
      for (int64_t h = 0; h < attention.heads; ++h) {
        float z = *total++;
        if (std::abs(z) < kernel.epsilon) z = z < 0 ? -kernel.epsilon : kernel.epsilon;
        for (int64_t c = 0; c < attention.dim; ++c) *o++ /= z;
      }
    }
    return;
  }
  TurnViews(*rows.rotary, q.view, q.view, threads);
  TurnViews(*rows.rotary, k.view, k.view, threads);
  sum(q.view, k.view, views.v, views.o, false);
}

// The outputs of each head to unit root mean square, times the gain.
void NormaliseHeads(const LayerAttention& attention, const Rows& rows) {
  for (int64_t t = 0; t < rows.length; ++t) {
    float* o = rows.o + t * rows.o_stride;
    const float* gain = rows.gain;
    for (int64_t h = 0; h < attention.heads; ++h, o += attention.dim, gain += attention.dim) {
      float squares = 0;
      for (int64_t c = 0; c < attention.dim; ++c) squares += o[c] * o[c];
      const float scale =
          1 / std::sqrt(squares / static_cast<float>(attention.dim) + kHeadNormEpsilon);
      for (int64_t c = 0; c < attention.dim; ++c) o[c] *= scale * gain[c];
    }
  }
}

}  // namespace

void AttendAfter(const LayerAttention& attention, LayerState& state, const Rows& rows,
                 int threads) {
  const Views views(attention, rows);
  if (auto* cache = std::get_if<SoftmaxCache>(&state)) {
    if (attention.rotary_base > 0) {
      TurnViews(*rows.rotary, views.q, views.q, threads);
      TurnViews(*rows.rotary, views.k, views.k, threads);
    }
    SoftmaxOptions options;
    options.threads = threads;
    cache->Step(views.q, views.k, views.v, views.o, options);
    return;
  }
  if (auto* turned = std::get_if<TurnedState>(&state)) {
    AttendTurned(
        attention, views, rows, threads,
        [&](const View& q, const View& k, const View& v, const View& o, bool normaliser) {
          (normaliser ? *turned->normaliser : turned->sums).Step(q, k, v, o, threads, views.keep);
        });
  } else {
    std::get<LinearState>(state).Step(views.q, views.k, views.v, views.o, threads, views.keep);
  }
  if (attention.options.norm) NormaliseHeads(attention, rows);
}

void AttendWhole(const LayerAttention& attention, bool causal, const Rows& rows, int threads) {
  const Views views(attention, rows);
  if (attention.softmax) {
    if (attention.rotary_base > 0) {
      TurnViews(*rows.rotary, views.q, views.q, threads);
      TurnViews(*rows.rotary, views.k, views.k, threads);
    }
    SoftmaxOptions options;
    options.causal = causal;
    options.threads = threads;
    SoftmaxAttentionForward(views.q, views.k, views.v, views.o, {}, options);
    return;
  }
  LinearOptions options;
  options.kernel = attention.options.kernel;
  options.causal = causal;
  options.threads = threads;
  options.keep = views.keep;
  if (attention.turned()) {
    options.kernel.feature_map = FeatureMap::kIdentity;
    options.kernel.normaliser = Normaliser::kNone;
    AttendTurned(attention, views, rows, threads,
                 [&](const View& q, const View& k, const View& v, const View& o, bool) {
                   LinearAttentionForward(q, k, v, o, {}, options);
                 });
  } else {
    if (attention.options.norm) options.kernel.normaliser = Normaliser::kNone;
    LinearAttentionForward(views.q, views.k, views.v, views.o, {}, options);
  }
  if (attention.options.norm) NormaliseHeads(attention, rows);
}

}  // namespace cosformer::runtime
