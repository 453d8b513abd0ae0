// Text of every kind, on its way into an SVG file.
#include "report/xml_text.h"

#include <gtest/gtest.h>

#include <string>

namespace cosformer::report {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

TEST(XmlTextTest, MarkupIsEscaped) {
  EXPECT_EQ(EscapeXml("a < b && \"c\" > 'd'"),
            "a &lt; b &amp;&amp; &quot;c&quot; &gt; &apos;d&apos;");
  EXPECT_EQ(EscapeXml("µ × 日本 😀\n\t"), "µ × 日本 😀\n\t");
}

TEST(XmlTextTest, WhatXmlForbidsIsReplaced) {
  EXPECT_EQ(EscapeXml("bell\x07"), std::string("bell") + kReplacement);
  EXPECT_EQ(EscapeXml(std::string(1, '\0')), kReplacement);
  // U+FFFE and U+FFFF; U+FFFD, before them, is a character.
  for (const char* forbidden : {"\xEF\xBF\xBE", "\xEF\xBF\xBF", "\xEF\xBF\xBD"}) {
    EXPECT_EQ(EscapeXml(forbidden), kReplacement);
  }
  EXPECT_EQ(EscapeXml("\xEF\xBF\xBC"), "\xEF\xBF\xBC");
  // A lone continuation, an overlong slash, a surrogate, beyond U+10FFFF, and a sequence that ends
  // too early.
  for (const char* bad : {"\x80", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    std::string expected;
    for (size_t i = 0; i < std::string(bad).size(); ++i) expected += kReplacement;
    EXPECT_EQ(EscapeXml(bad), expected);
  }
}

TEST(XmlTextTest, EveryCharacterIsDecodedAtTheEdgesOfItsLength) {
  EXPECT_EQ(DecodeUtf8("\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF"
                       "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"),
            (std::u32string{0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF}));
}

TEST(XmlTextTest, BytesOfEveryLengthHaveTheirDigits) {
  // The examples of RFC 4648, and all digits.
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foo"), "Zm9v");
  EXPECT_EQ(Base64("foob"), "Zm9vYg==");
  EXPECT_EQ(Base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64(std::string("\0\x10\x83\xFB\xFF\xFE", 6)), "ABCD+//+");
}

TEST(XmlTextTest, TokensThatWouldBeBlankGetASign) {
  EXPECT_EQ(VisibleText(" the\n", 16), "␣the↵");
  EXPECT_EQ(VisibleText("\t\r\x1B\x7F", 16), "⇥␍␛␡");
  EXPECT_EQ(VisibleText(std::string_view("\0", 1), 16), "␀");
  EXPECT_EQ(VisibleText("\xC2\x85|\xE2\x80\xAE", 16), "U+0085|U+202E");
  EXPECT_EQ(VisibleText("▁the", 16), "▁the");
  EXPECT_EQ(VisibleText("<&>", 16), "<&>");
  EXPECT_EQ(VisibleText("", 16), "");
}

TEST(XmlTextTest, LongTokensAreCutBetweenCharacters) {
  EXPECT_EQ(VisibleText("日本語日本語", 6), "日本語日本語");
  EXPECT_EQ(VisibleText("日本語日本語日", 6), "日本語日本…");
  EXPECT_EQ(VisibleText("😀😀😀", 2), "😀…");
  EXPECT_EQ(VisibleText("ab", 1), "…");
  EXPECT_EQ(VisibleText("\xE2\x80\x8B\xE2\x80\x8B", 8), "U+200BU…");
  // Bytes that aren't UTF-8 count as the signs that stand for them.
  EXPECT_EQ(DecodeUtf8(VisibleText(std::string(1000, '\x80'), 5)),
            std::u32string(4, 0xFFFD) + U'…');
}

TEST(XmlTextTest, WidthGrowsWithCharactersAndNotWithBytes) {
  EXPECT_DOUBLE_EQ(TextWidth("aé", 10), 2 * TextWidth("a", 10));
  EXPECT_DOUBLE_EQ(TextWidth("ab", 20), 2 * TextWidth("ab", 10));
  EXPECT_DOUBLE_EQ(TextWidth("日", 12), 12);
  EXPECT_DOUBLE_EQ(TextWidth("", 12), 0);
}

}  // namespace
}  // namespace cosformer::report
