// What products of every type share: threads, and weights written and read.

#include "kernels/products.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "hwy/aligned_allocator.h"
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

// Rows from which laying them out is shared among threads, and that are laid out at a time.
constexpr size_t kRowsForThreads = 32;
constexpr size_t kRowsAtOnce = 512;

// Where a thread that multiplies has its rows in parts, from one product to the next.
template <class T>
class Room {
 public:
  T* Of(size_t count) {
    if (count > count_) {
      count_ = 0;
      numbers_.reset();
      numbers_ = hwy::AllocateAligned<T>(count);
      if (!numbers_) throw std::bad_alloc();
      count_ = count;
    }
    return numbers_.get();
  }

 private:
  size_t count_ = 0;
  hwy::AlignedFreeUniquePtr<T[]> numbers_;
};

size_t PartsOf(const Problem& p) {
  return (static_cast<size_t>(p.weights.columns) + kDepth - 1) / kDepth;
}

// The columns of y that a thread begins with. Cores are not alike, nor are they alone: who is done
// takes pieces of what others have left.
struct alignas(64) Share {
  std::atomic<size_t> next = 0;
  size_t end = 0;
};

// How columns of y are shared out: pieces that a thread takes one after the other, and what their
// beginnings are multiples of, so that no row of W is read twice.
struct Columns {
  size_t piece;
  size_t unit;
};

// Calls begin(own, team) and then, until none is left, body(begin, end, last) with a piece of the
// columns of y on each of `threads` threads. last: where the share ends that the piece is from.
template <class Begin, class Body>
void OnThreads(const Problem& p, int threads, Columns by, const Begin& begin, const Body& body) {
  const auto columns = static_cast<size_t>(p.weights.rows);
  const auto team = static_cast<size_t>(threads);
  if (team == 1) {
    begin(0, 1);
    for (size_t n = 0; n < columns; n += by.piece) {
      body(n, std::min(n + by.piece, columns), columns);
    }
    return;
  }
  const size_t units = (columns + by.unit - 1) / by.unit;
  std::vector<Share> shares(team);
  for (size_t t = 0; t < team; ++t) {
    shares[t].next = units * t / team * by.unit;
    shares[t].end = std::min(units * (t + 1) / team * by.unit, columns);
  }
#pragma omp parallel num_threads(threads)
  {
    const auto own = static_cast<size_t>(omp_get_thread_num());
    begin(own, static_cast<size_t>(omp_get_num_threads()));
    for (size_t t = 0; t < team; ++t) {
      Share& share = shares[(own + t) % team];
      while (true) {
        const size_t n = share.next.fetch_add(by.piece, std::memory_order_relaxed);
        if (n >= share.end) break;
        body(n, std::min(n + by.piece, share.end), share.end);
      }
    }
  }
}

// The same after lay_out(begin, end) has been called for all rows of x, by one thread or by all.
template <class LayOut, class Body>
void OnThreadsAfter(const LayOut& lay_out, const Problem& p, int threads, Columns by,
                    const Body& body) {
  const bool shared = p.rows >= kRowsForThreads;
  if (!shared) lay_out(0, p.rows);
  OnThreads(
      p, threads, by,
      [&](size_t own, size_t team) {
        if (!shared) return;
        lay_out(p.rows * own / team, p.rows * (own + 1) / team);
        if (team == 1) return;  // a barrier would be that of whoever called
#pragma omp barrier
      },
      body);
}

void MultiplyWithIntegers(const Problem& p, int threads) {
  thread_local Room<int16_t> q_room;
  thread_local Room<float> scale_room;
  int16_t* q = q_room.Of(PartsOf(p) * p.rows * kDepth);
  float* scales = scale_room.Of(PartsOf(p) * p.rows);
  OnThreadsAfter([&](size_t begin, size_t end) { RoundRows(p, begin, end, q, scales); }, p, threads,
                 {IntegerPanel(), 8},
                 [&](size_t begin, size_t end, size_t last) {
                   MultiplyIntegers(p, {q, scales}, begin, end, last);
                 });
}

void MultiplyWithFloats(const Problem& p, int threads) {
  // Of several panels that a tile can have; of one where others would have to wait.
  constexpr size_t kTile = 64, kPanel = kWeightPanel;
  const bool tiles = static_cast<size_t>(p.weights.rows) >= kTile * static_cast<size_t>(threads);
  OnThreads(
      p, threads, {FloatPiece(p.rows), tiles ? kTile : kPanel}, [](size_t, size_t) {},
      [&](size_t begin, size_t end, size_t last) { MultiplyFloats(p, begin, end, last); });
}

}  // namespace

void Multiply(const float* x, int64_t x_stride, int64_t rows, const Weights& weights,
              const float* bias, float* y, int64_t y_stride, int threads) {
  assert(weights.columns > 0 && x_stride >= weights.columns && y_stride >= weights.rows);
  Problem p = {x, static_cast<size_t>(x_stride), static_cast<size_t>(rows), weights, bias,
               y, static_cast<size_t>(y_stride)};
  if (rows == 0) return;
  if (threads <= 0) threads = omp_get_max_threads();
  // A second thread is worth its start from some ten microseconds of work on.
  const auto work = static_cast<double>(weights.rows) * static_cast<double>(weights.columns) *
                    static_cast<double>(rows);
  threads = static_cast<int>(std::clamp(work / 100000, 1.0, static_cast<double>(threads)));
  const bool integers = WeightGroup(weights.type) > 1;
  for (size_t left = p.rows; left > 0; left -= p.rows) {
    p.rows = std::min(left, kRowsAtOnce);
    integers ? MultiplyWithIntegers(p, threads) : MultiplyWithFloats(p, threads);
    p.x += p.rows * p.x_stride;
    p.y += p.rows * p.y_stride;
  }
}

namespace {

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
    T lines[kWeightPanel][kLine] = {};
    for (int64_t first = begin; first < end; first += kWeightPanel) {
      const int64_t rows = std::min(kWeightPanel, end - first);
      std::fill_n(lines[0], kWeightPanel * kLine, T{0});
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
    while (begin < end) {
      const int64_t number = begin / kSize;
      const T* at =
          from + FloatWeightAt(weights, number / weights.columns, number % weights.columns);
      const int64_t count = std::min(end, (number + 1) * kSize) - begin;
      std::memcpy(out, reinterpret_cast<const char*>(at) + begin % kSize,
                  static_cast<size_t>(count));
      begin += count;
      out += count;
    }
  });
}

}  // namespace cosformer
