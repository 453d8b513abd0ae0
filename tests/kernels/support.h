// What the tests of the kernels share: every instruction set in turn, buffers that notice what is
// written beside them, random numbers, and the comparison with a tolerance an element.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace cosformer::testing {

// A rounding to float is off by at most this part of the number.
constexpr double kUnit = 0x1p-24;
constexpr double kSmallest = 0x1p-149;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

#ifdef COSFORMER_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// The longest chain of additions when n floats are summed in 4 vectors of at least 4 lanes each,
// and these then among themselves.
constexpr double SumDepth(int64_t n) { return static_cast<double>(n) / 16 + 5; }

// The same for a column: rows of a block, then 64 blocks.
constexpr double ColumnDepth(int64_t rows) { return static_cast<double>(rows) / 64 + 16 + 64; }

// Dispatch goes to one instruction set as long as this lives, then to the best again.
class OnTarget {
 public:
  explicit OnTarget(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

class EveryTarget : public ::testing::TestWithParam<int64_t> {
 private:
  OnTarget on_{GetParam()};
};

inline auto AllTargets() { return ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()); }
inline std::string TargetOf(const ::testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

// n floats, NaN, on no particular alignment; the floats around them must stay as they are.
class Buffer {
 public:
  explicit Buffer(int64_t n, size_t offset = 1)
      : size_(static_cast<size_t>(n)),
        offset_(kEdge + offset),
        all_(size_ + offset_ + kEdge, kMark) {
    std::fill_n(data(), size_, kNaN);
  }
  Buffer(const std::vector<float>& values, size_t offset)
      : Buffer(static_cast<int64_t>(values.size()), offset) {
    std::copy(values.begin(), values.end(), data());
  }
  Buffer(const Buffer&) = default;
  ~Buffer() {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (i < offset_ || i >= offset_ + size_) {
        EXPECT_EQ(all_[i], kMark) << "written beside the array";
      }
    }
  }

  float* data() { return all_.data() + offset_; }
  size_t size() const { return size_; }
  float operator[](size_t i) const { return all_[offset_ + i]; }
  std::span<const float> values() const { return {all_.data() + offset_, size_}; }

 private:
  static constexpr size_t kEdge = 32;
  static constexpr float kMark = -12345.5f;
  size_t size_;
  size_t offset_;
  std::vector<float> all_;
};

inline std::vector<float> Normal(int64_t n, uint64_t seed, double deviation = 1, double mean = 0) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = static_cast<float>(normal(random));
  return x;
}

// A number and how far from it a result may be.
struct Expected {
  double value = 0;
  double tolerance = 0;
};

inline void ExpectClose(std::span<const float> actual, const std::vector<Expected>& expected,
                        const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i].value);
    ASSERT_TRUE(error <= expected[i].tolerance)
        << what << "[" << i << "] is " << actual[i] << ", expected " << expected[i].value << " +- "
        << expected[i].tolerance;
  }
}

inline bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Every width up to four vectors and a rest of the widest, and what models have.
inline std::vector<int64_t> Widths() {
  std::vector<int64_t> widths;
  for (int64_t w = 1; w <= 67; ++w) widths.push_back(w);
  for (const int64_t w : {511, 512, 513, 2047, 2048, 2049}) widths.push_back(w);
  return widths;
}

}  // namespace cosformer::testing
