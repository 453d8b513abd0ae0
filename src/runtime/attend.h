// A layer's attention over rows of queries, keys and values that lie side by side: after a state,
// or over a whole text.
#pragma once

#include <cstdint>

#include "kernels/rotary.h"
#include "runtime/layer_state.h"

namespace cosformer::runtime {

// Rows of a text: [length, (heads + 2 kv_heads) * dim], queries, keys, values. Softmax layers with
// rotary positions turn them in place.
struct Rows {
  float* qkv = nullptr;
  int64_t length = 0;
  const RotaryTable* rotary = nullptr;  // of these rows; for layers with rotary positions
  const float* gain = nullptr;          // [heads, dim]; with "normaliser": "norm"
  const float* keep = nullptr;          // [length, kv_heads], of what was before; with a gate
  float* o = nullptr;                   // [length, heads * dim]
  int64_t o_stride = 0;                 // from row to row
};

// The rows follow those that the state has seen; causal.
void AttendAfter(const LayerAttention& attention, LayerState& state, const Rows& rows, int threads);

// The rows are all there is.
void AttendWhole(const LayerAttention& attention, bool causal, const Rows& rows, int threads);

}  // namespace cosformer::runtime
