// The sweep: one pass along one sequence and one key/value head, chunk by chunk, and the one-token
// step. This header is the contract between the code that plans (linear.cc, linear_state.cc) and
// the SIMD that computes (linear_kernels.cc).
//
// A sweep knows neither forward nor backward: it takes rows in the roles of queries, keys and
// values and gives, for the query at position i,
//
//     sum_j cos(theta (i - j)) (x_i . y_j) z_j        x: queries, y: keys, z: values
//
// where there is forgetting, each term times the product of keep from position j + 1 to i;
// which with other rows in the three roles is also each of the gradients (docs/attention.md).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "cosformer/attention.h"

namespace cosformer {

// Positions handled at a time. Inside a chunk the cost is quadratic: (kChunk + 12) * 2 * dim flops
// a token with 8-row tiles, 17 % of the useful work at dim 64; a shorter chunk would move the state
// through the registers more often than it saves.
inline constexpr int64_t kChunk = 32;

// Multiples that every instruction set divides: the rows of a register tile, the lanes of a vector.
inline constexpr int64_t kTileRows = 8;
inline constexpr int64_t kMaxLanes = 16;

constexpr int64_t RoundUp(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// A state as it lies in memory: for each part (cos, sin; or one without re-weighting) a matrix of
// rows (features) x columns (values), padded with rows and columns that are never read, and then
// the sums of the features, which make the normaliser.
struct StateLayout {
  StateLayout(int64_t features, int64_t values, bool cos)
      : features(features),
        values(values),
        parts(cos ? 2 : 1),
        part_rows(RoundUp(features, kTileRows)),
        row(RoundUp(values, kMaxLanes)),
        sums(RoundUp(features, kMaxLanes)) {}
  int64_t Matrix() const { return parts * part_rows * row; }
  int64_t Size() const { return Matrix() + parts * sums; }

  int64_t features;
  int64_t values;
  int64_t parts;
  int64_t part_rows;  // features, rounded up
  int64_t row;        // values, rounded up
  int64_t sums;       // features, rounded up: the feature sums of each part
};

// `elements` further in an array of that type.
inline const void* ElementAt(const void* data, DType dtype, int64_t elements) {
  return static_cast<const std::byte*>(data) + elements * (dtype == DType::kFloat32 ? 4 : 2);
}
inline void* ElementAt(void* data, DType dtype, int64_t elements) {
  return const_cast<void*>(ElementAt(static_cast<const void*>(data), dtype, elements));
}

// The angle a token, pi / (2 M), or 0 without re-weighting.
double AngleOf(const LinearKernel& kernel);

// What of it every chunk needs.
struct Rotation {
  explicit Rotation(const LinearKernel& kernel);
  double theta = 0;
  std::array<double, kChunk> cos{};
  std::array<double, kChunk> sin{};  // of theta * r
  // [kChunk + x]: cos(theta * x) for x <= 0, and 0 after: the weight of the key x tokens later.
  std::array<float, 2 * kChunk + kMaxLanes> window{};
};

// Rows in one of the three roles, read through a feature map and a factor, with one more column
// where the role needs it.
struct Operand {
  enum class Extra : uint8_t { kNone, kOnes, kColumn };

  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t stride = 0;  // between rows; may be negative
  int64_t dim = 0;
  FeatureMap map = FeatureMap::kIdentity;
  float leaky_slope = 0;
  const float* factor = nullptr;  // of each row, or null
  Extra extra = Extra::kNone;
  const float* column = nullptr;  // of kColumn
  int64_t side_stride = 0;        // of factor and column

  int64_t Width() const { return dim + (extra == Extra::kNone ? 0 : 1); }
};

struct Output {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t stride = 0;
  int64_t dim = 0;
  float* sums = nullptr;  // receives the normalisers, or null
  int64_t sums_stride = 0;
  // Where it has data: the result is multiplied by the derivative of its feature map at its rows.
  Operand derivative;
};

struct Sweep {
  explicit Sweep(const StateLayout& layout) : layout(layout) {}

  StateLayout layout;
  const Rotation* rotation = nullptr;
  int64_t origin = 0;  // position of key 0 since the state began: angles are taken from there
  bool causal = true;
  bool normalise = false;  // divide by the sum of the weights, kept away from zero by epsilon
  float epsilon = 0;
  // Of position p, keep[p * keep_stride]: what remains of all before it. Null: all. Causal only.
  const float* keep = nullptr;
  int64_t keep_stride = 0;
  std::span<const Operand> queries;  // several heads that share the state
  std::span<const Output> outputs;   // as queries
  std::span<const Operand> keys;     // several heads that add up in the state
  std::span<const Operand> values;   // as keys
  int64_t query_count = 0;
  int64_t key_count = 0;
  int64_t query_offset = 0;  // query i stands at position i + query_offset, key j at j
};

enum class SweepAction : uint8_t { kAbsorb, kRead, kReadAndAbsorb };

// A sweep and the states that it works on: absorbing adds to `state`; reading takes the keys before
// the chunk from `state` and, where it is not null (never with `keep`), from `distant` as well.
struct SweepRun {
  const Sweep* sweep = nullptr;
  float* state = nullptr;
  const float* distant = nullptr;
};

// Runs the positions begin to end - 1 of all runs, which have one shape, in step: chunk by chunk,
// and each chunk for all of them. Chunks start at `begin`.
void RunSweeps(std::span<const SweepRun> runs, int64_t begin, int64_t end, SweepAction action,
               float* scratch);
int64_t SweepScratch(const Sweep& sweep);  // floats

// What remains after the positions begin to end - 1 of what was before them.
float KeptAfter(const Sweep& sweep, int64_t begin, int64_t end);

// before = state; state = kept * state + before, as absorbing a chunk does it, to the bit. `count`
// is a multiple of kMaxLanes.
void TakeIn(float kept, float* state, float* before, int64_t count);

// One token: each state of `absorb` keeps `keep` of itself and takes in key 0 and its value, then
// every query reads the sum of the states of `read`. Null states are passed over. cos and sin are
// of the angle at which the token stands in each state.
struct TokenStep {
  explicit TokenStep(const StateLayout& layout) : layout(layout) {}

  StateLayout layout;
  bool normalise = true;
  float epsilon = 0;
  float keep = 1;
  std::span<const Operand> queries;
  std::span<const Output> outputs;
  Operand key;
  Operand value;
  std::array<float*, 2> states{};
  std::array<float, 2> cos{};
  std::array<float, 2> sin{};
  std::array<bool, 2> absorb{};
  std::array<bool, 2> read{};
};
void RunTokenStep(const TokenStep& step, float* scratch);
int64_t TokenStepScratch(const StateLayout& layout);  // floats

// out[r * out_stride] = x_r . y_r, for the first `count` rows as they are (no map, no factor).
void DotRows(const Operand& x, const Operand& y, int64_t count, float* out, int64_t out_stride);

// out[r * out_stride] = phi(x_r) . d_r, where d_x has d_r times the derivative of x's feature map
// at x_r: the gradient with respect to a factor of all features of row r.
void DotGradients(const Operand& x, const Operand& d_x, int64_t count, float* out,
                  int64_t out_stride);

}  // namespace cosformer
