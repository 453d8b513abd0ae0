#include "runtime/text_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "contains.h"
#include "formats/utf8.h"
#include "sentencepiece_models.h"

namespace cosformer {
namespace {

using testing::Contains;
using testing::ForeignModel;
using testing::Lossless;
using testing::MessageOf;
using Tokens = std::vector<int32_t>;
using Strings = std::vector<std::string>;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string Encoded(uint32_t c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

// All that characters begin with and are not whole. The last byte of one is any of 64.
const std::set<std::string>& Beginnings() {
  static const std::set<std::string> all = [] {
    std::set<std::string> beginnings;
    for (uint32_t c = 0x80; c < 0x110000; c += 64) {
      if (c >= 0xD800 && c < 0xE000) continue;
      const std::string bytes = Encoded(c);
      for (size_t n = 1; n < bytes.size(); ++n) beginnings.insert(bytes.substr(0, n));
    }
    return beginnings;
  }();
  return all;
}

// U+FFFD for each longest beginning of a character that does not become one, and each byte that
// begins none; what is cut off at the end is left out unless the text is finished.
std::string NaiveCharacters(const std::string& bytes, bool finished) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
    size_t n = 0;
    while (at + n < bytes.size() && Beginnings().contains(bytes.substr(at, n + 1))) ++n;
    if (n > 0 && at + n == bytes.size() && !finished) break;
    const size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
    const bool last_is_there = at + n < bytes.size() && (byte(n) & 0xC0) == 0x80;
    if (length == 1 || (n > 0 && n + 1 == length && last_is_there)) {
      text += bytes.substr(at, length);
      at += length;
    } else {
      text += kReplacement;
      at += std::max<size_t>(n, 1);
    }
  }
  return text;
}

struct Shown {
  std::string text;
  bool stopped = false;
};

// The first end of a stop string, and the longest that ends there; without one, what may become one
// is left out unless the text is finished.
Shown NaiveShown(const std::string& text, const Strings& stops, bool finished) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string_view upto = std::string_view(text).substr(0, end);
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (upto.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  size_t held_back = 0;
  for (const std::string& stop : stops) {
    for (size_t n = 1; n < stop.size() && !finished; ++n) {
      if (text.ends_with(stop.substr(0, n))) held_back = std::max(held_back, n);
    }
  }
  return {text.substr(0, text.size() - held_back), false};
}

// At every token all that is certain has been shown, and no more.
void CheckStream(const Tokenizer& tokenizer, const Tokens& tokens, const Strings& stops,
                 const Tokens& before = {}) {
  TextStream stream(tokenizer, stops, before);
  const size_t skipped = tokenizer.Decode(before).size();
  Tokens all = before;
  std::string text;
  for (const int32_t token : tokens) {
    all.push_back(token);
    text += stream.Add(token);
    const std::string bytes = tokenizer.Decode(all).substr(skipped);
    const Shown expected = NaiveShown(NaiveCharacters(bytes, false), stops, false);
    ASSERT_EQ(text, expected.text) << ::testing::PrintToString(tokens) << " after " << all.size();
    ASSERT_EQ(stream.stopped(), expected.stopped);
    ASSERT_TRUE(IsUtf8(text));
  }
  text += stream.Finish();
  const std::string bytes = tokenizer.Decode(all).substr(skipped);
  const Shown expected = NaiveShown(NaiveCharacters(bytes, true), stops, true);
  ASSERT_EQ(text, expected.text) << ::testing::PrintToString(tokens);
  ASSERT_EQ(stream.stopped(), expected.stopped);
  ASSERT_EQ(stream.Finish(), "");
}

// Parts of the text itself, cut between characters and sometimes changed at the end, and others.
Strings RandomStops(const std::string& text, std::mt19937& random) {
  Strings stops;
  for (size_t i = random() % 4; i > 0; --i) {
    std::string stop;
    size_t at = text.empty() ? 0 : random() % text.size();
    for (size_t n = 1 + random() % 6; n > 0 && at < text.size();) {
      const size_t length = Utf8Length(std::string_view(text).substr(at));
      stop += text.substr(at, length);
      n -= length > 0;
      at += std::max<size_t>(length, 1);
    }
    const char* const ends[] = {"", "", "a", " ", "\n", "\xC3\xA9", "\xEF\xBF\xBD"};
    stop += ends[random() % std::size(ends)];
    stops.push_back(stop.empty() ? "ab" : stop);
  }
  return stops;
}

void CheckRandomStreams(const Tokenizer& tokenizer, const std::vector<Tokens>& alphabets,
                        int rounds) {
  std::mt19937 random(1);
  for (int round = 0; round < rounds; ++round) {
    const Tokens& alphabet = alphabets[static_cast<size_t>(round) % alphabets.size()];
    const auto some = [&](size_t most) {
      Tokens tokens(random() % (most + 1));
      for (int32_t& token : tokens) token = alphabet[random() % alphabet.size()];
      return tokens;
    };
    const Tokens tokens = some(40);
    const Tokens before = round % 2 == 0 ? Tokens() : some(5);
    const std::string text = NaiveCharacters(tokenizer.Decode(tokens), true);
    CheckStream(tokenizer, tokens, RandomStops(text, random), before);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

Tokens AllOf(const Tokenizer& tokenizer) {
  Tokens all(static_cast<size_t>(tokenizer.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  return all;
}

TEST(TextStream, BytesGiveTheWholeDecode) {
  const Tokenizer bytes = Tokenizer::Bytes();
  CheckRandomStreams(bytes,
                     {AllOf(bytes),
                      {'a', 'b'},
                      {'a', 'b', 'a', 'b', '\n', 256, 257, 258, 259},
                      {0xC3, 0xA9, 'a'},
                      {0xE2, 0x96, 0x81, 0xF0, 0x9F, 0x98, 0x80, 'a', 258},
                      {0xEF, 0xBF, 0xBD, 0xFF},
                      {0xE0, 0x80, 0x9F, 0xA0, 0xED, 0xF4, 0x8F, 0x90, 0xC2, 0xF5}},
                     3000);
}

TEST(TextStream, WordsGiveTheWholeDecode) {
  const Tokenizer words = Tokenizer::Words({"a", "b", "ab", "caf\xC3\xA9", "the", ",", "\x01"});
  CheckRandomStreams(words, {AllOf(words), {5, 6, 7}, {1, 2, 3, 5}}, 1500);
}

TEST(TextStream, PiecesGiveTheWholeDecode) {
  CheckRandomStreams(
      Lossless(), {AllOf(Lossless()), Lossless().Encode("the attention\n of a caf\xC3\xA9")}, 1000);
  // A blank before each line, which is not shown; with bytes, and without.
  const Tokenizer foreign = Tokenizer::SentencePiece(ForeignModel());
  Tokens lines = foreign.Encode("the attention\n of  a");
  lines.push_back(foreign.special().begin);
  CheckRandomStreams(foreign, {AllOf(foreign), lines}, 1000);
  const Tokenizer bytes =
      Tokenizer::SentencePiece(ForeignModel({{"vocab_size", "300"}, {"byte_fallback", "true"}}));
  CheckRandomStreams(bytes, {AllOf(bytes), bytes.Encode("the \xE4\xB8\xAD\n \xF0\x9F\x98\x80")},
                     1000);
}

Strings Parts(TextStream stream, const Tokenizer& tokenizer, const std::string& text) {
  Strings parts;
  for (const int32_t token : tokenizer.Encode(text)) parts.push_back(stream.Add(token));
  parts.push_back(stream.Finish());
  return parts;
}

TEST(TextStream, ACharacterIsShownWhenItIsWhole) {
  const Tokenizer bytes = Tokenizer::Bytes();
  EXPECT_EQ(Parts(TextStream(bytes), bytes,
                  "a\xC3\xA9"
                  "b"),
            (Strings{"a", "", "\xC3\xA9", "b", ""}));
  EXPECT_EQ(Parts(TextStream(bytes), bytes, "\xF0\x9F\x98\x80"),
            (Strings{"", "", "", "\xF0\x9F\x98\x80", ""}));
  // It can't become one: at the byte that shows it, or at the end.
  EXPECT_EQ(Parts(TextStream(bytes), bytes,
                  "\xF0\x9F"
                  "b"),
            (Strings{"", "",
                     "\xEF\xBF\xBD"
                     "b",
                     ""}));
  EXPECT_EQ(Parts(TextStream(bytes), bytes, "\xFF\xE2\x96"),
            (Strings{"\xEF\xBF\xBD", "", "", "\xEF\xBF\xBD"}));
}

TEST(TextStream, WhatMayBecomeAStopStringWaits) {
  const Tokenizer bytes = Tokenizer::Bytes();
  EXPECT_EQ(Parts(TextStream(bytes, {"\n\n"}), bytes, "a\nb\n"),
            (Strings{"a", "", "\nb", "", "\n"}));
  EXPECT_EQ(Parts(TextStream(bytes, {"\n\n"}), bytes, "a\n\nb"), (Strings{"a", "", "", "", ""}));
  // The second of two beginnings is the one that goes on.
  EXPECT_EQ(Parts(TextStream(bytes, {"aab"}), bytes, "aaab"), (Strings{"", "", "a", "", ""}));
}

TEST(TextStream, TheFirstStopStringToBeCompleteCountsAndOfTheseTheLongest) {
  const Tokenizer bytes = Tokenizer::Bytes();
  const auto text = [&](const Strings& stops, const std::string& all) {
    std::string shown;
    for (const std::string& part : Parts(TextStream(bytes, stops), bytes, all)) shown += part;
    return shown;
  };
  EXPECT_EQ(text({"abcd", "bc"}, "xabcd"), "xa");
  EXPECT_EQ(text({"c", "bc", "abc"}, "xabc"), "x");
  EXPECT_EQ(text({"abcd", "c"}, "xabcd"), "xab");
  EXPECT_EQ(text({"b", "b"}, "abab"), "a");
}

TEST(TextStream, AStopStringMayLieWithinOneTokenOrAcrossSeveral) {
  const Tokenizer words = Tokenizer::Words({"word", "sword", "fish"});
  TextStream within(words, {"wor"});
  EXPECT_EQ(within.Add(6), "s");
  EXPECT_TRUE(within.stopped());
  EXPECT_EQ(within.Add(7), "");
  EXPECT_EQ(within.Finish(), "");
  TextStream across(words, {"d f"});
  EXPECT_EQ(across.Add(5), "wor");
  EXPECT_FALSE(across.stopped());
  EXPECT_EQ(across.Add(7), "");
  EXPECT_TRUE(across.stopped());
}

TEST(TextStream, ATextGoesOnAfterItsPrompt) {
  const Tokenizer words = Tokenizer::Words({"the", "cat"});
  EXPECT_EQ(TextStream(words).Add(6), "cat");
  EXPECT_EQ(TextStream(words, {}, Tokens{5}).Add(6), " cat");
  EXPECT_EQ(TextStream(words, {}, Tokens{5, 2}).Add(6), "cat");
  const Tokenizer foreign = Tokenizer::SentencePiece(ForeignModel());
  const Tokens the = foreign.Encode("the");
  const std::string first = TextStream(foreign).Add(the[0]);
  EXPECT_EQ(TextStream(foreign, {}, the).Add(the[0]), " " + first);
  // Of the prompt nothing is shown, nor does a stop string begin in it.
  const Tokenizer bytes = Tokenizer::Bytes();
  TextStream stream(bytes, {"ab"}, Tokens{'a', 0xC3});
  EXPECT_EQ(stream.Add('b'), "b");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(TextStream, ACopyGoesOnAsTheOriginalWould) {
  const Tokenizer bytes = Tokenizer::Bytes();
  TextStream original(bytes, {"stop"});
  for (const char byte : std::string("a st")) original.Add(byte);
  TextStream copy = original;
  EXPECT_EQ(Parts(copy, bytes, "op"), (Strings{"", "", ""}));
  EXPECT_EQ(Parts(copy, bytes, "ab"), (Strings{"sta", "b", ""}));
  EXPECT_EQ(Parts(original, bytes, "\xC3\xA9"), (Strings{"", "st\xC3\xA9", ""}));
}

TEST(TextStream, AfterTheEndThereIsNothing) {
  const Tokenizer bytes = Tokenizer::Bytes();
  TextStream stream(bytes, {"xy"});
  EXPECT_EQ(stream.Add('x'), "");
  EXPECT_EQ(stream.Finish(), "x");
  EXPECT_EQ(stream.Add('y'), "");
  EXPECT_EQ(stream.Add('z'), "");
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStream, StopStringsThatCannotBeMeantAreRefused) {
  const auto message = [](const Strings& stops) {
    return MessageOf([&] { TextStream(Tokenizer::Bytes(), stops); });
  };
  EXPECT_TRUE(Contains(message({"a", ""}), "stop string 2 is empty"));
  EXPECT_TRUE(Contains(message({"a\xC3"}), "stop string 1 is not UTF-8 from its byte 2 (0xC3) on"));
  EXPECT_EQ(message({"\xC3\xA9", "a", std::string(1, '\0')}), "");
}

TEST(TextStream, TokensOutsideTheVocabularyChangeNothing) {
  const Tokenizer bytes = Tokenizer::Bytes();
  TextStream stream(bytes, {"ab"});
  EXPECT_EQ(stream.Add('a'), "");
  EXPECT_TRUE(Contains(MessageOf([&] { stream.Add(260); }), "token 260 is outside"));
  EXPECT_TRUE(Contains(MessageOf([&] { stream.Add(-1); }), "token -1 is outside"));
  EXPECT_EQ(stream.Add('c'), "ac");
  EXPECT_TRUE(Contains(MessageOf([&] { TextStream(bytes, {}, Tokens{260}); }), "token 260"));
}

}  // namespace
}  // namespace cosformer
