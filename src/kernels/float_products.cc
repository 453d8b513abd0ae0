// Products with weights in float32 and bfloat16, compiled once an instruction set.
//
// W lies in panels of 16 rows, the numbers of a column side by side: a number of x meets a vector
// of them, so that sums need no adding up of lanes. Many rows of x meet kStep columns of kPanels
// panels at a time, which stay in the L1 cache while all of x passes by: what has to come from
// further away is x alone, 2 to 4 bytes a cycle.
//
// A dot product is summed in one order whatever the tile: numbers one after the other within a
// step, steps one after the other, the bias first.

#include <algorithm>
#include <cassert>
#include <type_traits>

#include "kernels/product_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/float_products.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "kernels/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// Rows of W in a panel, and vectors in one of its columns.
constexpr size_t kPanel = kWeightPanel;
constexpr size_t kVectors = kPanel / kLanes;
// A tile's rows of x and panels of W. Of 32 registers 24 are sums and 5 operands; of 16 it is 12
// and 3. Among the shapes that fit, 6 x 4 vectors need the fewest instructions for a multiply-add,
// 34 for 24; 12 x 2 need 38, which shows where another hyperthread shares the core's front end.
// Columns in a step: its part of the panels takes 32 KiB of 48 with AVX-512, 16 of 32 with AVX2.
// Columns for each line that is fetched of a piece: with many, more tiles share the fetching; with
// few, a tile of several panels has fewer pieces to keep pointers to.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr size_t kRegisters = 32;
constexpr size_t kPanels = 4;
constexpr size_t kStep = 128;
constexpr size_t kEvery = 2;
#else
constexpr size_t kRegisters = HWY_ARCH_ARM_A64 ? 32 : 16;
constexpr size_t kPanels = 1;
constexpr size_t kStep = 256;
constexpr size_t kEvery = 4;
#endif
constexpr size_t kRows = kPanels * kVectors * 7 < kRegisters ? 6 : 2;
constexpr size_t kColumns = kPanels * kPanel;
// Columns of y that are computed for all of x, a block of its rows after the other: a part of W and
// one of a block stay in an L2 cache, 128 and 192 KiB of 512 and more. More columns at a time gain
// nothing, and threads wait longer for each other.
constexpr size_t kPiece = 64;
constexpr size_t kBlock = 96;
// How many panels a few rows of x meet side by side, at most: enough for the latency of sums, and
// few enough streams for the memory. Columns further on that are fetched meanwhile, 64 KiB.
constexpr size_t kStreams = 4;
constexpr size_t kAhead = 256;
// Whether several streams need no fetching: a Zen 3 follows them by itself and reads 20 % less when
// it is told what comes next. Xeons with AVX-512 read more; other CPUs with AVX2 were not measured.
constexpr bool kFollowsStreams = HWY_TARGET == HWY_AVX2;
constexpr size_t kLine = 64;  // of a cache
constexpr int kToL2 = 2;  // __builtin_prefetch's word for it: what is next would not fit into L1
static_assert(kPanel % kLanes == 0 && kDepth % kStep == 0 && kAhead % kStep == 0);
static_assert(kPiece % kColumns == 0 && kBlock % kRows == 0);
static_assert(4 % kEvery == 0 && kEvery * sizeof(uint16_t) * kPanel % kLine == 0);

// Stands for a bias where there is none.
static_assert(kPanels <= kStreams);
constexpr float kNothing[kPanel * kStreams] = {};

HWY_INLINE VF LoadWeights(const float* from) { return hn::LoadU(DF(), from); }

HWY_INLINE VF LoadWeights(const uint16_t* from) {
  const hn::Rebind<uint16_t, DF> d16;
  const hn::RebindToUnsigned<DF> d32;
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}

// Pieces of a panel's step that are fetched side by side.
template <class T>
constexpr size_t kPieces = kEvery * sizeof(T) * kPanel / kLine;

// Some panels from one column on: number i of panel q is at data + q * apart + i * kPanel.
template <class T>
struct Panels {
  const T* data;
  size_t apart;

  // From column `column` of y and number k of its rows on.
  static Panels At(const Weights& w, size_t column, size_t k) {
    const int64_t at = FloatWeightAt(w, static_cast<int64_t>(column), static_cast<int64_t>(k));
    return {static_cast<const T*>(w.data) + at, static_cast<size_t>(w.columns) * kPanel};
  }
  Panels Skip(size_t panels) const { return {data + panels * apart, apart}; }
  // Piece f of what is fetched of a step; see Fetch.
  const char* Piece(size_t f) const {
    return reinterpret_cast<const char*>(Skip(f / kPieces<T>).data) +
           f % kPieces<T> * (kStep / kEvery) * kLine;
  }
};

// What is fetched while a tile is computed, evenly, since a core waits for no more than a dozen
// lines at once: from each of kF places kL lines for every kEvery columns.
template <size_t kF, size_t kL>
struct Fetch {
  const char* from[kF == 0 ? 1 : kF] = {};

  HWY_INLINE void Next() {
    Each<kF>([&](auto f) TILE_ATTR {
      Each<kL>([&](auto line) TILE_ATTR { __builtin_prefetch(from[f] + line * kLine, 0, kToL2); });
      from[f] += kL * kLine;
    });
  }
};

// sum + a * b, in the register that sum was in. Where a tile takes all 16 of them, GCC 12 would put
// some sums where a factor was and others into memory meanwhile: 9 % of a product's time.
HWY_INLINE VF AddProduct(VF a, VF b, VF sum) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2 && !defined(HWY_DISABLE_BMI2_FMA)
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum.raw) : "x"(a.raw), "x"(b.raw));
  return sum;
#else
  return hn::MulAdd(a, b, sum);
#endif
}

// y += x . w, or the bias and that in the first step.
template <size_t kM, size_t kP, class T, class Fetched>
HWY_NOINLINE void Tile(const Problem& p, const Place& at, Panels<T> w, Fetched fetch) {
  const float* HWY_RESTRICT x = p.x + at.row * p.x_stride + at.begin;
  const size_t x_stride = p.x_stride;
  constexpr size_t kN = kP * kVectors;
  VF sum[kM][kN];
  Each<kM>([&](auto m)
               TILE_ATTR { Each<kN>([&](auto n) TILE_ATTR { sum[m][n] = hn::Zero(DF()); }); });
  const float* HWY_RESTRICT rows[kM];
  Each<kM>([&](auto m) TILE_ATTR { rows[m] = x + m * x_stride; });
  const auto add = [&](size_t k) TILE_ATTR {
    VF wv[kN];
    Each<kP>([&](auto q) TILE_ATTR {
      Each<kVectors>([&](auto v) TILE_ATTR {
        wv[q * kVectors + v] = LoadWeights(w.data + q * w.apart + k * kPanel + v * kLanes);
      });
    });
    Each<kM>([&](auto m) TILE_ATTR {
      const VF xv = hn::Set(DF(), rows[m][k]);
      // One row has registers to spare, and takes weights from where they lie.
      Each<kN>([&](auto n) TILE_ATTR {
        sum[m][n] = kM > 1 ? AddProduct(xv, wv[n], sum[m][n]) : hn::MulAdd(xv, wv[n], sum[m][n]);
      });
    });
  };
  size_t k = 0;
  // Counting takes slots that multiply-adds could have: four columns at a time are 3 to 5 % faster
  // than two, eight are no faster than four.
  for (; k + 4 <= at.depth; k += 4) {
    Each<4>([&](auto i) TILE_ATTR {
      if (i % kEvery == 0) fetch.Next();
      add(k + i);
    });
  }
  for (; k < at.depth; ++k) add(k);

  // What there is before: the steps so far, the bias, or nothing.
  float* HWY_RESTRICT y = p.y + at.row * p.y_stride + at.column;
  const size_t y_stride = p.y_stride;
  const bool first = at.begin == 0;
  const float* before = !first ? y : p.bias != nullptr ? p.bias + at.column : kNothing;
  const size_t before_stride = first ? 0 : y_stride;
  if (at.count == kN * kLanes) {
    Each<kM>([&](auto m) TILE_ATTR {
      Each<kN>([&](auto n) TILE_ATTR {
        const size_t c = n * kLanes;
        const VF old = hn::LoadU(DF(), before + m * before_stride + c);
        hn::StoreU(hn::Add(old, sum[m][n]), DF(), y + m * y_stride + c);
      });
    });
    return;
  }
  HWY_ALIGN float all[kM][kN * kLanes];
  Each<kM>([&](auto m) TILE_ATTR {
    Each<kN>([&](auto n) TILE_ATTR { hn::Store(sum[m][n], DF(), all[m] + n * kLanes); });
  });
  for (size_t m = 0; m < kM; ++m) {
    for (size_t c = 0; c < at.count; ++c) {
      y[m * y_stride + c] = before[m * before_stride + c] + all[m][c];
    }
  }
}

// Calls body(k, depth) for the steps from `begin` to `end` - 1.
template <class Body>
HWY_INLINE void ForSteps(size_t begin, size_t end, const Body& body) {
  for (size_t k = begin; k < end; k += kStep) body(k, std::min(kStep, end - k));
}

// kM rows of x: W is read once, from its first byte to its last, kP panels side by side.
template <size_t kM, size_t kP, class T>
void Few(const Problem& p, size_t begin, size_t end, size_t last) {
  const auto columns = static_cast<size_t>(p.weights.columns);
  const auto multiply = [&](size_t column, auto panels) HWY_ATTR {
    const size_t count = std::min(panels * kPanel, end - column);
    const size_t next = column + panels * kPanel;
    ForSteps(0, columns, [&](size_t k, size_t depth) HWY_ATTR {
      const auto w = Panels<T>::At(p.weights, column, k);
      auto later = w;  // nothing: it is there already
      if (k + kAhead < columns) {
        later = Panels<T>::At(p.weights, column, k + kAhead);
      } else if (next < last) {
        later = Panels<T>::At(p.weights, next, std::min(k, k + kAhead - columns));
      }
      constexpr size_t fetched = panels > 1 && kFollowsStreams ? 0 : panels;
      Fetch<fetched, kPieces<T>> fetch;
      Each<fetched>([&](auto q) TILE_ATTR { fetch.from[q] = later.Skip(q).Piece(0); });
      Tile<kM, panels>(p, {0, column, count, k, depth}, w, fetch);
    });
  };
  size_t column = begin;
  for (; column + kP * kPanel <= end; column += kP * kPanel) {
    multiply(column, std::integral_constant<size_t, kP>());
  }
  for (; column < end; column += kPanel) multiply(column, std::integral_constant<size_t, 1>());
}

// A tile of `rows` rows of x, kM at most.
template <size_t kP, size_t kM = kRows, class Fetched>
void TileOf(size_t rows, const Problem& p, const Place& at, Panels<float> w, Fetched fetch) {
  if (rows == kM) return Tile<kM, kP>(p, at, w, fetch);
  if constexpr (kM > 1) TileOf<kP, kM - 1>(rows, p, at, w, fetch);
}

// Calls body with the least of 0, 1, 2, 4, ... kMost that is no less than n.
template <size_t kMost, class Body>
void WithAtLeast(size_t n, const Body& body) {
  if constexpr (kMost > 0) {
    if (n <= kMost / 2) return WithAtLeast<kMost / 2>(n, body);
  }
  body(std::integral_constant<size_t, kMost>());
}

// The tiles of `rows` rows of x from at.row on. Evenly among them they fetch what comes next, kP
// panels of it, where `next` is not empty: if the last ones alone did, they would wait for memory.
template <size_t kP, class T>
void DownRows(const Problem& p, Place at, size_t rows, Panels<float> w, Panels<T> next) {
  constexpr size_t kAll = kP * kPieces<T>;
  constexpr size_t kMost = (kAll + 1) / 2;  // a tile: where anything comes next there are two
  const size_t tiles = (rows + kRows - 1) / kRows;
  const size_t pieces = next.data == nullptr ? 0 : kAll;
  size_t piece = 0;
  for (size_t tile = 0; tile < tiles; ++tile) {
    // Evenly: a tile of one or two rows would wait for its sums.
    const size_t left = tiles - tile;
    const size_t count = (rows + left - 1) / left;
    const size_t fetched = pieces * (tile + 1) / tiles - piece;
    assert(fetched <= kMost);
    WithAtLeast<kMost>(fetched, [&](auto most) {
      Fetch<most, 1> fetch;  // the last of the pieces several times, if they are fewer
      for (size_t f = 0; f < most; ++f)
        fetch.from[f] = next.Piece(piece + std::min(f, fetched - 1));
      TileOf<kP>(count, p, at, w, fetch);
    });
    piece += fetched;
    at.row += count;
    rows -= count;
  }
}

// Writes `depth` columns of so many panels as [panels][kStep][kPanel].
HWY_INLINE void Decode(Panels<uint16_t> from, size_t panels, size_t depth, float* HWY_RESTRICT to) {
  for (size_t q = 0; q < panels; ++q) {
    for (size_t i = 0; i < depth * kPanel; i += kLanes) {
      hn::StoreU(LoadWeights(from.Skip(q).data + i), DF(), to + q * kStep * kPanel + i);
    }
  }
}

// Many rows of x: a step of a few panels stays in the L1 cache while a block of x passes by. W is
// decoded when the first block comes, and fetched during the step before. Several blocks go part by
// part, so that what they need again is in the L2 cache.
template <class T>
void Many(const Problem& p, size_t begin, size_t end, size_t last) {
  constexpr bool kDecodes = !std::is_same_v<T, float>;
  HWY_ALIGN float decoded[kDecodes ? kPiece * kDepth : 1];
  const auto columns = static_cast<size_t>(p.weights.columns);
  assert(end - begin <= kPiece);
  const bool again = p.rows > kBlock;
  const size_t part_size = again ? kDepth : columns;
  for (size_t part = 0; part < columns; part += part_size) {
    const size_t part_end = std::min(part + part_size, columns);
    for (size_t row = 0; row < p.rows; row += kBlock) {
      const size_t rows = std::min(kBlock, p.rows - row);
      size_t step = 0;  // of those in `decoded`
      for (size_t column = begin; column < end; column += kColumns) {
        const size_t count = std::min(kColumns, end - column);
        ForSteps(part, part_end, [&](size_t k, size_t depth) HWY_ATTR {
          const auto from = Panels<T>::At(p.weights, column, k);
          Panels<float> w;
          if constexpr (kDecodes) {
            float* to = decoded + (again ? step++ * kColumns * kStep : 0);
            if (row == 0) Decode(from, (count + kPanel - 1) / kPanel, depth, to);
            w = {to, kStep * kPanel};
          } else {
            w = from;
          }
          Panels<T> next{nullptr, 0};
          if (row == 0) {
            size_t next_column = column, next_k = k + depth;
            if (next_k == part_end) {
              next_column += kColumns;
              next_k = part;
            }
            if (next_column >= end) {
              const bool more = part_end < columns;
              next_column = more ? begin : end;
              next_k = more ? part_end : 0;
            }
            if (next_column < last) next = Panels<T>::At(p.weights, next_column, next_k);
          }
          const Place at{row, column, count, k, depth};
          if (count == kColumns) return DownRows<kPanels>(p, at, rows, w, next);
          for (size_t c = 0; c < count; c += kPanel) {
            Place one = at;
            one.column += c;
            one.count = std::min(kPanel, count - c);
            DownRows<1>(p, one, rows, w.Skip(c / kPanel), Panels<T>{nullptr, 0});
          }
        });
      }
    }
  }
}

// Panels that kM rows of x meet side by side. One row takes weights from memory as it meets them,
// more of them from registers.
template <size_t kM>
constexpr size_t PanelsFor() {
  size_t panels = kStreams;
  while (kM > 1 && panels > 1 && (kM + 1) * panels * kVectors >= kRegisters) panels /= 2;
  return panels;
}

// kM or more rows of x.
template <size_t kM, class T>
void Range(const Problem& p, size_t begin, size_t end, size_t last) {
  if constexpr (kM > kRows) {
    Many<T>(p, begin, end, last);
  } else if (p.rows == kM) {
    Few<kM, PanelsFor<kM>(), T>(p, begin, end, last);
  } else {
    Range<kM + 1, T>(p, begin, end, last);
  }
}

// Few rows read W as a long stream.
size_t FloatPieceHere(size_t rows) { return rows <= kRows ? 4 * kPiece : kPiece; }

void MultiplyFloatRange(const Problem& p, size_t begin, size_t end, size_t last) {
  p.weights.type == WeightType::kFloat32 ? Range<1, float>(p, begin, end, last)
                                         : Range<1, uint16_t>(p, begin, end, last);
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(MultiplyFloatRange);
HWY_EXPORT(FloatPieceHere);

void MultiplyFloats(const Problem& p, size_t begin, size_t end, size_t last) {
  HWY_DYNAMIC_DISPATCH(MultiplyFloatRange)(p, begin, end, last);
}

size_t FloatPiece(size_t rows) { return HWY_DYNAMIC_DISPATCH(FloatPieceHere)(rows); }

}  // namespace cosformer
#endif
