// Two texts in one sequence: how they are cut where they are too long, in training and after it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace cosformer {

// Lengths of at most `room` together: the longer text is cut first.
inline std::pair<int64_t, int64_t> CutPair(int64_t first, int64_t second, int64_t room) {
  if (first + second <= room) return {first, second};
  const int64_t shorter = std::min({first, second, room / 2});
  if (first <= second) return {shorter, std::min(second, room - shorter)};
  return {std::min(first, room - shorter), shorter};
}

}  // namespace cosformer
