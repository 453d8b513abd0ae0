// Products with weights in 8 and 4 bits, compiled once an instruction set.
//
// Rows of x are rounded to 16 bits, so that a group of weights is summed in integers: half the
// instructions of products in float32, and weights need no more than widening. Sums of groups,
// which are exact, are scaled and added in float32.

#include <algorithm>

#include "kernels/product_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/integer_products.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "hwy/cache_control.h"
#include "kernels/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// 16-bit integers, two in each lane of a vector of sums; one where vectors have one lane.
#if HWY_TARGET == HWY_SCALAR
using D16 = hn::Rebind<int16_t, DI>;
#else
using D16 = hn::Repartition<int16_t, DI>;
#endif
using V16 = hn::Vec<D16>;
constexpr size_t kLanes16 = HWY_TARGET == HWY_SCALAR ? 1 : 2 * kLanes;

#if HWY_TARGET == HWY_SCALAR
struct Four {
  float s[4];
};
HWY_INLINE Four LoadFour(const float* from) { return {{from[0], from[1], from[2], from[3]}}; }
HWY_INLINE void StoreFour(const Four& x, float* to) { std::copy_n(x.s, 4, to); }
HWY_INLINE Four AddFour(const Four& a, const Four& b) {
  return {{a.s[0] + b.s[0], a.s[1] + b.s[1], a.s[2] + b.s[2], a.s[3] + b.s[3]}};
}
HWY_INLINE Four SumsOfLanes(VF a, VF b, VF c, VF d) {
  return {{hn::GetLane(a), hn::GetLane(b), hn::GetLane(c), hn::GetLane(d)}};
}
#else
using D4 = hn::FixedTag<float, 4>;
using Four = hn::Vec<D4>;
HWY_INLINE Four LoadFour(const float* from) { return hn::LoadU(D4(), from); }
HWY_INLINE void StoreFour(Four x, float* to) { hn::StoreU(x, D4(), to); }
HWY_INLINE Four AddFour(Four a, Four b) { return hn::Add(a, b); }

// The sum of a vector's blocks of four lanes.
template <class D, class V>
HWY_INLINE Four SumOfBlocks(D, V blocks) {
  if constexpr (MaxLanes(D()) == 4) {
    return blocks;
  } else {
    const hn::Half<D> half;
    return SumOfBlocks(half, hn::Add(hn::LowerHalf(half, blocks), hn::UpperHalf(half, blocks)));
  }
}

// The sums of the lanes of each, all taken in the same order.
HWY_INLINE Four SumsOfLanes(VF a, VF b, VF c, VF d) {
  const DF df;
  const auto pair = [&](VF x, VF y) HWY_ATTR {
    return hn::Add(hn::InterleaveLower(df, x, y), hn::InterleaveUpper(df, x, y));
  };
  const hn::Repartition<uint64_t, DF> d64;
  const auto low = hn::BitCast(d64, pair(a, b));
  const auto high = hn::BitCast(d64, pair(c, d));
  // In every block of four lanes: what a to d have there.
  const VF blocks = hn::Add(hn::BitCast(df, hn::InterleaveLower(d64, low, high)),
                            hn::BitCast(df, hn::InterleaveUpper(d64, low, high)));
  return SumOfBlocks(df, blocks);
}
#endif

// v is in a register at this point of the program. Where a tile takes all 16 of them, GCC 12 would
// read an operand from memory for every use of it, and take sums in an order of its own that needs
// more registers.
template <class V>
HWY_INLINE void InRegister([[maybe_unused]] V& v) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  asm volatile("" : "+x"(v.raw));
#endif
}

// y = the sums over lanes, the bias or the parts before added. sum[m][n]: of row at.row + m of x
// and column at.column + n of y.
template <size_t kM, size_t kN>
HWY_INLINE void StoreTile(const Problem& p, const Place& at, const VF (&sum)[kM][kN]) {
  Each<kM>([&](auto m) TILE_ATTR {
    float* to = p.y + (at.row + m) * p.y_stride + at.column;
    const float* before = at.begin > 0 ? to : p.bias != nullptr ? p.bias + at.column : nullptr;
    Each<kN / 4>([&](auto quarter) TILE_ATTR {
      const size_t n = 4 * quarter;
      const Four sums = SumsOfLanes(sum[m][n], sum[m][n + 1], sum[m][n + 2], sum[m][n + 3]);
      if (n + 4 <= at.count) {
        StoreFour(before != nullptr ? AddFour(LoadFour(before + n), sums) : sums, to + n);
        return;
      }
      float some[4];
      StoreFour(sums, some);
      for (size_t c = n; c < at.count; ++c) {
        to[c] = before != nullptr ? before[c] + some[c - n] : some[c - n];
      }
    });
  });
}

// Rows of x and of W in a tile, and how many of W at a time: their integers and operands fill 11 of
// 16 registers; the tile's sums are in the rest and in the L1 cache.
constexpr size_t kRows = 4;
constexpr size_t kColumns = 4;
constexpr size_t kTogether = 2;
// Rows of W that are widened at a time, 64 KiB for a part, and rows of x that pass by four of them
// after the other, 96 KiB: both from an L2 cache.
constexpr size_t kPanel = 64;
constexpr size_t kBlock = 96;
// Streams in which one row of x reads weights: four are 14 % faster than one on a Zen 3, 17 to 28 %
// on a Zen 4; other CPUs were measured with one. Bytes that are fetched ahead in each: on a Zen 4,
// with AVX-512, up to 5 % faster; a Zen 3 reads fewer weights of floats when it is told.
constexpr size_t kStreams = 4;
constexpr size_t kFetchAhead = HWY_TARGET == HWY_AVX2 ? 0 : 2048;
static_assert(kDepth % 64 == 0 && kPanel % kColumns == 0 && kBlock % kRows == 0);

// Calls body(i) for the vectors i of a group: one after the other without a loop, where they are
// few.
template <size_t kVectors, class Body>
HWY_INLINE void EachVector(const Body& body) {
  if constexpr (kVectors <= 8) {
    Each<kVectors>(body);
  } else {
    for (size_t i = 0; i < kVectors; ++i) body(i);
  }
}

HWY_INLINE VI AddProducts(V16 a, V16 b, VI sum) {
  VI other = hn::Zero(DI());  // some targets sum the upper half apart
  const VI sums = hn::ReorderWidenMulAccumulate(DI(), a, b, sum, other);
  return hn::Add(sums, other);
}

// How one row of weights is read, a vector at a time: k counts from the row's beginning and is a
// multiple of kLanes16. kLine: the numbers in a cache line.
struct Int8Row {
  static constexpr WeightType kType = WeightType::kInt8;
  static constexpr size_t kLine = 64;
  const int8_t* data = nullptr;

  void Begin(const Weights& w, size_t row) {
    data = static_cast<const int8_t*>(w.data) +
           row * static_cast<size_t>(WeightRowBytes(kType, w.columns));
  }
  HWY_INLINE V16 Load(size_t k) const {
    const hn::Rebind<int8_t, D16> d8;
    return hn::PromoteTo(D16(), hn::LoadU(d8, data + k));
  }
  const void* At(size_t k) const { return data + k; }
};

struct Int4Row {
  static constexpr WeightType kType = WeightType::kInt4;
  static constexpr size_t kLine = 128;
  const uint8_t* data = nullptr;

  void Begin(const Weights& w, size_t row) {
    data = static_cast<const uint8_t*>(w.data) +
           row * static_cast<size_t>(WeightRowBytes(kType, w.columns));
  }
  HWY_INLINE V16 Load(size_t k) const {
    const D16 d16;
    const uint8_t* from = data + k / 32 * 16 + k % 16;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3  // a vector is both halves of a group
    const hn::Half<D16> half;
    const auto both = hn::PromoteTo(half, hn::LoadU(hn::Rebind<uint8_t, decltype(half)>(), from));
    const V16 q = hn::Combine(d16, hn::ShiftRight<4>(both), hn::And(both, hn::Set(half, 15)));
#else
    const V16 both = hn::PromoteTo(d16, hn::LoadU(hn::Rebind<uint8_t, D16>(), from));
    const V16 q = k & 16 ? hn::ShiftRight<4>(both) : hn::And(both, hn::Set(d16, 15));
#endif
    return hn::Sub(q, hn::Set(d16, 8));
  }
  const void* At(size_t k) const { return data + k / 2; }
};

// A part of a row that was widened before; its k counts from the part's beginning.
template <class Row>
struct WideRow {
  static constexpr WeightType kType = Row::kType;
  static constexpr size_t kLine = 64;
  const int16_t* data = nullptr;

  HWY_INLINE V16 Load(size_t k) const { return hn::Load(D16(), data + k); }
  const void* At(size_t k) const { return data + k; }
};

// y += x[m] . w[n], with the bias in the first part of the rows. x and its scales are those of the
// part, in w it begins at w_begin. scales: those of the part of w[n]. ahead: bytes from a row of W
// to the one to be fetched in passing; 0: none.
template <size_t kM, size_t kN, class Row>
HWY_NOINLINE void OneTile(const Problem& p, const Place& at, const int16_t* HWY_RESTRICT x,
                          const float* x_scales, const Row* w, size_t w_begin,
                          const float* const* scales, size_t ahead) {
  constexpr size_t kGroup = WeightGroup(Row::kType);
  if (w_begin % kDepth != 0) __builtin_unreachable();  // groups begin where the loop's steps do
  VF sum[kM][kN];
  Each<kM>([&](auto m)
               TILE_ATTR { Each<kN>([&](auto n) TILE_ATTR { sum[m][n] = hn::Zero(DF()); }); });
  for (size_t i = 0, group = 0; i < at.depth; i += kGroup, ++group) {
    if (ahead != 0 && i % Row::kLine == 0) {
      for (size_t n = 0; n < kN; ++n) {
        hwy::Prefetch(static_cast<const char*>(w[n].At(w_begin + i)) + ahead);
      }
    }
    Each<kN / kTogether>([&](auto step) TILE_ATTR {
      const size_t first = step * kTogether;
      VI whole[kM][kTogether];
      Each<kM>([&](auto m) TILE_ATTR {
        Each<kTogether>([&](auto n) TILE_ATTR { whole[m][n] = hn::Zero(DI()); });
      });
      EachVector<kGroup / kLanes16>([&](auto vector) TILE_ATTR {
        const size_t j = vector * kLanes16;
        V16 wv[kTogether];
        Each<kTogether>([&](auto n) TILE_ATTR {
          wv[n] = w[first + n].Load(w_begin + i + j);
          if (kM > 1) InRegister(wv[n]);
        });
        Each<kM>([&](auto m) TILE_ATTR {
          V16 xv = hn::Load(D16(), x + m * kDepth + i + j);
          InRegister(xv);
          Each<kTogether>([&](auto n) TILE_ATTR {
            whole[m][n] = AddProducts(xv, wv[n], whole[m][n]);
            InRegister(whole[m][n]);
          });
        });
      });
      Each<kTogether>([&](auto n) TILE_ATTR {
        const VF scale = hn::Set(DF(), scales[first + n][group]);
        Each<kM>([&](auto m) TILE_ATTR {
          VF& to = sum[m][first + n];
          to = hn::MulAdd(hn::ConvertTo(DF(), whole[m][n]), scale, to);
        });
      });
    });
  }
  Each<kM>([&](auto m) TILE_ATTR {
    const VF scale = hn::Set(DF(), x_scales[m]);
    Each<kN>([&](auto n) TILE_ATTR { sum[m][n] = hn::Mul(sum[m][n], scale); });
  });
  StoreTile<kM, kN>(p, at, sum);
}

// Of row `row` from column k on.
template <class Row>
HWY_INLINE const float* ScalesOf(const Weights& w, size_t row, size_t k) {
  return w.scales + row * static_cast<size_t>(WeightRowScales(Row::kType, w.columns)) +
         k / static_cast<size_t>(WeightGroup(Row::kType));
}

// The part of x's rows that begins at column k: whole groups.
struct XPart {
  XPart(const Problem& p, const RoundedRows& rows, size_t k)
      : q(rows.q + k * p.rows), scales(rows.scales + k / kDepth * p.rows) {}

  const int16_t* q;
  const float* scales;
};

template <class Row>
size_t PartDepth(const Weights& w, size_t k) {
  constexpr size_t kGroup = WeightGroup(Row::kType);
  return std::min(kDepth, (static_cast<size_t>(w.columns) - k + kGroup - 1) / kGroup * kGroup);
}

// Dot products of a part of a row of x with that of kS rows of W, whose bytes and scales lie so far
// apart: as a tile would sum them; what is past kS is of no use. A function of its own, whose loop
// has all registers to itself, and whose arguments fit into them.
template <size_t kS, class Row>
HWY_NOINLINE Four PartSums(const int16_t* HWY_RESTRICT x, float x_scale, size_t depth, Row first,
                           size_t apart, const float* scales, size_t scales_apart) {
  static_assert(kS == 1 || kS == 4);
  constexpr size_t kGroup = WeightGroup(Row::kType);
  Row w[kS];
  VF sum[kS];
  Each<kS>([&](auto s) TILE_ATTR {
    w[s].data = first.data + s * apart;
    sum[s] = hn::Zero(DF());
  });
  for (size_t i = 0; i < depth; i += kGroup) {
    if (kFetchAhead > 0 && i % Row::kLine == 0) {
      Each<kS>([&](auto s) TILE_ATTR {
        hwy::Prefetch(static_cast<const char*>(w[s].At(i)) + kFetchAhead);
      });
    }
    VI whole[kS];
    Each<kS>([&](auto s) TILE_ATTR { whole[s] = hn::Zero(DI()); });
    EachVector<kGroup / kLanes16>([&](auto vector) TILE_ATTR {
      const size_t at = i + vector * kLanes16;
      const V16 xv = hn::Load(D16(), x + at);
      Each<kS>([&](auto s) TILE_ATTR {
        VI more = AddProducts(xv, w[s].Load(at), whole[s]);
        if (kS > 1) InRegister(more);
        whole[s] = more;
      });
    });
    Each<kS>([&](auto s) TILE_ATTR {
      const VF scale = hn::Set(DF(), scales[s * scales_apart]);
      sum[s] = hn::MulAdd(hn::ConvertTo(DF(), whole[s]), scale, sum[s]);
    });
    ++scales;
  }
  Each<kS>([&](auto s) TILE_ATTR { sum[s] = hn::Mul(sum[s], hn::Set(DF(), x_scale)); });
  return SumsOfLanes(sum[0], sum[1 % kS], sum[2 % kS], sum[3 % kS]);
}

// One row of x: kS rows of W side by side, `apart` columns of y apart.
template <size_t kS, class Row>
HWY_INLINE void OneBy(const Problem& p, const RoundedRows& rows, size_t column, size_t apart) {
  const auto columns = static_cast<size_t>(p.weights.columns);
  const auto row_bytes = static_cast<size_t>(WeightRowBytes(Row::kType, p.weights.columns));
  const auto row_scales = static_cast<size_t>(WeightRowScales(Row::kType, p.weights.columns));
  Row w;
  w.Begin(p.weights, column);
  const float* scales = ScalesOf<Row>(p.weights, column, 0);
  float y[4] = {};
  for (size_t s = 0; p.bias != nullptr && s < kS; ++s) y[s] = p.bias[column + s * apart];
  for (size_t k = 0; k < columns; k += kDepth) {
    const XPart x(p, rows, k);
    const Four sums = PartSums<kS>(x.q, *x.scales, PartDepth<Row>(p.weights, k), w,
                                   apart * row_bytes, scales, apart * row_scales);
    StoreFour(k == 0 && p.bias == nullptr ? sums : AddFour(LoadFour(y), sums), y);
    w.data += WeightRowBytes(Row::kType, kDepth);
    scales += kDepth / WeightGroup(Row::kType);
  }
  for (size_t s = 0; s < kS; ++s) p.y[column + s * apart] = y[s];
}

template <class Row>
void One(const Problem& p, const RoundedRows& rows, size_t begin, size_t end) {
  const size_t apart = (end - begin) / kStreams;
  for (size_t i = 0; i < apart; ++i) OneBy<kStreams, Row>(p, rows, begin + i, apart);
  for (size_t n = begin + kStreams * apart; n < end; ++n) OneBy<1, Row>(p, rows, n, 0);
}

// kM rows of x: W is read once, and widened in passing.
template <size_t kM, size_t kN, class Row>
void Few(const Problem& p, const RoundedRows& rows, size_t begin, size_t end, size_t last) {
  const auto columns = static_cast<size_t>(p.weights.columns);
  const size_t next = kN * static_cast<size_t>(WeightRowBytes(p.weights.type, p.weights.columns));
  for (size_t column = begin; column < end; column += kN) {
    const size_t count = std::min(kN, end - column);
    const size_t ahead = column + kN < last ? next : 0;
    Row w[kN];
    for (size_t n = 0; n < kN; ++n) w[n].Begin(p.weights, column + std::min(n, count - 1));
    for (size_t k = 0; k < columns; k += kDepth) {
      const XPart x(p, rows, k);
      const float* scales[kN];
      for (size_t n = 0; n < kN; ++n) {
        scales[n] = ScalesOf<Row>(p.weights, column + std::min(n, count - 1), k);
      }
      OneTile<kM, kN>(p, {0, column, count, k, PartDepth<Row>(p.weights, k)}, x.q, x.scales, w, k,
                      scales, ahead);
    }
  }
}

// The tiles of `rows` rows of x from at.row on: of kM, and of fewer for what is left.
template <size_t kM, class Row>
void DownRows(const Problem& p, Place at, size_t rows, const XPart& x, const Row* w,
              const float* const* scales) {
  for (; rows >= kM; rows -= kM, at.row += kM) {
    OneTile<kM, kColumns>(p, at, x.q + at.row * kDepth, x.scales + at.row, w, 0, scales, 0);
  }
  if constexpr (kM > 1) {
    if (rows > 0) DownRows<kM - 1>(p, at, rows, x, w, scales);
  }
}

// Many rows of x: a panel of W is widened once for all of them; a block of x passes by four rows of
// it, which stay in the L1 cache, then by the next four.
template <class Row>
void Many(const Problem& p, const RoundedRows& rows, size_t begin, size_t end) {
  HWY_ALIGN int16_t panel[kPanel * kDepth];
  const auto columns = static_cast<size_t>(p.weights.columns);
  for (size_t k = 0; k < columns; k += kDepth) {
    const size_t depth = PartDepth<Row>(p.weights, k);
    for (size_t n = begin; n < end; ++n) {
      Row from;
      from.Begin(p.weights, n);
      int16_t* to = panel + (n - begin) * kDepth;
      for (size_t i = 0; i < depth; i += kLanes16) {
        hn::Store(from.Load(k + i), D16(), to + i);
      }
    }
    const XPart x(p, rows, k);
    for (size_t row = 0; row < p.rows; row += kBlock) {
      for (size_t column = begin; column < end; column += kColumns) {
        const size_t count = std::min(kColumns, end - column);
        WideRow<Row> w[kColumns];
        const float* scales[kColumns];
        for (size_t n = 0; n < kColumns; ++n) {
          const size_t at = column + std::min(n, count - 1);
          w[n].data = panel + (at - begin) * kDepth;
          scales[n] = ScalesOf<Row>(p.weights, at, k);
        }
        DownRows<kRows>(p, {row, column, count, k, depth}, std::min(kBlock, p.rows - row), x, w,
                        scales);
      }
    }
  }
}

template <class Row>
void Range(const Problem& p, const RoundedRows& rows, size_t begin, size_t end, size_t last) {
  switch (p.rows) {
    case 1:
      return One<Row>(p, rows, begin, end);
    case 2:
      return Few<2, kColumns, Row>(p, rows, begin, end, last);
    case 3:
      return Few<3, kColumns, Row>(p, rows, begin, end, last);
    default:
      break;
  }
  for (size_t n = begin; n < end; n += kPanel) {
    Many<Row>(p, rows, n, std::min(n + kPanel, end));
  }
}

// One row reads W in long streams.
size_t IntegerPieceHere(size_t rows) { return rows == 1 ? kStreams * kPanel : kPanel; }

void MultiplyIntegerRange(const Problem& p, const RoundedRows& rows, size_t begin, size_t end,
                          size_t last) {
  p.weights.type == WeightType::kInt8 ? Range<Int8Row>(p, rows, begin, end, last)
                                      : Range<Int4Row>(p, rows, begin, end, last);
}

// One part of a row.
void RoundPart(const float* x, size_t depth, int16_t* q, float* scale) {
  const DF df;
  VF most = hn::Zero(df), odd = hn::Zero(df);  // odd: NaN where a number is not finite
  ForVectors(depth, [&](size_t i, auto some) HWY_ATTR {
    const VF v = LoadSome(x + i, some);
    most = hn::Max(most, hn::Abs(v));
    odd = hn::MulAdd(v, hn::Zero(df), odd);
  });
  const float largest = hn::GetLane(hn::MaxOfLanes(df, most));
  *scale = largest / 32767.0f + hn::GetLane(hn::SumOfLanes(df, odd));
  // Below it a quotient would be infinite; such rows count as zeros.
  const VF per = hn::Set(df, largest > 1e-30f ? 32767.0f / largest : 0.0f);
  const hn::Rebind<int16_t, DI> d16;
  ForVectors(depth, [&](size_t i, auto some) HWY_ATTR {
    const VI rounded = hn::NearestInt(hn::Mul(LoadSome(x + i, some), per));
    hn::StoreU(hn::DemoteTo(d16, rounded), d16, q + i);
  });
  const size_t written = (depth + kLanes - 1) / kLanes * kLanes;
  std::fill(q + written, q + kDepth, int16_t{0});
}

void RoundRowRange(const Problem& p, size_t begin, size_t end, int16_t* q, float* scales) {
  const auto columns = static_cast<size_t>(p.weights.columns);
  for (size_t k = 0; k < columns; k += kDepth) {
    const size_t part = k / kDepth * p.rows;
    for (size_t row = begin; row < end; ++row) {
      RoundPart(p.x + row * p.x_stride + k, std::min(kDepth, columns - k),
                q + (part + row) * kDepth, scales + part + row);
    }
  }
}

template <class Row>
void ReadRow(const Weights& weights, size_t row, float* to) {
  Row from;
  from.Begin(weights, row);
  const auto columns = static_cast<size_t>(weights.columns);
  constexpr size_t kGroup = WeightGroup(Row::kType);
  const float* scales = ScalesOf<Row>(weights, row, 0);
  HWY_ALIGN int16_t q[kLanes16];
  for (size_t k = 0; k < columns; k += kLanes16) {
    hn::Store(from.Load(k), D16(), q);
    const size_t count = std::min(kLanes16, columns - k);
    for (size_t i = 0; i < count; ++i) to[k + i] = scales[k / kGroup] * static_cast<float>(q[i]);
  }
}

void ReadIntegerRow(const Weights& weights, size_t row, float* to) {
  weights.type == WeightType::kInt8 ? ReadRow<Int8Row>(weights, row, to)
                                    : ReadRow<Int4Row>(weights, row, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(MultiplyIntegerRange);
HWY_EXPORT(IntegerPieceHere);
HWY_EXPORT(RoundRowRange);
HWY_EXPORT(ReadIntegerRow);

void MultiplyIntegers(const Problem& p, const RoundedRows& x, size_t begin, size_t end,
                      size_t last) {
  HWY_DYNAMIC_DISPATCH(MultiplyIntegerRange)(p, x, begin, end, last);
}

size_t IntegerPiece(size_t rows) { return HWY_DYNAMIC_DISPATCH(IntegerPieceHere)(rows); }

void RoundRows(const Problem& p, size_t begin, size_t end, int16_t* q, float* scales) {
  HWY_DYNAMIC_DISPATCH(RoundRowRange)(p, begin, end, q, scales);
}

void ReadIntegers(const Weights& weights, size_t row, float* to) {
  HWY_DYNAMIC_DISPATCH(ReadIntegerRow)(weights, row, to);
}

}  // namespace cosformer
#endif
