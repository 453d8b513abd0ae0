// What the kernels of this folder share: vectors of floats, rows of any width as vectors and a
// rest, sums, exp. Included once an instruction set.

#if defined(COSFORMER_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COSFORMER_VECTORS_INL_H
#undef COSFORMER_VECTORS_INL_H
#else
#define COSFORMER_VECTORS_INL_H
#endif

#include <cstring>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
using DI = hn::RebindToSigned<DF>;
using VI = hn::Vec<DI>;

// Exact for every target that this compiles for; sums are arrays of vectors.
constexpr size_t kLanes = HWY_LANES(float);

// How much of a vector is there: all of it, or the first few lanes at the end of a row.
struct Whole {};
struct Part {
  size_t count;
};

static HWY_INLINE VF LoadSome(const float* from, Whole) { return hn::LoadU(DF(), from); }

// Lanes past the end are 0 and their memory is not touched.
static HWY_INLINE VF LoadSome(const float* from, Part part) {
  const DF df;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(df, part.count), df, from);
#else
  HWY_ALIGN float all[kLanes] = {};
  std::memcpy(all, from, part.count * sizeof(float));
  return hn::Load(df, all);
#endif
}

static HWY_INLINE void StoreSome(VF x, float* to, Whole) { hn::StoreU(x, DF(), to); }

static HWY_INLINE void StoreSome(VF x, float* to, Part part) {
  const DF df;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(x, hn::FirstN(df, part.count), df, to);
#else
  HWY_ALIGN float all[kLanes];
  hn::Store(x, df, all);
  std::memcpy(to, all, part.count * sizeof(float));
#endif
}

// x where there is something, `other` in the lanes past the end.
static HWY_INLINE VF OrElse(VF x, VF, Whole) { return x; }
static HWY_INLINE VF OrElse(VF x, VF other, Part part) {
  return hn::IfThenElse(hn::FirstN(DF(), part.count), x, other);
}
static HWY_INLINE VF OrZero(VF x, Whole) { return x; }
static HWY_INLINE VF OrZero(VF x, Part part) {
  return hn::IfThenElseZero(hn::FirstN(DF(), part.count), x);
}

// Sums in flight: an addition has a latency of 4, and the loads of two operands allow one a cycle.
constexpr size_t kSums = 4;

struct Sums {
  HWY_INLINE Sums() {
    for (VF& s : sum) s = hn::Zero(DF());
  }

  HWY_INLINE float Total() const {
    return hn::GetLane(
        hn::SumOfLanes(DF(), hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]))));
  }

  VF sum[kSums];
};

// Calls body(c, some) for c = 0, kLanes, ... < n, where `some` is Whole, or Part at the end.
template <class Body>
HWY_INLINE void ForVectors(size_t n, const Body& body) {
  size_t c = 0;
  for (; c + kLanes <= n; c += kLanes) body(c, Whole());
  if (c < n) body(c, Part{n - c});
}

// The same for sums: body(c, some, k), where k is the index of the sum to add to.
template <class Body>
HWY_INLINE void ForSums(size_t n, const Body& body) {
  size_t c = 0;
  for (; c + kSums * kLanes <= n; c += kSums * kLanes) {
    body(c, Whole(), std::integral_constant<size_t, 0>());
    body(c + kLanes, Whole(), std::integral_constant<size_t, 1>());
    body(c + 2 * kLanes, Whole(), std::integral_constant<size_t, 2>());
    body(c + 3 * kLanes, Whole(), std::integral_constant<size_t, 3>());
  }
  for (; c + kLanes <= n; c += kLanes) body(c, Whole(), std::integral_constant<size_t, 0>());
  if (c < n) body(c, Part{n - c}, std::integral_constant<size_t, 1>());
}

// 2^q for q in [-126, 127].
static HWY_INLINE VF PowerOfTwo(VI q) {
  return hn::BitCast(DF(), hn::ShiftLeft<23>(hn::Add(q, hn::Set(DI(), 127))));
}

// exp(high + low) as e * 2^q, e in [0.7, 1.42], within 1 ulp; |low| < 0.05. NaN stays NaN.
struct ReducedExp {
  HWY_INLINE ReducedExp(VF high, VF low) {
    const DF df;
    q = hn::NearestInt(hn::Mul(high, hn::Set(df, 1.44269504f)));
    const VF turns = hn::ConvertTo(df, q);
    // log 2 as a number of 15 bits, whose product with q is exact, and the rest.
    VF r = hn::NegMulAdd(turns, hn::Set(df, 0.693145752f), high);
    r = hn::Add(hn::NegMulAdd(turns, hn::Set(df, 1.42860677e-6f), r), low);
    // (exp(r) - 1 - r) / r^2, by Chebyshev interpolation on |r| <= log(2) / 2; of exp(r), the
    // error is 1e-8.
    VF poly = hn::Set(df, 0.00139337336f);
    poly = hn::MulAdd(poly, r, hn::Set(df, 0.00836323574f));
    poly = hn::MulAdd(poly, r, hn::Set(df, 0.041666463f));
    poly = hn::MulAdd(poly, r, hn::Set(df, 0.166665763f));
    poly = hn::MulAdd(poly, r, hn::Set(df, 0.5f));
    e = hn::Add(hn::Set(df, 1.0f), hn::MulAdd(hn::Mul(r, r), poly, r));
  }

  VF e;
  VI q;
};

// factor * exp(high + low) for high <= 0. Below -104 it is 0, through subnormal numbers; the factor
// comes in before the scaling by a power of two, as it would enlarge the rounding of those.
static HWY_INLINE VF TimesExp(VF factor, VF high, VF low) {
  const VF bound = hn::Set(DF(), -110.0f);
  const ReducedExp exp(hn::IfThenElse(hn::Lt(high, bound), bound, high), low);
  // In two steps, of which the first is exact: 2^q itself may lie below the normal numbers.
  const VI half = hn::ShiftRight<1>(exp.q);
  return hn::Mul(hn::Mul(hn::Mul(factor, exp.e), PowerOfTwo(half)),
                 PowerOfTwo(hn::Sub(exp.q, half)));
}

// exp(x) for x <= 0; 0 below -87, short of the subnormal numbers: each of those costs 150 cycles.
static HWY_INLINE VF ExpOrZero(VF x) {
  const VF bound = hn::Set(DF(), -87.0f);
  const auto below = hn::Lt(x, bound);
  const ReducedExp exp(hn::IfThenElse(below, bound, x), hn::Zero(DF()));
  return hn::IfThenZeroElse(below, hn::Mul(exp.e, PowerOfTwo(exp.q)));
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#endif
