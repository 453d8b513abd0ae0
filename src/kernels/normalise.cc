// LayerNorm and RMSNorm of blocks of rows, compiled once an instruction set. A row is read from
// memory once; the passes after the first find it in the L1 cache.

#include "kernels/normalise.h"

#include <cassert>
#include <cmath>
#include <optional>

#include "kernels/column_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normalise.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "kernels/dropout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// s = x + Dropout(r), and its sum (LayerNorm) or the sum of its squares.
template <bool kSquares>
HWY_INLINE float AddResidual(const float* x, const float* r, size_t width, int64_t first,
                             DropoutVectors* dropout, float* s) {
  Sums sums;
  ForSums(width, [&](size_t c, auto some, auto k) HWY_ATTR {
    VF v = LoadSome(x + c, some);
    if (r != nullptr) {
      VF added = LoadSome(r + c, some);
      if (dropout != nullptr) added = dropout->Apply(added, first + static_cast<int64_t>(c));
      v = hn::Add(v, added);
      StoreSome(v, s + c, some);
    }
    sums.sum[k] = kSquares ? hn::MulAdd(v, v, sums.sum[k]) : hn::Add(sums.sum[k], v);
  });
  return sums.Total();
}

HWY_INLINE float CentredSquares(const float* s, size_t width, float mean) {
  const VF centre = hn::Set(DF(), mean);
  Sums sums;
  ForSums(width, [&](size_t c, auto some, auto k) HWY_ATTR {
    const VF v = OrZero(hn::Sub(LoadSome(s + c, some), centre), some);
    sums.sum[k] = hn::MulAdd(v, v, sums.sum[k]);
  });
  return sums.Total();
}

void RunNormForward(const NormForwardArgs& a, int64_t begin, int64_t end, int64_t width,
                    const NormOptions& options) {
  const DF df;
  const size_t n = static_cast<size_t>(width);
  const float count = static_cast<float>(width);
  const bool layer_norm = options.kind == NormKind::kLayerNorm;
  DropoutVectors vectors(options.dropout);
  DropoutVectors* dropout = options.dropout.p > 0 ? &vectors : nullptr;
  const int64_t y_stride = a.y_stride > 0 ? a.y_stride : width;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row * width;
    const float* x = a.x + first;
    const float* r = a.r == nullptr ? nullptr : a.r + first;
    float* written = r == nullptr ? nullptr : a.s + first;
    const float* s = r == nullptr ? x : written;
    float mean = 0;
    float squares;
    if (layer_norm) {
      mean = AddResidual<false>(x, r, n, first, dropout, written) / count;
      squares = CentredSquares(s, n, mean);
    } else {
      squares = AddResidual<true>(x, r, n, first, dropout, written);
    }
    const float rstd = 1.0f / std::sqrt(squares / count + options.epsilon);
    if (layer_norm && a.mean != nullptr) a.mean[row] = mean;
    if (a.rstd != nullptr) a.rstd[row] = rstd;

    const VF centre = hn::Set(df, mean);
    const VF factor = hn::Set(df, rstd);
    float* y = a.y + row * y_stride;
    ForVectors(n, [&](size_t c, auto some) HWY_ATTR {
      VF v = LoadSome(s + c, some);
      if (layer_norm) v = hn::Sub(v, centre);
      v = hn::Mul(hn::Mul(v, factor), LoadSome(a.weight + c, some));
      if (a.bias != nullptr) v = hn::Add(v, LoadSome(a.bias + c, some));
      StoreSome(v, y + c, some);
    });
  }
}

// With g = dy * weight and n = (s - mean) * rstd, the gradient of s is
// rstd * (g - mean(g) - n * mean(g n)), without mean(g) for RMSNorm.
void RunNormBackward(const NormBackwardArgs& a, int64_t begin, int64_t end, int64_t width,
                     const NormOptions& options, float* dweight, float* dbias) {
  const DF df;
  const size_t n = static_cast<size_t>(width);
  const VF share = hn::Set(df, 1.0f / static_cast<float>(width));
  const bool layer_norm = options.kind == NormKind::kLayerNorm;
  DropoutVectors dropout(options.dropout);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row * width;
    const float* dy = a.dy + first;
    const float* s = a.s + first;
    const VF centre = hn::Set(df, layer_norm ? a.mean[row] : 0.0f);
    const VF factor = hn::Set(df, a.rstd[row]);
    Sums plain;
    Sums weighted;
    ForSums(n, [&](size_t c, auto some, auto k) HWY_ATTR {
      const VF d = LoadSome(dy + c, some);
      const VF normal = hn::Mul(hn::Sub(LoadSome(s + c, some), centre), factor);
      const VF g = hn::Mul(d, LoadSome(a.weight + c, some));
      // In the lanes past the end g is 0, and n finite.
      plain.sum[k] = hn::Add(plain.sum[k], g);
      weighted.sum[k] = hn::MulAdd(g, normal, weighted.sum[k]);
      if (dweight != nullptr) {
        StoreSome(hn::MulAdd(d, normal, LoadSome(dweight + c, some)), dweight + c, some);
      }
      if (dbias != nullptr) StoreSome(hn::Add(d, LoadSome(dbias + c, some)), dbias + c, some);
    });
    const VF mean_g = layer_norm ? hn::Mul(hn::Set(df, plain.Total()), share) : hn::Zero(df);
    const VF mean_gn = hn::Mul(hn::Set(df, weighted.Total()), share);
    const float* ds_in = a.ds_in == nullptr ? nullptr : a.ds_in + first;
    float* ds = a.ds + first;
    float* dr = a.dr == nullptr ? nullptr : a.dr + first;
    ForVectors(n, [&](size_t c, auto some) HWY_ATTR {
      const VF g = hn::Mul(LoadSome(dy + c, some), LoadSome(a.weight + c, some));
      const VF normal = hn::Mul(hn::Sub(LoadSome(s + c, some), centre), factor);
      VF d = hn::Mul(factor, hn::NegMulAdd(normal, mean_gn, hn::Sub(g, mean_g)));
      if (ds_in != nullptr) d = hn::Add(d, LoadSome(ds_in + c, some));
      StoreSome(d, ds + c, some);
      if (dr != nullptr) {
        StoreSome(dropout.Apply(d, first + static_cast<int64_t>(c)), dr + c, some);
      }
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunNormForward);
HWY_EXPORT(RunNormBackward);

void NormForward(const NormForwardArgs& args, int64_t rows, int64_t width,
                 const NormOptions& options, int threads) {
  assert(rows >= 0 && width >= 1);
  assert(args.r == nullptr || args.s != nullptr);
  assert(args.y_stride == 0 || args.y_stride >= width);
  assert(options.kind == NormKind::kLayerNorm || args.bias == nullptr);
  const int64_t bytes = rows * width * (args.r == nullptr ? 8 : 16);
  ForBlocks(rows, RowsPerBlock(width), bytes, threads, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(RunNormForward)(args, begin, end, width, options);
  });
}

void NormBackward(const NormBackwardArgs& args, int64_t rows, int64_t width,
                  const NormOptions& options, int threads) {
  assert(rows >= 0 && width >= 1);
  assert(args.dr == nullptr || args.dr != args.ds);
  const int64_t bytes = rows * width * (args.ds_in == nullptr ? 12 : 16);
  const bool sums_weight = args.dweight != nullptr;
  const bool sums_bias = args.dbias != nullptr;
  std::optional<ColumnSums> sums;
  if (sums_weight || sums_bias) sums.emplace(rows, width * (sums_weight + sums_bias));
  const int64_t block = sums ? sums->rows_per_block() : RowsPerBlock(width);
  ForBlocks(rows, block, bytes, threads, [&](int64_t begin, int64_t end) {
    float* partial = sums ? sums->Begin(begin) : nullptr;
    float* dweight = sums_weight ? partial : nullptr;
    float* dbias = sums_bias ? partial + width * sums_weight : nullptr;
    HWY_DYNAMIC_DISPATCH(RunNormBackward)(args, begin, end, width, options, dweight, dbias);
  });
  if (sums_weight) sums->Finish(0, width, args.dweight);
  if (sums_bias) sums->Finish(width * sums_weight, width, args.dbias);
}

}  // namespace cosformer
#endif  // HWY_ONCE
