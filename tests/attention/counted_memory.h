// How much memory a call takes, counted by an operator new of the program's own, counted_memory.cc.
// Sanitizers bring theirs: under them nothing is counted.
#pragma once

#include <cstdint>

namespace cosformer::testing {

#if defined(COSFORMER_SANITIZED)
inline constexpr bool kCountsMemory = false;
inline int64_t BytesInUse() { return 0; }
inline int64_t TakeMostBytes() { return 0; }
#else
inline constexpr bool kCountsMemory = true;
int64_t BytesInUse();
// The most that there were in use since it was last asked.
int64_t TakeMostBytes();
#endif

// The most that `call` had in use at any time beyond what there was before.
template <class Call>
int64_t PeakBytes(Call call) {
  TakeMostBytes();
  const int64_t before = BytesInUse();
  call();
  return TakeMostBytes() - before;
}

}  // namespace cosformer::testing
