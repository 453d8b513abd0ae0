// The learning rate of every step: a linear warm-up to the peak, then one of four ways on.
#pragma once

#include <cstdint>
#include <string>

namespace cosformer {

enum class ScheduleKind { kConstant, kInverseSquareRoot, kCosine, kPolynomial };

// "constant", "inverse-sqrt", "cosine", "polynomial". Throws Error, listing them, for another name.
ScheduleKind ScheduleKindOf(const std::string& name);
std::string NameOf(ScheduleKind kind);

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double peak = 0;
  int64_t warmup = 0;  // steps; the last of them has the peak, as has the first step without any
  int64_t steps = 0;   // in all; cosine and polynomial end there
  double final_share = 0;  // of the peak, at the end and after it: cosine and polynomial
  double power = 1;        // of the polynomial; 1 is a straight line

  // Throws Error, naming the value, for a schedule that makes no sense.
  void Check() const;

  // `step` counts from 1.
  double LearningRate(int64_t step) const;
};

}  // namespace cosformer
