// BigBird (Zaheer et al., arXiv 2007.14062), internal transformer construction: blocks of queries
// see their neighbours, some random blocks, and the global blocks at both ends of the sequence,
// which see all; O(N). Bidirectional, as published: its last block sees and is seen by all.
//
// Options: "block" in tokens (64), "window_blocks" (3, odd: the own block and its neighbours),
// "random_blocks" (3), "global_blocks" (2: half of them, rounded up, at the beginning, the others
// at the end), "seed" of the random blocks (default: drawn when the layer is made, so that layers
// differ). The seed is saved with the weights. Heads have random blocks of their own.
#include <fmt/format.h>

#include <algorithm>

#include "cosformer/error.h"
#include "zoo/operators.h"
#include "zoo/patterns.h"
#include "zoo/system.h"

namespace cosformer::zoo {
namespace {

constexpr int64_t kMaxSeed = int64_t{1} << 53;  // what a JSON number holds exactly

class BigBird final : public System {
 public:
  BigBird(const Geometry& geometry, const BigBirdBlocks& blocks, const torch::Tensor& seed)
      : geometry_(geometry),
        blocks_(blocks),
        patterns_([this](int64_t length) { return Build(length); }) {
    seed_ = register_buffer("seed", seed);
    built_for_ = seed.item<int64_t>();
  }

  torch::Tensor Forward(const Inputs& inputs) override {
    // Loaded weights bring the seed that they were trained with.
    const int64_t seed = seed_.item<int64_t>();
    if (seed != built_for_) {
      patterns_.Clear();
      built_for_ = seed;
    }
    const auto lengths = QueryLengths(inputs.layout, inputs.q.size(0), inputs.q.size(1));
    return PatternAttention(inputs.q, inputs.k, inputs.v, patterns_.For(lengths));
  }

 private:
  std::vector<AttentionPattern> Build(int64_t length) const {
    std::vector<AttentionPattern> heads;
    // Far apart, so that no head's numbers are another's shifted by a few.
    constexpr uint64_t kHeadStep = 0xd1342543de82ef95;
    for (int64_t head = 0; head < geometry_.heads; ++head) {
      const uint64_t seed =
          static_cast<uint64_t>(built_for_) + static_cast<uint64_t>(head) * kHeadStep;
      heads.push_back(BigBirdPattern(length, blocks_, seed));
    }
    return heads;
  }

  Geometry geometry_;
  BigBirdBlocks blocks_;
  torch::Tensor seed_;  // int64
  int64_t built_for_ = 0;
  PatternCache patterns_;
};

}  // namespace

void AddBigBird(std::vector<Entry>& entries) {
  Entry entry;
  entry.name = "bigbird";
  entry.summary = "softmax over neighbouring, random and global blocks, O(N)";
  entry.abilities = {.bidirectional = true, .padding = true};
  entry.rotary = RotaryUse::kBefore;
  entry.make = [](const Geometry& geometry, OptionReader& options) {
    BigBirdBlocks blocks;
    const int64_t most = geometry.max_length;
    blocks.block = options.Integer("block", std::min<int64_t>(64, most), 1, most);
    blocks.window_blocks = options.Integer("window_blocks", 3, 1, 2 * most + 1);
    if (blocks.window_blocks % 2 == 0) {
      throw Error(
          fmt::format("{}: window_blocks is {}; it must be odd, for a block lies in the "
                      "middle of its window",
                      options.where(), blocks.window_blocks));
    }
    blocks.random_blocks = options.Integer("random_blocks", 3, 0, most);
    const int64_t globals = options.Integer("global_blocks", 2, 0, most);
    blocks.first_blocks = (globals + 1) / 2;
    blocks.last_blocks = globals / 2;
    const bool given = options.Has("seed");
    const int64_t seed = options.Integer("seed", 0, 0, kMaxSeed);
    return std::make_shared<BigBird>(
        geometry, blocks,
        given ? torch::tensor(seed, torch::kInt64) : torch::randint(kMaxSeed, {}, torch::kInt64));
  };
  entries.push_back(std::move(entry));
}

}  // namespace cosformer::zoo
