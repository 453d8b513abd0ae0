// Softmax attention over the tiles of a pattern, forward and backward, compiled once an instruction
// set. A chunk of queries runs over all keys that neighbouring tiles list for it with the online
// normalisation of softmax_kernels.cc; what it has summed is then joined to what its rows have from
// other tiles.

#include "attention/pattern_kernels.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/pattern_kernels.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "attention/pattern-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// The query with its scale: q . k * scale = (q * scale) . k.
static Operand ScaledQuery(const PatternHead& head) {
  Operand query = head.query;
  query.factor = &head.scale;
  query.side_stride = 0;
  return query;
}

struct PatternSpace {
  PatternSpace(const PatternHead& head, const Output& output, Arena arena)
      : width(static_cast<size_t>(head.query.dim)),
        width_step(StepOf(head.query.dim)),
        value_step(StepOf(head.value.dim)),
        row_maxima(arena.Take(static_cast<size_t>(head.query_length))),
        row_sums(arena.Take(static_cast<size_t>(head.query_length))),
        maxima(arena.Take(kQueryRows)),
        sums(arena.Take(kQueryRows)),
        queries(arena.Take(kQueryRows * width_step)),
        results(arena.Take(kQueryRows * value_step)),
        weights(arena.Take(kRows * kB)),
        rows(output, head.query_length, arena),
        blocks(head, nullptr, nullptr, arena),
        size(arena.size()) {}

  size_t width;
  size_t width_step;
  size_t value_step;
  float* row_maxima;  // [query_length]: of the tiles before
  float* row_sums;    // [query_length]
  float* maxima;      // [kQueryRows]: of the chunk
  float* sums;        // [kQueryRows]
  float* queries;     // [kQueryRows][width_step], scaled
  float* results;     // [kQueryRows][value_step]
  float* weights;     // [kRows][kB]
  RowSums rows;       // [query_length]: the weighted values, of the tiles before
  KeyBlocks blocks;
  int64_t size;
};

// One register tile of queries against one block of keys.
static void AttendTile(const PatternSpace& w, const Rule& rule, const QueryChunk& chunk, size_t i0,
                       const KeyBlock& block) {
  const DF df;
  const Seen seen = rule.Of(chunk.tiles[i0 / kRows], block.bounds);
  if (seen == Seen::kNone) return;
  const size_t valid = std::min(kRows, chunk.count - i0);
  const float* queries = w.queries + i0 * w.width_step;
  const Entries keys = block.Keys();
  ForColumns(0, block.columns, [&](size_t j, auto vectors) HWY_ATTR {
    constexpr size_t kV = vectors();
    Tile<kRows, kV> tile;
    tile.Clear();
    tile.AddRows(queries, w.width_step, block.key_columns + j, kB, w.width);
    float* HWY_RESTRICT to = w.weights + j;
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kV; ++v) {
        hn::Store(tile.sum[r][v], df, to + r * kB + v * kLanes);
      }
    }
  });
  if (seen == Seen::kSome) {
    const VF masked = hn::Set(df, kMinusInfinity);
    for (size_t r = 0; r < kRows; ++r) {
      const size_t i = i0 + std::min(r, valid - 1);
      float* HWY_RESTRICT scores = w.weights + r * kB;
      for (size_t j = 0; j < block.columns; j += kLanes) {
        VF s = hn::Load(df, scores + j);
        const auto mask = rule.Mask(chunk.entries, i, keys, j, s);
        hn::Store(hn::IfThenElse(mask, s, masked), df, scores + j);
      }
    }
  }
  float shrink[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    shrink[r] = SoftmaxRow(w.weights + r * kB, block.columns, static_cast<int64_t>(block.count),
                           w.maxima[i0 + r], w.sums[i0 + r]);
  }
  float* results = w.results + i0 * w.value_step;
  const bool together = block.finite || seen == Seen::kAll;
  ForColumns(0, w.value_step, [&](size_t c, auto vectors) HWY_ATTR {
    constexpr size_t kV = vectors();
    if (together) {
      AddWeighted<kRows, kV>(w.weights, shrink, block.values + c, w.value_step, block.count,
                             results + c);
      return;
    }
    // A value that is not finite must not reach the queries that do not see it, as 0 * NaN.
    for (size_t r = 0; r < valid; ++r) {
      float* row = results + r * w.value_step + c;
      AddWeighted<1, kV>(w.weights, shrink + r, block.values + c, w.value_step, 0, row);
      constexpr float kSame = 1;
      for (size_t j = 0; j < block.count; ++j) {
        if (!rule.Sees(chunk.entries, i0 + r, keys, j)) continue;
        AddWeighted<1, kV>(w.weights + r * kB + j, &kSame, block.values + j * w.value_step + c,
                           w.value_step, 1, row);
      }
    }
  });
}

// Joins what the chunk has summed to its rows, one after the other: a row may stand in it twice.
static void JoinRows(const PatternSpace& w, const QueryChunk& chunk) {
  const DF df;
  for (size_t i = 0; i < chunk.count; ++i) {
    const float maximum = w.maxima[i];
    if (maximum == kMinusInfinity && w.sums[i] == 0) continue;
    const int64_t row = chunk.entries.rows[i];
    float& row_maximum = w.row_maxima[row];
    float& row_sum = w.row_sums[row];
    const float* HWY_RESTRICT from = w.results + i * w.value_step;
    float* HWY_RESTRICT to = w.rows.Row(row);
    if (row_maximum == kMinusInfinity && row_sum == 0) {
      // The first to arrive: what lies in the row has not been written yet.
      for (size_t c = 0; c < w.rows.width(); c += kLanes) {
        hn::StoreU(hn::Load(df, from + c), df, to + c);
      }
      row_maximum = maximum;
      row_sum = w.sums[i];
      continue;
    }
    const float top = std::max(row_maximum, maximum);
    const float before = std::exp(row_maximum - top);
    const float now = std::exp(maximum - top);
    const VF before_factor = hn::Set(df, before);
    const VF now_factor = hn::Set(df, now);
    for (size_t c = 0; c < w.rows.width(); c += kLanes) {
      const VF sum = hn::Mul(hn::LoadU(df, to + c), before_factor);
      hn::StoreU(hn::MulAdd(hn::Load(df, from + c), now_factor, sum), df, to + c);
    }
    row_maximum = top;
    row_sum = row_sum * before + w.sums[i] * now;
  }
}

void RunPattern(const PatternHead& head, const Output& output, float* scratch) {
  const DF df;
  PatternSpace w(head, output, Arena(scratch));
  const AttentionPattern& pattern = *head.pattern;
  const Operand query = ScaledQuery(head);
  std::fill_n(w.row_maxima, head.query_length, kMinusInfinity);
  std::fill_n(w.row_sums, head.query_length, 0.0f);
  w.blocks.Begin(head);
  ForQueryChunks(pattern, [&](const auto* tile, const auto* end, const QueryChunk& chunk) HWY_ATTR {
    const size_t padded = chunk.Padded();
    GatherRows(query, chunk.entries.rows, chunk.count, w.queries, w.width_step, padded);
    std::fill_n(w.maxima, padded, kMinusInfinity);
    std::fill_n(w.sums, padded, 0.0f);
    std::fill_n(w.results, padded * w.value_step, 0.0f);
    ForKeyBlocks(pattern, tile, end, chunk, w.blocks,
                 [&](const Rule& rule, const KeyBlock& block) HWY_ATTR {
                   for (size_t i0 = 0; i0 < chunk.count; i0 += kRows) {
                     AttendTile(w, rule, chunk, i0, block);
                   }
                 });
    JoinRows(w, chunk);
  });
  for (int64_t i = 0; i < head.query_length; ++i) {
    const float sum = w.row_sums[i];
    float* HWY_RESTRICT row = w.rows.Row(i);
    if (sum == 0) {
      std::fill_n(row, w.rows.width(), 0.0f);
    } else {
      const VF factor = hn::Set(df, 1.0f / sum);
      for (size_t c = 0; c < w.rows.width(); c += kLanes) {
        hn::StoreU(hn::Mul(hn::LoadU(df, row + c), factor), df, row + c);
      }
    }
    if (output.sums != nullptr) {
      output.sums[i * output.sums_stride] =
          sum == 0 ? kMinusInfinity : w.row_maxima[i] + std::log(sum);
    }
  }
  w.rows.Store();
}

int64_t PatternScratch(const PatternHead& head, const Output& output) {
  return PatternSpace(head, output, Arena(nullptr)).size;
}

struct PatternBackwardSpace {
  PatternBackwardSpace(const PatternBackward& task, Arena arena)
      : PatternBackwardSpace(task, task.heads.front(), arena) {}

  PatternBackwardSpace(const PatternBackward& task, const PatternHead& head, Arena& arena)
      : width(static_cast<size_t>(head.query.dim)),
        values_width(static_cast<size_t>(head.value.dim)),
        width_step(StepOf(head.query.dim)),
        value_step(StepOf(head.value.dim)),
        row_delta(arena.Take(static_cast<size_t>(head.query_length))),
        log_sum_exp(arena.Take(kQueryRows)),
        delta(arena.Take(kQueryRows)),
        queries(arena.Take(kQueryRows * width_step)),
        gradients(arena.Take(kQueryRows * value_step)),
        dq(arena.Take(kQueryRows * width_step)),
        weights(arena.Take(kB * kB)),
        slopes(arena.Take(kB * kB)),
        key_rows(task.dk, head.key_length, arena),
        value_rows(task.dv, head.key_length, arena),
        query_arena(arena),
        query_rows(task.dq.front(), head.query_length, arena),
        blocks(head, &key_rows, &value_rows, arena),
        size(arena.size()) {}

  size_t width;
  size_t values_width;
  size_t width_step;
  size_t value_step;
  float* row_delta;    // [query_length]: d_o . o
  float* log_sum_exp;  // [kQueryRows]: of the chunk
  float* delta;        // [kQueryRows]
  float* queries;      // [kQueryRows][width_step], scaled
  float* gradients;    // [kQueryRows][value_step], of the outputs
  float* dq;           // [kQueryRows][width_step]
  float* weights;      // [kB queries][kB keys]
  float* slopes;       // [kB queries][kB keys]: gradient with respect to the scaled scores
  RowSums key_rows;    // [key_length]: dk
  RowSums value_rows;  // [key_length]: dv
  Arena query_arena;   // each head in turn has its sums here
  RowSums query_rows;  // [query_length]: dq of one head
  KeyBlocks blocks;
  int64_t size;
};

// Weights and slopes of the queries from i0 on: p = exp(s - lse), ds = p (d_o . v - delta).
static void ScorePairs(const PatternBackwardSpace& w, const Rule& rule, const QueryChunk& chunk,
                       size_t i0, size_t count, const KeyBlock& block) {
  const DF df;
  const Entries keys = block.Keys();
  for (size_t r0 = 0; r0 < count; r0 += kRows) {
    const size_t first = i0 + r0;
    const Seen seen = rule.Of(chunk.tiles[first / kRows], block.bounds);
    float* weights = w.weights + r0 * kB;
    float* slopes = w.slopes + r0 * kB;
    if (seen == Seen::kNone) {
      std::fill_n(weights, kRows * kB, 0.0f);
      std::fill_n(slopes, kRows * kB, 0.0f);
      continue;
    }
    ForColumns(0, block.columns, [&](size_t j, auto vectors) HWY_ATTR {
      constexpr size_t kV = vectors();
      Tile<kRows, kV> score;
      score.Clear();
      score.AddRows(w.queries + first * w.width_step, w.width_step, block.key_columns + j, kB,
                    w.width);
      Tile<kRows, kV> slope;
      slope.Clear();
      slope.AddRows(w.gradients + first * w.value_step, w.value_step, block.value_columns + j, kB,
                    w.values_width);
      for (size_t r = 0; r < kRows; ++r) {
        const size_t i = std::min(first + r, chunk.count - 1);
        const VF lse = hn::Set(df, w.log_sum_exp[i]);
        const VF shift = hn::Set(df, w.delta[i]);
        for (size_t v = 0; v < kV; ++v) {
          const size_t column = j + v * kLanes;
          VF s = score.sum[r][v];
          auto mask = hn::FirstN(df, kLanes);
          if (seen == Seen::kSome) mask = rule.Mask(chunk.entries, i, keys, column, s);
          const VF p = hn::IfThenElseZero(mask, ExpOrNaN(hn::Sub(s, lse)));
          const VF ds = hn::IfThenElseZero(mask, hn::Mul(p, hn::Sub(slope.sum[r][v], shift)));
          hn::Store(p, df, weights + r * kB + column);
          hn::Store(ds, df, slopes + r * kB + column);
        }
      }
    });
  }
}

// The gradients of the pairs of ScorePairs, one by one where a product with zero would carry a row
// that is not finite to one that does not see it.
static void AddPairs(const PatternBackwardSpace& w, const Rule& rule, const QueryChunk& chunk,
                     size_t i0, size_t count, const KeyBlock& block) {
  const Entries keys = block.Keys();
  for (size_t i = 0; i < count; ++i) {
    const float* query = w.queries + (i0 + i) * w.width_step;
    const float* gradient = w.gradients + (i0 + i) * w.value_step;
    float* dq = w.dq + (i0 + i) * w.width_step;
    for (size_t j = 0; j < block.count; ++j) {
      if (!rule.Sees(chunk.entries, i0 + i, keys, j)) continue;
      const float weight = w.weights[i * kB + j];
      const float slope = w.slopes[i * kB + j];
      for (size_t c = 0; c < w.width; ++c) {
        dq[c] += slope * block.keys[j * w.width_step + c];
        block.dk[j * w.width_step + c] += slope * query[c];
      }
      for (size_t c = 0; c < w.values_width; ++c)
        block.dv[j * w.value_step + c] += weight * gradient[c];
    }
  }
}

static void AddBlock(const PatternBackwardSpace& w, const Rule& rule, const QueryChunk& chunk,
                     bool finite, const KeyBlock& block) {
  for (size_t i0 = 0; i0 < chunk.count; i0 += kB) {
    const size_t count = std::min(kB, chunk.count - i0);
    const Seen seen = rule.Of(chunk.blocks[i0 / kB], block.bounds);
    if (seen == Seen::kNone) continue;
    ScorePairs(w, rule, chunk, i0, count, block);
    if (seen == Seen::kSome && !(finite && block.finite)) {
      AddPairs(w, rule, chunk, i0, count, block);
      continue;
    }
    AddProduct<true>(w.weights, w.gradients + i0 * w.value_step, w.value_step, block.count, count,
                     w.value_step, block.dv, w.value_step);
    AddProduct<true>(w.slopes, w.queries + i0 * w.width_step, w.width_step, block.count, count,
                     w.width_step, block.dk, w.width_step);
    AddProduct<false>(w.slopes, block.keys, w.width_step, count, block.count, w.width_step,
                      w.dq + i0 * w.width_step, w.width_step);
  }
}

void RunPatternBackward(const PatternBackward& task, float* scratch) {
  PatternBackwardSpace w(task, Arena(scratch));
  w.key_rows.Begin();
  w.value_rows.Begin();
  for (size_t h = 0; h < task.heads.size(); ++h) {
    const PatternHead& head = task.heads[h];
    const AttentionPattern& pattern = *head.pattern;
    const Operand query = ScaledQuery(head);
    const float* log_sum_exp = task.log_sum_exp[h];
    DotRows(task.o[h], task.d_o[h], head.query_length, w.row_delta, 1);
    Arena arena = w.query_arena;
    w.query_rows = RowSums(task.dq[h], head.query_length, arena);
    w.query_rows.Begin();
    w.blocks.Begin(head);
    ForQueryChunks(pattern,
                   [&](const auto* tile, const auto* end, const QueryChunk& chunk) HWY_ATTR {
                     const size_t padded = chunk.Padded();
                     const int32_t* rows = chunk.entries.rows;
                     GatherRows(query, rows, chunk.count, w.queries, w.width_step, padded);
                     GatherRows(task.d_o[h], rows, chunk.count, w.gradients, w.value_step, padded);
                     for (size_t i = 0; i < chunk.count; ++i) {
                       w.log_sum_exp[i] = log_sum_exp[rows[i] * task.side_stride];
                       w.delta[i] = w.row_delta[rows[i]];
                     }
                     std::fill_n(w.dq, padded * w.width_step, 0.0f);
                     const bool finite = AllFinite(w.queries, chunk.count * w.width_step) &&
                                         AllFinite(w.gradients, chunk.count * w.value_step);
                     ForKeyBlocks(pattern, tile, end, chunk, w.blocks,
                                  [&](const Rule& rule, const KeyBlock& block)
                                      HWY_ATTR { AddBlock(w, rule, chunk, finite, block); });
                     // Keys are packed as they are and queries scaled, so that only dq still needs
                     // the scale.
                     w.query_rows.Add(w.dq, w.width_step, chunk.count, rows, head.scale);
                   });
    w.blocks.End();
    w.query_rows.Finish();
  }
  w.key_rows.Finish();
  w.value_rows.Finish();
}

int64_t PatternBackwardScratch(const PatternBackward& task) {
  return PatternBackwardSpace(task, Arena(nullptr)).size;
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunPattern);
HWY_EXPORT(PatternScratch);
HWY_EXPORT(RunPatternBackward);
HWY_EXPORT(PatternBackwardScratch);

void RunPattern(const PatternHead& head, const Output& output, float* scratch) {
  HWY_DYNAMIC_DISPATCH(RunPattern)(head, output, scratch);
}

int64_t PatternScratch(const PatternHead& head, const Output& output) {
  return HWY_DYNAMIC_DISPATCH(PatternScratch)(head, output);
}

void RunPatternBackward(const PatternBackward& task, float* scratch) {
  HWY_DYNAMIC_DISPATCH(RunPatternBackward)(task, scratch);
}

int64_t PatternBackwardScratch(const PatternBackward& task) {
  return HWY_DYNAMIC_DISPATCH(PatternBackwardScratch)(task);
}

}  // namespace cosformer
#endif  // HWY_ONCE
