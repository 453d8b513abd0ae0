#include "data/line_sample.h"

#include "formats/utf8.h"
#include "kernels/hash.h"

namespace cosformer::data {
namespace {

// With its place in the list, so that short lines take no more memory than long ones.
size_t Cost(std::string_view line) { return line.size() + sizeof(LineSample::Line); }

}  // namespace

void LineSample::Add(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    while (!line.empty()) {
      const size_t cut = CutLength(line, kLongest / 2);
      AddLine(line.substr(0, cut));
      line.remove_prefix(cut);
    }
  }
}

void LineSample::AddLine(std::string_view line) {
  const uint64_t rank = Mix(++seen_);
  if (rank > most_rank_) return;
  bytes_ += Cost(line);
  lines_.push_back({rank, std::string(line)});
  while (bytes_ > most_bytes_) {
    most_rank_ -= most_rank_ / 8;
    std::erase_if(lines_, [this](const Line& kept) {
      if (kept.rank <= most_rank_) return false;
      bytes_ -= Cost(kept.text);
      return true;
    });
  }
}

}  // namespace cosformer::data
