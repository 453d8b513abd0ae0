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

// Calls begin(own, team) and then, until none is left, body(begin, end, last) with a piece of the
// columns of y on each of `threads` threads. last: where the share ends that the piece is from.
template <class Begin, class Body>
void OnThreads(const Problem& p, int threads, size_t piece, const Begin& begin, const Body& body) {
  const auto columns = static_cast<size_t>(p.weights.rows);
  const auto team = static_cast<size_t>(threads);
  if (team == 1) {
    begin(0, 1);
    for (size_t n = 0; n < columns; n += piece) body(n, std::min(n + piece, columns), columns);
    return;
  }
  // Whole tiles, so that no row of W is read twice.
  const size_t tiles = (columns + 7) / 8;
  std::vector<Share> shares(team);
  for (size_t t = 0; t < team; ++t) {
    shares[t].next = tiles * t / team * 8;
    shares[t].end = std::min(tiles * (t + 1) / team * 8, columns);
  }
#pragma omp parallel num_threads(threads)
  {
    const auto own = static_cast<size_t>(omp_get_thread_num());
    begin(own, static_cast<size_t>(omp_get_num_threads()));
    for (size_t t = 0; t < team; ++t) {
      Share& share = shares[(own + t) % team];
      while (true) {
        const size_t n = share.next.fetch_add(piece, std::memory_order_relaxed);
        if (n >= share.end) break;
        body(n, std::min(n + piece, share.end), share.end);
      }
    }
  }
}

// The same after lay_out(begin, end) has been called for all rows of x, by one thread or by all.
template <class LayOut, class Body>
void OnThreadsAfter(const LayOut& lay_out, const Problem& p, int threads, size_t piece,
                    const Body& body) {
  const bool shared = p.rows >= kRowsForThreads;
  if (!shared) lay_out(0, p.rows);
  OnThreads(
      p, threads, piece,
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
                 IntegerPanel(),
                 [&](size_t begin, size_t end, size_t last) {
                   MultiplyIntegers(p, {q, scales}, begin, end, last);
                 });
}

// Rows begin to end - 1 of x as [parts, rows, kDepth].
void CopyParts(const Problem& p, size_t begin, size_t end, float* parts) {
  const auto columns = static_cast<size_t>(p.weights.columns);
  for (size_t k = 0; k < columns; k += kDepth) {
    for (size_t row = begin; row < end; ++row) {
      std::memcpy(parts + k * p.rows + row * kDepth, p.x + row * p.x_stride + k,
                  std::min(kDepth, columns - k) * sizeof(float));
    }
  }
}

void MultiplyWithFloats(const Problem& p, int threads) {
  const float* parts = p.x;
  const auto multiply = [&](size_t begin, size_t end, size_t last) {
    MultiplyFloats(p, parts, begin, end, last);
  };
  // Of one part, and no further apart than that, rows are laid out as they are.
  if (p.rows <= FewFloatRows() || (p.x_stride == kDepth && PartsOf(p) == 1)) {
    OnThreads(
        p, threads, FloatPanel(p.rows), [](size_t, size_t) {}, multiply);
    return;
  }
  thread_local Room<float> room;
  float* copy = room.Of(PartsOf(p) * p.rows * kDepth);
  parts = copy;
  OnThreadsAfter([&](size_t begin, size_t end) { CopyParts(p, begin, end, copy); }, p, threads,
                 FloatPanel(p.rows), multiply);
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

void ReadWeights(const Weights& weights, int64_t row, float* to) {
  assert(row >= 0 && row < weights.rows);
  const auto at = static_cast<size_t>(row);
  WeightGroup(weights.type) > 1 ? ReadIntegers(weights, at, to) : ReadFloats(weights, at, to);
}

void WriteWeights(WeightType type, const float* from, int64_t columns, void* data, float* scales) {
  const std::span<const float> row(from, static_cast<size_t>(columns));
  const auto group = static_cast<size_t>(WeightGroup(type));
  switch (type) {
    case WeightType::kFloat32:
      std::memcpy(data, from, row.size_bytes());
      return;
    case WeightType::kBFloat16:
      std::transform(row.begin(), row.end(), static_cast<uint16_t*>(data), Narrowed);
      return;
    case WeightType::kInt8:
    case WeightType::kInt4:
      break;
  }
  std::memset(data, type == WeightType::kInt4 ? 0x88 : 0,
              static_cast<size_t>(WeightRowBytes(type, columns)));
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

}  // namespace cosformer
