// What products of every type share: threads.

#include "kernels/products.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <new>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "kernels/product_parts.h"

namespace cosformer {
namespace {

// Rows from which rounding them is shared among threads; and rows at a time, whose rounded numbers
// stay in the caches as x itself does.
constexpr size_t kRowsForThreads = 32;
constexpr size_t kRowsAtOnce = 512;

// Where a thread that multiplies has its rounded rows, from one product to the next.
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

// What a thread begins with. Cores are not alike, nor are they alone: who is done takes pieces of
// what others have left.
struct alignas(64) Share {
  std::atomic<size_t> next = 0;
  size_t end = 0;
};

// How the columns of y are shared out: pieces that a thread takes one after the other, and what
// their beginnings are multiples of, so that no row of W is read twice.
struct Pieces {
  size_t columns;
  size_t piece;
  size_t unit;
};

// Calls begin(own, team) and then, until none is left, body(begin, end, last) with a piece on each
// of `threads` threads. last: where the share ends that the piece is from.
template <class Begin, class Body>
void OnThreads(Pieces all, int threads, const Begin& begin, const Body& body) {
  const auto team = static_cast<size_t>(threads);
  if (team == 1) {
    begin(0, 1);
    for (size_t n = 0; n < all.columns; n += all.piece) {
      body(n, std::min(n + all.piece, all.columns), all.columns);
    }
    return;
  }
  const size_t units = (all.columns + all.unit - 1) / all.unit;
  std::vector<Share> shares(team);
  for (size_t t = 0; t < team; ++t) {
    shares[t].next = units * t / team * all.unit;
    shares[t].end = std::min(units * (t + 1) / team * all.unit, all.columns);
  }
#pragma omp parallel num_threads(threads)
  {
    const auto own = static_cast<size_t>(omp_get_thread_num());
    begin(own, static_cast<size_t>(omp_get_num_threads()));
    for (size_t t = 0; t < team; ++t) {
      Share& share = shares[(own + t) % team];
      while (true) {
        const size_t n = share.next.fetch_add(all.piece, std::memory_order_relaxed);
        if (n >= share.end) break;
        body(n, std::min(n + all.piece, share.end), share.end);
      }
    }
  }
}

void MultiplyWithIntegers(const Problem& p, int threads) {
  thread_local Room<int16_t> q_room;
  thread_local Room<float> scale_room;
  int16_t* q = q_room.Of(PartsOf(p) * p.rows * kDepth);
  float* scales = scale_room.Of(PartsOf(p) * p.rows);
  const bool shared = p.rows >= kRowsForThreads;
  if (!shared) RoundRows(p, 0, p.rows, q, scales);
  OnThreads(
      {static_cast<size_t>(p.weights.rows), IntegerPanel(), 8}, threads,
      [&](size_t own, size_t team) {
        if (!shared) return;
        RoundRows(p, p.rows * own / team, p.rows * (own + 1) / team, q, scales);
        if (team == 1) return;  // a barrier would be that of whoever called
#pragma omp barrier
      },
      [&](size_t begin, size_t end, size_t last) {
        MultiplyIntegers(p, {q, scales}, begin, end, last);
      });
}

void MultiplyWithFloats(const Problem& p, int threads) {
  const auto columns = static_cast<size_t>(p.weights.rows);
  // Of several panels that a tile can have; of one where others would have to wait.
  constexpr size_t kTile = 64, kPanel = kWeightPanel;
  const size_t unit = columns >= kTile * static_cast<size_t>(threads) ? kTile : kPanel;
  OnThreads(
      {columns, FloatPiece(p.rows), unit}, threads, [](size_t, size_t) {},
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

}  // namespace cosformer
