// Lines from everywhere in a text of any size, the same ones for the same text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cosformer::data {

// Each line has a rank that depends on nothing but its number, and those of the lowest ranks are
// kept. Every k-th line instead could fall in step with how the text is laid out.
class LineSample {
 public:
  static constexpr size_t kLongest = 4096;  // lines beyond it are cut into several

  // Keeps everything up to `most_bytes`, with what a line takes besides its letters; of a longer
  // text between seven eighths of it and all.
  explicit LineSample(size_t most_bytes) : most_bytes_(most_bytes) {}

  // The next part of the text, of whole lines.
  void Add(std::string_view text);

  struct Line {
    uint64_t rank;
    std::string text;
  };
  // In the order of the text, none empty.
  std::span<const Line> lines() const { return lines_; }

 private:
  void AddLine(std::string_view line);

  size_t most_bytes_;
  std::vector<Line> lines_;
  size_t bytes_ = 0;
  uint64_t seen_ = 0;
  uint64_t most_rank_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace cosformer::data
