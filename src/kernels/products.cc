// Tiles of dot products with the lanes along the row, compiled once an instruction set.
//
// A tile holds a vector of partial sums for each of its rows of x and of W, so that neither has to
// be turned or packed: what it loads is contiguous. The sums of the lanes are taken once in
// kDepth numbers, four at a time.

#include "kernels/products.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/products.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "hwy/cache_control.h"
#include "kernels/vectors-inl.h"

#ifndef COSFORMER_PRODUCTS_SHARED
#define COSFORMER_PRODUCTS_SHARED
namespace cosformer {

// A row is summed in parts of so many numbers: 12 rows of x and 4 of W fill 32 of the 48 or 32 KiB
// of an L1 cache.
inline constexpr size_t kDepth = 512;

struct Problem {
  const float* x;
  size_t x_stride;
  size_t rows;
  Weights weights;
  const float* bias;
  float* y;
  size_t y_stride;
};

}  // namespace cosformer
#endif

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
constexpr size_t kBlock = 2 * kRows;  // rows of x that stay in the L1 cache
static_assert(kDepth % 64 == 0 && kDepth % kLanes == 0 && kPanel % kColumns == 0);

// How one row of weights is read, a vector at a time: k counts from the row's beginning and is a
// multiple of kLanes. kLine: the numbers in a cache line.
struct FloatRow {
  static constexpr size_t kLine = 16;
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

// Rows of integers have whole groups, and so whole vectors.
struct Int8Row {
  static constexpr size_t kLine = 64;
  const int8_t* data = nullptr;
  const float* scales = nullptr;

  void Begin(const Weights& w, size_t row) {
    data = static_cast<const int8_t*>(w.data) +
           row * static_cast<size_t>(WeightRowBytes(WeightType::kInt8, w.columns));
    scales = w.scales + row * static_cast<size_t>(WeightRowScales(WeightType::kInt8, w.columns));
  }
  template <class Some>
  HWY_INLINE VF Load(size_t k, Some) const {
    const hn::Rebind<int8_t, DF> d8;
    const VF q = hn::ConvertTo(DF(), hn::PromoteTo(DI(), hn::LoadU(d8, data + k)));
    return hn::Mul(q, hn::Set(DF(), scales[k / 64]));
  }
  const void* At(size_t k) const { return data + k; }
};

struct Int4Row {
  static constexpr size_t kLine = 128;
  const uint8_t* data = nullptr;
  const float* scales = nullptr;

  void Begin(const Weights& w, size_t row) {
    data = static_cast<const uint8_t*>(w.data) +
           row * static_cast<size_t>(WeightRowBytes(WeightType::kInt4, w.columns));
    scales = w.scales + row * static_cast<size_t>(WeightRowScales(WeightType::kInt4, w.columns));
  }
  template <class Some>
  HWY_INLINE VF Load(size_t k, Some) const {
    const hn::Rebind<uint8_t, DF> d8;
    const VI both = hn::PromoteTo(DI(), hn::LoadU(d8, data + k / 32 * 16 + k % 16));
    const VI q = k & 16 ? hn::ShiftRight<4>(both) : hn::And(both, hn::Set(DI(), 15));
    const VF scale = hn::Set(DF(), scales[k / 32]);
#if HWY_TARGET <= HWY_AVX3
    // A vector holds all 16 values of a group, so that one product serves it.
    HWY_ALIGN static constexpr float kValues[16] = {-8, -7, -6, -5, -4, -3, -2, -1,
                                                    0,  1,  2,  3,  4,  5,  6,  7};
    return hn::TableLookupLanes(hn::Mul(hn::Load(DF(), kValues), scale),
                                hn::IndicesFromVec(DF(), q));
#else
    return hn::Mul(hn::ConvertTo(DF(), hn::Sub(q, hn::Set(DI(), 8))), scale);
#endif
  }
  const void* At(size_t k) const { return data + k / 2; }
};

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
  const hn::RepartitionToWide<DF> d64;
  const auto low = hn::BitCast(d64, pair(a, b));
  const auto high = hn::BitCast(d64, pair(c, d));
  // In every block of four lanes: what a to d have there.
  const VF blocks = hn::Add(hn::BitCast(df, hn::InterleaveLower(d64, low, high)),
                            hn::BitCast(df, hn::InterleaveUpper(d64, low, high)));
  return SumOfBlocks(df, blocks);
}
#endif

#undef TILE_ATTR
#define TILE_ATTR HWY_ATTR __attribute__((always_inline))

// Calls body(i) for i = 0 to n - 1, each a constant: arrays that they index can be registers.
template <size_t n, class Body>
HWY_INLINE void Each(const Body& body) {
  [&]<size_t... i>(std::index_sequence<i...>) TILE_ATTR {
    (body(std::integral_constant<size_t, i>()), ...);
  }
  (std::make_index_sequence<n>());
}

// x is in a register at this point of the program. Where a tile takes all 16 of them, GCC 12 would
// read an operand from memory for every use of it: 11 loads for 12 products, where 7 do. Said of an
// operand after its last use, it keeps sums from moving into that register.
HWY_INLINE void InRegister([[maybe_unused]] VF& x) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  asm volatile("" : "+x"(x.raw));
#endif
}

// One tile of y and the part of the rows that is summed into it.
struct Place {
  size_t row;     // of x and y
  size_t column;  // of y
  size_t count;   // of columns that are wanted, at most the tile's
  size_t begin;   // in the rows of x and W: a multiple of kDepth
  size_t depth;   // at most kDepth
};

// y += x[m] . w[n], with the bias in the first part of the rows. x is where the part begins, in w
// it begins at w_begin. ahead: bytes from a row of W to the one to be fetched in passing, since the
// hardware's own prefetching ends with the page; 0: none. kStride: x_stride where it is known, so
// that rows of x need no pointers of their own; 0: it is not.
// A call of its own: some hundred cycles and more, and one copy of it is enough to compile.
template <size_t kM, size_t kN, size_t kStride, class Row>
HWY_NOINLINE void OneTile(const Problem& p, const Place& at, const float* HWY_RESTRICT x,
                          size_t x_stride, const Row* w, size_t w_begin, size_t ahead) {
  if (kStride != 0) x_stride = kStride;
  if (w_begin % kDepth != 0) __builtin_unreachable();  // groups begin where the loop's steps do
  VF sum[kM][kN];
  Each<kM>([&](auto m)
               TILE_ATTR { Each<kN>([&](auto n) TILE_ATTR { sum[m][n] = hn::Zero(DF()); }); });
  // Weights that are decoded in passing need registers of their own.
  const auto keep = [](VF& v) TILE_ATTR {
    if constexpr (kM == kRows && std::is_same_v<Row, FloatRow>) InRegister(v);
  };
  const auto add = [&](size_t i, auto some) TILE_ATTR {
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
  };
  size_t i = 0;
  for (; i + Row::kLine <= at.depth; i += Row::kLine) {
    if (ahead != 0) {
      for (size_t n = 0; n < kN; ++n) {
        hwy::Prefetch(static_cast<const char*>(w[n].At(w_begin + i)) + ahead);
      }
    }
    for (size_t j = 0; j < Row::kLine; j += kLanes) add(i + j, Whole());
  }
  for (; i + kLanes <= at.depth; i += kLanes) add(i, Whole());
  if (i < at.depth) add(i, Part{at.depth - i});

  Each<kM>([&](auto m) TILE_ATTR {
    float* to = p.y + (at.row + m) * p.y_stride + at.column;
    const float* before = at.begin > 0 ? to : p.bias != nullptr ? p.bias + at.column : nullptr;
    Each<kN / 4>([&](auto quarter) TILE_ATTR {
      constexpr size_t n = 4 * quarter;
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

// kM rows of x: W is read once, and decoded in passing.
template <size_t kM, size_t kN, class Row>
void Few(const Problem& p, size_t begin, size_t end) {
  const auto columns = static_cast<size_t>(p.weights.columns);
  const size_t next = kN * static_cast<size_t>(WeightRowBytes(p.weights.type, p.weights.columns));
  for (size_t column = begin; column < end; column += kN) {
    const size_t count = std::min(kN, end - column);
    const size_t ahead = column + kN < end ? next : 0;
    Row w[kN];
    for (size_t n = 0; n < kN; ++n) w[n].Begin(p.weights, column + std::min(n, count - 1));
    for (size_t k = 0; k < columns; k += kDepth) {
      OneTile<kM, kN, 0>(p, {0, column, count, k, std::min(kDepth, columns - k)}, p.x + k,
                         p.x_stride, w, k, ahead);
    }
  }
}

// The tiles of `rows` rows of x from at.row on: of kM, and of fewer for what is left.
template <size_t kM>
void DownRows(const Problem& p, Place at, size_t rows, const float* x, const FloatRow* w,
              size_t ahead) {
  for (; rows >= kM; rows -= kM, at.row += kM, x += kM * kDepth, ahead = 0) {
    OneTile<kM, kColumns, kDepth>(p, at, x, kDepth, w, 0, ahead);
  }
  if constexpr (kM > 1) {
    if (rows > 0) DownRows<kM - 1>(p, at, rows, x, w, ahead);
  }
}

// Many rows of x: a panel of W is decoded once for all of them; a block of x stays in the L1 cache
// while the panel passes by from the L2 cache. next: bytes to the panel that follows, 0 if none.
template <class Row>
void Many(const Problem& p, size_t begin, size_t end, size_t next) {
  HWY_ALIGN float panel[kPanel * kDepth];
  HWY_ALIGN float block[kBlock * kDepth];
  const DF df;
  const auto columns = static_cast<size_t>(p.weights.columns);
  // Rows of one part lie close together already. Longer ones, a multiple of 4 KiB apart, would
  // share their places in the cache.
  const bool as_it_is = std::is_same_v<Row, FloatRow> && columns <= kDepth;
  const bool x_as_it_is = p.x_stride == kDepth;
  for (size_t k = 0; k < columns; k += kDepth) {
    const size_t depth = std::min(kDepth, columns - k);
    for (size_t n = begin; !as_it_is && n < end; ++n) {
      Row from;
      from.Begin(p.weights, n);
      float* to = panel + (n - begin) * kDepth;
      ForVectors(depth, [&](size_t i, auto some)
                            HWY_ATTR { hn::Store(from.Load(k + i, some), df, to + i); });
    }
    for (size_t row = 0; row < p.rows; row += kBlock) {
      const size_t rows = std::min(kBlock, p.rows - row);
      const float* x = p.x + row * p.x_stride + k;
      for (size_t m = 0; !x_as_it_is && m < rows; ++m) {
        ForVectors(depth, [&](size_t i, auto some) HWY_ATTR {
          hn::Store(LoadSome(x + m * p.x_stride + i, some), df, block + m * kDepth + i);
        });
      }
      const size_t ahead = as_it_is && row == 0 ? next : 0;
      for (size_t column = begin; column < end; column += kColumns) {
        const size_t count = std::min(kColumns, end - column);
        FloatRow w[kColumns];
        for (size_t n = 0; n < kColumns; ++n) {
          const size_t at = column + std::min(n, count - 1);
          if (as_it_is) {
            w[n].Begin(p.weights, at);
          } else {
            w[n].data = panel + (at - begin) * kDepth;
          }
        }
        DownRows<kRows>(p, {row, column, count, k, depth}, rows, x_as_it_is ? x : block, w, ahead);
      }
    }
  }
}

template <class Row>
void Range(const Problem& p, size_t begin, size_t end) {
  switch (p.rows) {
    case 1:
      return Few<1, 8, Row>(p, begin, end);
    case 2:
      return Few<2, 4, Row>(p, begin, end);
    case 3:
      return Few<3, 4, Row>(p, begin, end);
#if HWY_TARGET <= HWY_AVX3
    case 4:
      return Few<4, 4, Row>(p, begin, end);
    case 5:
      return Few<5, 4, Row>(p, begin, end);
    case 6:
      return Few<6, 4, Row>(p, begin, end);
#endif
    default:
      break;
  }
  const size_t panel_bytes =
      kPanel * static_cast<size_t>(WeightRowBytes(p.weights.type, p.weights.columns));
  for (size_t n = begin; n < end; n += kPanel) {
    Many<Row>(p, n, std::min(n + kPanel, end), n + 2 * kPanel <= end ? panel_bytes : 0);
  }
}

// Columns begin to end - 1 of y.
void MultiplyRange(const Problem& p, size_t begin, size_t end) {
  switch (p.weights.type) {
    case WeightType::kFloat32:
      return Range<FloatRow>(p, begin, end);
    case WeightType::kBFloat16:
      return Range<BFloat16Row>(p, begin, end);
    case WeightType::kInt8:
      return Range<Int8Row>(p, begin, end);
    case WeightType::kInt4:
      return Range<Int4Row>(p, begin, end);
  }
}

template <class Row>
void ReadRow(const Weights& weights, size_t row, float* HWY_RESTRICT to) {
  Row from;
  from.Begin(weights, row);
  ForVectors(static_cast<size_t>(weights.columns),
             [&](size_t i, auto some) HWY_ATTR { StoreSome(from.Load(i, some), to + i, some); });
}

void ReadWeightRow(const Weights& weights, size_t row, float* to) {
  switch (weights.type) {
    case WeightType::kFloat32:
      return ReadRow<FloatRow>(weights, row, to);
    case WeightType::kBFloat16:
      return ReadRow<BFloat16Row>(weights, row, to);
    case WeightType::kInt8:
      return ReadRow<Int8Row>(weights, row, to);
    case WeightType::kInt4:
      return ReadRow<Int4Row>(weights, row, to);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {
namespace {

// To nearest, ties to even.
uint16_t Narrowed(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// The scale of a group whose numbers go from -largest to largest.
float ScaleOf(std::span<const float> group, float largest) {
  float most = 0;
  for (const float w : group) most = std::max(most, std::abs(w));
  return most / largest;
}

int Quantised(float w, float scale, int least, int most) {
  // A scale below the normal numbers may be 0, or its quotients infinite.
  const float q = scale > 0 ? std::nearbyint(w / scale) : 0;
  return static_cast<int>(std::clamp(q, static_cast<float>(least), static_cast<float>(most)));
}

}  // namespace

HWY_EXPORT(MultiplyRange);
HWY_EXPORT(ReadWeightRow);

void Multiply(const float* x, int64_t x_stride, int64_t rows, const Weights& weights,
              const float* bias, float* y, int64_t y_stride, int threads) {
  assert(x_stride >= weights.columns && y_stride >= weights.rows);
  const Problem problem = {
      x, static_cast<size_t>(x_stride), static_cast<size_t>(rows), weights, bias,
      y, static_cast<size_t>(y_stride)};
  if (rows == 0) return;
  const auto columns = static_cast<size_t>(weights.rows);
  if (threads <= 0) threads = omp_get_max_threads();
  // A second thread is worth its start from some tens of microseconds of work on.
  const auto work = static_cast<double>(weights.rows) * static_cast<double>(weights.columns) *
                    static_cast<double>(rows);
  threads = static_cast<int>(std::clamp(work / 200000, 1.0, static_cast<double>(threads)));
  // Whole tiles, so that no row of W is read twice.
  const size_t tiles = (columns + 7) / 8;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    const auto team = static_cast<size_t>(omp_get_num_threads());
    const auto own = static_cast<size_t>(omp_get_thread_num());
    const size_t begin = tiles * own / team * 8;
    const size_t end = std::min(tiles * (own + 1) / team * 8, columns);
    if (begin < end) HWY_DYNAMIC_DISPATCH(MultiplyRange)(problem, begin, end);
  }
}

void ReadWeights(const Weights& weights, int64_t row, float* to) {
  assert(row >= 0 && row < weights.rows);
  HWY_DYNAMIC_DISPATCH(ReadWeightRow)(weights, static_cast<size_t>(row), to);
}

void WriteWeights(WeightType type, const float* from, int64_t columns, void* data, float* scales) {
  const std::span<const float> row(from, static_cast<size_t>(columns));
  const auto group = static_cast<size_t>(WeightGroup(type));
  switch (type) {
    case WeightType::kFloat32:
      std::memcpy(data, from, row.size_bytes());
      return;
    case WeightType::kBFloat16:
      std::transform(row.begin(), row.end(), static_cast<uint16_t*>(data), Narrowed);
      return;
    case WeightType::kInt8:
    case WeightType::kInt4:
      break;
  }
  std::memset(data, type == WeightType::kInt4 ? 0x88 : 0,
              static_cast<size_t>(WeightRowBytes(type, columns)));
  for (size_t begin = 0; begin < row.size(); begin += group, ++scales) {
    const auto part = row.subspan(begin, std::min(group, row.size() - begin));
    *scales = ScaleOf(part, type == WeightType::kInt8 ? 127.0f : 7.0f);
    if (type == WeightType::kInt8) {
      auto* to = static_cast<int8_t*>(data) + begin;
      for (size_t i = 0; i < part.size(); ++i) {
        to[i] = static_cast<int8_t>(Quantised(part[i], *scales, -127, 127));
      }
    } else {
      auto* to = static_cast<uint8_t*>(data) + begin / 2;
      for (size_t i = 0; i < part.size(); ++i) {
        const auto q = static_cast<uint8_t>(Quantised(part[i], *scales, -8, 7) + 8);
        uint8_t& byte = to[i % 16];
        byte = static_cast<uint8_t>(i < 16 ? (byte & 0xf0) | q : (byte & 0x0f) | (q << 4));
      }
    }
  }
}

}  // namespace cosformer
#endif
