// Linformer (Wang et al., arXiv 2006.04768): keys and values are projected along the length to k
// rows, which all queries see; O(N k). A projected key is a mixture of all positions, so that there
// is no causal form.
//
// Options: "k" rows (default 256, at most max_length), "sharing" of the projections: "headwise"
// (one for the keys and one for the values of all heads), "key-value" (one for both), "none" (each
// head has its own).
#include <algorithm>
#include <cmath>

#include "zoo/operators.h"
#include "zoo/patterns.h"
#include "zoo/system.h"

namespace cosformer::zoo {
namespace {

using torch::Tensor;

enum class Sharing : uint8_t { kHeadwise, kKeyValue, kNone };

class Linformer final : public System {
 public:
  Linformer(const Geometry& geometry, int64_t rows, Sharing sharing) : geometry_(geometry) {
    std::vector<int64_t> shape = {rows, geometry.max_length};
    if (sharing == Sharing::kNone) shape.insert(shape.begin(), geometry.kv_heads);
    // Normal with variance 1 / k, with which the paper's bound holds.
    const double deviation = 1 / std::sqrt(static_cast<double>(rows));
    key_ = register_parameter("key_projection", torch::randn(shape) * deviation);
    value_ = sharing == Sharing::kKeyValue
                 ? key_
                 : register_parameter("value_projection", torch::randn(shape) * deviation);
  }

  Tensor Forward(const Inputs& inputs) override {
    const int64_t rows = inputs.k.size(1);
    CheckLength("linformer", rows, geometry_.max_length);
    Tensor padding;
    if (inputs.layout.padded()) {
      const auto lengths = KeyLengths(inputs.layout, inputs.k.size(0), rows);
      const Tensor ends = torch::tensor(lengths, torch::kInt64).unsqueeze(1);
      padding = (torch::arange(rows, torch::kInt64) >= ends).unsqueeze(-1).unsqueeze(-1);
    }
    SoftmaxOptions options;
    options.causal = false;
    return SoftmaxAttention(inputs.q, Projected(key_, inputs.k, padding),
                            Projected(value_, inputs.v, padding), options);
  }

 private:
  // [batch, m, kv_heads, dim] -> [batch, k, kv_heads, dim].
  static Tensor Projected(const Tensor& projection, const Tensor& from, const Tensor& padding) {
    const Tensor rows = padding.defined() ? from.masked_fill(padding, 0) : from;
    const Tensor used = projection.narrow(-1, 0, from.size(1));
    if (projection.dim() == 3) return torch::matmul(used, rows.transpose(1, 2)).transpose(1, 2);
    return torch::matmul(used, rows.flatten(2))
        .view({from.size(0), used.size(0), from.size(2), from.size(3)});
  }

  Geometry geometry_;
  Tensor key_, value_;  // E and F, [k, max_length] or [kv_heads, k, max_length]
};

}  // namespace

void AddLinformer(std::vector<Entry>& entries) {
  Entry entry;
  entry.name = "linformer";
  entry.summary = "softmax over keys projected along the length, O(N k)";
  entry.abilities = {.bidirectional = true, .cross = true, .padding = true};
  entry.rotary = RotaryUse::kNone;
  entry.no_rotary_reason = "its keys are mixed along the length and have no positions of their own";
  entry.make = [](const Geometry& geometry, OptionReader& options) {
    const int64_t most = geometry.max_length;
    const int64_t rows = options.Integer("k", std::min<int64_t>(256, most), 1, most);
    const std::string sharing =
        options.Choice("sharing", "headwise", {"headwise", "key-value", "none"});
    return std::make_shared<Linformer>(geometry, rows,
                                       sharing == "headwise"    ? Sharing::kHeadwise
                                       : sharing == "key-value" ? Sharing::kKeyValue
                                                                : Sharing::kNone);
  };
  entries.push_back(std::move(entry));
}

}  // namespace cosformer::zoo
