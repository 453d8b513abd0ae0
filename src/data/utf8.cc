#include "data/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cosformer/error.h"

namespace cosformer::data {
namespace {

unsigned char Byte(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

bool Continues(std::string_view text, size_t i) { return (Byte(text, i) & 0xC0) == 0x80; }

// The bytes of the character at `i`; 0 if there is none.
size_t CharacterLength(std::string_view text, size_t i) {
  const unsigned char lead = Byte(text, i);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length > text.size() - i) return 0;
  for (size_t k = 1; k < length; ++k) {
    if (!Continues(text, i + k)) return 0;
  }
  const unsigned char second = Byte(text, i + 1);
  if (lead == 0xE0 && second < 0xA0) return 0;  // overlong
  if (lead == 0xED && second > 0x9F) return 0;  // surrogates
  if (lead == 0xF0 && second < 0x90) return 0;  // overlong
  if (lead == 0xF4 && second > 0x8F) return 0;  // beyond U+10FFFF
  return length;
}

}  // namespace

size_t FindInvalidUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    // Most text is ASCII: eight bytes at a time.
    uint64_t eight;
    if (text.size() - i >= sizeof eight) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const size_t length = CharacterLength(text, i);
    if (length == 0) return i;
    i += length;
  }
  return i;
}

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
      "iconv -f LATIN1 -t UTF-8, or read it as bytes with --tokenizer bytes",
      file, position.line, position.column, position.offset, Byte(text, bad)));
}

}  // namespace cosformer::data
