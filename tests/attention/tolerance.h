// How far a float32 computation may stand from the exact result, derived instead of guessed.
//
// Every rounding moves a number by at most u = 2^-24 of itself. The reference gives, with each
// result, its magnitude: the sum of the absolute values of all terms that go into it, so that if
// every term carries a relative error of g * u, the result carries at most g * u * magnitude.
// A term on its way into the result meets `path` roundings one after the other: those of the dot
// product over the features, of the sum inside its chunk, of the sum over the chunks. They go up
// and down alike, so together they grow as sqrt(path) and rarely beyond 2 * sqrt(path) (Higham &
// Mary 2019), and the terms' errors average each other out besides. The feature map, the cosine
// table, the re-weighting, the division and the storing add a few roundings whatever the path: 4.
// So derived, the worst of millions of elements uses a third of what it may.
//
// Numbers below the smallest normal float may be flushed to zero: kTiny for each.
// A result that is stored as bfloat16 is off by up to 2^-8 of itself.
#pragma once

#include <cfloat>
#include <cmath>

#include "cosformer/attention.h"

namespace cosformer::testing {

inline constexpr double kUnit = 0x1p-24;
inline constexpr double kBFloat16Unit = 0x1p-8;
inline constexpr double kTiny = FLT_MIN;

// g for terms that pass through `path` roundings in sequence.
inline double Growth(int64_t path) { return 2 * std::sqrt(static_cast<double>(path)) + 4; }

inline double Tolerance(double growth, double magnitude, double exact, DType stored) {
  const double storing = stored == DType::kBFloat16 ? kBFloat16Unit * std::abs(exact) : 0;
  return growth * kUnit * magnitude + storing + growth * kTiny;
}

}  // namespace cosformer::testing
