// How long something has taken.
#pragma once

#include <chrono>

namespace cosformer::report {

using Clock = std::chrono::steady_clock;

inline double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace cosformer::report
