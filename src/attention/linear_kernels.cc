// The sweep, compiled once an instruction set.

#include "attention/linear_kernels.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/linear_kernels.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "attention/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

constexpr size_t kC = kChunk;

// Where a sweep keeps what it works on; all of it stays in the first two cache levels. Matrices
// [rows][columns] with rows on cache lines.
struct Workspace {
  Workspace(const Sweep& sweep, float* scratch)
      : width(static_cast<size_t>(sweep.layout.features)),
        width_step(static_cast<size_t>(sweep.layout.sums)),
        parts(static_cast<size_t>(sweep.layout.parts)),
        key_step(parts * width_step),
        value_step(static_cast<size_t>(sweep.layout.row)),
        streams(sweep.keys.size()) {
    Arena arena(scratch);
    cos = arena.Take(kC);
    sin = arena.Take(kC);
    large = arena.Take(kC);
    ratio = arena.Take(kC);
    factors = arena.Take(kC);
    score_sums = arena.Take(kC * kLanes);
    queries = arena.Take(kC * width_step);
    keys = arena.Take(streams * kC * width_step);
    key_columns = arena.Take(streams * (width_step * kC));
    if (sweep.keep != nullptr) {
      kept = arena.Take(kC);
      kept_at_end = arena.Take(kC);
      weights = arena.Take(kC * kC);
    }
    turned_keys = parts == 1 && sweep.keep == nullptr ? keys : arena.Take(streams * kC * key_step);
    values = arena.Take(streams * kC * value_step);
    scores = arena.Take(streams * kC * kC);
    results = arena.Take(kC * value_step);
    size = arena.size();
  }

  size_t width;
  size_t width_step;
  size_t parts;
  size_t key_step;
  size_t value_step;
  size_t streams;
  float* cos;          // [kC], of theta * position
  float* sin;          // [kC]
  float* large;        // [kC]: of cos and sin the one that is larger at the first row of the tile
  float* ratio;        // [kC]: the other, divided by it
  float* factors;      // [kC], 1 / normaliser
  float* score_sums;   // [kC][kLanes]: of the scores, lane by lane
  float* queries;      // [kC][width_step]
  float* keys;         // [streams][kC][width_step]
  float* key_columns;  // [streams][width][kC]
  float* turned_keys;  // [streams][kC][parts][width_step]: times cos, times sin, times kept_at_end
  float* values;       // [streams][kC][value_step]
  float* scores;       // [streams][kC queries][kC keys]
  float* results;      // [kC][value_step]
  // With forgetting; null without.
  float* kept = nullptr;         // [kC]: at each position, of the state before the chunk
  float* kept_at_end = nullptr;  // [kC]: after the chunk, of each of its keys
  float* weights = nullptr;  // [kC queries][kC keys]: kept of the key, times cos; 0 for later keys
  int64_t size;
};

// Whether the tile that holds row i takes cos as the larger.
HWY_INLINE bool CosLeads(const Workspace& w, size_t i) {
  const size_t tile = i / kTileRows * kTileRows;
  return w.cos[tile] >= w.sin[tile];
}

// cos and sin of theta * (position + r), r < kC: one sine of the chunk's own angle in double, and
// the addition theorem. Rounded once, to float.
void FillAngles(const Rotation& rotation, int64_t position, const Workspace& w) {
  const double angle = rotation.theta * static_cast<double>(position);
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  float* HWY_RESTRICT cos = w.cos;
  float* HWY_RESTRICT sin = w.sin;
  for (size_t r = 0; r < kC; ++r) {
    cos[r] = static_cast<float>(c * rotation.cos[r] - s * rotation.sin[r]);
    sin[r] = static_cast<float>(s * rotation.cos[r] + c * rotation.sin[r]);
  }
  float* HWY_RESTRICT large = w.large;
  float* HWY_RESTRICT ratio = w.ratio;
  for (size_t tile = 0; tile < kC; tile += kTileRows) {
    const bool near = CosLeads(w, tile);
    for (size_t r = tile; r < tile + kTileRows; ++r) {
      // A tile may reach the angle of a cosine of 0 where the horizon is a few tokens.
      large[r] = std::max(near ? cos[r] : sin[r], 1e-12f);
      ratio[r] = (near ? sin[r] : cos[r]) / large[r];
    }
  }
}

// What forgetting leaves in the chunk of `count` positions from p. Products of what is kept, one
// position after the other: no logarithms, so that 0 is as good as any.
void FillKept(const Sweep& sweep, const Workspace& w, int64_t p, size_t count) {
  const DF df;
  const float* window = sweep.rotation->window.data() + kC;
  HWY_ALIGN float left[kC] = {};  // at position i, of each key up to it
  float of_state = 1;
  for (size_t i = 0; i < count; ++i) {
    const float keep = sweep.keep[(p + static_cast<int64_t>(i)) * sweep.keep_stride];
    of_state *= keep;
    w.kept[i] = of_state;
    const VF factor = hn::Set(df, keep);
    for (size_t j = 0; j < i; j += kLanes) {
      hn::Store(hn::Mul(hn::Load(df, left + j), factor), df, left + j);
    }
    left[i] = 1;
    for (size_t j = 0; j < kC; j += kLanes) {
      hn::Store(hn::Mul(hn::Load(df, left + j), hn::LoadU(df, window + j - i)), df,
                w.weights + i * kC + j);
    }
  }
  std::copy_n(left, kC, w.kept_at_end);
  std::fill(w.kept + count, w.kept + kC, 0.0f);
  ZeroRows(w.weights, kC, count, kC);
}

// turned[j] = [cos_j key_j, sin_j key_j] or key_j alone, times what is kept of it after the chunk.
void TurnKeys(const Workspace& w, const float* HWY_RESTRICT keys, size_t count,
              float* HWY_RESTRICT turned) {
  const DF df;
  const size_t step = w.width_step;
  for (size_t j = 0; j < count; ++j, keys += step, turned += w.key_step) {
    const float kept = w.kept_at_end == nullptr ? 1.0f : w.kept_at_end[j];
    if (w.parts == 1) {
      const VF factor = hn::Set(df, kept);
      for (size_t c = 0; c < step; c += kLanes) {
        hn::Store(hn::Mul(factor, hn::Load(df, keys + c)), df, turned + c);
      }
      continue;
    }
    const VF cos = hn::Set(df, kept * w.cos[j]);
    const VF sin = hn::Set(df, kept * w.sin[j]);
    for (size_t c = 0; c < step; c += kLanes) {
      const VF x = hn::Load(df, keys + c);
      hn::Store(hn::Mul(cos, x), df, turned + c);
      hn::Store(hn::Mul(sin, x), df, turned + step + c);
    }
  }
}

// scores[i][j] = cos(theta (i - j)) query_i . key_j where j <= i, else 0; times what is kept of j.
void ScoreChunk(const Sweep& sweep, const Workspace& w, size_t stream, size_t begin, size_t end) {
  const DF df;
  const bool sums = sweep.normalise;
  const float* window = sweep.rotation->window.data() + kC;
  const float* keys = w.key_columns + stream * w.width_step * kC;
  const size_t step = w.width_step;
  for (size_t i0 = begin / kRows * kRows; i0 < end; i0 += kRows) {
    float* HWY_RESTRICT scores = w.scores + (stream * kC + i0) * kC;
    float* HWY_RESTRICT score_sums = w.score_sums + i0 * kLanes;
    const size_t columns = (i0 + kRows + kLanes - 1) / kLanes * kLanes;
    ForColumns(0, columns, [&](size_t j0, auto vectors) HWY_ATTR {
      constexpr size_t kV = vectors();
      Tile<kRows, kV> tile;
      tile.Clear();
      tile.AddRows(w.queries + i0 * step, step, keys + j0, kC, w.width);
      for (size_t r = 0; r < kRows; ++r) {
        VF sum = j0 == 0 ? hn::Zero(df) : hn::Load(df, score_sums + r * kLanes);
        const float* weights = w.weights == nullptr ? window - (i0 + r) : w.weights + (i0 + r) * kC;
        for (size_t v = 0; v < kV; ++v) {
          const size_t j = j0 + v * kLanes;
          const VF weight = hn::LoadU(df, weights + j);
          // Selected, not only multiplied: the score of a later key may be infinite.
          const VF s =
              hn::IfThenElseZero(hn::Ne(weight, hn::Zero(df)), hn::Mul(tile.sum[r][v], weight));
          hn::Store(s, df, scores + r * kC + j);
          sum = hn::Add(sum, s);
        }
        if (sums) hn::Store(sum, df, score_sums + r * kLanes);
      }
    });
  }
}

// factors[i] = 1 / (the sum of the scores of i + query_i . turned feature sums of the states).
void Normalise(const Sweep& sweep, const Workspace& w, const float* const* states,
               size_t state_count, bool has_scores, size_t begin, size_t end, const Output& output,
               int64_t first_row) {
  const DF df;
  const size_t width_step = w.width_step;
  const bool turned = w.parts == 2;
  for (size_t i = begin; i < end; ++i) {
    const float* HWY_RESTRICT query = w.queries + i * width_step;
    VF cos_sum = hn::Zero(df);
    VF sin_sum = hn::Zero(df);
    for (size_t s = 0; s < state_count; ++s) {
      const float* HWY_RESTRICT sums = states[s] + sweep.layout.Matrix();
      for (size_t c = 0; c < width_step; c += kLanes) {
        const VF x = hn::Load(df, query + c);
        cos_sum = hn::MulAdd(x, hn::Load(df, sums + c), cos_sum);
        if (turned) sin_sum = hn::MulAdd(x, hn::Load(df, sums + width_step + c), sin_sum);
      }
    }
    VF sum = cos_sum;
    if (turned) {
      sum = hn::MulAdd(cos_sum, hn::Set(df, w.cos[i]), hn::Mul(sin_sum, hn::Set(df, w.sin[i])));
    }
    if (w.kept != nullptr) sum = hn::Mul(sum, hn::Set(df, w.kept[i]));
    if (has_scores) sum = hn::Add(sum, hn::Load(df, w.score_sums + i * kLanes));
    const float total = hn::GetLane(hn::SumOfLanes(df, sum));
    if (output.sums != nullptr) {
      output.sums[(first_row + static_cast<int64_t>(i - begin)) * output.sums_stride] = total;
    }
    w.factors[i] = 1.0f / KeptFromZero(total, sweep.epsilon);
  }
}

// What a chunk is read with.
struct Reading {
  const float* const* states;
  size_t state_count;
  size_t keys;  // of the chunk itself
  float* out;   // row 0 of the chunk
  size_t out_step;
};

// out[i] = cos_i query_i C + sin_i query_i S + scores_i values, for the tile rows from i0. The
// angle is applied to the sums instead of the queries: the smaller of cos and sin first, as its
// ratio to the larger.
template <size_t kR, size_t kV>
HWY_INLINE void ReadTile(const Sweep& sweep, const Workspace& w, const Reading& reading, size_t i0,
                         size_t column, Ahead& ahead) {
  const DF df;
  const size_t step = w.value_step;
  const float* queries = w.queries + i0 * w.width_step;
  const size_t part_size = static_cast<size_t>(sweep.layout.part_rows) * step;
  Tile<kR, kV> tile;
  tile.Clear();
  const auto add_part = [&](size_t part) HWY_ATTR {
    for (size_t s = 0; s < reading.state_count; ++s) {
      tile.AddRows(queries, w.width_step, reading.states[s] + part * part_size + column, step,
                   w.width);
    }
    ahead.Some();
  };
  if (w.parts == 2) {
    const bool near = CosLeads(w, i0);
    add_part(near ? 1 : 0);
    tile.Scale(w.ratio + i0);
    add_part(near ? 0 : 1);
    tile.Scale(w.large + i0);
  } else {
    add_part(0);
  }
  if (w.kept != nullptr) tile.Scale(w.kept + i0);
  if (reading.keys > 0) {
    for (size_t s = 0; s < w.streams; ++s) {
      tile.AddRows(w.scores + (s * kC + i0) * kC, kC, w.values + s * kC * step + column, step,
                   std::min(reading.keys, i0 + kR));
    }
  }
  if (sweep.normalise) tile.Scale(w.factors + i0);
  const size_t out_step = reading.out_step;
  float* HWY_RESTRICT to = reading.out + i0 * out_step + column;
  for (size_t r = 0; r < kR; ++r, to += out_step) {
    for (size_t v = 0; v < kV; ++v) hn::StoreU(tile.sum[r][v], df, to + v * kLanes);
  }
}

// A value that is not finite would reach the queries before it in its tile, as 0 * NaN: such a
// chunk is read row by row.
void ReadChunk(const Sweep& sweep, const Workspace& w, const Reading& reading, size_t begin,
               size_t end, bool finite, Ahead& ahead) {
  ForColumns(0, w.value_step, [&](size_t column, auto vectors) HWY_ATTR {
    constexpr size_t kV = vectors();
    if (finite) {
      for (size_t i = begin / kRows * kRows; i < end; i += kRows) {
        ReadTile<kRows, kV>(sweep, w, reading, i, column, ahead);
      }
    } else {
      for (size_t i = begin; i < end; ++i) ReadTile<1, kV>(sweep, w, reading, i, column, ahead);
    }
  });
}

template <size_t kV>
HWY_INLINE void AbsorbColumns(const Sweep& sweep, const Workspace& w, size_t key_end, VF kept,
                              size_t column, float* HWY_RESTRICT state, Ahead& ahead) {
  // Copies: a vector store may alias anything, so that what is read through w would be read again.
  const DF df;
  const size_t step = w.value_step;
  const size_t streams = w.streams;
  const size_t key_step = w.key_step;
  const size_t part_rows = static_cast<size_t>(sweep.layout.part_rows);
  const float* values = w.values + column;
  float* HWY_RESTRICT to = state + column;
  for (size_t p = 0; p < w.parts; ++p) {
    const float* keys = w.turned_keys + p * w.width_step;
    // A width of whole tiles and one, as [values, 1] is, does not pay for another whole tile.
    const bool one_more = w.width % kRows == 1;
    const size_t tiled = one_more ? w.width - 1 : part_rows;
    for (size_t f = 0; f < tiled; f += kRows) {
      Tile<kRows, kV> tile;
      tile.Clear();
      for (size_t s = 0; s < streams; ++s) {
        tile.AddColumns(keys + s * kC * key_step + f, key_step, values + s * kC * step, step,
                        key_end);
      }
      for (size_t r = 0; r < kRows; ++r, to += step) {
        for (size_t v = 0; v < kV; ++v) {
          hn::Store(hn::MulAdd(kept, hn::Load(df, to + v * kLanes), tile.sum[r][v]), df,
                    to + v * kLanes);
        }
      }
      ahead.Some();
    }
    if (one_more) {
      Tile<1, kV> row;
      row.Clear();
      for (size_t s = 0; s < streams; ++s) {
        row.AddColumns(keys + s * kC * key_step + tiled, key_step, values + s * kC * step, step,
                       key_end);
      }
      for (size_t v = 0; v < kV; ++v) {
        hn::Store(hn::MulAdd(kept, hn::Load(df, to + v * kLanes), row.sum[0][v]), df,
                  to + v * kLanes);
      }
      to += (part_rows - tiled) * step;
    }
  }
}

// state = kept * state + sum_j turned key_j (outer) value_j. The sum over the chunk is taken from
// zero and then added, so that it makes no difference whether a chunk is absorbed here or by
// another thread.
void AbsorbChunk(const Sweep& sweep, const Workspace& w, size_t key_end, float kept_of_state,
                 float* HWY_RESTRICT state, Ahead& ahead) {
  const DF df;
  const VF kept = hn::Set(df, kept_of_state);
  ForColumns(0, w.value_step, [&](size_t column, auto vectors) HWY_ATTR {
    AbsorbColumns<vectors()>(sweep, w, key_end, kept, column, state, ahead);
  });
  if (!sweep.normalise) return;
  float* HWY_RESTRICT sums = state + sweep.layout.Matrix();
  for (size_t f = 0; f < w.key_step; f += kLanes) {
    VF sum = hn::Zero(df);
    for (size_t s = 0; s < w.streams; ++s) {
      const float* HWY_RESTRICT key = w.turned_keys + s * kC * w.key_step + f;
      for (size_t j = 0; j < key_end; ++j) sum = hn::Add(sum, hn::Load(df, key + j * w.key_step));
    }
    hn::Store(hn::MulAdd(kept, hn::Load(df, sums + f), sum), df, sums + f);
  }
}

// What the chunk at p of all runs will touch, spread over the tiles of the chunk before it. Outputs
// need no fetching: stores wait in their buffer, not in the way.
void LookAhead(std::span<const SweepRun> runs, const Workspace& w, int64_t p, bool reads,
               bool absorbs, Ahead& ahead) {
  const Sweep& any = *runs.front().sweep;
  const int64_t stop = p + kChunk;
  const int64_t keys = absorbs || any.causal ? std::min(stop, any.key_count) - p : 0;
  const int64_t first = std::max<int64_t>(0, p - any.query_offset);
  const int64_t queries = reads ? std::min(stop - any.query_offset, any.query_count) - first : 0;
  const auto add = [&](const Operand& op, int64_t row, int64_t count) {
    if (op.data != nullptr) ahead.Add(op.data, op.dtype, op.stride, op.dim, row, count);
  };
  for (size_t s = 0; s < any.keys.size(); ++s) {
    for (const SweepRun& run : runs) add(run.sweep->keys[s], p, keys);
    for (const SweepRun& run : runs) add(run.sweep->values[s], p, keys);
  }
  for (size_t h = 0; h < any.queries.size(); ++h) {
    for (const SweepRun& run : runs) add(run.sweep->queries[h], first, queries);
    for (const SweepRun& run : runs) add(run.sweep->outputs[h].derivative, first, queries);
  }
  const size_t columns = (w.value_step + kVecs * kLanes - 1) / (kVecs * kLanes);
  const size_t read_calls = reads ? any.queries.size() * w.parts * (kC / kRows) * columns : 0;
  const size_t absorb_calls = absorbs ? w.parts * (w.width / kRows) * columns : 0;
  ahead.SpreadOver(static_cast<int64_t>(runs.size() * (read_calls + absorb_calls)));
}

// The positions p to chunk_end - 1 of one sweep.
void RunChunk(const SweepRun& run, const Workspace& w, int64_t p, int64_t chunk_end,
              SweepAction action, Ahead& ahead) {
  const Sweep& sweep = *run.sweep;
  const bool reads = action != SweepAction::kAbsorb;
  const bool absorbs = action != SweepAction::kRead;
  const float* states[] = {run.state, run.distant};
  const size_t state_count = run.distant == nullptr ? 1 : 2;
  // Local indices: keys [0, key_end), queries [query_begin, query_end).
  const bool needs_keys = absorbs || sweep.causal;
  const size_t key_end =
      needs_keys ? static_cast<size_t>(std::clamp<int64_t>(sweep.key_count, p, chunk_end) - p) : 0;
  const int64_t first_query = std::clamp<int64_t>(sweep.query_offset, p, chunk_end);
  const int64_t last_query =
      std::clamp<int64_t>(sweep.query_offset + sweep.query_count, p, chunk_end);
  const size_t query_begin = static_cast<size_t>(first_query - p);
  const size_t query_end = static_cast<size_t>(last_query - p);
  const bool read_here = reads && query_begin < query_end;
  const size_t scored_keys = sweep.causal && read_here ? key_end : 0;

  if (sweep.keep != nullptr) FillKept(sweep, w, p, static_cast<size_t>(chunk_end - p));
  bool finite = true;
  for (size_t s = 0; s < w.streams && key_end > 0 && (absorbs || read_here); ++s) {
    float* keys = w.keys + s * kC * w.width_step;
    float* values = w.values + s * kC * w.value_step;
    PackRows(sweep.keys[s], p, key_end, keys, w.width_step, key_end);
    if (absorbs && w.turned_keys != w.keys) {
      TurnKeys(w, keys, key_end, w.turned_keys + s * kC * w.key_step);
    }
    PackRows(sweep.values[s], p, key_end, values, w.value_step, key_end);
    if (scored_keys > 0) {
      ZeroRows(keys, w.width_step, key_end, kC);
      Transpose(keys, w.width_step, kC, w.width, w.key_columns + s * w.width_step * kC, kC);
      finite &= AllFinite(values, key_end * w.value_step);
    }
  }

  for (size_t h = 0; read_here && h < sweep.queries.size(); ++h) {
    const int64_t first_row = first_query - sweep.query_offset;
    const Output& output = sweep.outputs[h];
    std::fill_n(w.queries, query_begin * w.width_step, 0.0f);
    PackRows(sweep.queries[h], first_row, query_end - query_begin,
             w.queries + query_begin * w.width_step, w.width_step, kC - query_begin);
    for (size_t s = 0; s < w.streams && scored_keys > 0; ++s) {
      ScoreChunk(sweep, w, s, query_begin, query_end);
    }
    if (sweep.normalise) {
      Normalise(sweep, w, states, state_count, scored_keys > 0, query_begin, query_end, output,
                first_row);
    }
    // Straight into the output where whole tiles of whole vectors fit it.
    const bool direct = output.dtype == DType::kFloat32 && output.derivative.data == nullptr &&
                        output.dim == sweep.layout.row && query_begin == 0 && query_end == kC;
    Reading reading{states, state_count, scored_keys, w.results, w.value_step};
    if (direct) {
      reading.out = static_cast<float*>(output.data) + first_row * output.stride;
      reading.out_step = static_cast<size_t>(output.stride);
    }
    ReadChunk(sweep, w, reading, query_begin, query_end, finite, ahead);
    if (!direct) {
      UnpackRows(w.results + query_begin * w.value_step, w.value_step, first_row,
                 query_end - query_begin, output);
    }
  }

  // Forgetting goes on where there are no keys any more.
  if (absorbs && (key_end > 0 || sweep.keep != nullptr)) {
    const float kept = sweep.keep == nullptr ? 1.0f : w.kept[chunk_end - p - 1];
    AbsorbChunk(sweep, w, key_end, kept, run.state, ahead);
  }
}

void RunSweeps(std::span<const SweepRun> runs, int64_t begin, int64_t end, SweepAction action,
               float* scratch) {
  const Sweep& any = *runs.front().sweep;
  const Workspace w(any, scratch);
  for (int64_t p = begin; p < end; p += kChunk) {
    if (w.parts == 2) FillAngles(*any.rotation, p + any.origin, w);
    const int64_t chunk_end = std::min(end, p + kChunk);
    Ahead ahead;
    LookAhead(runs, w, chunk_end, action != SweepAction::kAbsorb, action != SweepAction::kRead,
              ahead);
    // The angles stand first in every workspace, whatever the widths of the run.
    for (const SweepRun& run : runs) {
      RunChunk(run, Workspace(*run.sweep, scratch), p, chunk_end, action, ahead);
    }
  }
}

int64_t SweepScratch(const Sweep& sweep) { return Workspace(sweep, nullptr).size; }

void TakeIn(float kept, float* HWY_RESTRICT state, float* HWY_RESTRICT before, int64_t count) {
  const DF df;
  const VF factor = hn::Set(df, kept);
  for (float* end = state + count; state != end; state += kLanes, before += kLanes) {
    const VF had = hn::Load(df, state);
    hn::Store(hn::MulAdd(factor, had, hn::Load(df, before)), df, state);
    hn::Store(had, df, before);
  }
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunSweeps);
HWY_EXPORT(SweepScratch);
HWY_EXPORT(TakeIn);
HWY_EXPORT(TargetName);

double AngleOf(const LinearKernel& kernel) {
  if (kernel.reweighting == Reweighting::kNone) return 0;
  return std::numbers::pi / 2 / static_cast<double>(kernel.horizon);
}

Rotation::Rotation(const LinearKernel& kernel) : theta(AngleOf(kernel)) {
  for (int64_t r = 0; r < kChunk; ++r) {
    cos[static_cast<size_t>(r)] = std::cos(theta * static_cast<double>(r));
    sin[static_cast<size_t>(r)] = std::sin(theta * static_cast<double>(r));
  }
  for (int64_t x = -kChunk; x <= 0; ++x) {
    window[static_cast<size_t>(kChunk + x)] =
        static_cast<float>(std::cos(theta * static_cast<double>(x)));
  }
}

void RunSweeps(std::span<const SweepRun> runs, int64_t begin, int64_t end, SweepAction action,
               float* scratch) {
  HWY_DYNAMIC_DISPATCH(RunSweeps)(runs, begin, end, action, scratch);
}

int64_t SweepScratch(const Sweep& sweep) { return HWY_DYNAMIC_DISPATCH(SweepScratch)(sweep); }

// In the order in which a chunk multiplies.
float KeptAfter(const Sweep& sweep, int64_t begin, int64_t end) {
  float kept = 1;
  for (int64_t p = begin; p < end && sweep.keep != nullptr; ++p) {
    kept *= sweep.keep[p * sweep.keep_stride];
  }
  return kept;
}

void TakeIn(float kept, float* state, float* before, int64_t count) {
  HWY_DYNAMIC_DISPATCH(TakeIn)(kept, state, before, count);
}

const char* AttentionTarget() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace cosformer
#endif  // HWY_ONCE
