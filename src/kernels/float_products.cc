// Products with weights in float32 and bfloat16, compiled once an instruction set.
//
// A tile holds a vector of partial sums for each of its rows of x and of W, so that neither has to
// be turned or packed: what it loads is contiguous. The sums of the lanes are taken once in
// kDepth numbers, four at a time.

#include <algorithm>
#include <bit>
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
// Rows of W in a panel, which stays in an L2 cache while blocks of x pass by: 512 KiB for a part
// where caches have 1 MiB and more, as they do with AVX-512; 128 KiB of 512 elsewhere.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr size_t kPanel = 256;
#else
constexpr size_t kPanel = 64;
#endif
// Rows of x in a block, which stays there too while it passes by four rows of W after the other:
// 192 KiB for a part.
constexpr size_t kBlock = 96;
// Bytes further on that are fetched while a row of x passes by: of rows that are read side by side,
// and of one after the other.
constexpr size_t kFetchBelow = 64 << 10;
constexpr size_t kFetchAhead = 4 << 10;
// One row of x meets weights that have to be decoded one row of them after the other. Measured on
// AVX2; AVX-512 was fast enough side by side.
constexpr bool kOneStream = kRows == 3;
static_assert(kDepth % 64 == 0 && kDepth % kLanes == 0 && kPanel % kColumns == 0);
static_assert(kBlock % kRows == 0);

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

// One tile's share of what comes next: a little in each step, from two rows that lie so far apart.
struct Spread {
  const char* from;
  size_t apart;  // bytes
  size_t step;

  template <size_t kN>
  HWY_INLINE void Fetch(const FloatRow*, size_t) {
    hwy::Prefetch(from);
    hwy::Prefetch(from + apart);
    from += step;
  }
};

struct Nothing {
  template <size_t kN>
  HWY_INLINE void Fetch(const FloatRow*, size_t) const {}
};

// A part of kColumns rows of W that comes next, which up to eight tiles share out among them: the
// last ones, since what is fetched earlier has left the L1 cache when it is needed.
class Ahead {
 public:
  // Nothing. A tile that has no share but a loop that fetches fetches what lies there, to no use.
  explicit Ahead(const void* there) : from_(static_cast<const char*>(there)) {}

  // From number k of row `row` on. There are so many tiles before it, each of so many numbers.
  Ahead(const Weights& w, size_t row, size_t k, size_t tiles, size_t depth) {
    const auto columns = static_cast<size_t>(w.columns);
    const size_t size = w.type == WeightType::kFloat32 ? sizeof(float) : sizeof(uint16_t);
    stride_ = static_cast<size_t>(WeightRowBytes(w.type, w.columns));
    apart_ = row + kColumns / 2 < static_cast<size_t>(w.rows) ? kColumns / 2 * stride_ : 0;
    from_ = static_cast<const char*>(w.data) + row * stride_ + k * size;
    const size_t a_row = std::bit_floor(std::clamp<size_t>(tiles / 2, 1, 4));  // tiles
    shift_ = static_cast<size_t>(std::countr_zero(a_row));
    first_ = tiles - std::min(tiles, 2 * a_row);
    share_ = std::min(kDepth, columns - k) * size / a_row;
    const size_t steps = std::max(depth / FloatRow::kLine, size_t{1});
    step_ = (share_ + steps - 1) / steps;
  }

  bool IsNothing() const { return step_ == 0; }

  HWY_INLINE Spread Share(size_t tile) const {
    if (tile < first_) return {from_, 0, 0};
    const size_t t = tile - first_;
    return {from_ + (t >> shift_) * stride_ + (t & ((size_t{1} << shift_) - 1)) * share_, apart_,
            step_};
  }

 private:
  const char* from_;
  size_t stride_ = 0;  // bytes from one row to the next
  size_t apart_ = 0;   // and to the next but one
  size_t first_ = 0;   // of the tiles that fetch
  size_t shift_ = 0;   // 1 << shift_ of them share a row
  size_t share_ = 0;   // bytes
  size_t step_ = 0;
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

// The same for `tiles` of them with whole columns, one below the other, of which the first is tile
// t of those that share what is ahead. What they have in common is settled once: a tile's products
// take 384 cycles on AVX2, and what surrounds them took 70 when each tile was a call. kAdds: there
// is a bias, or there are parts before. kFetches: there is something ahead.
template <size_t kM, bool kAdds, bool kFetches>
HWY_NOINLINE void WholeTiles(const Problem& p, const Place& at, size_t tiles,
                             const float* HWY_RESTRICT x, const FloatRow* w, size_t w_begin,
                             const Ahead& ahead, size_t t) {
  FloatRow part[kColumns];
  for (size_t n = 0; n < kColumns; ++n) part[n].data = w[n].data + w_begin;
  const size_t y_stride = p.y_stride, depth = at.depth;
  float* y = p.y + at.row * y_stride + at.column;
  const float* before = at.begin > 0 ? y : kAdds ? p.bias + at.column : nullptr;
  const size_t before_stride = at.begin > 0 ? y_stride : 0;
  for (const size_t end = t + tiles; t < end; ++t, x += kM * kDepth) {
    std::conditional_t<kFetches, Spread, Nothing> later;
    if constexpr (kFetches) later = ahead.Share(t);
    VF sum[kM][kColumns];
    Clear(sum);
    for (size_t i = 0; i < depth; i += FloatRow::kLine) {
      later.template Fetch<kColumns>(part, i);
      for (size_t j = 0; j < FloatRow::kLine; j += kLanes) {
        AddProducts(x, kDepth, part, 0, i + j, Whole(), sum);
      }
    }
    Each<kM>([&](auto m) TILE_ATTR {
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

// The tiles of `rows` rows of x from at.row on, of kM and of fewer for what is left; the first of
// them is tile t. The part of x begins at `x`, that of w at w_begin.
template <size_t kM>
void DownRows(const Problem& p, Place at, size_t rows, const float* x, const FloatRow* w,
              size_t w_begin, const Ahead& ahead, size_t t) {
  const size_t tiles = rows / kM;
  if (at.count == kColumns && at.depth % FloatRow::kLine == 0) {
    const bool adds = at.begin > 0 || p.bias != nullptr;
    auto whole = adds ? WholeTiles<kM, true, true> : WholeTiles<kM, false, true>;
    if constexpr (kM == kRows) {
      if (ahead.IsNothing()) {
        whole = adds ? WholeTiles<kM, true, false> : WholeTiles<kM, false, false>;
      }
    }
    if (tiles > 0) whole(p, at, tiles, x, w, w_begin, ahead, t);
    at.row += tiles * kM;
    x += tiles * kM * kDepth;
  } else {
    for (size_t i = 0; i < tiles; ++i, at.row += kM, x += kM * kDepth) {
      OneTile<kM, kColumns, kDepth>(p, at, x, kDepth, w, w_begin, ahead.Share(t + i));
    }
  }
  if constexpr (kM > 1) {
    if (rows % kM > 0) DownRows<kM - 1>(p, at, rows % kM, x, w, w_begin, ahead, t + tiles);
  }
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

// Many rows of x: a block of them passes by four rows of W, which stay in the L1 cache, then by the
// next four, to the end of a panel. W is decoded when the first block comes, and fetched while it
// passes by the four rows before.
template <class Row>
void Many(const Problem& p, const float* x, size_t begin, size_t end, size_t last) {
  HWY_ALIGN float panel[kPanel * kDepth];
  const auto columns = static_cast<size_t>(p.weights.columns);
  const bool again = p.rows > kBlock;  // another block needs the panel
  // Rows of one part lie close together already. Longer ones, a multiple of 4 KiB apart, would
  // share their places in the L2 cache, unless they are needed once.
  const bool as_it_is = std::is_same_v<Row, FloatRow> && (columns <= kDepth || !again);
  for (size_t k = 0; k < columns; k += kDepth) {
    const size_t depth = std::min(kDepth, columns - k);
    for (size_t row = 0; row < p.rows; row += kBlock) {
      const size_t rows = std::min(kBlock, p.rows - row);
      const size_t tiles = (rows + kRows - 1) / kRows;
      for (size_t column = begin; column < end; column += kColumns) {
        const size_t count = std::min(kColumns, end - column);
        FloatRow w[kColumns];
        for (size_t n = 0; n < kColumns; ++n) {
          const size_t at = column + std::min(n, count - 1);
          if (as_it_is) {
            w[n].Begin(p.weights, at);
          } else {
            float* decoded = panel + (again ? at - begin : n) * kDepth;
            if (row == 0) Decode<Row>(p.weights, at, k, depth, decoded);
            w[n].data = decoded;
          }
        }
        Ahead ahead(w[0].data);
        const size_t next = column + kColumns;
        if (next < end) {
          if (row == 0) ahead = Ahead(p.weights, next, k, tiles, depth);
        } else if (row + rows == p.rows) {
          if (k + depth < columns) {
            ahead = Ahead(p.weights, begin, k + depth, tiles, depth);
          } else if (next < last) {
            ahead = Ahead(p.weights, next, 0, tiles, depth);
          }
        }
        DownRows<kRows>(p, {row, column, count, k, depth}, rows, x + k * p.rows + row * kDepth, w,
                        as_it_is ? k : 0, ahead, 0);
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
  for (size_t n = begin; n < end; n += kPanel) {
    Many<Row>(p, x, n, std::min(n + kPanel, end), last);
  }
}

// One block of x gains nothing from more rows of W: small pieces, so that no thread waits long for
// another.
size_t FloatPanelHere(size_t rows) {
  return rows > kRows && rows <= kBlock ? 4 * kColumns : kPanel;
}
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
