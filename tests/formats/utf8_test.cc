#include "formats/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace cosformer {
namespace {

std::string Encoded(uint32_t c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

TEST(Utf8, EveryCharacterHasItsLengthAndSurrogatesNone) {
  for (uint32_t c = 0; c < 0x120000; ++c) {
    const std::string bytes = Encoded(c);
    const bool valid = c < 0x110000 && (c < 0xD800 || c > 0xDFFF);
    ASSERT_EQ(Utf8Length(bytes), valid ? bytes.size() : 0) << c;
    ASSERT_EQ(Utf8Length(bytes + "x"), valid ? bytes.size() : 0) << c;
  }
}

TEST(Utf8, WhatIsCutOffOrOverlongIsNone) {
  for (const char* text :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xC3",
        "\xE2\x96", "\xF0\x9F\x98", "\xC3\x28", "\xE2\x28\x81", "\xE2\x96\x28", "\xF0\x9F\x98\x28",
        "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(Utf8Length(text), 0u) << ::testing::PrintToString(text);
    EXPECT_FALSE(IsUtf8(std::string("a") + text));
  }
  EXPECT_EQ(Utf8Length(""), 0u);
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("a\xC3\xA4\xE2\x96\x81\xF0\x9F\x98\x80"));
}

// From the Unicode standard, table 3-8 and its neighbours: U+FFFD for each.
TEST(Utf8, BrokenBytesCountAsFarAsACharacterMayBegin) {
  const auto broken = [](std::string_view text) {
    const Utf8Start start = StartOfUtf8(text);
    EXPECT_EQ(start.part, Utf8Part::kBroken) << ::testing::PrintToString(text);
    return start.length;
  };
  EXPECT_EQ(broken("\x80"), 1u);
  EXPECT_EQ(broken("\xFF"), 1u);
  EXPECT_EQ(broken("\xC0\xAF"), 1u);
  EXPECT_EQ(broken("\xE0\x80\xBF"), 1u);
  EXPECT_EQ(broken("\xED\xA0\x80"), 1u);
  EXPECT_EQ(broken("\xF4\x91\x92\x93"), 1u);
  EXPECT_EQ(broken("\xC3("), 1u);
  EXPECT_EQ(broken("\xE1\x80\xE2"), 2u);
  EXPECT_EQ(broken("\xF0\x91\x92\xF1"), 3u);
}

// Every start of a character is cut, and broken as far as it goes when another one follows.
TEST(Utf8, WhatIsCutCanStillBecomeACharacter) {
  for (uint32_t c = 0; c < 0x110000; c += c < 0x1000 ? 1 : 61) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const std::string bytes = Encoded(c);
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      const Utf8Start start = StartOfUtf8(std::string_view(bytes).substr(0, cut));
      ASSERT_EQ(start.part, Utf8Part::kCut) << c;
      ASSERT_EQ(start.length, cut) << c;
    }
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const Utf8Start start = StartOfUtf8(bytes.substr(0, cut) + "x");
      ASSERT_EQ(start.part, Utf8Part::kBroken) << c;
      ASSERT_EQ(start.length, cut) << c;
    }
  }
}

TEST(Utf8, WhatCannotBeShownIsPrintedAsNumbers) {
  EXPECT_EQ(Printable("", 9), "");
  EXPECT_EQ(Printable("caf\xC3\xA9 \xF0\x9F\x98\x80", 99), "caf\xC3\xA9 \xF0\x9F\x98\x80");
  EXPECT_EQ(Printable(std::string("\0\n\x1F\x7F\xFF\xC3", 6), 99), R"(\x00\x0a\x1f\x7f\xff\xc3)");
  EXPECT_EQ(Printable("abc", 3), "abc");
  EXPECT_EQ(Printable("abcd", 3), "abc...");
  EXPECT_EQ(Printable("ab\xC3\xA9", 4), "ab\xC3\xA9");
  EXPECT_EQ(Printable("ab\xC3\xA9", 3), "ab...") << "no half of a character";
}

TEST(Utf8, TextsAreCutAtBlanksElseBetweenCharacters) {
  EXPECT_EQ(CutLength("", 4), 0u);
  EXPECT_EQ(CutLength("abc efgh", 4), 8u);
  EXPECT_EQ(CutLength("abcd fghijkl", 4), 4u);
  EXPECT_EQ(CutLength("abcdef hijkl", 4), 6u);
  EXPECT_EQ(CutLength("abcdefgh jkl", 4), 8u);
  EXPECT_EQ(CutLength("ab defghijkl", 4), 8u);
  EXPECT_EQ(CutLength("abcdefg\xC3\xA4jkl", 4), 7u);
  EXPECT_EQ(CutLength("abcdef\xE2\x96\x81jkl", 4), 6u);
  EXPECT_EQ(CutLength("abcde\xF0\x9F\x98\x80jkl", 4), 5u);
  EXPECT_EQ(CutLength(std::string(100, '\x80'), 4), 5u);
  EXPECT_EQ(CutLength(std::string(100, '\x80'), 1), 1u);
}

}  // namespace
}  // namespace cosformer
