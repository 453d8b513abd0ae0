#include "tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>

namespace cosformer::testing {
namespace {

// Two different NaN.
constexpr uint32_t kGuard = 0x7fe5a5a5;
constexpr uint32_t kPoison = 0xffffffff;

BFloat16 ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

// What of 32 bits a tensor of the type holds.
uint32_t Kept(DType dtype, uint32_t bits) {
  return dtype == DType::kFloat32 ? bits : bits & 0xffff0000;
}

}  // namespace

int64_t Uniform(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

Tensor::Tensor(DType dtype, int64_t batch, int64_t length, int64_t heads, int64_t dim) {
  view_.dtype = dtype;
  view_.batch = batch;
  view_.length = length;
  view_.heads = heads;
  view_.dim = dim;
  view_.head_stride = dim;
  view_.length_stride = heads * dim;
  view_.batch_stride = length * heads * dim;
  // One element even when there are none, so that the view is not null.
  Allocate(std::max<int64_t>(1, batch * length * heads * dim));
}

Tensor::Tensor(DType dtype, int64_t batch, int64_t length, int64_t heads, int64_t dim,
               Random& layout) {
  view_.dtype = dtype;
  view_.batch = batch;
  view_.length = length;
  view_.heads = heads;
  view_.dim = dim;
  struct Axis {
    int64_t size;
    int64_t* stride;
  };
  std::array<Axis, 3> axes{Axis{batch, &view_.batch_stride}, Axis{length, &view_.length_stride},
                           Axis{heads, &view_.head_stride}};
  std::shuffle(axes.begin(), axes.end(), layout);
  origin_ = Uniform(layout, 0, 7);
  int64_t extent = dim;
  for (const Axis& axis : axes) {
    *axis.stride = extent + Uniform(layout, 0, 3);
    extent = *axis.stride * std::max<int64_t>(axis.size, 1);
    if (axis.size > 1 && Uniform(layout, 0, 3) == 0) {
      origin_ += *axis.stride * (axis.size - 1);
      *axis.stride = -*axis.stride;
    }
  }
  int64_t last = origin_;
  for (const Axis& axis : axes) {
    last += std::max<int64_t>(0, *axis.stride * (axis.size - 1));
  }
  // The storage ends with the last row, where ASan stands guard.
  Allocate(last + dim);
}

void Tensor::Allocate(int64_t elements) {
  if (view_.dtype == DType::kFloat32) {
    floats_.assign(elements, std::bit_cast<float>(kGuard));
  } else {
    halves_.assign(elements, BFloat16{kGuard >> 16});
  }
  owned_.assign(elements, false);
  ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) { owned_[Index(b, i, h, e)] = true; });
  Attach();
  Poison();
}

void Tensor::Attach() {
  if (!floats_.empty()) view_.data = floats_.data() + origin_;
  if (!halves_.empty()) view_.data = halves_.data() + origin_;
}

Tensor::Tensor(const Tensor& other) { *this = other; }

Tensor& Tensor::operator=(const Tensor& other) {
  view_ = other.view_;
  origin_ = other.origin_;
  floats_ = other.floats_;
  halves_ = other.halves_;
  owned_ = other.owned_;
  Attach();
  return *this;
}

int64_t Tensor::Index(int64_t batch, int64_t row, int64_t head, int64_t element) const {
  return origin_ + batch * view_.batch_stride + row * view_.length_stride +
         head * view_.head_stride + element;
}

uint32_t Tensor::StoredBits(int64_t index) const {
  if (view_.dtype == DType::kFloat32) return std::bit_cast<uint32_t>(floats_[index]);
  return static_cast<uint32_t>(halves_[index].bits) << 16;
}

uint32_t Tensor::Bits(int64_t batch, int64_t row, int64_t head, int64_t element) const {
  return StoredBits(Index(batch, row, head, element));
}

float Tensor::At(int64_t batch, int64_t row, int64_t head, int64_t element) const {
  return std::bit_cast<float>(Bits(batch, row, head, element));
}

void Tensor::Set(int64_t batch, int64_t row, int64_t head, int64_t element, float value) {
  const int64_t index = Index(batch, row, head, element);
  if (view_.dtype == DType::kFloat32) {
    floats_[index] = value;
  } else {
    halves_[index] = ToBFloat16(value);
  }
}

void Tensor::SetRow(int64_t batch, int64_t row, int64_t head, float value) {
  for (int64_t e = 0; e < view_.dim; ++e) Set(batch, row, head, e, value);
}

void Tensor::Fill(const std::function<float()>& next) {
  ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) { Set(b, i, h, e, next()); });
}

void Tensor::FillNormal(Random& random, float mean, float deviation) {
  std::normal_distribution<float> normal(mean, deviation);
  Fill([&] { return normal(random); });
}

void Tensor::Poison() {
  for (size_t n = 0; n < owned_.size(); ++n) {
    if (!owned_[n]) continue;
    if (view_.dtype == DType::kFloat32) {
      floats_[n] = std::bit_cast<float>(kPoison);
    } else {
      halves_[n] = {kPoison >> 16};
    }
  }
}

bool Tensor::IsPoisoned() const {
  bool poisoned = true;
  ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
    poisoned = poisoned && Bits(b, i, h, e) == Kept(view_.dtype, kPoison);
  });
  return poisoned;
}

void Tensor::ExpectGuardsIntact(std::string_view name) const {
  for (size_t n = 0; n < owned_.size(); ++n) {
    if (!owned_[n] && StoredBits(static_cast<int64_t>(n)) != Kept(view_.dtype, kGuard)) {
      ADD_FAILURE() << name << ": element " << n << " of the storage lies outside the view "
                    << "and was written";
      return;
    }
  }
}

}  // namespace cosformer::testing
