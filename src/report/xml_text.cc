#include "report/xml_text.h"

#include <fmt/format.h>

#include <cassert>
#include <cstdint>
#include <iterator>

namespace cosformer::report {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

void AppendUtf8(std::string& text, char32_t c) {
  const auto byte = [&text](char32_t bits) { text += static_cast<char>(bits); };
  const auto continuation = [&](int shift) { byte(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xC0 | (c >> 6));
    continuation(0);
  } else if (c < 0x10000) {
    byte(0xE0 | (c >> 12));
    continuation(6);
    continuation(0);
  } else {
    byte(0xF0 | (c >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

bool AllowedInXml(char32_t c) {
  return (c >= 0x20 || c == '\t' || c == '\n') && c != 0xFFFE && c != 0xFFFF;
}

// Characters without a glyph that change how others are shown, or nothing at all. The joiners
// U+200C and U+200D are not among them: they shape letters and emoji.
bool Unseen(char32_t c) {
  return (c >= 0x80 && c < 0xA0) || c == 0xAD || c == 0x200B || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

bool Wide(char32_t c) {
  return (c >= 0x1100 && c < 0x1160) || (c >= 0x2E80 && c < 0xA4D0) ||
         (c >= 0xAC00 && c < 0xD7A4) || (c >= 0xF900 && c < 0xFB00) ||
         (c >= 0xFE30 && c < 0xFE70) || (c >= 0xFF00 && c < 0xFF61) || c >= 0x1F000;
}

}  // namespace

std::u32string DecodeUtf8(std::string_view text) {
  std::u32string characters;
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // The length and the smallest second byte of a sequence; overlong forms, surrogates and what
    // is beyond U+10FFFF are not UTF-8.
    const size_t length = byte < 0x80                    ? 1
                          : byte >= 0xC2 && byte <= 0xDF ? 2
                          : byte >= 0xE0 && byte <= 0xEF ? 3
                          : byte >= 0xF0 && byte <= 0xF4 ? 4
                                                         : 0;
    bool valid = length > 0 && i + length <= text.size();
    char32_t c = length == 1 ? byte : byte & (0x7F >> length);
    for (size_t j = 1; valid && j < length; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      const int lowest = j > 1 ? 0x80 : byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
      const int highest = j > 1 ? 0xBF : byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
      valid = next >= lowest && next <= highest;
      c = (c << 6) | (next & 0x3F);
    }
    characters += valid ? c : kReplacement;
    i += valid ? length : 1;
  }
  return characters;
}

std::string EscapeXml(std::string_view text) {
  std::string escaped;
  for (const char32_t c : DecodeUtf8(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&apos;";
        break;
      default:
        AppendUtf8(escaped, AllowedInXml(c) ? c : kReplacement);
    }
  }
  return escaped;
}

std::string VisibleText(std::string_view text, size_t most) {
  assert(most >= 1);
  // A label of a megabyte is not decoded whole: `most` characters and one more, of at most four
  // bytes each, decide what is shown.
  const std::u32string characters = DecodeUtf8(text.substr(0, 4 * (most + 1)));
  std::u32string visible;
  for (const char32_t c : characters) {
    if (c == ' ') {
      visible += U'␣';
    } else if (c == '\n') {
      visible += U'↵';
    } else if (c == '\t') {
      visible += U'⇥';
    } else if (c < 0x20) {
      visible += 0x2400 + c;  // the block of control pictures
    } else if (c == 0x7F) {
      visible += U'␡';
    } else if (Unseen(c)) {
      const std::string code = fmt::format("U+{:04X}", static_cast<uint32_t>(c));
      visible.append(code.begin(), code.end());
    } else {
      visible += c;
    }
  }
  if (visible.size() > most) {
    visible.resize(most);
    visible.back() = U'…';
  }
  std::string label;
  for (const char32_t c : visible) AppendUtf8(label, c);
  return label;
}

double TextWidth(std::string_view text, double font_size) {
  double ems = 0;
  for (const char32_t c : DecodeUtf8(text)) ems += Wide(c) ? 1 : 0.54;
  return ems * font_size;
}

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      const bool padding = i + j > bytes.size();
      text += padding ? '=' : kDigits[group >> (18 - 6 * j) & 63];
    }
  }
  return text;
}

}  // namespace cosformer::report
