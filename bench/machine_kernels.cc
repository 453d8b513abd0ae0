#include "bench/machine_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/machine_kernels.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Two units with a latency of 4 or 5 cycles need 10 sums at once, four units 16 to 20. SSE4 and
// AVX2 have 16 registers, two of which hold the factors; where there are 32, take as many as fit.
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2
#define COSFORMER_BENCH_WIDE 0
#else
#define COSFORMER_BENCH_WIDE 1
#endif

double MultiplyAdds(size_t iterations, float* sink) {
  const D d;
  // Volatile: the compiler must not know them. The sums converge to 1 and stay ordinary numbers.
  volatile float factor = 0.5f;
  const V mul = hn::Set(d, factor);
  const V add = hn::Set(d, factor);
  // Single variables, since vectors of unknown length can't stand in arrays.
  V a0 = hn::Iota(d, 0.0f), a1 = hn::Iota(d, 1.0f), a2 = hn::Iota(d, 2.0f);
  V a3 = hn::Iota(d, 3.0f), a4 = hn::Iota(d, 4.0f), a5 = hn::Iota(d, 5.0f);
  V a6 = hn::Iota(d, 6.0f), a7 = hn::Iota(d, 7.0f), a8 = hn::Iota(d, 8.0f);
  V a9 = hn::Iota(d, 9.0f), a10 = hn::Iota(d, 10.0f), a11 = hn::Iota(d, 11.0f);
#if COSFORMER_BENCH_WIDE
  // Other numbers than the a's: the compiler would notice that equal sums stay equal.
  V b0 = hn::Iota(d, -1.0f), b1 = hn::Iota(d, -2.0f), b2 = hn::Iota(d, -3.0f);
  V b3 = hn::Iota(d, -4.0f), b4 = hn::Iota(d, -5.0f), b5 = hn::Iota(d, -6.0f);
  V b6 = hn::Iota(d, -7.0f), b7 = hn::Iota(d, -8.0f), b8 = hn::Iota(d, -9.0f);
  V b9 = hn::Iota(d, -10.0f), b10 = hn::Iota(d, -11.0f), b11 = hn::Iota(d, -12.0f);
#endif
  for (size_t i = 0; i < iterations; ++i) {
    a0 = hn::MulAdd(a0, mul, add);
    a1 = hn::MulAdd(a1, mul, add);
    a2 = hn::MulAdd(a2, mul, add);
    a3 = hn::MulAdd(a3, mul, add);
    a4 = hn::MulAdd(a4, mul, add);
    a5 = hn::MulAdd(a5, mul, add);
    a6 = hn::MulAdd(a6, mul, add);
    a7 = hn::MulAdd(a7, mul, add);
    a8 = hn::MulAdd(a8, mul, add);
    a9 = hn::MulAdd(a9, mul, add);
    a10 = hn::MulAdd(a10, mul, add);
    a11 = hn::MulAdd(a11, mul, add);
#if COSFORMER_BENCH_WIDE
    b0 = hn::MulAdd(b0, mul, add);
    b1 = hn::MulAdd(b1, mul, add);
    b2 = hn::MulAdd(b2, mul, add);
    b3 = hn::MulAdd(b3, mul, add);
    b4 = hn::MulAdd(b4, mul, add);
    b5 = hn::MulAdd(b5, mul, add);
    b6 = hn::MulAdd(b6, mul, add);
    b7 = hn::MulAdd(b7, mul, add);
    b8 = hn::MulAdd(b8, mul, add);
    b9 = hn::MulAdd(b9, mul, add);
    b10 = hn::MulAdd(b10, mul, add);
    b11 = hn::MulAdd(b11, mul, add);
#endif
  }
  const auto sum3 = [](V x, V y, V z) { return hn::Add(hn::Add(x, y), z); };
  V sum = sum3(sum3(a0, a1, a2), sum3(a3, a4, a5), sum3(sum3(a6, a7, a8), a9, hn::Add(a10, a11)));
  size_t sums = 12;
#if COSFORMER_BENCH_WIDE
  sum = hn::Add(
      sum, sum3(sum3(b0, b1, b2), sum3(b3, b4, b5), sum3(sum3(b6, b7, b8), b9, hn::Add(b10, b11))));
  sums = 24;
#endif
  *sink = hn::GetLane(hn::SumOfLanes(d, sum));
  return 2.0 * static_cast<double>(sums * hn::Lanes(d)) * static_cast<double>(iterations);
}

#undef COSFORMER_BENCH_WIDE

// In several streams at a time: a core has more lines under way then than with one, on a Zen 3 a
// quarter more.
uint8_t ReadAll(const uint8_t* HWY_RESTRICT data, size_t bytes) {
  constexpr size_t kStreams = 4;
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  const size_t stream = bytes / kStreams / (8 * lanes) * (8 * lanes);
  // Several results, so that they never wait for each other longer than for memory.
  auto all0 = hn::Zero(d), all1 = all0, all2 = all0, all3 = all0;
  auto all4 = all0, all5 = all0, all6 = all0, all7 = all0;
  for (size_t i = 0; i < stream; i += 8 * lanes) {
    for (size_t s = 0; s < kStreams; ++s) {
      const uint8_t* HWY_RESTRICT from = data + s * stream + i;
      all0 = hn::Xor(all0, hn::LoadU(d, from));
      all1 = hn::Xor(all1, hn::LoadU(d, from + lanes));
      all2 = hn::Xor(all2, hn::LoadU(d, from + 2 * lanes));
      all3 = hn::Xor(all3, hn::LoadU(d, from + 3 * lanes));
      all4 = hn::Xor(all4, hn::LoadU(d, from + 4 * lanes));
      all5 = hn::Xor(all5, hn::LoadU(d, from + 5 * lanes));
      all6 = hn::Xor(all6, hn::LoadU(d, from + 6 * lanes));
      all7 = hn::Xor(all7, hn::LoadU(d, from + 7 * lanes));
    }
  }
  const auto low = hn::Xor(hn::Xor(all0, all1), hn::Xor(all2, all3));
  const auto high = hn::Xor(hn::Xor(all4, all5), hn::Xor(all6, all7));
  HWY_ALIGN uint8_t each[HWY_MAX_BYTES];
  hn::Store(hn::Xor(low, high), d, each);
  uint8_t all = 0;
  for (size_t j = 0; j < lanes; ++j) all ^= each[j];
  for (size_t i = kStreams * stream; i < bytes; ++i) all ^= data[i];
  return all;
}

void UpdateAll(float* HWY_RESTRICT data, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V half = hn::Set(d, 0.5f);
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const V x0 = hn::MulAdd(hn::Load(d, data + i), half, half);
    const V x1 = hn::MulAdd(hn::Load(d, data + i + lanes), half, half);
    const V x2 = hn::MulAdd(hn::Load(d, data + i + 2 * lanes), half, half);
    const V x3 = hn::MulAdd(hn::Load(d, data + i + 3 * lanes), half, half);
    hn::Store(x0, d, data + i);
    hn::Store(x1, d, data + i + lanes);
    hn::Store(x2, d, data + i + 2 * lanes);
    hn::Store(x3, d, data + i + 3 * lanes);
  }
  for (; i < count; ++i) data[i] = 0.5f * data[i] + 0.5f;
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer::bench {

HWY_EXPORT(MultiplyAdds);
HWY_EXPORT(ReadAll);
HWY_EXPORT(UpdateAll);

double MultiplyAdds(size_t iterations, float* sink) {
  return HWY_DYNAMIC_DISPATCH(MultiplyAdds)(iterations, sink);
}
uint8_t ReadAll(const uint8_t* data, size_t bytes) {
  return HWY_DYNAMIC_DISPATCH(ReadAll)(data, bytes);
}
void UpdateAll(float* data, size_t count) { HWY_DYNAMIC_DISPATCH(UpdateAll)(data, count); }

}  // namespace cosformer::bench
#endif  // HWY_ONCE
