#include "kernels/weights.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

#include "kernels/product_parts.h"

namespace cosformer {
namespace {

// To nearest, ties to even.
uint16_t Narrowed(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// The scale of a group whose numbers go from -largest to largest.
float ScaleOf(std::span<const float> group, float largest) {
  float most = 0;
  for (const float w : group) most = std::max(most, std::abs(w));
  return most / largest;
}

int Quantised(float w, float scale, int least, int most) {
  // A scale below the normal numbers may be 0, or its quotients infinite.
  const float q = scale > 0 ? std::nearbyint(w / scale) : 0;
  return static_cast<int>(std::clamp(q, static_cast<float>(least), static_cast<float>(most)));
}

float Number(float x) { return x; }
float Number(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }

// Calls body with the floats of a matrix of this type: its data as they are.
template <class Data, class Body>
void WithFloats(const Weights& weights, Data* data, const Body& body) {
  using Float = std::conditional_t<std::is_const_v<Data>, const float, float>;
  using Half = std::conditional_t<std::is_const_v<Data>, const uint16_t, uint16_t>;
  weights.type == WeightType::kFloat32 ? body(static_cast<Float*>(data))
                                       : body(static_cast<Half*>(data));
}

void WriteIntegers(WeightType type, std::span<const float> row, void* data, float* scales) {
  const auto group = static_cast<size_t>(WeightGroup(type));
  std::memset(data, type == WeightType::kInt4 ? 0x88 : 0,
              static_cast<size_t>(WeightRowBytes(type, static_cast<int64_t>(row.size()))));
  for (size_t begin = 0; begin < row.size(); begin += group, ++scales) {
    const auto part = row.subspan(begin, std::min(group, row.size() - begin));
    *scales = ScaleOf(part, type == WeightType::kInt8 ? 127.0f : 7.0f);
    if (type == WeightType::kInt8) {
      auto* to = static_cast<int8_t*>(data) + begin;
      for (size_t i = 0; i < part.size(); ++i) {
        to[i] = static_cast<int8_t>(Quantised(part[i], *scales, -127, 127));
      }
    } else {
      auto* to = static_cast<uint8_t*>(data) + begin / 2;
      for (size_t i = 0; i < part.size(); ++i) {
        const auto q = static_cast<uint8_t>(Quantised(part[i], *scales, -8, 7) + 8);
        uint8_t& byte = to[i % 16];
        byte = static_cast<uint8_t>(i < 16 ? (byte & 0xf0) | q : (byte & 0x0f) | (q << 4));
      }
    }
  }
}

}  // namespace

void ReadWeights(const Weights& weights, int64_t row, float* to) {
  assert(row >= 0 && row < weights.rows);
  if (WeightGroup(weights.type) > 1) return ReadIntegers(weights, static_cast<size_t>(row), to);
  WithFloats(weights, weights.data, [&](const auto* data) {
    const auto* from = data + FloatWeightAt(weights, row, 0);
    for (int64_t k = 0; k < weights.columns; ++k) to[k] = Number(from[k * kWeightPanel]);
  });
}

void WriteWeights(const Weights& weights, int64_t row, const float* from, void* data,
                  float* scales) {
  assert(row >= 0 && row < weights.rows);
  if (WeightGroup(weights.type) > 1) {
    const int64_t bytes = WeightRowBytes(weights.type, weights.columns);
    WriteIntegers(weights.type, std::span(from, static_cast<size_t>(weights.columns)),
                  static_cast<char*>(data) + row * bytes,
                  scales + row * WeightRowScales(weights.type, weights.columns));
    return;
  }
  WithFloats(weights, data, [&]<class T>(T* to) {
    // The last row brings the zeros after it.
    const int64_t rest = row + 1 == weights.rows ? kWeightPanel - row % kWeightPanel : 1;
    for (int64_t k = 0; k < weights.columns; ++k) {
      T* at = to + FloatWeightAt(weights, row, k);
      std::fill_n(at, rest, T{0});
      if constexpr (std::is_same_v<T, float>) {
        *at = from[k];
      } else {
        *at = Narrowed(from[k]);
      }
    }
  });
}

void PackWeights(const Weights& weights, int64_t begin, int64_t end, const void* file, void* data) {
  assert(begin % kWeightPanel == 0 && (end % kWeightPanel == 0 || end == weights.rows));
  const int64_t bytes = WeightRowBytes(weights.type, weights.columns);
  const auto* from = static_cast<const char*>(file);
  if (WeightGroup(weights.type) > 1) {
    std::memcpy(static_cast<char*>(data) + begin * bytes, from + begin * bytes,
                static_cast<size_t>((end - begin) * bytes));
    return;
  }
  WithFloats(weights, data, [&]<class T>(T* to) {
    // Of each row a cache line at a time.
    constexpr int64_t kLine = 64 / sizeof(T);
    T lines[kWeightPanel][kLine];
    for (int64_t first = begin; first < end; first += kWeightPanel) {
      const int64_t rows = std::min(kWeightPanel, end - first);
      std::memset(lines, 0, sizeof(lines));
      for (int64_t k = 0; k < weights.columns; k += kLine) {
        const int64_t count = std::min(kLine, weights.columns - k);
        for (int64_t row = 0; row < rows; ++row) {
          std::memcpy(lines[row], from + (first + row) * bytes + k * int64_t{sizeof(T)},
                      static_cast<size_t>(count) * sizeof(T));
        }
        T* at = to + FloatWeightAt(weights, first, k);
        for (int64_t i = 0; i < count; ++i) {
          for (int64_t row = 0; row < kWeightPanel; ++row) *at++ = lines[row][i];
        }
      }
    }
  });
}

void UnpackWeights(const Weights& weights, int64_t begin, int64_t end, void* to) {
  auto* out = static_cast<char*>(to);
  if (WeightGroup(weights.type) > 1) {
    std::memcpy(out, static_cast<const char*>(weights.data) + begin,
                static_cast<size_t>(end - begin));
    return;
  }
  WithFloats(weights, weights.data, [&]<class T>(const T* from) {
    constexpr int64_t kSize = sizeof(T);
    const int64_t row_bytes = weights.columns * kSize;
    while (begin < end) {
      // The rest of a row.
      const int64_t row = begin / row_bytes, row_end = std::min(end, (row + 1) * row_bytes);
      const T* at = from + FloatWeightAt(weights, row, begin % row_bytes / kSize);
      while (begin < row_end) {
        const int64_t skip = begin % kSize, count = std::min(kSize - skip, row_end - begin);
        std::memcpy(out, reinterpret_cast<const char*>(at) + skip, static_cast<size_t>(count));
        at += kWeightPanel;
        begin += count;
        out += count;
      }
    }
  });
}

}  // namespace cosformer
