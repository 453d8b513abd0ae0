// The Sparse Transformer's factorised patterns (Child et al., arXiv 1904.10509): strided, for data
// with a period, and fixed, for text; O(N sqrt(N)). Bidirectional use takes the symmetric patterns.
//
// Options: "stride" l in tokens (default: sqrt(max_length), at which l + n / l keys a query are
// fewest, to a multiple of 8), "summary" c of the fixed pattern: the positions at the end of each
// block that speak for it (default 8, as published), "heads" "merged" (each head sees both factors)
// or "split" (the first half of the heads sees the first, the others the second).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cosformer/error.h"
#include "zoo/operators.h"
#include "zoo/patterns.h"
#include "zoo/system.h"

namespace cosformer::zoo {
namespace {

struct SparseConfig {
  bool fixed = false;
  int64_t stride = 0;
  int64_t summary = 0;  // fixed only
  bool split = false;
};

class Sparse final : public System {
 public:
  Sparse(const Geometry& geometry, const SparseConfig& config)
      : geometry_(geometry),
        config_(config),
        patterns_([this](int64_t length) { return Build(length); }) {}

  torch::Tensor Forward(const Inputs& inputs) override {
    const auto lengths = QueryLengths(inputs.layout, inputs.q.size(0), inputs.q.size(1));
    return PatternAttention(inputs.q, inputs.k, inputs.v, patterns_.For(lengths));
  }

 private:
  std::vector<AttentionPattern> Build(int64_t length) const {
    const auto part = [&](SparsePart which) {
      return config_.fixed
                 ? FixedPattern(length, config_.stride, config_.summary, which, geometry_.causal())
                 : StridedPattern(length, config_.stride, which, geometry_.causal());
    };
    if (!config_.split) return {part(SparsePart::kBoth)};
    std::vector<AttentionPattern> heads(static_cast<size_t>(geometry_.heads),
                                        part(SparsePart::kSecond));
    std::fill_n(heads.begin(), geometry_.heads / 2, part(SparsePart::kFirst));
    return heads;
  }

  Geometry geometry_;
  SparseConfig config_;
  PatternCache patterns_;
};

SparseConfig Read(const Geometry& geometry, OptionReader& options, bool fixed) {
  SparseConfig config;
  config.fixed = fixed;
  const double root = std::sqrt(static_cast<double>(geometry.max_length));
  const int64_t rounded = std::max<int64_t>(8, 8 * std::llround(root / 8));
  config.stride =
      options.Integer("stride", std::min(rounded, geometry.max_length), 1, geometry.max_length);
  if (fixed) {
    config.summary =
        options.Integer("summary", std::min<int64_t>(8, config.stride), 1, config.stride);
  }
  config.split = options.Choice("heads", "merged", {"merged", "split"}) == "split";
  if (config.split && geometry.heads < 2) {
    throw Error(
        fmt::format("{}: heads is \"split\", which takes at least 2 heads, but there is {}; "
                    "use \"merged\"",
                    options.where(), geometry.heads));
  }
  return config;
}

}  // namespace

void AddSparse(std::vector<Entry>& entries) {
  for (const bool fixed : {false, true}) {
    Entry entry;
    entry.name = fixed ? "sparse-fixed" : "sparse-strided";
    entry.summary = fixed ? "Sparse Transformer: own block and the end of each block, O(N sqrt(N))"
                          : "Sparse Transformer: a window and every l-th key, O(N sqrt(N))";
    entry.abilities = {.causal = true, .bidirectional = true, .padding = true};
    entry.rotary = RotaryUse::kBefore;
    entry.make = [fixed](const Geometry& geometry, OptionReader& options) {
      return std::make_shared<Sparse>(geometry, Read(geometry, options, fixed));
    };
    entries.push_back(std::move(entry));
  }
}

}  // namespace cosformer::zoo
