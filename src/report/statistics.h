// What many numbers come down to: the median of timings; how far a measured share or mean can be
// from the truth. z is the number of standard deviations; 1.96 gives 95 %.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cosformer::report {

// Of a time, what is not moved by a pause or by another program for a while. Not of no values.
double Median(std::vector<double> values);

inline constexpr double kZ95 = 1.96;

struct Interval {
  double low = 0;
  double high = 0;
};

// Of the probability behind `hits` of `trials`: Wilson's score interval, which stays within [0, 1]
// and keeps its level for few trials and for shares near 0 and 1. [0, 1] for no trials.
Interval Wilson(int64_t hits, int64_t trials, double z = kZ95);

// Of the ratio of all sums to all counts, as the mean loss a token, from blocks that are
// independent of each other (documents, sequences); tokens within one are not. The variance is that
// of the linearised ratio, with n - 1 for n blocks. NaN on both sides for fewer than two blocks or
// a total count of 0.
Interval OfMean(std::span<const double> sums, std::span<const double> counts, double z = kZ95);

}  // namespace cosformer::report
