// A tensor for tests: owned storage under a view that may be strided and misaligned at will. All
// elements between and around the rows are NaN guards: one that is read shows in the results, one
// that is written shows in ExpectGuardsIntact.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "cosformer/attention.h"

namespace cosformer::testing {

using Random = std::mt19937_64;

// A number from `low` to `high`, both included.
int64_t Uniform(Random& random, int64_t low, int64_t high);
template <class T>
const T& Choose(Random& random, const std::vector<T>& from) {
  return from[Uniform(random, 0, static_cast<int64_t>(from.size()) - 1)];
}

class Tensor {
 public:
  Tensor() = default;
  // Dense, poisoned.
  Tensor(DType dtype, int64_t batch, int64_t length, int64_t heads, int64_t dim);
  // The dimensions in any order, some of them backwards, with odd gaps, off every vector boundary.
  Tensor(DType dtype, int64_t batch, int64_t length, int64_t heads, int64_t dim, Random& layout);
  Tensor(const Tensor& other);
  Tensor& operator=(const Tensor& other);

  const View& view() { return view_; }
  ConstView view() const { return view_; }

  float At(int64_t batch, int64_t row, int64_t head, int64_t element) const;
  uint32_t Bits(int64_t batch, int64_t row, int64_t head, int64_t element) const;
  // Rounds to nearest even where the tensor is bfloat16.
  void Set(int64_t batch, int64_t row, int64_t head, int64_t element, float value);
  void SetRow(int64_t batch, int64_t row, int64_t head, float value);

  // Calls `visit(batch, row, head, element)` in dense order.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (int64_t b = 0; b < view_.batch; ++b)
      for (int64_t i = 0; i < view_.length; ++i)
        for (int64_t h = 0; h < view_.heads; ++h)
          for (int64_t e = 0; e < view_.dim; ++e) visit(b, i, h, e);
  }

  void Fill(const std::function<float()>& next);
  void FillNormal(Random& random, float mean = 0, float deviation = 1);
  // NaN everywhere: what is not written shows.
  void Poison();
  bool IsPoisoned() const;
  void ExpectGuardsIntact(std::string_view name) const;

 private:
  void Allocate(int64_t elements);
  void Attach();  // the view to the storage
  uint32_t StoredBits(int64_t index) const;
  int64_t Index(int64_t batch, int64_t row, int64_t head, int64_t element) const;

  View view_;
  int64_t origin_ = 0;         // element of the storage that view_.data points to
  std::vector<float> floats_;  // the storage, one of the two
  std::vector<BFloat16> halves_;
  std::vector<bool> owned_;  // which elements belong to the view
};

}  // namespace cosformer::testing
