#include "data/utf8.h"
#include "formats/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "contains.h"

namespace cosformer::data {
namespace {

using testing::MessageOf;

// By the definition: decode by the lead byte's pattern, then ask whether the code is a character
// and whether it was written as short as it can be.
size_t NaiveFindInvalid(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = (lead & 0x80) == 0x00   ? 1
                          : (lead & 0xE0) == 0xC0 ? 2
                          : (lead & 0xF0) == 0xE0 ? 3
                          : (lead & 0xF8) == 0xF0 ? 4
                                                  : 0;
    if (length == 0 || i + length > text.size()) return i;
    uint32_t code = length == 1 ? lead : lead & (0x7F >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if ((byte & 0xC0) != 0x80) return i;
      code = code << 6 | (byte & 0x3F);
    }
    const size_t shortest = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (shortest != length || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return i;
    i += length;
  }
  return text.size();
}

TEST(Utf8, EverySequenceOfFourBytesAtTheBordersIsJudgedByTheDefinition) {
  constexpr unsigned char kBytes[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                      0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED,
                                      0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
  for (const unsigned char a : kBytes) {
    for (const unsigned char b : kBytes) {
      for (const unsigned char c : kBytes) {
        for (const unsigned char d : kBytes) {
          const char bytes[] = {static_cast<char>(a), static_cast<char>(b), static_cast<char>(c),
                                static_cast<char>(d)};
          const std::string_view text(bytes, 4);
          ASSERT_EQ(FindInvalidUtf8(text), NaiveFindInvalid(text))
              << std::hex << +a << " " << +b << " " << +c << " " << +d;
        }
      }
    }
  }
}

TEST(Utf8, RandomTextsAreJudgedByTheDefinition) {
  std::mt19937 random(1);
  const std::string parts[] = {
      "a", "plain ascii, longer than eight", "é", "€", "🙂", "\xE2\x82", "\xFF", "\n"};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int part = static_cast<int>(random() % 12); part > 0; --part) {
      text += parts[random() % 40 == 0 ? 5 + random() % 2 : random() % 5];
    }
    ASSERT_EQ(FindInvalidUtf8(text), NaiveFindInvalid(text)) << text;
  }
}

TEST(Utf8, ABoundaryIsNeverWithinACharacter) {
  const std::string text = "aé€🙂b";  // beginning at 0, 1, 3, 6, 10
  const size_t expected[] = {1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
  for (size_t most = 1; most <= text.size(); ++most) {
    EXPECT_EQ(Utf8Boundary(text, most), expected[most - 1]) << most;
  }
}

TEST(Utf8, WhereNoCharacterIsTheBoundaryIsWhereItWasAsked) {
  EXPECT_EQ(Utf8Boundary("\x80\x80\x80\x80\x80\x80\x80\x80", 6), 6u);
  EXPECT_EQ(Utf8Boundary("\xE2\x82\xAC", 2), 2u);
}

TEST(Utf8, ThePositionFollowsTheText) {
  TextPosition position;
  position.Pass("abc");
  EXPECT_EQ(position.line, 1);
  EXPECT_EQ(position.column, 4);
  position.Pass("d\n\nxy");
  EXPECT_EQ(position.line, 3);
  EXPECT_EQ(position.column, 3);
  EXPECT_EQ(position.offset, 8);
  position.Pass("\n");
  EXPECT_EQ(position.line, 4);
  EXPECT_EQ(position.column, 1);
}

TEST(Utf8, TheErrorNamesThePlaceAndWhatToDo) {
  EXPECT_EQ(MessageOf([] { CheckUtf8("fine é\n", "a.txt", {}); }), "");
  EXPECT_EQ(MessageOf([] {
              CheckUtf8("one\ntwo\ncaf\xE9 noir", "a.txt",
                        {.line = 10, .column = 5, .offset = 100});
            }),
            "\"a.txt\", line 12, column 4 (offset 111): byte 0xE9 is not UTF-8; convert the file, "
            "as by iconv -f LATIN1 -t UTF-8, or train a model with --tokenizer bytes");
}

}  // namespace
}  // namespace cosformer::data
