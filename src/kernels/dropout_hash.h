// The hash that decides what dropout keeps, for one element: two rounds of multiply and xor-shift
// over the low 32 bits of the index, with a key of the seed before each. One key alone would make
// the masks of two seeds permutations of each other.
#pragma once

#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "kernels/dropout.h"
#include "kernels/hash.h"

namespace cosformer {

// Odd, with some half of the bits set and no pattern: every input bit flips every output bit of the
// two rounds with a probability near one half.
constexpr uint32_t kDropoutMultiplier1 = 0x21f0aaad;
constexpr uint32_t kDropoutMultiplier2 = 0xd35a2d97;

// Keys of the 2^32 elements whose index has the high half `high`.
struct DropoutKeys {
  DropoutKeys(uint64_t seed, int64_t high) {
    const uint64_t mixed = MixNext(MixNext(seed) + static_cast<uint64_t>(high));
    first = static_cast<uint32_t>(mixed);
    second = static_cast<uint32_t>(mixed >> 32);
  }

  uint32_t first;
  uint32_t second;
};

// Uniform over all int32_t: a comparison of signed numbers is what every instruction set has.
inline int32_t DropoutHash(const DropoutKeys& keys, uint32_t low) {
  uint32_t h = low ^ keys.first;
  h = (h ^ (h >> 16)) * kDropoutMultiplier1;
  h += keys.second;
  h = (h ^ (h >> 15)) * kDropoutMultiplier2;
  return std::bit_cast<int32_t>(h ^ (h >> 15));
}

// Kept are the hashes that are not below this.
inline int32_t DropoutThreshold(const Dropout& dropout) {
  assert(dropout.p >= 0 && dropout.p < 1);
  const double dropped = std::round(static_cast<double>(dropout.p) * 4294967296.0);
  return static_cast<int32_t>(dropped - 2147483648.0);
}

inline float DropoutScale(const Dropout& dropout) { return 1.0f / (1.0f - dropout.p); }

}  // namespace cosformer
