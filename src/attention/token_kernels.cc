// The token step, and dot products of rows, compiled once an instruction set.

#include <algorithm>
#include <bit>
#include <type_traits>

#include "attention/linear_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/token_kernels.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "attention/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// Rows of a state that are fetched ahead, into the L2 cache: 4 KiB with 64 values. From memory, 8
// to 64 rows take the same time on a Zen 4; the more, the longer it takes from a cache.
constexpr size_t kRowsAhead = 16;
constexpr int kToL2 = 2;  // __builtin_prefetch's word for it

template <size_t kV>
HWY_INLINE void FetchRow(const float* row) {
  for (size_t v = 0; v < kV; v += kMaxLanes / kLanes) {
    __builtin_prefetch(row + v * kLanes, 0, kToL2);
  }
}

// Some rows of a part, by their numbers: the bits of `list`, since scratch is of floats.
struct RowList {
  float* list = nullptr;  // with room for twice all
  size_t count = 0;
  size_t ahead = 0;  // so many more follow: the first ones, in the next part

  size_t operator[](size_t i) const { return std::bit_cast<uint32_t>(list[i]); }

  // Those whose numbers are not zero, or all: without a branch, which would be a guess.
  HWY_INLINE void Take(const float* numbers, bool all, const StateLayout& layout) {
    const auto set = [&](size_t i, size_t row) {
      list[i] = std::bit_cast<float>(static_cast<uint32_t>(row));
    };
    count = 0;
    for (size_t f = 0; f < static_cast<size_t>(layout.features); ++f) {
      set(count, f);
      count += static_cast<size_t>(all | (numbers[f] != 0));
    }
    ahead = std::min(kRowsAhead, count);
    for (size_t i = 0; i < ahead; ++i) {
      set(count + i, (*this)[i] + static_cast<size_t>(layout.part_rows));
    }
  }
};

// What a token does to a state.
struct StepValues {
  float keep;          // of the state
  const float* key;    // [parts][sums], turned
  const float* query;  // likewise, to be read with
  const float* value;  // [row]
  bool all_change;     // rows, not only those whose feature is not zero in the key
  float* unchanged;    // [row], to be written to and never read
};

// Where row f goes: to its place, or nowhere if it does not change. Half of the rows with ReLU, but
// no one knows which half: a branch would cost as much as the row.
HWY_INLINE float* PlaceOf(const StepValues& step, size_t f, float* row) {
  const auto place = reinterpret_cast<uintptr_t>(row);
  const auto nowhere = reinterpret_cast<uintptr_t>(step.unchanged);
  const uint32_t feature = std::bit_cast<uint32_t>(step.key[f]) << 1;  // without its sign
  const uintptr_t changes = 0 - static_cast<uintptr_t>(step.all_change | (feature != 0));
  return reinterpret_cast<float*>(nowhere ^ ((nowhere ^ place) & changes));
}

// One pass over kV vectors of the columns from c on: each row keeps `keep` of itself and takes in
// key[f] * value; with kRead, query[f] * row is added to the result.
template <bool kRead, size_t kV>
HWY_INLINE void AbsorbColumns(const StateLayout& layout, const StepValues& step, size_t c,
                              float* state, float* HWY_RESTRICT result) {
  const DF df;
  const VF kept = hn::Set(df, step.keep);
  const auto row_step = static_cast<size_t>(layout.row);
  const float* HWY_RESTRICT value = step.value + c;
  VF sum[kV];
  for (size_t v = 0; v < kV; ++v) sum[v] = hn::Load(df, result + c + v * kLanes);
  for (size_t f = 0; f < static_cast<size_t>(layout.features); ++f) {
    float* row = state + f * row_step + c;
    FetchRow<kV>(row + kRowsAhead * row_step);
    float* to = PlaceOf(step, f, row);
    const VF k = hn::Set(df, step.key[f]);
    const VF q = hn::Set(df, kRead ? step.query[f] : 0.0f);
    for (size_t v = 0; v < kV; ++v) {
      const VF old = hn::Mul(kept, hn::Load(df, row + v * kLanes));
      const VF x = hn::MulAdd(k, hn::Load(df, value + v * kLanes), old);
      hn::Store(x, df, to + v * kLanes);
      if (kRead) sum[v] = hn::MulAdd(q, x, sum[v]);
    }
  }
  if (kRead) {
    for (size_t v = 0; v < kV; ++v) hn::Store(sum[v], df, result + c + v * kLanes);
  }
}

// query[f] * row of the listed rows is added to the result.
template <size_t kV>
HWY_INLINE void ReadColumns(const StateLayout& layout, const RowList& rows, const float* query,
                            size_t c, const float* HWY_RESTRICT state, float* HWY_RESTRICT result) {
  const DF df;
  const auto row_step = static_cast<size_t>(layout.row);
  VF sum[kV];
  for (size_t v = 0; v < kV; ++v) sum[v] = hn::Load(df, result + c + v * kLanes);
  for (size_t i = 0; i < rows.count; ++i) {
    FetchRow<kV>(state + rows[i + rows.ahead] * row_step + c);
    const float* row = state + rows[i] * row_step + c;
    const VF q = hn::Set(df, query[rows[i]]);
    for (size_t v = 0; v < kV; ++v) sum[v] = hn::MulAdd(q, hn::Load(df, row + v * kLanes), sum[v]);
  }
  for (size_t v = 0; v < kV; ++v) hn::Store(sum[v], df, result + c + v * kLanes);
}

// Calls body(vectors, column) for all columns, as many at a time as there are registers for.
template <size_t kV, class Body>
HWY_INLINE void ForColumns(size_t columns, const Body& body, size_t c = 0) {
  for (; c + kV * kLanes <= columns; c += kV * kLanes) {
    body(std::integral_constant<size_t, kV>(), c);
  }
  if constexpr (kV > 1) {
    if (c < columns) ForColumns<kV / 2>(columns, body, c);
  }
}

template <bool kRead>
HWY_NOINLINE void AbsorbToken(const StateLayout& layout, StepValues step, float* state,
                              float* result) {
  for (int64_t p = 0; p < layout.parts; ++p) {
    ForColumns<8>(static_cast<size_t>(layout.row), [&](auto vectors, size_t c) HWY_ATTR {
      AbsorbColumns<kRead, vectors>(layout, step, c, state, result);
    });
    step.key += layout.sums;
    if (kRead) step.query += layout.sums;
    state += layout.part_rows * layout.row;
  }
}

HWY_NOINLINE void ReadState(const StateLayout& layout, const RowList& rows, const float* query,
                            const float* state, float* result) {
  for (int64_t p = 0; p < layout.parts; ++p) {
    ForColumns<8>(static_cast<size_t>(layout.row), [&](auto vectors, size_t c) HWY_ATTR {
      ReadColumns<vectors>(layout, rows, query, c, state, result);
    });
    query += layout.sums;
    state += layout.part_rows * layout.row;
  }
}

void RunTokenStep(const TokenStep& step, float* scratch) {
  const DF df;
  const StateLayout& layout = step.layout;
  const size_t width = static_cast<size_t>(layout.sums);
  const size_t all = static_cast<size_t>(layout.parts) * width;
  const size_t row = static_cast<size_t>(layout.row);
  float* key_features = scratch;                 // [width]
  float* query_features = key_features + width;  // [width]
  float* key = query_features + width;           // [parts][width]
  float* query = key + all;                      // [parts][width]
  float* value = query + all;                    // [row]
  float* result = value + row;                   // [row]
  float* unchanged = result + row;               // [row]
  RowList rows{unchanged + row};

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
  StepValues values{step.keep, key, query, value, false, unchanged};
  // Zero times what is not finite is not zero.
  values.all_change = step.keep != 1.0f || !AllFinite(value, row);
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
      if (absorb) turn(key_features, s, key);
      if (read) turn(query_features, s, query);
      if (absorb && read) {
        AbsorbToken<true>(layout, values, state, result);
      } else if (absorb) {
        AbsorbToken<false>(layout, values, state, result);
      } else if (read) {
        for (size_t f = 0; f < all; f += kMaxLanes) __builtin_prefetch(sums + f, 0, kToL2);
        // All of what the first query of a group has read whole, so that a value that is no number
        // reaches them alike.
        rows.Take(query_features, step.absorb[s], layout);
        ReadState(layout, rows, query, state, result);
      }
      // After the rows: by now they have been fetched, as the rows behind the last.
      for (size_t f = 0; absorb && f < all; f += kLanes) {
        hn::Store(hn::MulAdd(kept, hn::Load(df, sums + f), hn::Load(df, key + f)), df, sums + f);
      }
      for (size_t f = 0; read && f < all; f += kLanes) {
        sum = hn::MulAdd(hn::Load(df, query + f), hn::Load(df, sums + f), sum);
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
  return 2 * (layout.sums + layout.parts * layout.sums + layout.features) + 3 * layout.row;
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
