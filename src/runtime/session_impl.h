// What a session holds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cosformer/runtime.h"
#include "kernels/hash.h"
#include "runtime/network.h"

namespace cosformer::runtime {

// Of all tokens of a text, so that two texts can be compared without keeping either: 128 bits.
class PrefixHash {
 public:
  void Add(int32_t token) {
    low_ = MixNext(low_ ^ static_cast<uint32_t>(token));
    high_ = MixNext(high_ + low_ + static_cast<uint32_t>(token));
  }
  bool operator==(const PrefixHash&) const = default;

  uint64_t low() const { return low_; }
  uint64_t high() const { return high_; }
  static PrefixHash Of(uint64_t low, uint64_t high) {
    PrefixHash hash;
    hash.low_ = low;
    hash.high_ = high;
    return hash;
  }

 private:
  uint64_t low_ = 0x243f6a8885a308d3u;
  uint64_t high_ = 0x13198a2e03707344u;
};

struct SavedText {
  PrefixHash hash;
  TextState state;
};

struct Session::Impl {
  Model model;
  SessionOptions options;
  TextState text;
  PrefixHash hash;
  // By position; shared with forks.
  std::vector<std::shared_ptr<const SavedText>> checkpoints;
  std::vector<int32_t> recent;

  // What of the tokens is read before the next checkpoint: whole passes.
  std::span<const int32_t> NextPart(std::span<const int32_t> tokens) const;
  // These were read.
  void Took(std::span<const int32_t> tokens);
  void Remember(std::span<const int32_t> tokens);
  void Checkpoint();
};

}  // namespace cosformer::runtime
