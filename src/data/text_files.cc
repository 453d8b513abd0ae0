#include "data/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cosformer/error.h"
#include "data/input_file.h"
#include "data/utf8.h"

namespace cosformer::data {
namespace {

constexpr int64_t kLeastStretch = 1 << 10;
constexpr int64_t kMostStretch = 1 << 16;
constexpr size_t kLongestLine = 16;  // in stretches: 1 MB where they are longest

// Where the next stretch ends; 0: more of the file is needed to say.
size_t StretchEnd(std::string_view text, size_t target, bool at_end) {
  if (text.size() <= target) return at_end ? text.size() : 0;
  const size_t last = text.substr(0, target).rfind('\n');
  if (last != std::string_view::npos) return last + 1;
  const size_t longest = kLongestLine * target;
  const size_t next = text.substr(0, longest).find('\n', target);
  if (next != std::string_view::npos) return next + 1;
  // One byte beyond shows whether a character ends there.
  if (text.size() > longest) return Utf8Boundary(text, longest);
  return at_end ? text.size() : 0;
}

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\n\v\f\r") == std::string_view::npos;
}

// The stretches of one file, one after another.
class StretchReader {
 public:
  StretchReader(const std::string& path, size_t target, bool any_bytes)
      : file_(path), target_(target), any_bytes_(any_bytes) {
    Fill();
    if (!any_bytes_ && text_.starts_with(kByteOrderMark)) {
      text_.erase(0, kByteOrderMark.size());
      position_.offset = static_cast<int64_t>(kByteOrderMark.size());
    }
  }

  // Empty at the end.
  std::string Next() {
    size_t end;
    while ((end = StretchEnd(text_, target_, ended_)) == 0 && !ended_) Fill();
    std::string stretch = text_.substr(0, end);
    text_.erase(0, end);
    if (!any_bytes_) CheckUtf8(stretch, file_.path(), position_);
    begin_ = position_.line;
    position_.Pass(stretch);
    return stretch;
  }

  int64_t line() const { return begin_; }  // of the beginning of what Next returned
  bool done() const { return position_.offset >= file_.size(); }

 private:
  void Fill() {
    const size_t held = text_.size();
    const size_t block = 4 * target_;
    text_.resize(held + block);
    const size_t count = file_.Read(text_.data() + held, block);
    text_.resize(held + count);
    ended_ = count < block;
  }

  InputFile file_;
  size_t target_;
  bool any_bytes_;
  std::string text_;  // read and not yet handed over
  bool ended_ = false;
  TextPosition position_;
  int64_t begin_ = 1;
};

}  // namespace

std::vector<std::string> FilesUnder(const std::string& directory, const std::string& extension) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  try {
    for (auto entry = fs::recursive_directory_iterator(directory);
         entry != fs::recursive_directory_iterator(); ++entry) {
      const std::string name = entry->path().filename().string();
      if (name.starts_with('.')) {
        entry.disable_recursion_pending();
      } else if (name.ends_with(extension) && entry->is_regular_file()) {
        files.push_back(entry->path().string());
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(fmt::format("cannot read the directory \"{}\": {}", error.path1().string(),
                            error.code().message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

int64_t StretchBytes(int64_t total_bytes) {
  return std::clamp(total_bytes / 256, kLeastStretch, kMostStretch);
}

void ReadStretches(const std::vector<std::string>& files, bool any_bytes, const Take& take) {
  int64_t total = 0;
  for (const std::string& file : files) total += FileSize(file);
  const auto target = static_cast<size_t>(StretchBytes(total));
  bool blank = true;
  for (const std::string& file : files) {
    const bool last = &file == &files.back();
    StretchReader reader(file, target, any_bytes);
    for (std::string stretch = reader.Next(); !stretch.empty(); stretch = reader.Next()) {
      if (reader.done() && !last && stretch.back() != '\n') stretch += '\n';
      blank = blank && IsBlank(stretch);
      take({.first = std::move(stretch), .file = file, .line = reader.line()});
    }
  }
  if (!blank || files.empty()) return;
  const std::string others =
      files.size() == 1 ? "" : fmt::format(" and {} more files", files.size() - 1);
  throw Error(fmt::format("there is no text in \"{}\"{}: {}", files.front(), others,
                          total == 0 ? "empty" : "nothing but blanks"));
}

}  // namespace cosformer::data
