#include "cli/text_input.h"

#include <fmt/format.h>

#include "cosformer/error.h"
#include "formats/read_file.h"
#include "formats/tokenizer.h"
#include "formats/utf8.h"

namespace cosformer::cli {

std::string ReadText(const std::string& path) {
  constexpr size_t kMost = size_t{1} << 30;
  std::string text = ReadFile(path == "-" ? "/dev/stdin" : path, kMost);
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size() + (text.empty() ? 0 : 1);) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    begin = end + 1;
  }
  return lines;
}

void CheckText(const runtime::Model& model, std::string_view text, const std::string& what) {
  if (text.empty()) throw Error(fmt::format("{} is empty: give some text", what));
  if (model.tokenizer() == nullptr || model.tokenizer()->kind() == TokenizerKind::kBytes) return;
  CheckUtf8(text, what);
}

}  // namespace cosformer::cli
