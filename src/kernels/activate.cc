// GELU, ReLU and SwiGLU of blocks of rows, compiled once an instruction set.
//
// GELU goes by the tail of the normal distribution, Q(t) = exp(-t^2 / 2) R(t) for t = |x|: its
// digits are right where Phi(x) = 1 - Q(-x) has lost them.

#include "kernels/activate.h"

#include <cassert>
#include <optional>

#include "kernels/column_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activate.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// |x|, and what GELU and its derivative are made of.
class NormalTail {
 public:
  explicit HWY_INLINE NormalTail(VF x) {
    const DF df;
    // Beyond 15 the density is 0 in float.
    const VF bound = hn::Set(df, 15.0f);
    const VF size = hn::Abs(x);
    t_ = hn::IfThenElse(hn::Gt(size, bound), bound, size);
    // R(t) (t + 3) as a polynomial in v = t / (t + 3), by Chebyshev interpolation on [0, 15]; the
    // relative error is 3e-8. As v is exact to the last digit at 0, so are the small t.
    v_ = hn::Div(t_, hn::Add(t_, hn::Set(df, 3.0f)));
    poly_ = hn::Set(df, 0.0553416684f);
    poly_ = hn::MulAdd(poly_, v_, hn::Set(df, -0.209737882f));
    poly_ = hn::MulAdd(poly_, v_, hn::Set(df, 0.258719534f));
    poly_ = hn::MulAdd(poly_, v_, hn::Set(df, -0.109440789f));
    poly_ = hn::MulAdd(poly_, v_, hn::Set(df, 0.113463044f));
    poly_ = hn::MulAdd(poly_, v_, hn::Set(df, -0.137983575f));
    poly_ = hn::MulAdd(poly_, v_, hn::Set(df, -0.256768316f));
    poly_ = hn::MulAdd(poly_, v_, hn::Set(df, 0.206777588f));
    poly_ = hn::MulAdd(poly_, v_, hn::Set(df, 1.06905615f));
    poly_ = hn::MulAdd(poly_, v_, hn::Set(df, -2.0904808f));
    poly_ = hn::MulAdd(poly_, v_, hn::Set(df, 1.5f));
  }

  // t Q(t).
  HWY_INLINE VF TimesTail() const { return TimesDensity(hn::Mul(v_, poly_)); }

  // Q(t) - t times the density at t.
  HWY_INLINE VF TailSlope() const {
    const DF df;
    // 1 / (t + 3) = (1 - v) / 3.
    const VF third = hn::Set(df, 1.0f / 3);
    const VF ratio = hn::Mul(poly_, hn::NegMulAdd(v_, third, third));
    return TimesDensity(hn::NegMulAdd(t_, hn::Set(df, 0.398942280f), ratio));
  }

 private:
  // factor * exp(-t^2 / 2). The square has an exact part, of a t cut to 12 bits, and a small rest:
  // rounded as one number it would be off by as many ulp as it is large.
  HWY_INLINE VF TimesDensity(VF factor) const {
    const DF df;
    const VI mask = hn::Set(DI(), ~0xFFF);
    const VF cut = hn::BitCast(df, hn::And(hn::BitCast(DI(), t_), mask));
    const VF minus_half = hn::Set(df, -0.5f);
    const VF high = hn::Mul(minus_half, hn::Mul(cut, cut));
    const VF low = hn::Mul(minus_half, hn::Mul(hn::Sub(t_, cut), hn::Add(t_, cut)));
    return TimesExp(factor, high, low);
  }

  VF t_;
  VF v_;     // t / (t + 3)
  VF poly_;  // R(t) (t + 3)
};

HWY_INLINE VF Gelu(VF x) {
  const VF tail = NormalTail(x).TimesTail();
  return hn::IfThenElse(hn::Lt(x, hn::Zero(DF())), hn::Neg(tail), hn::Sub(x, tail));
}

HWY_INLINE VF GeluSlope(VF x) {
  const VF slope = NormalTail(x).TailSlope();
  return hn::IfThenElse(hn::Lt(x, hn::Zero(DF())), slope, hn::Sub(hn::Set(DF(), 1.0f), slope));
}

HWY_INLINE VF Relu(VF x) { return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(DF())), x); }

// y times the derivative of ReLU at x. NaN lets y through, as in PyTorch.
HWY_INLINE VF TimesReluSlope(VF y, VF x) {
  return hn::IfThenZeroElse(hn::Le(x, hn::Zero(DF())), y);
}

// The logistic function at g and at -g, of which neither is 1 minus a rounded other.
struct Logistic {
  explicit HWY_INLINE Logistic(VF g) {
    const DF df;
    const VF one = hn::Set(df, 1.0f);
    const VF e = TimesExp(one, hn::Neg(hn::Abs(g)), hn::Zero(df));
    const VF large = hn::Div(one, hn::Add(one, e));
    const VF small = hn::Mul(e, large);
    const auto negative = hn::Lt(g, hn::Zero(df));
    at = hn::IfThenElse(negative, small, large);
    opposite = hn::IfThenElse(negative, large, small);
    // Both are 0 or 1 beyond this, and 0 * infinity would be NaN.
    const VF bound = hn::Set(df, 128.0f);
    bounded = hn::IfThenElse(hn::Gt(hn::Abs(g), bound), hn::CopySign(bound, g), g);
  }

  HWY_INLINE VF Silu(VF g) const {
    return hn::Mul(hn::IfThenElse(hn::Lt(g, hn::Zero(DF())), bounded, g), at);
  }

  HWY_INLINE VF SiluSlope() const { return hn::MulAdd(hn::Mul(bounded, opposite), at, at); }

  VF at;
  VF opposite;
  VF bounded;
};

template <class Some>
HWY_INLINE VF LoadBiased(const float* row, const float* bias, size_t c, Some some) {
  const VF x = LoadSome(row + c, some);
  return bias == nullptr ? x : hn::Add(x, LoadSome(bias + c, some));
}

template <class Some>
HWY_INLINE void AddTo(float* sums, size_t c, VF x, Some some) {
  if (sums != nullptr) StoreSome(hn::Add(LoadSome(sums + c, some), x), sums + c, some);
}

void RunActivateForward(Activation kind, const float* pre, const float* bias, int64_t begin,
                        int64_t end, int64_t hidden, float* y, ActivateStrides strides) {
  const size_t n = static_cast<size_t>(hidden);
  for (int64_t row = begin; row < end; ++row) {
    const float* from = pre + row * strides.pre;
    float* to = y + row * strides.y;
    switch (kind) {
      case Activation::kGelu:
        ForVectors(n, [&](size_t c, auto some) HWY_ATTR {
          StoreSome(Gelu(LoadBiased(from, bias, c, some)), to + c, some);
        });
        break;
      case Activation::kRelu:
        ForVectors(n, [&](size_t c, auto some) HWY_ATTR {
          StoreSome(Relu(LoadBiased(from, bias, c, some)), to + c, some);
        });
        break;
      case Activation::kSwiglu:
        ForVectors(n, [&](size_t c, auto some) HWY_ATTR {
          const VF gate = LoadBiased(from, bias, c, some);
          const VF up = LoadBiased(from, bias, n + c, some);
          StoreSome(hn::Mul(Logistic(gate).Silu(gate), up), to + c, some);
        });
        break;
    }
  }
}

void RunActivateBackward(Activation kind, const float* dy, const float* pre, const float* bias,
                         int64_t begin, int64_t end, int64_t hidden, float* dpre, float* dbias) {
  const size_t n = static_cast<size_t>(hidden);
  const int64_t pre_width = PreWidth(kind, hidden);
  for (int64_t row = begin; row < end; ++row) {
    const float* d = dy + row * hidden;
    const float* from = pre + row * pre_width;
    float* to = dpre + row * pre_width;
    switch (kind) {
      case Activation::kGelu:
        ForVectors(n, [&](size_t c, auto some) HWY_ATTR {
          const VF x = LoadBiased(from, bias, c, some);
          const VF dx = hn::Mul(LoadSome(d + c, some), GeluSlope(x));
          StoreSome(dx, to + c, some);
          AddTo(dbias, c, dx, some);
        });
        break;
      case Activation::kRelu:
        ForVectors(n, [&](size_t c, auto some) HWY_ATTR {
          const VF x = LoadBiased(from, bias, c, some);
          const VF dx = TimesReluSlope(LoadSome(d + c, some), x);
          StoreSome(dx, to + c, some);
          AddTo(dbias, c, dx, some);
        });
        break;
      case Activation::kSwiglu:
        ForVectors(n, [&](size_t c, auto some) HWY_ATTR {
          const VF gate = LoadBiased(from, bias, c, some);
          const VF up = LoadBiased(from, bias, n + c, some);
          const VF dout = LoadSome(d + c, some);
          const Logistic logistic(gate);
          const VF dgate = hn::Mul(hn::Mul(dout, up), logistic.SiluSlope());
          const VF dup = hn::Mul(dout, logistic.Silu(gate));
          StoreSome(dgate, to + c, some);
          StoreSome(dup, to + n + c, some);
          AddTo(dbias, c, dgate, some);
          AddTo(dbias, n + c, dup, some);
        });
        break;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunActivateForward);
HWY_EXPORT(RunActivateBackward);

void ActivateForward(Activation kind, const float* pre, const float* bias, int64_t rows,
                     int64_t hidden, float* y, int threads, ActivateStrides strides) {
  assert(rows >= 0 && hidden >= 1);
  const int64_t pre_width = PreWidth(kind, hidden);
  if (strides.pre == 0) strides.pre = pre_width;
  if (strides.y == 0) strides.y = hidden;
  assert(strides.pre >= pre_width && strides.y >= hidden);
  assert(y != pre || strides.y == strides.pre);
  const int64_t bytes = rows * (pre_width + hidden) * 4;
  ForBlocks(rows, RowsPerBlock(pre_width), bytes, threads, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(RunActivateForward)(kind, pre, bias, begin, end, hidden, y, strides);
  });
}

void ActivateBackward(Activation kind, const float* dy, const float* pre, const float* bias,
                      int64_t rows, int64_t hidden, float* dpre, float* dbias, int threads) {
  assert(rows >= 0 && hidden >= 1);
  const int64_t pre_width = PreWidth(kind, hidden);
  const int64_t bytes = rows * (2 * pre_width + hidden) * 4;
  std::optional<ColumnSums> sums;
  if (dbias != nullptr) sums.emplace(rows, pre_width);
  const int64_t block = sums ? sums->rows_per_block() : RowsPerBlock(pre_width);
  ForBlocks(rows, block, bytes, threads, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(RunActivateBackward)
    (kind, dy, pre, bias, begin, end, hidden, dpre, sums ? sums->Begin(begin) : nullptr);
  });
  if (sums) sums->Finish(0, pre_width, dbias);
}

}  // namespace cosformer
#endif  // HWY_ONCE
