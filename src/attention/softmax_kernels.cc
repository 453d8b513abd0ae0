// Blockwise softmax attention with online normalisation, compiled once an instruction set.

#include "attention/softmax_kernels.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/softmax_kernels.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "attention/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// The query with its scale: q . k * scale = (q * scale) . k.
Operand Scaled(const SoftmaxHead& head) {
  Operand query = head.query;
  query.factor = &head.scale;
  query.side_stride = 0;
  return query;
}

struct ForwardSpace {
  ForwardSpace(const SoftmaxHead& head, float* scratch)
      : width(static_cast<size_t>(head.query.dim)),
        width_step(StepOf(head.query.dim)),
        value_step(StepOf(head.value.dim)) {
    Arena arena(scratch);
    maxima = arena.Take(kQueryRows);
    sums = arena.Take(kQueryRows);
    queries = arena.Take(kQueryRows * width_step);
    results = arena.Take(kQueryRows * value_step);
    keys = arena.Take(kB * width_step);
    key_columns = arena.Take(width_step * kB);
    values = arena.Take(kB * value_step);
    weights = arena.Take(kRows * kB);
    size = arena.size();
  }

  size_t width;
  size_t width_step;
  size_t value_step;
  float* maxima;       // [kQueryRows]
  float* sums;         // [kQueryRows]
  float* queries;      // [kQueryRows][width_step]
  float* results;      // [kQueryRows][value_step]
  float* keys;         // [kB][width_step]
  float* key_columns;  // [width][kB]
  float* values;       // [kB][value_step]
  float* weights;      // [kRows][kB]
  int64_t size;
};

// One tile of query rows against one block of keys, the first of which is key j0.
void AttendTile(const SoftmaxHead& head, const ForwardSpace& w, int64_t begin, size_t i0,
                size_t rows, int64_t j0, size_t keys, bool finite) {
  const DF df;
  const auto attended = [&](size_t r) {
    const int64_t row = begin + static_cast<int64_t>(i0 + std::min(r, rows - 1));
    return std::clamp<int64_t>(head.KeysOf(row) - j0, 0, static_cast<int64_t>(keys));
  };
  const size_t most = static_cast<size_t>(attended(rows - 1));
  if (most == 0) return;
  const size_t columns = (most + kLanes - 1) / kLanes * kLanes;
  const float* queries = w.queries + i0 * w.width_step;
  ForColumns(0, columns, [&](size_t j, auto vectors) HWY_ATTR {
    constexpr size_t kV = vectors();
    Tile<kRows, kV> tile;
    tile.Clear();
    tile.AddRows(queries, w.width_step, w.key_columns + j, kB, w.width);
    float* HWY_RESTRICT to = w.weights + j;
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kV; ++v) {
        hn::Store(tile.sum[r][v], df, to + r * kB + v * kLanes);
      }
    }
  });
  float shrink[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    shrink[r] =
        SoftmaxRow(w.weights + r * kB, columns, attended(r), w.maxima[i0 + r], w.sums[i0 + r]);
  }
  float* results = w.results + i0 * w.value_step;
  ForColumns(0, w.value_step, [&](size_t c, auto vectors) HWY_ATTR {
    constexpr size_t kV = vectors();
    if (finite) {
      AddWeighted<kRows, kV>(w.weights, shrink, w.values + c, w.value_step, most, results + c);
    } else {
      // A value that is not finite must not reach queries before it, as 0 * NaN.
      for (size_t r = 0; r < rows; ++r) {
        AddWeighted<1, kV>(w.weights + r * kB, shrink + r, w.values + c, w.value_step,
                           static_cast<size_t>(attended(r)), results + r * w.value_step + c);
      }
    }
  });
}

void RunSoftmax(const SoftmaxHead& head, int64_t begin, int64_t end, const Output& output,
                float* scratch) {
  const DF df;
  const ForwardSpace w(head, scratch);
  const size_t rows = static_cast<size_t>(end - begin);
  const size_t padded = (rows + kTileRows - 1) / kTileRows * kTileRows;
  PackRows(Scaled(head), begin, rows, w.queries, w.width_step, padded);
  std::fill_n(w.maxima, padded, kMinusInfinity);
  std::fill_n(w.sums, padded, 0.0f);
  std::fill_n(w.results, padded * w.value_step, 0.0f);

  const int64_t all_keys = head.KeysOf(end - 1);
  for (int64_t j0 = 0; j0 < all_keys; j0 += kBlock) {
    const size_t keys = static_cast<size_t>(std::min(kBlock, head.key_count - j0));
    PackRows(head.key, j0, keys, w.keys, w.width_step, kB);
    Transpose(w.keys, w.width_step, kB, w.width, w.key_columns, kB);
    PackRows(head.value, j0, keys, w.values, w.value_step, keys);
    const bool finite = AllFinite(w.values, keys * w.value_step);
    for (size_t i0 = 0; i0 < rows; i0 += kRows) {
      AttendTile(head, w, begin, i0, std::min(kRows, rows - i0), j0, keys, finite);
    }
  }
  for (size_t i = 0; i < rows; ++i) {
    const bool none = head.KeysOf(begin + static_cast<int64_t>(i)) <= 0;
    const VF factor = hn::Set(df, none ? 0.0f : 1.0f / w.sums[i]);
    float* HWY_RESTRICT row = w.results + i * w.value_step;
    for (size_t c = 0; c < w.value_step; c += kLanes) {
      hn::Store(hn::Mul(hn::Load(df, row + c), factor), df, row + c);
    }
    if (output.sums != nullptr) {
      output.sums[(begin + static_cast<int64_t>(i)) * output.sums_stride] =
          none ? kMinusInfinity : w.maxima[i] + std::log(w.sums[i]);
    }
  }
  UnpackRows(w.results, w.value_step, begin, rows, output);
}

int64_t SoftmaxScratch(const SoftmaxHead& head) { return ForwardSpace(head, nullptr).size; }

// q . k for rows as they lie.
HWY_INLINE float DotRow(const void* HWY_RESTRICT a, const void* HWY_RESTRICT b, DType dtype,
                        size_t dim) {
  const DF df;
  VF even = hn::Zero(df);
  VF odd = hn::Zero(df);
  size_t c = 0;
  for (; c + 2 * kLanes <= dim; c += 2 * kLanes) {
    even = hn::MulAdd(LoadRow(a, dtype, c, dim), LoadRow(b, dtype, c, dim), even);
    odd = hn::MulAdd(LoadRow(a, dtype, c + kLanes, dim), LoadRow(b, dtype, c + kLanes, dim), odd);
  }
  for (; c < dim; c += kLanes) {
    even = hn::MulAdd(LoadRow(a, dtype, c, dim), LoadRow(b, dtype, c, dim), even);
  }
  return hn::GetLane(hn::SumOfLanes(df, hn::Add(even, odd)));
}

// partial[2 ...] = partial * shrink + sum_j weights[j] value_j, for columns c ... of kV vectors.
template <size_t kV>
HWY_INLINE void AddValues(const Operand& value, int64_t first, size_t count,
                          const float* HWY_RESTRICT weights, float shrink, size_t c,
                          float* HWY_RESTRICT sums) {
  const DF df;
  const size_t dim = static_cast<size_t>(value.dim);
  VF sum[kV];
  for (size_t v = 0; v < kV; ++v) {
    sum[v] = hn::Mul(hn::Load(df, sums + c + v * kLanes), hn::Set(df, shrink));
  }
  for (size_t j = 0; j < count; ++j) {
    const void* row =
        ElementAt(value.data, value.dtype, (first + static_cast<int64_t>(j)) * value.stride);
    const VF p = hn::Set(df, weights[j]);
    for (size_t v = 0; v < kV; ++v) {
      sum[v] = hn::MulAdd(p, LoadRow(row, value.dtype, c + v * kLanes, dim), sum[v]);
    }
  }
  for (size_t v = 0; v < kV; ++v) hn::Store(sum[v], df, sums + c + v * kLanes);
}

void RunSoftmaxSegment(const SoftmaxHead& head, int64_t row, int64_t segment, float* partial) {
  const size_t dim = static_cast<size_t>(head.query.dim);
  const size_t value_dim = static_cast<size_t>(head.value.dim);
  const DType dtype = head.query.dtype;
  const void* query = ElementAt(head.query.data, dtype, row * head.query.stride);
  float* HWY_RESTRICT sums = partial + kMaxLanes;
  float maximum = kMinusInfinity;
  float sum = 0;
  std::fill_n(sums, StepOf(head.value.dim), 0.0f);
  const int64_t end = std::min(head.KeysOf(row), (segment + 1) * kSegment);
  HWY_ALIGN float weights[kB];
  for (int64_t j0 = segment * kSegment; j0 < end; j0 += kBlock) {
    const size_t count = static_cast<size_t>(std::min(kBlock, end - j0));
    for (size_t j = 0; j < count; ++j) {
      const int64_t at = (j0 + static_cast<int64_t>(j)) * head.key.stride;
      weights[j] = head.scale * DotRow(query, ElementAt(head.key.data, dtype, at), dtype, dim);
    }
    const size_t columns = (count + kLanes - 1) / kLanes * kLanes;
    std::fill_n(weights + count, columns - count, 0.0f);
    const float shrink = SoftmaxRow(weights, columns, static_cast<int64_t>(count), maximum, sum);
    size_t c = 0;
    for (; c + 4 * kLanes <= value_dim; c += 4 * kLanes) {
      AddValues<4>(head.value, j0, count, weights, shrink, c, sums);
    }
    for (; c < value_dim; c += kLanes) {
      AddValues<1>(head.value, j0, count, weights, shrink, c, sums);
    }
  }
  partial[0] = maximum;
  partial[1] = sum;
}

void JoinSegments(const SoftmaxHead& head, int64_t row, int64_t segments, float* partials,
                  const Output& output) {
  const DF df;
  const size_t size = static_cast<size_t>(SegmentPartial(head));
  const size_t step = StepOf(head.value.dim);
  float maximum = kMinusInfinity;
  // Max that keeps NaN; a NaN score makes the sums NaN all the same.
  for (int64_t s = 0; s < segments; ++s) {
    maximum = std::max(maximum, partials[static_cast<size_t>(s) * size]);
  }
  const float shift = maximum == kMinusInfinity ? 0.0f : maximum;
  float sum = 0;
  float* HWY_RESTRICT total = partials + kMaxLanes;
  for (int64_t s = 0; s < segments; ++s) {
    const float* partial = partials + static_cast<size_t>(s) * size;
    const float weight = std::exp(partial[0] - shift);
    sum += partial[1] * weight;
    const VF w = hn::Set(df, weight);
    for (size_t c = 0; c < step; c += kLanes) {
      const VF x = hn::Mul(w, hn::Load(df, partial + kMaxLanes + c));
      hn::Store(s == 0 ? x : hn::Add(hn::Load(df, total + c), x), df, total + c);
    }
  }
  const bool none = head.KeysOf(row) <= 0;
  const VF factor = hn::Set(df, none ? 0.0f : 1.0f / sum);
  for (size_t c = 0; c < step; c += kLanes) {
    hn::Store(hn::Mul(hn::Load(df, total + c), factor), df, total + c);
  }
  if (output.sums != nullptr) {
    output.sums[row * output.sums_stride] = none ? kMinusInfinity : shift + std::log(sum);
  }
  UnpackRows(total, step, row, 1, output);
}

struct BackwardSpace {
  BackwardSpace(const SoftmaxHead& head, float* scratch)
      : width(static_cast<size_t>(head.query.dim)),
        values_width(static_cast<size_t>(head.value.dim)),
        width_step(StepOf(head.query.dim)),
        value_step(StepOf(head.value.dim)) {
    Arena arena(scratch);
    queries = arena.Take(kB * width_step);
    gradients = arena.Take(kB * value_step);
    keys = arena.Take(kB * width_step);
    values = arena.Take(kB * value_step);
    key_columns = arena.Take(width_step * kB);
    value_columns = arena.Take(value_step * kB);
    weights = arena.Take(kB * kB);
    slopes = arena.Take(kB * kB);
    dq = arena.Take(kB * width_step);
    dk = arena.Take(kB * width_step);
    dv = arena.Take(kB * value_step);
    size = arena.size();
  }

  size_t width;
  size_t values_width;
  size_t width_step;
  size_t value_step;
  float* queries;        // [kB][width_step], scaled
  float* gradients;      // [kB][value_step], of the outputs
  float* keys;           // [kB][width_step]
  float* values;         // [kB][value_step]
  float* key_columns;    // [width][kB]
  float* value_columns;  // [values_width][kB]
  float* weights;        // [kB queries][kB keys]
  float* slopes;         // [kB queries][kB keys]: gradient with respect to the scaled scores
  float* dq;             // [kB][width_step]
  float* dk;             // [kB][width_step]
  float* dv;             // [kB][value_step]
  int64_t size;
};

size_t PackKeyBlock(const SoftmaxHead& head, int64_t j0, const BackwardSpace& w) {
  const size_t count = static_cast<size_t>(std::min(kBlock, head.key_count - j0));
  PackRows(head.key, j0, count, w.keys, w.width_step, kB);
  PackRows(head.value, j0, count, w.values, w.value_step, kB);
  Transpose(w.keys, w.width_step, kB, w.width, w.key_columns, kB);
  Transpose(w.values, w.value_step, kB, w.values_width, w.value_columns, kB);
  return count;
}

size_t PackQueryBlock(const SoftmaxBackward& task, size_t h, int64_t i0, const BackwardSpace& w) {
  const SoftmaxHead& head = task.heads[h];
  const size_t count = static_cast<size_t>(std::min(kBlock, head.query_count - i0));
  PackRows(Scaled(head), i0, count, w.queries, w.width_step, kB);
  PackRows(task.d_o[h], i0, count, w.gradients, w.value_step, kB);
  return count;
}

// Weights and slopes of a block: p = exp(s - lse), ds = p (d_o . v - delta).
void ScoreBlock(const SoftmaxBackward& task, size_t h, int64_t i0, size_t rows, int64_t j0,
                size_t keys, const BackwardSpace& w) {
  const DF df;
  const SoftmaxHead& head = task.heads[h];
  const float* log_sum_exp = task.log_sum_exp[h] + i0 * task.side_stride;
  const float* delta = task.delta[h] + i0 * task.side_stride;
  const size_t columns = (keys + kLanes - 1) / kLanes * kLanes;
  for (size_t r0 = 0; r0 < kB; r0 += kRows) {
    ForColumns(0, columns, [&](size_t j, auto vectors) HWY_ATTR {
      constexpr size_t kV = vectors();
      Tile<kRows, kV> scores;
      scores.Clear();
      scores.AddRows(w.queries + r0 * w.width_step, w.width_step, w.key_columns + j, kB, w.width);
      Tile<kRows, kV> slopes;
      slopes.Clear();
      slopes.AddRows(w.gradients + r0 * w.value_step, w.value_step, w.value_columns + j, kB,
                     w.values_width);
      for (size_t r = 0; r < kRows; ++r) {
        const size_t row = r0 + r;
        const int64_t i = i0 + static_cast<int64_t>(row);
        const bool valid = row < rows;
        const int64_t attended =
            valid ? std::clamp<int64_t>(head.KeysOf(i) - j0, 0, static_cast<int64_t>(keys)) : 0;
        const int64_t side = static_cast<int64_t>(valid ? row : 0) * task.side_stride;
        const VF lse = hn::Set(df, log_sum_exp[side]);
        const VF shift = hn::Set(df, delta[side]);
        for (size_t v = 0; v < kV; ++v) {
          VF p = ExpOrNaN(hn::Sub(scores.sum[r][v], lse));
          VF ds = hn::Mul(p, hn::Sub(slopes.sum[r][v], shift));
          const size_t column = j + v * kLanes;
          if (static_cast<int64_t>(column + kLanes) > attended) {
            p = KeepBelow(p, column, attended, hn::Zero(df));
            ds = KeepBelow(ds, column, attended, hn::Zero(df));
          }
          hn::Store(p, df, w.weights + row * kB + column);
          hn::Store(ds, df, w.slopes + row * kB + column);
        }
      }
    });
  }
}

// Keys are packed as they are and queries scaled, so that only dq still needs the scale.
void StoreScaled(float* HWY_RESTRICT rows, size_t step, size_t count, float scale, int64_t first,
                 const Output& out) {
  const DF df;
  for (size_t i = 0; i < count * step; i += kLanes) {
    hn::Store(hn::Mul(hn::Load(df, rows + i), hn::Set(df, scale)), df, rows + i);
  }
  UnpackRows(rows, step, first, count, out);
}

// The first block of queries that attends to key j0.
int64_t FirstQueryBlock(const SoftmaxHead& head, int64_t j0) {
  if (!head.causal) return 0;
  return std::max<int64_t>(0, j0 - head.query_offset) / kBlock * kBlock;
}

void AddKeyGradients(const BackwardSpace& w, size_t rows, size_t keys) {
  AddProduct<true>(w.weights, w.gradients, w.value_step, keys, rows, w.value_step, w.dv,
                   w.value_step);
  AddProduct<true>(w.slopes, w.queries, w.width_step, keys, rows, w.width_step, w.dk, w.width_step);
}

void RunSoftmaxBackward(const SoftmaxBackward& task, float* dq_sums, float* scratch) {
  const SoftmaxHead& first = task.heads.front();
  const BackwardSpace w(first, scratch);
  const int64_t n = first.query_count;
  const bool in_place = dq_sums == nullptr;
  const auto dq_of = [&](size_t h, int64_t i) {
    if (in_place) return static_cast<float*>(task.dq[h].data) + i * task.dq[h].stride;
    return dq_sums + (static_cast<int64_t>(h) * n + i) * static_cast<int64_t>(w.width_step);
  };
  for (size_t h = 0; h < task.heads.size(); ++h) {
    for (int64_t i = 0; i < n; ++i) {
      std::fill_n(dq_of(h, i), in_place ? w.width : w.width_step, 0.0f);
    }
  }
  for (int64_t j0 = 0; j0 < first.key_count; j0 += kBlock) {
    const size_t keys = PackKeyBlock(first, j0, w);
    std::fill_n(w.dk, kB * w.width_step, 0.0f);
    std::fill_n(w.dv, kB * w.value_step, 0.0f);
    for (size_t h = 0; h < task.heads.size(); ++h) {
      const size_t step = in_place ? static_cast<size_t>(task.dq[h].stride) : w.width_step;
      for (int64_t i0 = FirstQueryBlock(first, j0); i0 < n; i0 += kBlock) {
        const size_t rows = PackQueryBlock(task, h, i0, w);
        ScoreBlock(task, h, i0, rows, j0, keys, w);
        AddKeyGradients(w, rows, keys);
        AddProduct<false>(w.slopes, w.keys, w.width_step, rows, keys,
                          in_place ? w.width : w.width_step, dq_of(h, i0), step);
      }
    }
    UnpackRows(w.dk, w.width_step, j0, keys, task.dk);
    UnpackRows(w.dv, w.value_step, j0, keys, task.dv);
  }
  for (size_t h = 0; h < task.heads.size(); ++h) {
    const float scale = task.heads[h].scale;
    for (int64_t i = 0; i < n; ++i) {
      if (in_place) {
        const DF df;
        float* HWY_RESTRICT row = dq_of(h, i);
        for (size_t c = 0; c < w.width; c += kLanes) {
          hn::StoreU(hn::Mul(hn::LoadU(df, row + c), hn::Set(df, scale)), df, row + c);
        }
      } else {
        StoreScaled(dq_of(h, i), w.width_step, 1, scale, i, task.dq[h]);
      }
    }
  }
}

void RunSoftmaxBackwardQueries(const SoftmaxBackward& task, int64_t head_index, int64_t begin,
                               float* scratch) {
  const size_t h = static_cast<size_t>(head_index);
  const SoftmaxHead& head = task.heads[h];
  const BackwardSpace w(head, scratch);
  const size_t rows = PackQueryBlock(task, h, begin, w);
  std::fill_n(w.dq, kB * w.width_step, 0.0f);
  const int64_t all_keys = head.KeysOf(begin + static_cast<int64_t>(rows) - 1);
  for (int64_t j0 = 0; j0 < all_keys; j0 += kBlock) {
    const size_t keys = PackKeyBlock(head, j0, w);
    ScoreBlock(task, h, begin, rows, j0, keys, w);
    AddProduct<false>(w.slopes, w.keys, w.width_step, rows, keys, w.width_step, w.dq, w.width_step);
  }
  StoreScaled(w.dq, w.width_step, rows, head.scale, begin, task.dq[h]);
}

void RunSoftmaxBackwardKeys(const SoftmaxBackward& task, int64_t begin, float* scratch) {
  const SoftmaxHead& first = task.heads.front();
  const BackwardSpace w(first, scratch);
  const size_t keys = PackKeyBlock(first, begin, w);
  std::fill_n(w.dk, kB * w.width_step, 0.0f);
  std::fill_n(w.dv, kB * w.value_step, 0.0f);
  for (size_t h = 0; h < task.heads.size(); ++h) {
    for (int64_t i0 = FirstQueryBlock(first, begin); i0 < first.query_count; i0 += kBlock) {
      const size_t rows = PackQueryBlock(task, h, i0, w);
      ScoreBlock(task, h, i0, rows, begin, keys, w);
      AddKeyGradients(w, rows, keys);
    }
  }
  UnpackRows(w.dk, w.width_step, begin, keys, task.dk);
  UnpackRows(w.dv, w.value_step, begin, keys, task.dv);
}

int64_t SoftmaxBackwardScratch(const SoftmaxHead& head) {
  return BackwardSpace(head, nullptr).size;
}

bool SumsInPlace(const Output& dq) {
  return dq.dtype == DType::kFloat32 && dq.dim % static_cast<int64_t>(kLanes) == 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunSoftmax);
HWY_EXPORT(SoftmaxScratch);
HWY_EXPORT(RunSoftmaxSegment);
HWY_EXPORT(JoinSegments);
HWY_EXPORT(RunSoftmaxBackward);
HWY_EXPORT(RunSoftmaxBackwardQueries);
HWY_EXPORT(RunSoftmaxBackwardKeys);
HWY_EXPORT(SoftmaxBackwardScratch);
HWY_EXPORT(SumsInPlace);

void RunSoftmax(const SoftmaxHead& head, int64_t begin, int64_t end, const Output& output,
                float* scratch) {
  HWY_DYNAMIC_DISPATCH(RunSoftmax)(head, begin, end, output, scratch);
}

int64_t SoftmaxScratch(const SoftmaxHead& head) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxScratch)(head);
}

void RunSoftmaxSegment(const SoftmaxHead& head, int64_t row, int64_t segment, float* partial) {
  HWY_DYNAMIC_DISPATCH(RunSoftmaxSegment)(head, row, segment, partial);
}

int64_t SegmentPartial(const SoftmaxHead& head) {
  return kMaxLanes + RoundUp(head.value.dim, kMaxLanes);
}

void JoinSegments(const SoftmaxHead& head, int64_t row, int64_t segments, float* partials,
                  const Output& output) {
  HWY_DYNAMIC_DISPATCH(JoinSegments)(head, row, segments, partials, output);
}

void RunSoftmaxBackward(const SoftmaxBackward& task, float* dq_sums, float* scratch) {
  HWY_DYNAMIC_DISPATCH(RunSoftmaxBackward)(task, dq_sums, scratch);
}

void RunSoftmaxBackwardQueries(const SoftmaxBackward& task, int64_t head, int64_t begin,
                               float* scratch) {
  HWY_DYNAMIC_DISPATCH(RunSoftmaxBackwardQueries)(task, head, begin, scratch);
}

void RunSoftmaxBackwardKeys(const SoftmaxBackward& task, int64_t begin, float* scratch) {
  HWY_DYNAMIC_DISPATCH(RunSoftmaxBackwardKeys)(task, begin, scratch);
}

int64_t SoftmaxBackwardScratch(const SoftmaxHead& head) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxBackwardScratch)(head);
}

bool SumsInPlace(const Output& dq) { return HWY_DYNAMIC_DISPATCH(SumsInPlace)(dq); }

}  // namespace cosformer
#endif  // HWY_ONCE
