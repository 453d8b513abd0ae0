// A dense tensor [batch, length, heads, dim] with numbers that depend on a seed alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cosformer/attention.h"

namespace cosformer::bench {

void* AllocateHuge(size_t bytes);
void FreeHuge(void* memory);

// Storage on huge pages where the system grants them, as a machine set up for such work would: with
// small ones, rows of many heads cost a TLB miss each.
template <class T>
struct HugePages {
  using value_type = T;
  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}  // NOLINT(google-explicit-constructor): an allocator
  T* allocate(size_t n) { return static_cast<T*>(AllocateHuge(n * sizeof(T))); }
  void deallocate(T* p, size_t) { FreeHuge(p); }
  bool operator==(const HugePages&) const = default;
};

class Tensor {
 public:
  Tensor() = default;
  // Every page is touched, so that a call that writes the tensor isn't charged for its memory.
  Tensor(DType dtype, int64_t batch, int64_t length, int64_t heads, int64_t dim);

  int64_t size() const { return batch_ * length_ * heads_ * dim_; }
  int64_t dim() const { return dim_; }

  View view();
  ConstView view() const;
  // The row at `position` of every batch entry, and the `count` rows that begin there.
  View Rows(int64_t position, int64_t count);
  ConstView Rows(int64_t position, int64_t count) const;

  // One element, in dense order.
  float At(int64_t index) const;
  // Where the elements of one head's row begin, in dense order.
  int64_t IndexOf(int64_t batch, int64_t row, int64_t head) const {
    return ((batch * length_ + row) * heads_ + head) * dim_;
  }

  // Independent numbers of mean 0 and variance 1, shaped much like a normal distribution.
  void FillRandom(uint64_t seed);
  // The same for one head's row; all others keep what they are.
  void FillRandomRow(uint64_t seed, int64_t batch, int64_t row, int64_t head);
  void FillZero();
  // So that what a function forgets to write is noticed.
  void FillNan();

 private:
  void Set(int64_t index, float value);

  DType dtype_ = DType::kFloat32;
  int64_t batch_ = 0;
  int64_t length_ = 0;
  int64_t heads_ = 0;
  int64_t dim_ = 0;
  std::vector<std::byte, HugePages<std::byte>> bytes_;
};

inline size_t BytesOf(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

}  // namespace cosformer::bench
