#include "data/tasks/bytes_literal.h"

#include <gtest/gtest.h>

namespace cosformer::data {
namespace {

TEST(BytesLiteral, EscapesBecomeTheirBytes) {
  EXPECT_EQ(DecodeBytesLiteral(R"(b'plain')"), "plain");
  EXPECT_EQ(DecodeBytesLiteral(R"(b'a\tb\nc\rd\\e\'f\"g')"), "a\tb\nc\rd\\e'f\"g");
  EXPECT_EQ(DecodeBytesLiteral(R"(b"it's")"), "it's");
  EXPECT_EQ(DecodeBytesLiteral(R"(b'na\xc3\xafve \xE2\x82\xac')"), "naïve €");
  EXPECT_EQ(DecodeBytesLiteral(R"(b'\\xc3\\n')"), R"(\xc3\n)");
  EXPECT_EQ(DecodeBytesLiteral(R"(b'\x00')"), std::string(1, '\0'));
  EXPECT_EQ(DecodeBytesLiteral("b''"), "");
}

TEST(BytesLiteral, WhatIsNoLiteralComesBackAsItIs) {
  for (const char* text : {"", "b", "b'", "b\"", "b'x", "b'x\"", "'x'", "B'x'", "text \\n b'x'"}) {
    EXPECT_EQ(DecodeBytesLiteral(text), text);
  }
}

TEST(BytesLiteral, ABackslashThatBeginsNothingKnownStays) {
  for (const char* inner : {"\\q", "x\\", "\\x", "\\x4", "\\xg0", "\\x0g", "\\x-1", "\\x+1"}) {
    EXPECT_EQ(DecodeBytesLiteral("b'" + std::string(inner) + "'"), inner);
  }
}

}  // namespace
}  // namespace cosformer::data
