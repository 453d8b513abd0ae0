// The token step, and dot products of rows, compiled once an instruction set.

#include <algorithm>
#include <bit>

#include "attention/linear_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/token_kernels.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "attention/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// Some of a state's rows, by their numbers: the bits of `list`, since scratch is of floats.
struct RowList {
  float* list = nullptr;  // with room for all
  size_t count = 0;

  size_t operator[](size_t i) const { return std::bit_cast<uint32_t>(list[i]); }

  // Those of the first `rows` for which which(f) is true: without a branch, which would be a guess.
  template <class Which>
  HWY_INLINE void Take(size_t rows, const Which& which) {
    count = 0;
    for (size_t f = 0; f < rows; ++f) {
      list[count] = std::bit_cast<float>(static_cast<uint32_t>(f));
      count += static_cast<size_t>(which(f));
    }
  }
};

constexpr size_t kRowsAhead = 6;  // that are fetched: their order is no one's to guess

// One pass over kV vectors of the columns: each row keeps `keep` of itself and takes in key[f] *
// value where it absorbs, and adds query[f] * row to the result where it is read.
template <bool kAbsorb, bool kRead, size_t kV>
HWY_INLINE void StepColumns(const RowList& rows, float keep, const float* HWY_RESTRICT key,
                            const float* HWY_RESTRICT query, const float* HWY_RESTRICT value,
                            size_t row_step, float* HWY_RESTRICT state,
                            float* HWY_RESTRICT result) {
  const DF df;
  const VF kept = hn::Set(df, keep);
  VF sum[kV];
  for (size_t v = 0; v < kV; ++v) sum[v] = hn::Load(df, result + v * kLanes);
  for (size_t i = 0; i < rows.count; ++i) {
    const size_t f = rows[i];
    float* HWY_RESTRICT row = state + f * row_step;
    const float* later = state + rows[std::min(i + kRowsAhead, rows.count - 1)] * row_step;
    for (size_t v = 0; v < kV; v += kMaxLanes / kLanes) hwy::Prefetch(later + v * kLanes);
    const VF k = hn::Set(df, kAbsorb ? key[f] : 0.0f);
    const VF q = hn::Set(df, kRead ? query[f] : 0.0f);
    for (size_t v = 0; v < kV; ++v) {
      VF x = hn::Load(df, row + v * kLanes);
      if (kAbsorb) {
        x = hn::MulAdd(k, hn::Load(df, value + v * kLanes), hn::Mul(kept, x));
        hn::Store(x, df, row + v * kLanes);
      }
      if (kRead) sum[v] = hn::MulAdd(q, x, sum[v]);
    }
  }
  if (kRead) {
    for (size_t v = 0; v < kV; ++v) hn::Store(sum[v], df, result + v * kLanes);
  }
}

// The columns from c on, as many at a time as there are registers for.
template <bool kAbsorb, bool kRead, size_t kV>
HWY_INLINE void StepRows(const RowList& rows, float keep, const float* key, const float* query,
                         const float* value, size_t row_step, float* state, float* result,
                         size_t c = 0) {
  for (; c + kV * kLanes <= row_step; c += kV * kLanes) {
    StepColumns<kAbsorb, kRead, kV>(rows, keep, key, query, value + c, row_step, state + c,
                                    result + c);
  }
  if constexpr (kV > 1) {
    if (c < row_step) {
      StepRows<kAbsorb, kRead, kV / 2>(rows, keep, key, query, value, row_step, state, result, c);
    }
  }
}

// Those rows of all parts; key and query are [parts][layout.sums].
template <bool kAbsorb, bool kRead>
HWY_NOINLINE void StepState(const StateLayout& layout, const RowList& rows, float keep,
                            const float* key, const float* query, const float* value, float* state,
                            float* result) {
  if (rows.count == 0) return;
  for (int64_t p = 0; p < layout.parts; ++p) {
    StepRows<kAbsorb, kRead, 8>(rows, keep, key, query, value, static_cast<size_t>(layout.row),
                                state, result);
    key += layout.sums;
    query += layout.sums;
    state += layout.part_rows * layout.row;
  }
}

// A state that forgets nothing is spared the rows whose features are zero in the key, which do not
// change, and of those the ones whose features are zero in the query, which are not read: with ReLU
// half of what would be written and a quarter of what would be read.
void RunTokenStep(const TokenStep& step, float* scratch) {
  const DF df;
  const StateLayout& layout = step.layout;
  const size_t features = static_cast<size_t>(layout.features);
  const size_t width = static_cast<size_t>(layout.sums);
  const size_t all = static_cast<size_t>(layout.parts) * width;
  const size_t row = static_cast<size_t>(layout.row);
  float* key_features = scratch;                 // [width]
  float* query_features = key_features + width;  // [width]
  float* key = query_features + width;           // [parts][width]
  float* query = key + all;                      // [parts][width]
  float* value = query + all;                    // [row]
  float* result = value + row;                   // [row]
  RowList changed{result + row};
  RowList only_read{changed.list + features};

  // to = [cos x, sin x] at the angle of the state.
  const auto turn = [&](const float* from, size_t state, float* HWY_RESTRICT to) HWY_ATTR {
    const VF cos = hn::Set(df, step.cos[state]);
    const VF sin = hn::Set(df, step.sin[state]);
    for (size_t c = 0; c < width; c += kLanes) {
      const VF x = hn::Load(df, from + c);
      hn::Store(hn::Mul(x, cos), df, to + c);
      if (layout.parts == 2) hn::Store(hn::Mul(x, sin), df, to + width + c);
    }
  };

  PackRows(step.value, 0, 1, value, row, 1);
  PackRows(step.key, 0, 1, key_features, width, 1);
  const VF kept = hn::Set(df, step.keep);
  // Zero times what is not finite is not zero.
  const bool all_change = step.keep != 1.0f || !AllFinite(value, row);
  const auto changes = [&](size_t f) { return all_change | (key_features[f] != 0); };
  changed.Take(features, changes);
  for (size_t h = 0; h == 0 || h < step.queries.size(); ++h) {
    const bool has_query = h < step.queries.size();
    if (has_query) PackRows(step.queries[h], 0, 1, query_features, width, 1);
    std::fill_n(result, row, 0.0f);
    VF sum = hn::Zero(df);
    for (size_t s = 0; s < 2; ++s) {
      float* state = step.states[s];
      if (state == nullptr) continue;
      float* HWY_RESTRICT sums = state + layout.Matrix();
      const bool absorb = step.absorb[s] && h == 0;
      const bool read = step.read[s] && has_query;
      if (absorb) {
        turn(key_features, s, key);
        for (size_t f = 0; f < all; f += kLanes) {
          hn::Store(hn::MulAdd(kept, hn::Load(df, sums + f), hn::Load(df, key + f)), df, sums + f);
        }
      }
      if (read) {
        turn(query_features, s, query);
        for (size_t f = 0; f < all; f += kLanes) {
          sum = hn::MulAdd(hn::Load(df, query + f), hn::Load(df, sums + f), sum);
        }
        only_read.Take(features,
                       [&](size_t f) { return (query_features[f] != 0) & !(absorb & changes(f)); });
      }
      if (absorb && read) {
        StepState<true, true>(layout, changed, step.keep, key, query, value, state, result);
      } else if (absorb) {
        StepState<true, false>(layout, changed, step.keep, key, query, value, state, result);
      }
      if (read) StepState<false, true>(layout, only_read, 1, key, query, value, state, result);
    }
    if (!has_query) break;
    if (step.normalise) {
      const float total = hn::GetLane(hn::SumOfLanes(df, sum));
      const VF factor = hn::Set(df, 1.0f / KeptFromZero(total, step.epsilon));
      for (size_t c = 0; c < row; c += kLanes) {
        hn::Store(hn::Mul(hn::Load(df, result + c), factor), df, result + c);
      }
    }
    UnpackRows(result, row, 0, 1, step.outputs[h]);
  }
}

void DotRows(const Operand& x, const Operand& y, int64_t count, float* HWY_RESTRICT out,
             int64_t out_stride) {
  const DF df;
  const size_t dim = static_cast<size_t>(x.dim);
  for (int64_t r = 0; r < count; ++r) {
    const void* a = ElementAt(x.data, x.dtype, r * x.stride);
    const void* b = ElementAt(y.data, y.dtype, r * y.stride);
    VF sum = hn::Zero(df);
    for (size_t c = 0; c < dim; c += kLanes) {
      sum = hn::MulAdd(LoadRow(a, x.dtype, c, dim), LoadRow(b, y.dtype, c, dim), sum);
    }
    out[r * out_stride] = hn::GetLane(hn::SumOfLanes(df, sum));
  }
}

// phi(x) / phi'(x), for phi(x) * d = (phi / phi')(x) * (phi'(x) d). Where phi' is 0, so is phi' d.
template <FeatureMap kMap>
HWY_INLINE VF OverDerivative(VF x) {
  if constexpr (kMap == FeatureMap::kEluPlusOne) {
    const VF one = hn::Set(DF(), 1.0f);
    return hn::IfThenElse(hn::Gt(x, hn::Zero(DF())), hn::Add(x, one), one);
  }
  return x;
}

void DotGradients(const Operand& x, const Operand& d_x, int64_t count, float* HWY_RESTRICT out,
                  int64_t out_stride) {
  const DF df;
  const size_t dim = static_cast<size_t>(x.dim);
  WithMap(x.map, [&](auto map) HWY_ATTR {
    for (int64_t r = 0; r < count; ++r) {
      const void* a = ElementAt(x.data, x.dtype, r * x.stride);
      const void* b = ElementAt(d_x.data, d_x.dtype, r * d_x.stride);
      VF sum = hn::Zero(df);
      for (size_t c = 0; c < dim; c += kLanes) {
        sum = hn::MulAdd(OverDerivative<map()>(LoadRow(a, x.dtype, c, dim)),
                         LoadRow(b, d_x.dtype, c, dim), sum);
      }
      out[r * out_stride] = hn::GetLane(hn::SumOfLanes(df, sum));
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunTokenStep);
HWY_EXPORT(DotRows);
HWY_EXPORT(DotGradients);

void RunTokenStep(const TokenStep& step, float* scratch) {
  HWY_DYNAMIC_DISPATCH(RunTokenStep)(step, scratch);
}

int64_t TokenStepScratch(const StateLayout& layout) {
  return 2 * (layout.sums + layout.parts * layout.sums + layout.row + layout.features);
}

void DotRows(const Operand& x, const Operand& y, int64_t count, float* out, int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(DotRows)(x, y, count, out, out_stride);
}

void DotGradients(const Operand& x, const Operand& d_x, int64_t count, float* out,
                  int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(DotGradients)(x, d_x, count, out, out_stride);
}

}  // namespace cosformer
#endif  // HWY_ONCE
