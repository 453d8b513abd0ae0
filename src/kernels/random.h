// Random numbers that are the same on every machine: the distributions of the standard library
// differ between libraries. One generator has many streams, so that example 17 of a seed is what it
// is whichever thread makes it and whatever came before.
#pragma once

#include <cassert>
#include <cstdint>

#include "kernels/hash.h"

namespace cosformer {

class Random {
 public:
  // Streams start at scattered places of one sequence of 2^64 numbers: that two of a million, of a
  // million numbers each, share any has a probability below 1 in 10.
  explicit Random(uint64_t seed, uint64_t stream = 0)
      : state_(Mix(MixNext(seed) + kMixStep * (stream + 1))) {}

  // Uniform over all 64 bits: splitmix64.
  uint64_t Next() { return Mix(state_ += kMixStep); }

  // Uniform over 0 .. n - 1 without bias, n > 0. The high half of n * Next() is nearly that; the
  // few products that would come once too often are drawn again.
  uint64_t Below(uint64_t n) {
    assert(n > 0);
    Wide product = static_cast<Wide>(Next()) * n;
    if (static_cast<uint64_t>(product) < n) {
      const uint64_t surplus = -n % n;  // 2^64 mod n
      while (static_cast<uint64_t>(product) < surplus) product = static_cast<Wide>(Next()) * n;
    }
    return static_cast<uint64_t>(product >> 64);
  }

  // Uniform over [0, 1), in steps of 2^-53.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  __extension__ using Wide = unsigned __int128;

  uint64_t state_;
};

}  // namespace cosformer
