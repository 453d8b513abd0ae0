// What one layer's attention is, and what it remembers of a text.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <variant>

#include "cosformer/attention.h"
#include "formats/config.h"
#include "formats/feature_systems.h"

namespace cosformer::runtime {

// Linear attention over features that rotary positions turn (RoFormer): the normaliser is the sum
// of the weights without the turn, and so has a state of its own, with a value of 1.
struct TurnedState {
  LinearState sums;
  std::optional<LinearState> normaliser;  // none with "normaliser": "norm"
};

// A value: copy it to fork.
using LayerState = std::variant<LinearState, TurnedState, SoftmaxCache>;

// A layer's attention as the config describes it.
struct LayerAttention {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t dim = 0;
  bool softmax = false;
  FeatureOptions options;  // not of softmax
  double rotary_base = 0;  // 0: no rotary positions

  bool turned() const { return !softmax && rotary_base > 0; }
  // Positions end here; none: they do not.
  std::optional<int64_t> Horizon() const;
  LayerState NewState() const;
};

// Throws Error for an attention that the runtime does not have. endless: as if the layer's option
// were true, where it has one and the model's texts can go on without end.
LayerAttention AttentionOf(const ModelConfig& config, size_t layer, bool endless);

int64_t PositionOf(const LayerState& state);
size_t BytesOf(const LayerState& state);
// The text ends here; none: it does not, as far as this layer goes.
std::optional<int64_t> HorizonOf(const LayerState& state);
// Whether it grows with the text.
bool Grows(const LayerState& state);

void Save(const LayerState& state, std::ostream& out);
// What Save wrote for a state of `attention` after `position` tokens; Error for anything else.
// any_end: whether the state ends with its horizon may differ, as it is one or the other for good.
LayerState LoadState(const LayerAttention& attention, int64_t position, bool any_end,
                     std::istream& in);

}  // namespace cosformer::runtime
