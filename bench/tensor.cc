#include "bench/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numbers>

#include "kernels/hash.h"

namespace cosformer::bench {
namespace {

// The sum of four uniform numbers: normal enough for timings, at a tenth of the price. A counter is
// mixed, so that threads can fill parts in any order.
float RandomAt(uint64_t seed, int64_t index) {
  const uint64_t bits = MixNext(MixNext(seed) + static_cast<uint64_t>(index));
  const uint64_t sum =
      (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
  // Each of the four has variance 1/12 after division by 2^16.
  return (static_cast<float>(sum) * 0x1p-16f - 2) * std::numbers::sqrt3_v<float>;
}

// To nearest, ties to even; NaN keeps its upper bits.
uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace

void* AllocateHuge(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = bytes < kHugePage ? 64 : kHugePage;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, std::max(rounded, alignment));
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (alignment == kHugePage) madvise(memory, rounded, MADV_HUGEPAGE);  // a wish; it may be refused
#endif
  return memory;
}

void FreeHuge(void* memory) { std::free(memory); }

Tensor::Tensor(DType dtype, int64_t batch, int64_t length, int64_t heads, int64_t dim)
    : dtype_(dtype),
      batch_(batch),
      length_(length),
      heads_(heads),
      dim_(dim),
      bytes_(static_cast<size_t>(size()) * BytesOf(dtype)) {}

View Tensor::view() {
  void* data = bytes_.data();
  if (dtype_ == DType::kFloat32) {
    return View::Of(static_cast<float*>(data), batch_, length_, heads_, dim_);
  }
  return View::Of(static_cast<BFloat16*>(data), batch_, length_, heads_, dim_);
}

ConstView Tensor::view() const {
  const void* data = bytes_.data();
  if (dtype_ == DType::kFloat32) {
    return ConstView::Of(static_cast<const float*>(data), batch_, length_, heads_, dim_);
  }
  return ConstView::Of(static_cast<const BFloat16*>(data), batch_, length_, heads_, dim_);
}

View Tensor::Rows(int64_t position, int64_t count) {
  View rows = view();
  rows.data = bytes_.data() + static_cast<size_t>(IndexOf(0, position, 0)) * BytesOf(dtype_);
  rows.length = count;
  return rows;
}

ConstView Tensor::Rows(int64_t position, int64_t count) const {
  ConstView rows = view();
  rows.data = bytes_.data() + static_cast<size_t>(IndexOf(0, position, 0)) * BytesOf(dtype_);
  rows.length = count;
  return rows;
}

float Tensor::At(int64_t index) const {
  const std::byte* at = bytes_.data() + static_cast<size_t>(index) * BytesOf(dtype_);
  if (dtype_ == DType::kFloat32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  uint16_t upper;
  std::memcpy(&upper, at, sizeof(upper));
  return std::bit_cast<float>(static_cast<uint32_t>(upper) << 16);
}

void Tensor::Set(int64_t index, float value) {
  std::byte* at = bytes_.data() + static_cast<size_t>(index) * BytesOf(dtype_);
  if (dtype_ == DType::kFloat32) {
    std::memcpy(at, &value, sizeof(value));
    return;
  }
  const uint16_t upper = ToBFloat16(value);
  std::memcpy(at, &upper, sizeof(upper));
}

void Tensor::FillRandom(uint64_t seed) {
  const int64_t count = size();
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) Set(i, RandomAt(seed, i));
}

void Tensor::FillRandomRow(uint64_t seed, int64_t batch, int64_t row, int64_t head) {
  const int64_t begin = IndexOf(batch, row, head);
  for (int64_t i = begin; i < begin + dim_; ++i) Set(i, RandomAt(seed, i));
}

void Tensor::FillZero() { std::fill(bytes_.begin(), bytes_.end(), std::byte{0}); }

// All bits set is a NaN in both formats.
void Tensor::FillNan() { std::fill(bytes_.begin(), bytes_.end(), std::byte{0xFF}); }

}  // namespace cosformer::bench
