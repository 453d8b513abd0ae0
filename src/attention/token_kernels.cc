// The token step, and dot products of rows, compiled once an instruction set.

#include "attention/linear_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/token_kernels.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "attention/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// One pass over a state's columns: row f keeps `keep` of itself and takes in key[f] * value where
// it absorbs, and adds query[f] * row to the result where it is read.
template <bool kAbsorb, bool kRead, size_t kV>
HWY_INLINE void StepColumns(float keep, const float* HWY_RESTRICT key,
                            const float* HWY_RESTRICT query, const float* HWY_RESTRICT value,
                            size_t rows, size_t row_step, float* HWY_RESTRICT state,
                            float* HWY_RESTRICT result) {
  const DF df;
  const VF kept = hn::Set(df, keep);
  VF vv[kV], even[kV], odd[kV];
  for (size_t v = 0; v < kV; ++v) {
    if (kAbsorb) vv[v] = hn::Load(df, value + v * kLanes);
    even[v] = kRead ? hn::Load(df, result + v * kLanes) : hn::Zero(df);
    odd[v] = hn::Zero(df);
  }
  // Two rows a turn, each with its own sums: 2 * kV FMA chains.
  for (size_t f = 0; f < rows; f += 2) {
    float* HWY_RESTRICT row0 = state + f * row_step;
    float* HWY_RESTRICT row1 = row0 + row_step;
    for (size_t v = 0; v < kV; ++v) {
      VF x0 = hn::Load(df, row0 + v * kLanes);
      VF x1 = hn::Load(df, row1 + v * kLanes);
      if (kAbsorb) {
        x0 = hn::MulAdd(hn::Set(df, key[f]), vv[v], hn::Mul(kept, x0));
        x1 = hn::MulAdd(hn::Set(df, key[f + 1]), vv[v], hn::Mul(kept, x1));
        hn::Store(x0, df, row0 + v * kLanes);
        hn::Store(x1, df, row1 + v * kLanes);
      }
      if (kRead) {
        even[v] = hn::MulAdd(hn::Set(df, query[f]), x0, even[v]);
        odd[v] = hn::MulAdd(hn::Set(df, query[f + 1]), x1, odd[v]);
      }
    }
  }
  if (kRead) {
    for (size_t v = 0; v < kV; ++v) {
      hn::Store(hn::Add(even[v], odd[v]), df, result + v * kLanes);
    }
  }
}

// All columns of all parts; key and query are [parts][layout.sums].
template <bool kAbsorb, bool kRead>
void StepState(const StateLayout& layout, float keep, const float* key, const float* query,
               const float* value, float* state, float* result) {
  constexpr size_t kWide = kRows == 8 ? 4 : 2;
  const size_t step = static_cast<size_t>(layout.row);
  const size_t rows = static_cast<size_t>(layout.part_rows);
  for (int64_t p = 0; p < layout.parts; ++p) {
    size_t c = 0;
    for (; c + kWide * kLanes <= step; c += kWide * kLanes) {
      StepColumns<kAbsorb, kRead, kWide>(keep, key, query, value + c, rows, step, state + c,
                                         result + c);
    }
    for (; c < step; c += kLanes) {
      StepColumns<kAbsorb, kRead, 1>(keep, key, query, value + c, rows, step, state + c,
                                     result + c);
    }
    key += layout.sums;
    query += layout.sums;
    state += rows * step;
  }
}

void RunTokenStep(const TokenStep& step, float* scratch) {
  const DF df;
  const StateLayout& layout = step.layout;
  const size_t width = static_cast<size_t>(layout.sums);
  const size_t all = static_cast<size_t>(layout.parts) * width;
  const size_t row = static_cast<size_t>(layout.row);
  float* features = scratch;      // [width]
  float* key = features + width;  // [parts][width]
  float* query = key + all;       // [parts][width]
  float* value = query + all;     // [row]
  float* result = value + row;    // [row]

  // to = [cos x, sin x] at the angle of the state.
  const auto turn = [&](const Operand& op, size_t state, float* HWY_RESTRICT to) HWY_ATTR {
    PackRows(op, 0, 1, features, width, 1);
    const VF cos = hn::Set(df, step.cos[state]);
    const VF sin = hn::Set(df, step.sin[state]);
    for (size_t c = 0; c < width; c += kLanes) {
      const VF x = hn::Load(df, features + c);
      hn::Store(hn::Mul(x, cos), df, to + c);
      if (layout.parts == 2) hn::Store(hn::Mul(x, sin), df, to + width + c);
    }
  };

  PackRows(step.value, 0, 1, value, row, 1);
  const VF kept = hn::Set(df, step.keep);
  for (size_t h = 0; h == 0 || h < step.queries.size(); ++h) {
    const bool has_query = h < step.queries.size();
    std::fill_n(result, row, 0.0f);
    VF sum = hn::Zero(df);
    for (size_t s = 0; s < 2; ++s) {
      float* state = step.states[s];
      if (state == nullptr) continue;
      float* HWY_RESTRICT sums = state + layout.Matrix();
      const bool absorb = step.absorb[s] && h == 0;
      const bool read = step.read[s] && has_query;
      if (absorb) {
        turn(step.key, s, key);
        for (size_t f = 0; f < all; f += kLanes) {
          hn::Store(hn::MulAdd(kept, hn::Load(df, sums + f), hn::Load(df, key + f)), df, sums + f);
        }
      }
      if (read) {
        turn(step.queries[h], s, query);
        for (size_t f = 0; f < all; f += kLanes) {
          sum = hn::MulAdd(hn::Load(df, query + f), hn::Load(df, sums + f), sum);
        }
      }
      if (absorb && read) {
        StepState<true, true>(layout, step.keep, key, query, value, state, result);
      } else if (absorb) {
        StepState<true, false>(layout, step.keep, key, query, value, state, result);
      } else if (read) {
        StepState<false, true>(layout, step.keep, key, query, value, state, result);
      }
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
  return (1 + 2 * layout.parts) * layout.sums + 2 * layout.row;
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
