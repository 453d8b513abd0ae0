// The hash that decides what dropout keeps, for vectors of consecutive elements. Included once an
// instruction set.

#if defined(COSFORMER_DROPOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COSFORMER_DROPOUT_INL_H
#undef COSFORMER_DROPOUT_INL_H
#else
#define COSFORMER_DROPOUT_INL_H
#endif

#include "kernels/dropout_hash.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

class DropoutVectors {
  using DU = hn::RebindToUnsigned<DF>;
  using VU = hn::Vec<DU>;

 public:
  explicit DropoutVectors(const Dropout& dropout)
      : dropout_(dropout),
        scale_(DropoutScale(dropout)),
        threshold_(DropoutThreshold(dropout)),
        high_(dropout.first >> 32),
        keys_(dropout.seed, high_) {}

  // x scaled where it is kept, else 0; its first lane is element `index`.
  HWY_INLINE VF Apply(VF x, int64_t index) {
    const DF df;
    index += dropout_.first;
    const uint32_t low = static_cast<uint32_t>(index);
    if (HWY_UNLIKELY(index >> 32 != high_ || low > ~uint32_t{0} - kLanes)) return Seldom(x, index);
    const DU du;
    // An Iota from `low` would be put together in memory, lane by lane.
    const VU lanes = hn::Add(hn::Set(du, low), hn::Iota(du, 0));
    VU h = hn::Xor(lanes, hn::Set(du, keys_.first));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(du, kDropoutMultiplier1));
    h = hn::Add(h, hn::Set(du, keys_.second));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<15>(h)), hn::Set(du, kDropoutMultiplier2));
    h = hn::Xor(h, hn::ShiftRight<15>(h));
    const DI di;
    const auto dropped = hn::Lt(hn::BitCast(di, h), hn::Set(di, threshold_));
    return hn::IfThenZeroElse(hn::RebindMask(df, dropped), hn::Mul(x, hn::Set(df, scale_)));
  }

 private:
  // At a multiple of 2^32, where the keys change.
  HWY_NOINLINE VF Seldom(VF x, int64_t index) {
    const DF df;
    HWY_ALIGN float lanes[kLanes];
    hn::Store(x, df, lanes);
    for (size_t i = 0; i < kLanes; ++i) {
      const int64_t at = index + static_cast<int64_t>(i);
      const DropoutKeys keys(dropout_.seed, at >> 32);
      const bool kept = DropoutHash(keys, static_cast<uint32_t>(at)) >= threshold_;
      lanes[i] = kept ? lanes[i] * scale_ : 0.0f;
    }
    high_ = (index + static_cast<int64_t>(kLanes)) >> 32;
    keys_ = DropoutKeys(dropout_.seed, high_);
    return hn::Load(df, lanes);
  }

  Dropout dropout_;
  float scale_;
  int32_t threshold_;
  int64_t high_;
  DropoutKeys keys_;
};

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#endif
