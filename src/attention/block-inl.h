// The register tile that all products of this folder are made of, and the moves around it: rows
// into aligned scratch through a feature map, transposition, rows out. Included once an instruction
// set.

#if defined(COSFORMER_BLOCK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COSFORMER_BLOCK_INL_H
#undef COSFORMER_BLOCK_INL_H
#else
#define COSFORMER_BLOCK_INL_H
#endif

#include <bit>
#include <cmath>
#include <cstring>

#include "attention/linear_kernels.h"
#include "hwy/cache_control.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

// MaxLanes is exact for every target that this compiles for (tiles are arrays of vectors, which
// excludes those of unknown length).
constexpr size_t kLanes = HWY_LANES(float);

// Two FMAs a cycle of latency 4 need at least 8 sums in flight. 8 x 2 vectors leave 16 registers
// of 32 for operands; 4 x 3 leave 4 of 16.
#if HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
constexpr size_t kRows = 8;
constexpr size_t kVecs = 2;
#else
constexpr size_t kRows = 4;
constexpr size_t kVecs = 3;
#endif
static_assert(kTileRows % kRows == 0 && kMaxLanes % kLanes == 0);

template <size_t kR, size_t kV>
struct Tile {
  VF sum[kR][kV];

  HWY_INLINE void Clear() {
    for (auto& row : sum) {
      for (VF& s : row) s = hn::Zero(DF());
    }
  }

  // sum[r][v] *= factors[r].
  HWY_INLINE void Scale(const float* HWY_RESTRICT factors) {
    for (size_t r = 0; r < kR; ++r) {
      const VF f = hn::Set(DF(), factors[r]);
      for (size_t v = 0; v < kV; ++v) sum[r][v] = hn::Mul(sum[r][v], f);
    }
  }

  // sum[r][v] += sum_k a[k * a_step + r] b[k * b_step + v * kLanes ...]: each a is one number, each
  // b a vector.
  HWY_INLINE void AddColumns(const float* HWY_RESTRICT a, size_t a_step,
                             const float* HWY_RESTRICT b, size_t b_step, size_t depth) {
    Add(a, 1, a_step, b, b_step, depth);
  }

  // The same with a[r * a_row + k].
  HWY_INLINE void AddRows(const float* HWY_RESTRICT a, size_t a_row, const float* HWY_RESTRICT b,
                          size_t b_step, size_t depth) {
    Add(a, a_row, 1, b, b_step, depth);
  }

 private:
  // The loop counts with a pointer that it moves anyway: every scalar addition takes an issue slot
  // that an FMA may have wanted.
  HWY_INLINE void Add(const float* HWY_RESTRICT a, size_t a_row, size_t a_step,
                      const float* HWY_RESTRICT b, size_t b_step, size_t depth) {
    for (const float* end = b + depth * b_step; b != end; b += b_step, a += a_step) {
      AddOne(a, a_row, b);
    }
  }

  HWY_INLINE void AddOne(const float* HWY_RESTRICT a, size_t a_row, const float* HWY_RESTRICT b) {
    const DF df;
    VF bv[kV];
    for (size_t v = 0; v < kV; ++v) bv[v] = hn::Load(df, b + v * kLanes);
    for (size_t r = 0; r < kR; ++r) {
      const VF av = hn::Set(df, a[r * a_row]);
      for (size_t v = 0; v < kV; ++v) sum[r][v] = hn::MulAdd(av, bv[v], sum[r][v]);
    }
  }
};

// x away from zero by at least epsilon; NaN stays NaN.
static HWY_INLINE float KeptFromZero(float x, float epsilon) {
  return std::abs(x) < epsilon ? std::copysign(epsilon, x) : x;
}

// Calls body(first_column, vectors) for groups of kVecs vectors, then for what is left.
template <class Body>
static HWY_INLINE void ForColumns(size_t begin, size_t end, const Body& body) {
  size_t c = begin;
  for (; c + kVecs * kLanes <= end; c += kVecs * kLanes) {
    body(c, std::integral_constant<size_t, kVecs>());
  }
  if constexpr (kVecs > 2) {
    for (; c + 2 * kLanes <= end; c += 2 * kLanes) body(c, std::integral_constant<size_t, 2>());
  }
  for (; c < end; c += kLanes) body(c, std::integral_constant<size_t, 1>());
}

// Scratch handed out in order, on cache lines. Without memory it only counts.
class Arena {
 public:
  explicit Arena(float* memory) : memory_(memory) {}

  float* Take(size_t floats) {
    float* taken = memory_ == nullptr ? nullptr : memory_ + size_;
    // Three lines further each time: arrays a multiple of 4 KiB apart would make a load wait for
    // stores to the other array.
    size_ += RoundUp(static_cast<int64_t>(floats), kMaxLanes) + 3 * kMaxLanes;
    return taken;
  }
  int64_t size() const { return size_; }

 private:
  float* memory_;
  int64_t size_ = 0;
};

static HWY_INLINE float Widen(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// To nearest, ties to even; NaN stays NaN.
static HWY_INLINE uint16_t Narrow(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Elements c to c + kLanes - 1 of a row; those from dim on are zero.
static HWY_INLINE VF LoadRow(const void* HWY_RESTRICT row, DType dtype, size_t c, size_t dim) {
  const DF df;
  if (dtype == DType::kFloat32) {
    const float* from = static_cast<const float*>(row) + c;
    if (c + kLanes <= dim) return hn::LoadU(df, from);
    HWY_ALIGN float rest[kLanes] = {};
    for (size_t i = 0; i < dim - c; ++i) rest[i] = from[i];
    return hn::Load(df, rest);
  }
  const uint16_t* from = static_cast<const uint16_t*>(row) + c;
  if (c + kLanes <= dim) {
    const hn::Rebind<uint16_t, DF> du16;
    const hn::RebindToUnsigned<DF> du32;
    return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du32, hn::LoadU(du16, from))));
  }
  HWY_ALIGN float rest[kLanes] = {};
  for (size_t i = 0; i < dim - c; ++i) rest[i] = Widen(from[i]);
  return hn::Load(df, rest);
}

static HWY_INLINE void StoreRow(VF x, void* HWY_RESTRICT row, DType dtype, size_t c, size_t dim) {
  const DF df;
  if (dtype == DType::kFloat32 && c + kLanes <= dim) {
    hn::StoreU(x, df, static_cast<float*>(row) + c);
    return;
  }
  HWY_ALIGN float all[kLanes];
  hn::Store(x, df, all);
  const size_t count = HWY_MIN(kLanes, dim - c);
  if (dtype == DType::kFloat32) {
    std::memcpy(static_cast<float*>(row) + c, all, count * sizeof(float));
  } else {
    uint16_t* to = static_cast<uint16_t*>(row) + c;
    for (size_t i = 0; i < count; ++i) to[i] = Narrow(all[i]);
  }
}

// exp that keeps NaN, which Highway's turns into 0.
static HWY_INLINE VF ExpOrNaN(VF x) {
  const DF df;
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(df, x));
}

// The feature map; comparisons are such that NaN stays NaN.
template <FeatureMap kMap>
static HWY_INLINE VF Map(VF x, VF slope) {
  const VF zero = hn::Zero(DF());
  if constexpr (kMap == FeatureMap::kRelu) return hn::IfThenZeroElse(hn::Lt(x, zero), x);
  if constexpr (kMap == FeatureMap::kLeakyRelu) {
    return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(x, slope), x);
  }
  if constexpr (kMap == FeatureMap::kEluPlusOne) {
    return hn::IfThenElse(hn::Gt(x, zero), hn::Add(x, hn::Set(DF(), 1.0f)), ExpOrNaN(x));
  }
  return x;
}

// y times the derivative of the feature map at x.
template <FeatureMap kMap>
static HWY_INLINE VF TimesDerivative(VF y, VF x, VF slope) {
  const VF zero = hn::Zero(DF());
  const auto positive = hn::Gt(x, zero);
  if constexpr (kMap == FeatureMap::kRelu) return hn::IfThenElseZero(positive, y);
  if constexpr (kMap == FeatureMap::kLeakyRelu) {
    return hn::IfThenElse(positive, y, hn::Mul(y, slope));
  }
  if constexpr (kMap == FeatureMap::kEluPlusOne) {
    return hn::IfThenElse(positive, y, hn::Mul(y, ExpOrNaN(x)));
  }
  return y;
}

template <class Body>
static HWY_INLINE void WithMap(FeatureMap map, const Body& body) {
  switch (map) {
    case FeatureMap::kRelu:
      return body(std::integral_constant<FeatureMap, FeatureMap::kRelu>());
    case FeatureMap::kLeakyRelu:
      return body(std::integral_constant<FeatureMap, FeatureMap::kLeakyRelu>());
    case FeatureMap::kEluPlusOne:
      return body(std::integral_constant<FeatureMap, FeatureMap::kEluPlusOne>());
    case FeatureMap::kIdentity:
    case FeatureMap::kGiven:
      return body(std::integral_constant<FeatureMap, FeatureMap::kIdentity>());
  }
}

// The rows that the next chunk will touch, fetched a few lines at a time between the tiles of this
// one. Rows of one head lie a page apart where the model is wide, which the hardware does not
// foresee; and fetched all at once they would queue up for the 10 to 16 line buffers of a core.
class Ahead {
 public:
  // Rows first to first + count - 1. Rows that continue others, as the heads of a model do, are
  // fetched with them: a page is entered once for all heads. Rows already added are not fetched
  // twice.
  void Add(const void* data, DType dtype, int64_t stride, int64_t dim, int64_t first,
           int64_t count) {
    if (count <= 0) return;
    const int64_t size = dtype == DType::kFloat32 ? 4 : 2;
    const char* begin = static_cast<const char*>(data) + first * stride * size;
    const int64_t lines = count * ((dim * size + kLine - 1) / kLine);
    for (Item* item = item_; item != item_ + items_; ++item) {
      if (stride * size != item->step || count != item->count) continue;
      const int64_t offset = begin - item->row;
      if (0 <= offset && offset + dim * size <= item->bytes) return;
      if (offset == item->bytes) {
        item->bytes += dim * size;
        lines_ += lines;
        return;
      }
    }
    if (items_ == kItems) return;
    item_[items_++] = {begin, stride * size, dim * size, count};
    lines_ += lines;
  }

  // Spreads what was added over this many calls of Some.
  void SpreadOver(int64_t calls) { lines_a_call_ = (lines_ + calls - 1) / HWY_MAX(calls, 1); }

  HWY_INLINE void Some() {
    if (current_ < items_) Fetch();
  }

 private:
  HWY_NOINLINE void Fetch() {
    int64_t left = lines_a_call_;
    while (left > 0 && current_ < items_) {
      Item& item = item_[current_];
      const int64_t row_left = (item.bytes - offset_ + kLine - 1) / kLine;
      const int64_t lines = HWY_MIN(left, row_left);
      const char* at = item.row + offset_;
      // Into the second level: the first is full of the present chunk.
      for (const char* stop = at + lines * kLine; at != stop; at += kLine) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
        __builtin_prefetch(at, /*write=*/0, /*locality=*/2);
#else
        hwy::Prefetch(at);
#endif
      }
      left -= lines;
      offset_ += lines * kLine;
      if (lines < row_left) return;
      offset_ = 0;
      item.row += item.step;
      if (--item.count == 0) ++current_;
    }
  }

  struct Item {
    const char* row;
    int64_t step;
    int64_t bytes;
    int64_t count;
  };
  static constexpr int64_t kLine = 64;
  static constexpr size_t kItems = 16;  // heads that do not adjoin go without beyond this
  Item item_[kItems];
  size_t items_ = 0;
  size_t current_ = 0;
  int64_t offset_ = 0;
  int64_t lines_ = 0;
  int64_t lines_a_call_ = 0;
};

static HWY_INLINE void ZeroRows(float* out, size_t step, size_t begin, size_t end) {
  if (end > begin) std::memset(out + begin * step, 0, (end - begin) * step * sizeof(float));
}

// One row of whole vectors, four at a time: a load that follows a store to an address equal in its
// low 12 bits would wait for it.
template <FeatureMap kMap, class Then>
HWY_INLINE void PackRow(const float* HWY_RESTRICT from, size_t dim, VF slope, const Then& then,
                        float* HWY_RESTRICT to) {
  const DF df;
  size_t c = 0;
  for (; c + 4 * kLanes <= dim; c += 4 * kLanes) {
    const VF x0 = then(Map<kMap>(hn::LoadU(df, from + c), slope));
    const VF x1 = then(Map<kMap>(hn::LoadU(df, from + c + kLanes), slope));
    const VF x2 = then(Map<kMap>(hn::LoadU(df, from + c + 2 * kLanes), slope));
    const VF x3 = then(Map<kMap>(hn::LoadU(df, from + c + 3 * kLanes), slope));
    hn::Store(x0, df, to + c);
    hn::Store(x1, df, to + c + kLanes);
    hn::Store(x2, df, to + c + 2 * kLanes);
    hn::Store(x3, df, to + c + 3 * kLanes);
  }
  for (; c < dim; c += kLanes) {
    hn::Store(then(Map<kMap>(hn::LoadU(df, from + c), slope)), df, to + c);
  }
}

// Rows first to first + count - 1 of op, mapped and multiplied, as rows of `step` floats in `out`;
// columns past the operand's width and the rows count to padded - 1 are zero.
static HWY_NOINLINE void PackRows(const Operand& op, int64_t first, size_t count,
                                  float* HWY_RESTRICT out, size_t step, size_t padded) {
  const DF df;
  const size_t dim = static_cast<size_t>(op.dim);
  const VF slope = hn::Set(df, op.leaky_slope);
  const int64_t stride = op.stride;
  WithMap(op.map, [&](auto map) HWY_ATTR {
    if (op.dtype == DType::kFloat32 && dim % kLanes == 0) {
      // What a model's tensors are.
      const float* HWY_RESTRICT from = static_cast<const float*>(op.data) + first * stride;
      const float* factor = op.factor == nullptr ? nullptr : op.factor + first * op.side_stride;
      float* HWY_RESTRICT to = out;
      for (size_t r = 0; r < count; ++r, from += stride, to += step) {
        if (factor == nullptr) {
          PackRow<map()>(
              from, dim, slope, [](VF x) HWY_ATTR { return x; }, to);
        } else {
          const VF f = hn::Set(df, *factor);
          PackRow<map()>(
              from, dim, slope, [f](VF x) HWY_ATTR { return hn::Mul(x, f); }, to);
          factor += op.side_stride;
        }
      }
    } else {
      for (size_t r = 0; r < count; ++r) {
        const int64_t index = first + static_cast<int64_t>(r);
        const void* row = ElementAt(op.data, op.dtype, index * stride);
        const VF factor =
            hn::Set(df, op.factor == nullptr ? 1.0f : op.factor[index * op.side_stride]);
        for (size_t c = 0; c < dim; c += kLanes) {
          VF x = hn::Mul(Map<map()>(LoadRow(row, op.dtype, c, dim), slope), factor);
          if (c + kLanes > dim) x = hn::IfThenElseZero(hn::FirstN(df, dim - c), x);
          hn::Store(x, df, out + r * step + c);
        }
      }
    }
  });
  const size_t written = (dim + kLanes - 1) / kLanes * kLanes;
  if (written < step) {
    for (size_t r = 0; r < count; ++r) {
      for (size_t c = written; c < step; c += kLanes)
        hn::Store(hn::Zero(df), df, out + r * step + c);
    }
  }
  if (op.extra == Operand::Extra::kOnes) {
    for (size_t r = 0; r < count; ++r) out[r * step + dim] = 1.0f;
  } else if (op.extra == Operand::Extra::kColumn) {
    const float* column = op.column + first * op.side_stride;
    for (size_t r = 0; r < count; ++r, column += op.side_stride) out[r * step + dim] = *column;
  }
  ZeroRows(out, step, count, padded);
}

[[maybe_unused]] static HWY_NOINLINE bool AllFinite(const float* HWY_RESTRICT x, size_t count) {
  const DF df;
  const VF zero = hn::Zero(df);
  VF even = zero;
  VF odd = zero;  // x * 0 is 0, or NaN; count is a multiple of kMaxLanes
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    even = hn::MulAdd(hn::Load(df, x + i), zero, even);
    odd = hn::MulAdd(hn::Load(df, x + i + kLanes), zero, odd);
  }
  for (; i < count; i += kLanes) even = hn::MulAdd(hn::Load(df, x + i), zero, even);
  return hn::AllTrue(df, hn::Eq(hn::Add(even, odd), zero));
}

// One square of kLanes x kLanes. In steps of whole vectors: narrower stores would keep the vector
// loads that follow them waiting.
template <size_t kN>
HWY_INLINE void TransposeSquare(const float* HWY_RESTRICT in, size_t in_step,
                                float* HWY_RESTRICT out, size_t out_step) {
#if HWY_TARGET == HWY_SCALAR
  (void)in_step;
  (void)out_step;
  *out = *in;
#else
  const DF df;
  // Within blocks of 4 x 4: block b of quad[g][t] holds column 4 b + t of rows 4 g to 4 g + 3.
  const hn::Repartition<double, DF> dd;
  VF quad[kN / 4][4];
  for (size_t g = 0; g < kN / 4; ++g) {
    const float* from = in + 4 * g * in_step;
    const VF r0 = hn::Load(df, from);
    const VF r1 = hn::Load(df, from + in_step);
    const VF r2 = hn::Load(df, from + 2 * in_step);
    const VF r3 = hn::Load(df, from + 3 * in_step);
    const auto lo01 = hn::BitCast(dd, hn::InterleaveLower(df, r0, r1));
    const auto hi01 = hn::BitCast(dd, hn::InterleaveUpper(df, r0, r1));
    const auto lo23 = hn::BitCast(dd, hn::InterleaveLower(df, r2, r3));
    const auto hi23 = hn::BitCast(dd, hn::InterleaveUpper(df, r2, r3));
    quad[g][0] = hn::BitCast(df, hn::InterleaveLower(dd, lo01, lo23));
    quad[g][1] = hn::BitCast(df, hn::InterleaveUpper(dd, lo01, lo23));
    quad[g][2] = hn::BitCast(df, hn::InterleaveLower(dd, hi01, hi23));
    quad[g][3] = hn::BitCast(df, hn::InterleaveUpper(dd, hi01, hi23));
  }
  for (size_t t = 0; t < 4; ++t) {
    float* to = out + t * out_step;
    if constexpr (kN == 4) {
      hn::Store(quad[0][t], df, to);
    } else if constexpr (kN == 8) {
      hn::Store(hn::ConcatLowerLower(df, quad[1][t], quad[0][t]), df, to);
      hn::Store(hn::ConcatUpperUpper(df, quad[1][t], quad[0][t]), df, to + 4 * out_step);
    } else {
      static_assert(kN == 16 || kN <= 8);
      const VF low02 = hn::ConcatLowerLower(df, quad[2][t], quad[0][t]);
      const VF low13 = hn::ConcatLowerLower(df, quad[3][t], quad[1][t]);
      const VF high02 = hn::ConcatUpperUpper(df, quad[2][t], quad[0][t]);
      const VF high13 = hn::ConcatUpperUpper(df, quad[3][t], quad[1][t]);
      hn::Store(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(low13), low02), df, to);
      hn::Store(hn::OddEvenBlocks(low13, hn::SwapAdjacentBlocks(low02)), df, to + 4 * out_step);
      hn::Store(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high13), high02), df, to + 8 * out_step);
      hn::Store(hn::OddEvenBlocks(high13, hn::SwapAdjacentBlocks(high02)), df, to + 12 * out_step);
    }
  }
#endif
}

// out[c * out_step + r] = in[r * in_step + c] for r < rows, c < columns, both rounded up to kLanes.
[[maybe_unused]] static HWY_NOINLINE void Transpose(const float* HWY_RESTRICT in, size_t in_step,
                                                    size_t rows, size_t columns,
                                                    float* HWY_RESTRICT out, size_t out_step) {
  for (size_t r = 0; r < rows; r += kLanes) {
    for (size_t c = 0; c < columns; c += kLanes) {
      TransposeSquare<kLanes>(in + r * in_step + c, in_step, out + c * out_step + r, out_step);
    }
  }
}

// Rows of scratch into rows first to first + count - 1 of an output.
static HWY_NOINLINE void UnpackRows(const float* HWY_RESTRICT in, size_t step, int64_t first,
                                    size_t count, const Output& out) {
  const size_t dim = static_cast<size_t>(out.dim);
  const Operand& at = out.derivative;
  const VF slope = hn::Set(DF(), at.leaky_slope);
  const bool plain = at.data == nullptr;
  WithMap(plain ? FeatureMap::kIdentity : at.map, [&](auto map) HWY_ATTR {
    if (out.dtype == DType::kFloat32 && (plain || at.dtype == DType::kFloat32) &&
        dim % kLanes == 0) {
      const DF df;
      float* HWY_RESTRICT to = static_cast<float*>(out.data) + first * out.stride;
      const float* HWY_RESTRICT x = static_cast<const float*>(at.data) + first * at.stride;
      for (size_t r = 0; r < count; ++r, to += out.stride, x += at.stride, in += step) {
        for (size_t c = 0; c < dim; c += kLanes) {
          VF y = hn::Load(df, in + c);
          if constexpr (map() != FeatureMap::kIdentity) {
            y = TimesDerivative<map()>(y, hn::LoadU(df, x + c), slope);
          }
          hn::StoreU(y, df, to + c);
        }
      }
      return;
    }
    for (size_t r = 0; r < count; ++r) {
      const int64_t index = first + static_cast<int64_t>(r);
      void* row = ElementAt(out.data, out.dtype, index * out.stride);
      for (size_t c = 0; c < dim; c += kLanes) {
        VF y = hn::Load(DF(), in + r * step + c);
        if (map() != FeatureMap::kIdentity) {
          const VF x = LoadRow(ElementAt(at.data, at.dtype, index * at.stride), at.dtype, c, dim);
          y = TimesDerivative<map()>(y, x, slope);
        }
        StoreRow(y, row, out.dtype, c, dim);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#endif
