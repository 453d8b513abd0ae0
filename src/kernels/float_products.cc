// Products with weights in float32 and bfloat16, compiled once an instruction set.
//
// A tile holds a vector of partial sums for each of its rows of x and of W, so that neither has to
// be turned or packed: what it loads is contiguous. The sums of the lanes are taken once in
// kDepth numbers, four at a time.

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/product_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/float_products.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "hwy/cache_control.h"
#include "kernels/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// Rows of W in a tile, which the sum over lanes takes together; and rows of x. 6 x 4 sums leave 8
// registers of 32 for operands, 3 x 4 leave 4 of 16.
constexpr size_t kColumns = 4;
#if HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
constexpr size_t kRows = 6;
#else
constexpr size_t kRows = 3;
#endif
// Rows of W that pass by a block of x, from an L2 cache: 512 KiB for a part where caches have 1 MiB
// and more, as they do with AVX-512; 128 KiB of 256 or 512 elsewhere.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr size_t kPanel = 256;
#else
constexpr size_t kPanel = 64;
#endif
constexpr size_t kBlock = 12;  // rows of x that stay in the L1 cache: 24 of its 32 or 48 KiB
// As many rows of x, or fewer, pass by four rows of W instead: 128 KiB for a part, from an L2
// cache.
constexpr size_t kSome = 64;
// Cache lines that may be fetched at once: Zen 3 waits for 24, and the loads need some of them.
constexpr size_t kAtOnce = 16;
// Bytes further on that are fetched while a row of x passes by: of rows that are read side by side,
// and of one after the other.
constexpr size_t kFetchBelow = 64 << 10;
constexpr size_t kFetchAhead = 4 << 10;
// One row of x meets weights that have to be decoded one row of them after the other. Measured on
// AVX2; AVX-512 was fast enough side by side.
constexpr bool kOneStream = kRows == 3;
static_assert(kDepth % 64 == 0 && kDepth % kLanes == 0 && kPanel % kColumns == 0);
static_assert(kBlock % kRows == 0);  // or tiles would not fetch what others have left

// How one row of weights is read, a vector at a time: k counts from the row's beginning and is a
// multiple of kLanes. kLine: the numbers in a cache line.
struct FloatRow {
  static constexpr size_t kLine = 16;
  static_assert(kLine % kLanes == 0);
  const float* data = nullptr;

  void Begin(const Weights& w, size_t row) {
    data = static_cast<const float*>(w.data) + row * static_cast<size_t>(w.columns);
  }
  template <class Some>
  HWY_INLINE VF Load(size_t k, Some some) const {
    return LoadSome(data + k, some);
  }
  const void* At(size_t k) const { return data + k; }
};

struct BFloat16Row {
  static constexpr size_t kLine = 32;
  const uint16_t* data = nullptr;

  void Begin(const Weights& w, size_t row) {
    data = static_cast<const uint16_t*>(w.data) + row * static_cast<size_t>(w.columns);
  }
  HWY_INLINE VF Load(size_t k, Whole) const { return Widened(data + k); }
  HWY_INLINE VF Load(size_t k, Part part) const {
    HWY_ALIGN uint16_t all[kLanes] = {};
    std::memcpy(all, data + k, part.count * sizeof(uint16_t));
    return Widened(all);
  }
  const void* At(size_t k) const { return data + k; }

 private:
  static HWY_INLINE VF Widened(const uint16_t* from) {
    const hn::Rebind<uint16_t, DF> d16;
    const hn::RebindToUnsigned<DF> d32;
    return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
  }
};

// What a tile fetches in passing, since the hardware's own prefetching ends with a page: the rows
// of W that lie so many bytes further on. 0: what it reads itself, to no use.
struct Below {
  size_t bytes;

  template <size_t kN, class Row>
  HWY_INLINE void Fetch(const Row* w, size_t k) const {
    Each<kN>([&](auto n)
                 TILE_ATTR { hwy::Prefetch(static_cast<const char*>(w[n].At(k)) + bytes); });
  }
};

// A part of kColumns rows of W that come later, which tiles share out among them.
struct Ahead {
  const char* from = nullptr;
  size_t stride = 0;  // bytes between rows
  size_t begin = 0;   // cache lines: the first ones of all rows, then the second ones
  size_t end = 0;

  // Of the part that begins with number k.
  static size_t Lines(const Weights& w, size_t k) {
    const size_t depth = std::min(kDepth, static_cast<size_t>(w.columns) - k);
    return kColumns * ((depth * SizeOf(w) + 63) / 64);
  }

  static Ahead Of(const Weights& w, size_t row, size_t k) {
    const auto stride = static_cast<size_t>(WeightRowBytes(w.type, w.columns));
    return {static_cast<const char*>(w.data) + row * stride + k * SizeOf(w), stride, 0,
            Lines(w, k)};
  }

  // The next `lines`, or what is left.
  HWY_INLINE Ahead Take(size_t lines) {
    Ahead taken = *this;
    begin = taken.end = std::min(begin + lines, end);
    return taken;
  }

  HWY_INLINE void Fetch(size_t lines) {
    for (const size_t stop = std::min(begin + lines, end); begin < stop; ++begin) {
      hwy::Prefetch(from + begin % kColumns * stride + begin / kColumns * 64);
    }
  }

 private:
  static size_t SizeOf(const Weights& w) {
    return w.type == WeightType::kFloat32 ? sizeof(float) : sizeof(uint16_t);
  }
};

// Of that, one tile's lines, spread out over it: what comes faster than a core can wait for, it
// drops.
struct Spread {
  explicit Spread(const Ahead& lines)
      : ahead(lines), at_once((lines.end - lines.begin + kSteps - 1) / kSteps) {}

  template <size_t kN>
  HWY_INLINE void Fetch(const FloatRow*, size_t) {
    ahead.Fetch(at_once);
  }

  static constexpr size_t kSteps = kDepth / FloatRow::kLine;
  Ahead ahead;
  size_t at_once;
};

template <size_t kM, size_t kN>
HWY_INLINE void Clear(VF (&sum)[kM][kN]) {
  Each<kM>([&](auto m)
               TILE_ATTR { Each<kN>([&](auto n) TILE_ATTR { sum[m][n] = hn::Zero(DF()); }); });
}

// sum[m][n] += the products of numbers i and after, a vector of them or some, of rows of x that lie
// x_stride apart and of w, where they begin at w_begin.
template <size_t kM, size_t kN, class Row, class Some>
HWY_INLINE void AddProducts(const float* HWY_RESTRICT x, size_t x_stride, const Row* w,
                            size_t w_begin, size_t i, Some some, VF (&sum)[kM][kN]) {
  // Weights that are decoded in passing need registers of their own.
  const auto keep = [](VF& v) TILE_ATTR {
    if constexpr (kM == kRows && std::is_same_v<Row, FloatRow>) InRegister(v);
  };
  // The shorter side of the tile stays in registers, the longer one passes by.
  if constexpr (kM <= kN) {
    VF xv[kM];
    Each<kM>([&](auto m) TILE_ATTR {
      xv[m] = LoadSome(x + m * x_stride + i, some);
      keep(xv[m]);
    });
    Each<kN>([&](auto n) TILE_ATTR {
      VF wv = w[n].Load(w_begin + i, some);
      keep(wv);
      Each<kM>([&](auto m) TILE_ATTR {
        sum[m][n] = hn::MulAdd(xv[m], wv, sum[m][n]);
        keep(sum[m][n]);
      });
      keep(wv);
    });
    Each<kM>([&](auto m) TILE_ATTR { keep(xv[m]); });
  } else {
    VF wv[kN];
    Each<kN>([&](auto n) TILE_ATTR { wv[n] = w[n].Load(w_begin + i, some); });
    Each<kM>([&](auto m) TILE_ATTR {
      const VF xv = LoadSome(x + m * x_stride + i, some);
      Each<kN>([&](auto n) TILE_ATTR { sum[m][n] = hn::MulAdd(xv, wv[n], sum[m][n]); });
    });
  }
}

// The same for `depth` numbers, from the first on; what comes later is fetched meanwhile.
template <size_t kM, size_t kN, class Row, class Later>
HWY_INLINE void AddPart(const float* HWY_RESTRICT x, size_t x_stride, const Row* w, size_t w_begin,
                        size_t depth, Later later, VF (&sum)[kM][kN]) {
  size_t i = 0;
  for (; i + Row::kLine <= depth; i += Row::kLine) {
    later.template Fetch<kN>(w, w_begin + i);
    for (size_t j = 0; j < Row::kLine; j += kLanes) {
      AddProducts(x, x_stride, w, w_begin, i + j, Whole(), sum);
    }
  }
  for (; i + kLanes <= depth; i += kLanes) AddProducts(x, x_stride, w, w_begin, i, Whole(), sum);
  if (i < depth) AddProducts(x, x_stride, w, w_begin, i, Part{depth - i}, sum);
}

// y += x[m] . w[n], with the bias in the first part of the rows. x is where the part begins, in w
// it begins at w_begin. kStride: x_stride where it is known, so that rows of x need no pointers of
// their own; 0: it is not. later: a Below or a Spread.
// A call of its own: some hundred cycles and more, and one copy of it is enough to compile.
template <size_t kM, size_t kN, size_t kStride, class Row, class Later>
HWY_NOINLINE void OneTile(const Problem& p, const Place& at, const float* HWY_RESTRICT x,
                          size_t x_stride, const Row* w, size_t w_begin, Later later) {
  if (kStride != 0) x_stride = kStride;
  if (w_begin % kDepth != 0) __builtin_unreachable();  // groups begin where the loop's steps do
  VF sum[kM][kN];
  Clear(sum);
  AddPart(x, x_stride, w, w_begin, at.depth, later, sum);
  StoreTile<kM, kN>(p, at, sum);
}

// The same for tiles whose rows and columns are whole, one below the other, each of which fetches
// `lines` more. What they share is settled once: a tile's products take 384 cycles on AVX2, and
// what surrounds them took 70 when each tile was a call. kAdds: there is a bias, or there are parts
// before.
template <bool kAdds>
HWY_NOINLINE void WholeTiles(const Problem& p, const Place& at, size_t tiles,
                             const float* HWY_RESTRICT x, const FloatRow* w, size_t w_begin,
                             Ahead ahead, size_t lines) {
  FloatRow part[kColumns];
  for (size_t n = 0; n < kColumns; ++n) part[n].data = w[n].data + w_begin;
  const size_t y_stride = p.y_stride, depth = at.depth;
  float* y = p.y + at.row * y_stride + at.column;
  const float* before = at.begin > 0 ? y : kAdds ? p.bias + at.column : nullptr;
  const size_t before_stride = at.begin > 0 ? y_stride : 0;
  for (; tiles > 0; --tiles, x += kRows * kDepth) {
    ahead.Fetch(lines);
    VF sum[kRows][kColumns];
    Clear(sum);
    for (size_t i = 0; i < depth; i += FloatRow::kLine) {
      for (size_t j = 0; j < FloatRow::kLine; j += kLanes) {
        AddProducts(x, kDepth, part, 0, i + j, Whole(), sum);
      }
    }
    Each<kRows>([&](auto m) TILE_ATTR {
      const Four sums = SumsOfLanes(sum[m][0], sum[m][1], sum[m][2], sum[m][3]);
      StoreFour(kAdds ? AddFour(LoadFour(before), sums) : sums, y);
      y += y_stride;
      if constexpr (kAdds) before += before_stride;
    });
  }
}

// kM rows of x: W is read once, and decoded in passing.
template <size_t kM, size_t kN, class Row>
void Few(const Problem& p, size_t begin, size_t end, size_t last) {
  const auto columns = static_cast<size_t>(p.weights.columns);
  const auto row_bytes = static_cast<size_t>(WeightRowBytes(p.weights.type, p.weights.columns));
  const size_t rows_below = std::max(kN, kFetchBelow / row_bytes / kN * kN);
  for (size_t column = begin; column < end; column += kN) {
    const size_t count = std::min(kN, end - column);
    Row w[kN];
    for (size_t n = 0; n < kN; ++n) w[n].Begin(p.weights, column + std::min(n, count - 1));
    const Below below{column + rows_below < last ? rows_below * row_bytes : 0};
    for (size_t k = 0; k < columns; k += kDepth) {
      OneTile<kM, kN, 0>(p, {0, column, count, k, std::min(kDepth, columns - k)}, p.x + k,
                         p.x_stride, w, k, below);
    }
  }
}

// One row of x, where weights that are decoded take a core's time: W is read from its first byte to
// its last, which is how memory is fastest.
template <class Row>
void One(const Problem& p, size_t begin, size_t end) {
  const auto columns = static_cast<size_t>(p.weights.columns);
  for (size_t column = begin; column < end; ++column) {
    Row w;
    w.Begin(p.weights, column);
    for (size_t k = 0; k < columns; k += kDepth) {
      VF sum[1][1];
      Clear(sum);
      AddPart(p.x + k, 0, &w, k, std::min(kDepth, columns - k), Below{kFetchAhead}, sum);
      StoreOne(p, column, k, sum[0][0]);
    }
  }
}

// The tiles of `rows` rows of x from at.row on, of kM and of fewer for what is left, each of which
// fetches `lines` more. The part of x begins at `x`, that of w at w_begin.
template <size_t kM>
void TileByTile(const Problem& p, Place at, size_t rows, const float* x, const FloatRow* w,
                size_t w_begin, Ahead ahead, size_t lines) {
  for (; rows >= kM; rows -= kM, at.row += kM, x += kM * kDepth) {
    OneTile<kM, kColumns, kDepth>(p, at, x, kDepth, w, w_begin, Spread(ahead.Take(lines)));
  }
  if constexpr (kM > 1) {
    if (rows > 0) TileByTile<kM - 1>(p, at, rows, x, w, w_begin, ahead, lines);
  }
}

// The same, as many of them as can be at a time: whole ones, with no more to fetch than can be
// fetched at once.
void DownRows(const Problem& p, Place at, size_t rows, const float* x, const FloatRow* w,
              size_t w_begin, Ahead ahead, size_t lines) {
  if (at.count == kColumns && at.depth % FloatRow::kLine == 0 && lines <= kAtOnce) {
    const size_t tiles = rows / kRows;
    const auto whole = at.begin > 0 || p.bias != nullptr ? WholeTiles<true> : WholeTiles<false>;
    whole(p, at, tiles, x, w, w_begin, ahead, lines);
    ahead.Take(tiles * lines);
    at.row += tiles * kRows;
    x += tiles * kRows * kDepth;
    rows -= tiles * kRows;
  }
  TileByTile<kRows>(p, at, rows, x, w, w_begin, ahead, lines);
}

// What each tile has to fetch for all of them to fetch four rows of W.
size_t LinesATile(const Problem& p) {
  const size_t tiles = (p.rows + kRows - 1) / kRows;
  return (Ahead::Lines(p.weights, 0) + tiles - 1) / tiles;
}

// Writes numbers k to k + depth - 1 of a row.
template <class Row>
HWY_INLINE void Decode(const Weights& weights, size_t row, size_t k, size_t depth,
                       float* HWY_RESTRICT to) {
  Row from;
  from.Begin(weights, row);
  ForVectors(depth, [&](size_t i, auto some)
                        HWY_ATTR { StoreSome(from.Load(k + i, some), to + i, some); });
}

// Some rows of x, all of which pass by four rows of W, decoded once, in the L1 cache: W is not
// needed again. What comes after those four, up to `last`, is fetched meanwhile.
template <class Row>
void Some(const Problem& p, const float* x, size_t begin, size_t end, size_t last) {
  HWY_ALIGN float tile[kColumns * kDepth];
  constexpr bool kAsItIs = std::is_same_v<Row, FloatRow>;
  const size_t lines = LinesATile(p);
  const auto columns = static_cast<size_t>(p.weights.columns);
  for (size_t column = begin; column < end; column += kColumns) {
    const size_t count = std::min(kColumns, end - column);
    for (size_t k = 0; k < columns; k += kDepth) {
      const size_t depth = std::min(kDepth, columns - k);
      FloatRow w[kColumns];
      for (size_t n = 0; n < kColumns; ++n) {
        const size_t at = column + std::min(n, count - 1);
        if constexpr (kAsItIs) {
          w[n].Begin(p.weights, at);
        } else {
          w[n].data = tile + n * kDepth;
          Decode<Row>(p.weights, at, k, depth, tile + n * kDepth);
        }
      }
      const bool goes_on = k + kDepth < columns;  // the next part is of the same rows
      const size_t next = goes_on ? column : column + kColumns;
      DownRows(p, {0, column, count, k, depth}, p.rows, x + k * p.rows, w, kAsItIs ? k : 0,
               next < last ? Ahead::Of(p.weights, next, goes_on ? k + kDepth : 0) : Ahead(), lines);
    }
  }
}

// Many rows of x, a panel of W: a block of x stays in the L1 cache while the panel passes by from
// the L2 cache, decoded once for all of them. What comes after the panel, up to `last`, is fetched
// meanwhile.
template <class Row>
void Many(const Problem& p, const float* x, size_t begin, size_t end, size_t last) {
  HWY_ALIGN float panel[kPanel * kDepth];
  const auto columns = static_cast<size_t>(p.weights.columns);
  // Rows of one part lie close together already. Longer ones, a multiple of 4 KiB apart, would
  // share their places in the cache.
  const bool as_it_is = std::is_same_v<Row, FloatRow> && columns <= kDepth;
  const size_t lines = LinesATile(p);
  for (size_t k = 0; k < columns; k += kDepth) {
    const size_t depth = std::min(kDepth, columns - k);
    const bool goes_on = k + kDepth < columns;  // the next part is of the same rows
    for (size_t row = 0; row < p.rows; row += kBlock) {
      for (size_t column = begin; column < end; column += kColumns) {
        const size_t count = std::min(kColumns, end - column);
        FloatRow w[kColumns];
        for (size_t n = 0; n < kColumns; ++n) {
          const size_t at = column + std::min(n, count - 1);
          if (as_it_is) {
            w[n].Begin(p.weights, at);
          } else {
            w[n].data = panel + (at - begin) * kDepth;
            if (row == 0) Decode<Row>(p.weights, at, k, depth, panel + (at - begin) * kDepth);
          }
        }
        const size_t next = goes_on ? column : column + kPanel;
        Ahead ahead;
        if (next < last) {
          ahead = Ahead::Of(p.weights, next, goes_on ? k + kDepth : 0);
          ahead.Take(row / kRows * lines);  // what the rows before have fetched
        }
        DownRows(p, {row, column, count, k, depth}, std::min(kBlock, p.rows - row),
                 x + k * p.rows + row * kDepth, w, 0, ahead, lines);
      }
    }
  }
}

template <class Row>
void Range(const Problem& p, const float* x, size_t begin, size_t end, size_t last) {
  switch (p.rows) {
    case 1:
      if constexpr (kOneStream && !std::is_same_v<Row, FloatRow>) {
        return One<Row>(p, begin, end);
      } else {
        return Few<1, 8, Row>(p, begin, end, last);
      }
    case 2:
      return Few<2, 4, Row>(p, begin, end, last);
    case 3:
      return Few<3, 4, Row>(p, begin, end, last);
    default:
      break;
  }
  if constexpr (kRows == 6) {
    switch (p.rows) {
      case 4:
        return Few<4, 4, Row>(p, begin, end, last);
      case 5:
        return Few<5, 4, Row>(p, begin, end, last);
      case 6:
        return Few<6, 4, Row>(p, begin, end, last);
      default:
        break;
    }
  }
  if (p.rows <= kSome) return Some<Row>(p, x, begin, end, last);
  for (size_t n = begin; n < end; n += kPanel) {
    Many<Row>(p, x, n, std::min(n + kPanel, end), last);
  }
}

// Rows that pass by four rows of W gain nothing from more of them: small pieces, so that no thread
// waits long for another.
size_t FloatPanelHere(size_t rows) { return rows > kRows && rows <= kSome ? 4 * kColumns : kPanel; }
size_t FewFloatRowsHere() { return kRows; }

void MultiplyFloatRange(const Problem& p, const float* parts, size_t begin, size_t end,
                        size_t last) {
  p.weights.type == WeightType::kFloat32 ? Range<FloatRow>(p, parts, begin, end, last)
                                         : Range<BFloat16Row>(p, parts, begin, end, last);
}

void ReadFloatRow(const Weights& weights, size_t row, float* to) {
  const auto columns = static_cast<size_t>(weights.columns);
  weights.type == WeightType::kFloat32 ? Decode<FloatRow>(weights, row, 0, columns, to)
                                       : Decode<BFloat16Row>(weights, row, 0, columns, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(MultiplyFloatRange);
HWY_EXPORT(FloatPanelHere);
HWY_EXPORT(FewFloatRowsHere);
HWY_EXPORT(ReadFloatRow);

void MultiplyFloats(const Problem& p, const float* parts, size_t begin, size_t end, size_t last) {
  HWY_DYNAMIC_DISPATCH(MultiplyFloatRange)(p, parts, begin, end, last);
}

size_t FloatPanel(size_t rows) { return HWY_DYNAMIC_DISPATCH(FloatPanelHere)(rows); }

size_t FewFloatRows() { return HWY_DYNAMIC_DISPATCH(FewFloatRowsHere)(); }

void ReadFloats(const Weights& weights, size_t row, float* to) {
  HWY_DYNAMIC_DISPATCH(ReadFloatRow)(weights, row, to);
}

}  // namespace cosformer
#endif
