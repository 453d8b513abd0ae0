// What products of every type share: threads.

#include "kernels/products.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <new>
#include <vector>

#include "base/parallel.h"
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
  std::atomic<size_t> next = 0;  // piece
  size_t begin = 0, end = 0;     // columns of y
};

// How y is shared out: pieces of its columns that a thread takes one after the other, and what
// their beginnings are multiples of, so that no row of W is read twice. The last piece of a share
// is taken in `parts`, so that nobody waits for long for who began it last.
struct Pieces {
  size_t columns;
  size_t piece;
  size_t unit;
  size_t parts;
};

// Columns of y, and which part of them.
struct Piece {
  size_t begin, end;
  size_t last;  // where the share ends that the piece is from
  size_t part = 0, parts = 1;

  // Of [0, n).
  size_t PartBegin(size_t n) const { return n * part / parts; }
  size_t PartEnd(size_t n) const { return n * (part + 1) / parts; }
};

// Calls body(piece), until none is left, on each thread of the team.
template <class Body>
void OnThreads(Pieces all, const Team& threads, const Body& body) {
  const auto team = static_cast<size_t>(threads.size());
  if (team == 1) {
    for (size_t n = 0; n < all.columns; n += all.piece) {
      body(Piece{n, std::min(n + all.piece, all.columns), all.columns});
    }
    return;
  }
  const size_t units = (all.columns + all.unit - 1) / all.unit;
  std::vector<Share> shares(team);
  for (size_t t = 0; t < team; ++t) {
    shares[t].begin = units * t / team * all.unit;
    shares[t].end = std::min(units * (t + 1) / team * all.unit, all.columns);
  }
  threads.Run(threads.size(), [&](int64_t own, int) {
    for (size_t t = 0; t < team; ++t) {
      Share& share = shares[(static_cast<size_t>(own) + t) % team];
      if (share.begin == share.end) continue;
      const size_t before_last = (share.end - share.begin - 1) / all.piece;
      while (true) {
        const size_t i = share.next.fetch_add(1, std::memory_order_relaxed);
        if (i >= before_last + all.parts) break;
        const size_t n = share.begin + std::min(i, before_last) * all.piece;
        Piece piece{n, std::min(n + all.piece, share.end), share.end};
        if (i >= before_last) {
          piece.part = i - before_last;
          piece.parts = all.parts;
        }
        body(piece);
      }
    }
  });
}

void MultiplyWithIntegers(const Problem& p, const Team& team) {
  thread_local Room<int16_t> q_room;
  thread_local Room<float> scale_room;
  int16_t* q = q_room.Of(PartsOf(p) * p.rows * kDepth);
  float* scales = scale_room.Of(PartsOf(p) * p.rows);
  const bool shared = p.rows >= kRowsForThreads;
  if (shared) {
    team.RunEvenly(static_cast<int64_t>(p.rows), [&](int64_t row, int) {
      RoundRows(p, static_cast<size_t>(row), static_cast<size_t>(row) + 1, q, scales);
    });
  } else {
    RoundRows(p, 0, p.rows, q, scales);
  }
  // Parts of columns.
  constexpr size_t kUnit = 8;
  OnThreads({static_cast<size_t>(p.weights.rows), IntegerPiece(p.rows), kUnit,
             shared ? size_t{4} : size_t{1}},
            team, [&](const Piece& piece) {
              const size_t units = (piece.end - piece.begin + kUnit - 1) / kUnit;
              const size_t begin = piece.begin + piece.PartBegin(units) * kUnit;
              const size_t end = std::min(piece.begin + piece.PartEnd(units) * kUnit, piece.end);
              MultiplyIntegers(p, {q, scales}, begin, end, piece.last);
            });
}

void MultiplyWithFloats(const Problem& p, const Team& team) {
  const auto columns = static_cast<size_t>(p.weights.rows);
  // Of several panels that a tile can have; of one where others would have to wait.
  constexpr size_t kTile = 64, kPanel = kWeightPanel;
  const size_t unit = columns >= kTile * static_cast<size_t>(team.size()) ? kTile : kPanel;
  // Parts of rows, of a few tiles each.
  const size_t parts = std::clamp<size_t>(p.rows / 16, 1, 8);
  OnThreads({columns, FloatPiece(p.rows), unit, parts}, team, [&](const Piece& piece) {
    Problem part = p;
    const size_t begin = piece.PartBegin(p.rows);
    part.rows = piece.PartEnd(p.rows) - begin;
    part.x += begin * p.x_stride;
    part.y += begin * p.y_stride;
    MultiplyFloats(part, piece.begin, piece.end, piece.last);
  });
}

}  // namespace

void Multiply(const float* x, int64_t x_stride, int64_t rows, const Weights& weights,
              const float* bias, float* y, int64_t y_stride, int threads) {
  assert(weights.columns > 0 && x_stride >= weights.columns && y_stride >= weights.rows);
  Problem p = {x, static_cast<size_t>(x_stride), static_cast<size_t>(rows), weights, bias,
               y, static_cast<size_t>(y_stride)};
  if (rows == 0) return;
  const Team team(threads, (weights.rows + kWeightPanel - 1) / kWeightPanel,
                  {.flops = 2.0 * static_cast<double>(weights.rows) *
                            static_cast<double>(weights.columns) * static_cast<double>(rows),
                   .bytes = static_cast<double>(weights.bytes())});
  const bool integers = WeightGroup(weights.type) > 1;
  for (size_t left = p.rows; left > 0; left -= p.rows) {
    p.rows = std::min(left, kRowsAtOnce);
    integers ? MultiplyWithIntegers(p, team) : MultiplyWithFloats(p, team);
    p.x += p.rows * p.x_stride;
    p.y += p.rows * p.y_stride;
  }
}

}  // namespace cosformer
