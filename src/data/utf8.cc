#include "data/utf8.h"

#include <fmt/format.h>

#include <algorithm>

#include "cosformer/error.h"
#include "formats/utf8.h"

namespace cosformer::data {
namespace {

unsigned char Byte(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

bool Continues(std::string_view text, size_t i) { return (Byte(text, i) & 0xC0) == 0x80; }

}  // namespace

size_t Utf8Boundary(std::string_view text, size_t most) {
  if (most == text.size()) return most;
  for (size_t back = 0; back < 4 && back < most; ++back) {
    if (!Continues(text, most - back)) return most - back;
  }
  return most;
}

void TextPosition::Pass(std::string_view text) {
  line += std::count(text.begin(), text.end(), '\n');
  const size_t last = text.rfind('\n');
  column = last == std::string_view::npos ? column + static_cast<int64_t>(text.size())
                                          : static_cast<int64_t>(text.size() - last);
  offset += static_cast<int64_t>(text.size());
}

void CheckUtf8(std::string_view text, std::string_view file, TextPosition position) {
  const size_t bad = FindInvalidUtf8(text);
  if (bad == text.size()) return;
  position.Pass(text.substr(0, bad));
  throw Error(fmt::format(
      "\"{}\", line {}, column {} (offset {}): byte 0x{:02X} is not UTF-8; convert the file, as by "
      "iconv -f LATIN1 -t UTF-8, or train a model with --tokenizer bytes",
      file, position.line, position.column, position.offset, Byte(text, bad)));
}

}  // namespace cosformer::data
