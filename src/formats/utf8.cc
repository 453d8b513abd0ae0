#include "formats/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cosformer/error.h"

namespace cosformer {

Utf8Start StartOfUtf8(std::string_view text) {
  if (text.empty()) return {Utf8Part::kCut, 0};
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {Utf8Part::kCharacter, 1};
  // The first byte gives the length. Only the second has a narrower range than 80 to BF after some
  // of them; that range is what keeps overlong forms, surrogates and U+110000 out.
  size_t length = 0;
  uint8_t least = 0x80, most = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) least = 0xA0;
    if (first == 0xED) most = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) least = 0x90;
    if (first == 0xF4) most = 0x8F;
  }
  if (length == 0) return {Utf8Part::kBroken, 1};
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Part::kCut, i};
    if (byte(i) < least || byte(i) > most) return {Utf8Part::kBroken, i};
    least = 0x80;
    most = 0xBF;
  }
  return {Utf8Part::kCharacter, length};
}

size_t Utf8Length(std::string_view text) {
  const Utf8Start start = StartOfUtf8(text);
  return start.part == Utf8Part::kCharacter ? start.length : 0;
}

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
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return i;
}

void CheckUtf8(std::string_view text, std::string_view what) {
  const size_t bad = FindInvalidUtf8(text);
  if (bad == text.size()) return;
  throw Error(
      fmt::format("{} is no UTF-8: byte {} (0x{:02x}) begins no whole character; convert it, as "
                  "with iconv -t utf-8",
                  what, bad, static_cast<uint8_t>(text[bad])));
}

std::string Printable(std::string_view text, size_t most) {
  std::string shown;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const size_t taken = std::max<size_t>(length, 1);
    if (taken > most) return shown + "...";
    const auto byte = static_cast<uint8_t>(text[0]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(taken);
    most -= taken;
  }
  return shown;
}

size_t CutLength(std::string_view text, size_t length) {
  if (text.size() <= 2 * length) return text.size();
  const size_t blank = text.substr(0, 2 * length).find(' ', length);
  if (blank != std::string_view::npos) return blank;
  size_t cut = 2 * length;
  // A character has at most three bytes after its first; more of them are no UTF-8 anyway.
  for (int i = 0; i < 3 && (text[cut] & 0xC0) == 0x80 && cut > length; ++i) --cut;
  return cut;
}

}  // namespace cosformer
