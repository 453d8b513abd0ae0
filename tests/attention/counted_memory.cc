#include "counted_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> in_use = 0, most = 0;

// A block's size is what malloc says, without a note of our own before it: what a library that
// keeps to its own operator new has allocated may be freed here.
void* Counted(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  const int64_t now = in_use += static_cast<int64_t>(malloc_usable_size(block));
  int64_t seen = most;
  while (now > seen && !most.compare_exchange_weak(seen, now)) {
  }
  return block;
}

void Free(void* block) {
  in_use -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}

}  // namespace

void* operator new(size_t size) { return Counted(std::malloc(size > 0 ? size : 1)); }
void* operator new(size_t size, std::align_val_t alignment) {
  const auto multiple = static_cast<size_t>(alignment);
  return Counted(std::aligned_alloc(multiple, (size + multiple - 1) / multiple * multiple));
}
void operator delete(void* block) noexcept { Free(block); }
void operator delete(void* block, size_t) noexcept { Free(block); }
void operator delete(void* block, std::align_val_t) noexcept { Free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { Free(block); }

namespace cosformer::testing {

int64_t BytesInUse() { return in_use; }
int64_t TakeMostBytes() { return most.exchange(in_use); }

}  // namespace cosformer::testing
