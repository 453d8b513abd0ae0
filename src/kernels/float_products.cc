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
// A tile's rows of x and panels of W. Of 32 registers 24 are sums and 5 operands, of 16 it is 12
// and
// 3. Among the shapes that fit, 6 x 4 vectors need the fewest instructions for a multiply-add, 34
// for 24; 12 x 2 need 38, which shows where another hyperthread shares the core's front end.
// Columns in a step: its part of the panels takes 32 KiB of 48 with AVX-512, 16 of 32 with AVX2.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr size_t kRegisters = 32;
constexpr size_t kPanels = 4;
constexpr size_t kStep = 128;
#else
constexpr size_t kRegisters = HWY_ARCH_ARM_A64 ? 32 : 16;
constexpr size_t kPanels = 1;
constexpr size_t kStep = 256;
#endif
constexpr size_t kRows = kPanels * kVectors * 7 < kRegisters ? 6 : 2;
constexpr size_t kColumns = kPanels * kPanel;
constexpr size_t kHalf = (kPanels + 1) / 2;
// Columns of y that are computed for all of x, a block of its rows after the other: a part of W and
// one of a block stay in an L2 cache, 128 and 192 KiB of 512 and more. More columns at a time gain
// nothing, and threads wait longer for each other.
constexpr size_t kPiece = 64;
constexpr size_t kBlock = 96;
// How many panels a few rows of x meet side by side, at most: enough for the latency of sums, and
// few enough streams for the memory. Columns further on that are fetched meanwhile, 64 KiB.
constexpr size_t kStreams = 4;
constexpr size_t kAhead = 256;
constexpr size_t kLine = 64;  // of a cache
constexpr int kToL2 = 2;  // __builtin_prefetch's word for it: what is next would not fit into L1
static_assert(kPanel % kLanes == 0 && kDepth % kStep == 0 && kAhead % kStep == 0);
static_assert(kPiece % kColumns == 0 && kBlock % kRows == 0);

HWY_INLINE VF LoadWeights(const float* from) { return hn::LoadU(DF(), from); }

HWY_INLINE VF LoadWeights(const uint16_t* from) {
  const hn::Rebind<uint16_t, DF> d16;
  const hn::RebindToUnsigned<DF> d32;
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}

// Bytes of two columns of a panel, which are computed together.
template <class T>
constexpr size_t kTwoColumns = 2 * kPanel * sizeof(T);

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
  const char* bytes() const { return reinterpret_cast<const char*>(data); }
};

// What is fetched while a tile is computed, two columns at a time: kF panels, of each kL lines.
// Evenly, since a core waits for no more than a dozen lines at once.
template <size_t kF, size_t kL>
struct Fetch {
  const char* from = nullptr;
  size_t apart = 0;  // bytes from panel to panel
  size_t step = 0;   // bytes that two columns go on

  HWY_INLINE void Next() {
    Each<kF>([&](auto f) TILE_ATTR {
      Each<kL>([&](auto line)
                   TILE_ATTR { __builtin_prefetch(from + f * apart + line * kLine, 0, kToL2); });
    });
    from += step;
  }
};

using NoFetch = Fetch<0, 0>;

// y += x . w, or the bias and that in the first step.
template <size_t kM, size_t kP, class T, class Fetched>
HWY_NOINLINE void Tile(const Problem& p, const Place& at, Panels<T> w, Fetched fetch) {
  const float* HWY_RESTRICT x = p.x + at.row * p.x_stride + at.begin;
  const size_t x_stride = p.x_stride;
  constexpr size_t kN = kP * kVectors;
  VF sum[kM][kN];
  Each<kM>([&](auto m)
               TILE_ATTR { Each<kN>([&](auto n) TILE_ATTR { sum[m][n] = hn::Zero(DF()); }); });
  const auto add = [&](size_t k) TILE_ATTR {
    VF wv[kN];
    Each<kP>([&](auto q) TILE_ATTR {
      Each<kVectors>([&](auto v) TILE_ATTR {
        wv[q * kVectors + v] = LoadWeights(w.data + q * w.apart + k * kPanel + v * kLanes);
      });
    });
    Each<kM>([&](auto m) TILE_ATTR {
      const VF xv = hn::Set(DF(), x[m * x_stride + k]);
      Each<kN>([&](auto n) TILE_ATTR { sum[m][n] = hn::MulAdd(xv, wv[n], sum[m][n]); });
    });
  };
  size_t k = 0;
  for (; k + 2 <= at.depth; k += 2) {
    fetch.Next();
    add(k);
    add(k + 1);
  }
  if (k < at.depth) add(k);

  Each<kM>([&](auto m) TILE_ATTR {
    float* to = p.y + (at.row + m) * p.y_stride + at.column;
    const float* before = at.begin > 0 ? to : p.bias != nullptr ? p.bias + at.column : nullptr;
    Each<kN>([&](auto n) TILE_ATTR {
      constexpr size_t c = n * kLanes;
      const auto store = [&](auto some) TILE_ATTR {
        StoreSome(before != nullptr ? hn::Add(LoadSome(before + c, some), sum[m][n]) : sum[m][n],
                  to + c, some);
      };
      if (c + kLanes <= at.count) {
        store(Whole());
      } else if (c < at.count) {
        store(Part{at.count - c});
      }
    });
  });
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
      Tile<kM, panels>(p, {0, column, count, k, depth}, w,
                       Fetch<panels, kTwoColumns<T> / kLine>{later.bytes(), later.apart * sizeof(T),
                                                             kTwoColumns<T>});
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

// The tiles of `rows` rows of x from at.row on. The last of them share out among them what comes
// next, kPanels panels of it, where `next` is not empty: the first still wait for their own.
template <size_t kP, class T>
void DownRows(const Problem& p, Place at, size_t rows, Panels<float> w, Panels<T> next) {
  constexpr size_t kLines = kTwoColumns<T> / kLine;
  const size_t tiles = (rows + kRows - 1) / kRows;
  const size_t parts = std::max<size_t>(tiles / kPanels, 1);                 // tiles for a panel
  const size_t panels = tiles >= kPanels ? 1 : tiles > 1 ? kHalf : kPanels;  // panels for a tile
  const size_t fetching = next.data == nullptr ? 0 : kPanels / panels * parts;
  for (size_t tile = 0; tile < tiles; ++tile) {
    // Evenly: a tile of one or two rows would wait for its sums.
    const size_t left = tiles - tile;
    const size_t count = (rows + left - 1) / left;
    if (kP == kPanels && tile + fetching >= tiles) {
      const size_t share = tile + fetching - tiles;
      const char* from = next.Skip(share / parts * panels).bytes() +
                         share % parts * (kStep / 2) * (kTwoColumns<T> / parts);
      const size_t apart = next.apart * sizeof(T), step = kTwoColumns<T> / parts;
      if (parts > 1) {
        TileOf<kP>(count, p, at, w, Fetch<1, 1>{from, apart, step});
      } else if (panels == 1) {
        TileOf<kP>(count, p, at, w, Fetch<1, kLines>{from, apart, step});
      } else if (panels == kHalf) {
        TileOf<kP>(count, p, at, w, Fetch<kHalf, kLines>{from, apart, step});
      } else {
        TileOf<kP>(count, p, at, w, Fetch<kPanels, kLines>{from, apart, step});
      }
    } else {
      TileOf<kP>(count, p, at, w, NoFetch());
    }
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
