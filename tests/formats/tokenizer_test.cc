#include "formats/tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "contains.h"
#include "sentencepiece_models.h"

namespace cosformer {
namespace {

using testing::Contains;
using testing::ForeignModel;
using testing::Lossless;
using testing::MessageOf;
using testing::SampleText;
using Tokens = std::vector<int32_t>;

std::string RandomBytes(std::mt19937& random, size_t most) {
  std::string text(random() % (most + 1), ' ');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Of letters, blanks and line ends with other characters and broken ones among them.
std::string RandomText(std::mt19937& random, size_t parts) {
  const std::string kParts[] = {"the ",
                                "attention",
                                " ",
                                "  ",
                                "\n",
                                "\n\n",
                                "\r\n",
                                "\t",
                                "a",
                                "caf\xC3\xA9",
                                "\xE4\xB8\xAD",
                                "\xF0\x9F\x98\x80",
                                ".",
                                "\xE2\x96\x81",
                                "<s>",
                                "</s>",
                                "<sep>",
                                "<mask>",
                                "<unk>",
                                "<0x0A>",
                                "\xFF",
                                "\xE2\x96",
                                "\xE2\x96\x85",
                                "\xC3",
                                std::string(1, '\0')};
  std::string text;
  for (size_t i = random() % (parts + 1); i > 0; --i) text += kParts[random() % std::size(kParts)];
  return text;
}

std::string Word(int number) { return fmt::format("w{}", number); }

TEST(Tokenizer, KindsHaveNames) {
  EXPECT_EQ(Name(TokenizerKind::kBytes), "bytes");
  EXPECT_EQ(Name(TokenizerKind::kWords), "words");
  EXPECT_EQ(Name(TokenizerKind::kSentencePiece), "sentencepiece");
  EXPECT_EQ(Tokenizer::Bytes().kind(), TokenizerKind::kBytes);
  EXPECT_EQ(Tokenizer::Words({"a"}).kind(), TokenizerKind::kWords);
  EXPECT_EQ(Lossless().kind(), TokenizerKind::kSentencePiece);
}

TEST(Tokenizer, EveryByteIsItsOwnTokenAndComesBack) {
  const Tokenizer bytes = Tokenizer::Bytes();
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const Tokens tokens = bytes.Encode(all);
  ASSERT_EQ(tokens.size(), 256u);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(tokens[static_cast<size_t>(i)], i);
  EXPECT_EQ(bytes.Decode(tokens), all);
  EXPECT_EQ(bytes.size(), 260);
  EXPECT_EQ(bytes.special().unknown, -1);
  EXPECT_EQ(bytes.special().begin, 256);
  EXPECT_EQ(bytes.special().end, 257);
  EXPECT_EQ(bytes.special().separator, 258);
  EXPECT_EQ(bytes.special().mask, 259);
  EXPECT_EQ(bytes.Decode(Tokens{256, 'a', 258, 'b', 259, 257}), "ab");
}

TEST(Tokenizer, EncodeAppends) {
  for (const Tokenizer& tokenizer : {Tokenizer::Bytes(), Tokenizer::Words({"a"}), Lossless()}) {
    Tokens tokens = {7};
    tokenizer.Encode("a", tokens);
    const Tokens alone = tokenizer.Encode("a");
    ASSERT_EQ(tokens.size(), 1 + alone.size());
    EXPECT_EQ(tokens[0], 7);
    EXPECT_EQ(Tokens(tokens.begin() + 1, tokens.end()), alone);
    EXPECT_TRUE(tokenizer.Encode("").empty());
    EXPECT_EQ(tokenizer.Decode({}), "");
  }
}

TEST(Tokenizer, WordsComeAfterTheSpecialOnes) {
  const Tokenizer words = Tokenizer::Words({"the", "cat"});
  EXPECT_EQ(words.size(), 7);
  EXPECT_EQ(words.special().unknown, 0);
  EXPECT_EQ(words.special().begin, 1);
  EXPECT_EQ(words.special().end, 2);
  EXPECT_EQ(words.special().separator, 3);
  EXPECT_EQ(words.special().mask, 4);
  EXPECT_EQ(words.Encode(" the  cat\tsat\r\n\nthe"), (Tokens{5, 6, 0, 2, 2, 5}));
  EXPECT_EQ(words.Decode(Tokens{5, 6, 0, 2, 2, 5}), "the cat <unk>\n\nthe");
  EXPECT_EQ(words.Decode(Tokens{1, 5, 3, 6, 4, 2, 1, 6}), "the cat\ncat");
}

TEST(Tokenizer, SpecialWordsInTheVocabularyKeepTheirPlace) {
  const Tokenizer words = Tokenizer::Words({"a", "<unk>", "b", "</s>"});
  EXPECT_EQ(words.size(), 7);
  EXPECT_EQ(words.special().begin, 0);
  EXPECT_EQ(words.special().separator, 1);
  EXPECT_EQ(words.special().mask, 2);
  EXPECT_EQ(words.special().unknown, 4);
  EXPECT_EQ(words.special().end, 6);
  EXPECT_EQ(words.Encode("a <unk> c\nb"), (Tokens{3, 4, 4, 6, 5}));
}

TEST(Tokenizer, ATextCannotHoldSpecialWordsThatAreNotInTheVocabulary) {
  const Tokenizer words = Tokenizer::Words({"a"});
  EXPECT_EQ(words.Encode("<s> </s> <sep> <mask> <unk> \xFF"), (Tokens{0, 0, 0, 0, 0, 0}));
}

TEST(Tokenizer, WordsEqualTheNaiveTwinOnRandomTexts) {
  std::mt19937 random(1);
  std::vector<std::string> vocabulary;
  std::unordered_map<std::string, int32_t> twin;
  for (int i = 0; i < 300; ++i) {
    vocabulary.push_back(Word(i * i));
    twin[vocabulary.back()] = 5 + i;
  }
  const Tokenizer words = Tokenizer::Words(vocabulary);
  for (int round = 0; round < 100; ++round) {
    std::string text;
    for (size_t i = random() % 60; i > 0; --i) {
      text += Word(static_cast<int>((random() % 400) * (random() % 400)));
      text += std::string(1 + random() % 2, " \t\n\v\f\r"[random() % 6]);
    }
    Tokens expected;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream in(line);
      for (std::string word; in >> word;) expected.push_back(twin.contains(word) ? twin[word] : 0);
      if (!lines.eof()) expected.push_back(2);
    }
    ASSERT_EQ(words.Encode(text), expected) << text;
    // Blanks are all that is lost.
    const std::string once = words.Decode(expected);
    ASSERT_EQ(words.Encode(once), expected);
    ASSERT_EQ(once.find("  "), std::string::npos);
    ASSERT_EQ(once.find(" \n"), std::string::npos);
    ASSERT_EQ(once.find("\n "), std::string::npos);
  }
}

TEST(Tokenizer, VocabulariesNobodyMeantAreRefused) {
  const auto message = [](std::vector<std::string> words) {
    return MessageOf([&] { Tokenizer::Words(words); });
  };
  EXPECT_TRUE(Contains(message({}), "no words"));
  EXPECT_TRUE(Contains(message({"a", ""}), "word 2 of the vocabulary, \"\", is empty"));
  EXPECT_TRUE(Contains(message({"a b"}), "word 1 of the vocabulary, \"a b\", has a blank in it"));
  EXPECT_TRUE(Contains(message({"a", " b"}), "has a blank"));
  EXPECT_TRUE(Contains(message({"b\n"}), "\"b\\x0a\", has a blank"));
  EXPECT_TRUE(Contains(message({"\t"}), "has a blank"));
  EXPECT_TRUE(Contains(message({"\xFF"}), "\"\\xff\", is not UTF-8"));
  EXPECT_TRUE(Contains(message({"a", "b", "a"}), "the word \"a\" stands twice"));
  EXPECT_TRUE(Contains(message({"<unk>", "<unk>"}), "stands twice"));
  const std::string large = message({std::string(33 << 20, 'a')});
  EXPECT_TRUE(Contains(large, "at most 32.0 MiB"));
  EXPECT_LT(message({std::string(1000, ' ')}).size(), 300u);
}

TEST(Tokenizer, EveryTextComesBackFromALosslessModel) {
  std::mt19937 random(2);
  for (const char* text : {"",
                           " ",
                           "  ",
                           "\n",
                           "\n\n\n",
                           " \n ",
                           "a",
                           " a",
                           "a ",
                           "a\n",
                           "\na",
                           "\r\n",
                           "a\r\n\r\nb\t\tc",
                           "\t",
                           "the  attention   of",
                           "<s> </s> <sep><mask><unk>",
                           "\\n",
                           "<0x0A>",
                           "\xE2\x96\x81",
                           "\xE2\x96\x81the\xE2\x96\x81",
                           "\xEF\xBF\xBD",
                           "\xF4\x8F\xBF\xBF",
                           "e\xCC\x81"}) {
    EXPECT_EQ(Lossless().Decode(Lossless().Encode(text)), text);
  }
  for (int round = 0; round < 500; ++round) {
    const std::string text = round % 2 ? RandomText(random, 30) : RandomBytes(random, 60);
    ASSERT_EQ(Lossless().Decode(Lossless().Encode(text)), text) << ::testing::PrintToString(text);
  }
}

TEST(Tokenizer, ATextCannotHoldTheSpecialTokensOfAModel) {
  const SpecialTokens& special = Lossless().special();
  EXPECT_EQ(special.unknown, 0);
  EXPECT_EQ(special.begin, 1);
  EXPECT_EQ(special.end, 2);
  EXPECT_EQ(special.separator, 3);
  EXPECT_EQ(special.mask, 4);
  for (const int32_t token : Lossless().Encode("<unk><s></s><sep><mask>\n\xFF\xE2\x96\x85")) {
    EXPECT_GT(token, 4);
  }
  EXPECT_EQ(Lossless().Decode(Tokens{1, 3, 4, 2}), "");
  EXPECT_EQ(Lossless().Decode(Tokens{0}), "<unk>");
}

TEST(Tokenizer, TheTokensOfPartsAreThePartsOfTheText) {
  const Tokens tokens = Lossless().Encode(SampleText().substr(0, 2000));
  std::string text;
  for (size_t i = 0; i < tokens.size(); i += 3) {
    text += Lossless().Decode(std::span(tokens).subspan(i, std::min<size_t>(3, tokens.size() - i)));
  }
  EXPECT_EQ(text, SampleText().substr(0, 2000));
}

TEST(Tokenizer, WhatATokenAddsDependsOnWhetherItStartsALine) {
  const auto added = [](const Tokenizer& tokenizer, int32_t token, bool line_starts) {
    std::string text = "before";
    tokenizer.Decode(token, line_starts, text);
    EXPECT_TRUE(text.starts_with("before"));
    return std::pair(text.substr(6), line_starts);
  };
  const Tokenizer words = Tokenizer::Words({"the", "cat"});
  EXPECT_EQ(added(words, 6, true), std::pair(std::string("cat"), false));
  EXPECT_EQ(added(words, 6, false), std::pair(std::string(" cat"), false));
  EXPECT_EQ(added(words, 2, false), std::pair(std::string("\n"), true));
  for (const bool starts : {false, true}) {
    EXPECT_EQ(added(words, 3, starts), std::pair(std::string(), starts));
  }
  const Tokenizer foreign = Tokenizer::SentencePiece(ForeignModel());
  const Tokens the = foreign.Encode("the");
  EXPECT_EQ(" " + added(foreign, the[0], true).first, added(foreign, the[0], false).first);
  EXPECT_EQ(added(foreign, 2, false), std::pair(std::string("\n"), true));
  EXPECT_EQ(added(foreign, 1, true), std::pair(std::string(), true));
}

TEST(Tokenizer, LineEndsAreOneTokenAndLinesAreEncodedAlone) {
  const Tokens newline = Lossless().Encode("\n");
  ASSERT_EQ(newline.size(), 1u);
  EXPECT_EQ(Lossless().Piece(newline[0]), "\\n");
  Tokens expected = Lossless().Encode("the attention");
  expected.push_back(newline[0]);
  expected.push_back(newline[0]);
  Lossless().Encode(" of a", expected);
  EXPECT_EQ(Lossless().Encode("the attention\n\n of a"), expected);
}

TEST(Tokenizer, ALineOfAnyLengthIsEncodedAsItsWordsAre) {
  std::string line;
  Tokens expected;
  while (line.size() < 500'000) {
    line += " attention of the";
    Lossless().Encode(" attention of the", expected);
  }
  EXPECT_EQ(Lossless().Encode(line), expected);
  std::string without_blanks;
  while (without_blanks.size() < 400'000) without_blanks += "caf\xC3\xA9";
  EXPECT_EQ(Lossless().Decode(Lossless().Encode(without_blanks)), without_blanks);

  const Tokenizer foreign = Tokenizer::SentencePiece(ForeignModel());
  expected.clear();
  while (expected.size() < line.size()) foreign.Encode("attention of the", expected);
  const Tokens tokens = foreign.Encode(line);
  expected.resize(tokens.size());
  EXPECT_EQ(tokens, expected);
  // One that keeps blanks as they are.
  const Tokenizer keeping =
      Tokenizer::SentencePiece(ForeignModel({{"remove_extra_whitespaces", "false"}}));
  EXPECT_EQ(keeping.Decode(keeping.Encode(line)), line);
}

TEST(Tokenizer, ModelsFromElsewhereAreUsedAsTheirLibraryDoes) {
  const std::string model = ForeignModel();
  const Tokenizer foreign = Tokenizer::SentencePiece(model);
  sentencepiece::SentencePieceProcessor processor;
  ASSERT_TRUE(processor.LoadFromSerializedProto(model).ok());
  for (const char* line : {"the attention of a sequence", " the  attention ", "caf\xC3\xA9 ",
                           "\xEF\xBD\x81ttention", "", "zzz the", "\xE2\x96\x81the"}) {
    const std::vector<int> ids = processor.EncodeAsIds(line);
    EXPECT_EQ(foreign.Encode(line), Tokens(ids.begin(), ids.end())) << line;
    if (std::find(ids.begin(), ids.end(), 0) == ids.end()) {
      EXPECT_EQ(foreign.Decode(foreign.Encode(line)), processor.DecodeIds(ids)) << line;
    }
  }
  Tokens begun = {foreign.special().begin};
  foreign.Encode("the", begun);
  EXPECT_EQ(foreign.Decode(begun), "the");
  // No piece for a line's end: it is the end.
  EXPECT_EQ(foreign.Encode("\n"), Tokens{2});
  EXPECT_EQ(foreign.Decode(foreign.Encode("the attention\n\nof  a\n")), "the attention\n\nof a\n");
  EXPECT_EQ(foreign.special().separator, -1);
  EXPECT_EQ(foreign.special().mask, -1);
  // Bytes that are no UTF-8 have no piece.
  EXPECT_EQ(foreign.Encode("\xFF").back(), 0);
}

TEST(Tokenizer, ALineEndIsAByteOrUnknownWhereAModelHasNoBetter) {
  const Tokenizer bytes =
      Tokenizer::SentencePiece(ForeignModel({{"vocab_size", "300"}, {"byte_fallback", "true"}}));
  ASSERT_EQ(bytes.Encode("\n").size(), 1u);
  EXPECT_EQ(bytes.Piece(bytes.Encode("\n")[0]), "<0x0A>");
  EXPECT_EQ(bytes.Decode(bytes.Encode("the\n of\n")), "the\nof\n");
  // A blank that is written as a byte is none that was thought of.
  const int32_t newline = bytes.Encode("\n")[0];
  EXPECT_EQ(bytes.Decode(Tokens{newline + ' ' - '\n'}), " ");
  const Tokenizer without = Tokenizer::SentencePiece(
      ForeignModel({{"eos_id", "-1"}, {"user_defined_symbols", "[SEP],[MASK]"}}));
  EXPECT_EQ(without.special().end, -1);
  EXPECT_EQ(without.Encode("\n"), Tokens{without.special().unknown});
  EXPECT_EQ(without.Piece(without.special().separator), "[SEP]");
  EXPECT_EQ(without.Piece(without.special().mask), "[MASK]");
  EXPECT_EQ(without.Decode(without.Encode("a[SEP]the")), "athe");
}

TEST(Tokenizer, APieceIsShownAsAPersonReadsIt) {
  const Tokenizer bytes = Tokenizer::Bytes();
  EXPECT_EQ(bytes.Piece('a'), "a");
  EXPECT_EQ(bytes.Piece('~'), "~");
  EXPECT_EQ(bytes.Piece('\n'), "<0x0A>");
  EXPECT_EQ(bytes.Piece(' '), "<0x20>");
  EXPECT_EQ(bytes.Piece(127), "<0x7F>");
  EXPECT_EQ(bytes.Piece(255), "<0xFF>");
  EXPECT_EQ(bytes.Piece(256), "<s>");
  EXPECT_EQ(bytes.Piece(257), "</s>");
  EXPECT_EQ(bytes.Piece(258), "<sep>");
  EXPECT_EQ(bytes.Piece(259), "<mask>");
  EXPECT_EQ(Tokenizer::Words({"cat"}).Piece(5), "cat");
  EXPECT_EQ(Tokenizer::Words({"cat"}).Piece(2), "</s>");
  const Tokens the = Lossless().Encode(" the");
  EXPECT_EQ(Lossless().Piece(the[0]).substr(0, 3), "\xE2\x96\x81");
}

TEST(Tokenizer, TokensOutsideTheVocabularyAreRefused) {
  for (const Tokenizer& tokenizer : {Tokenizer::Bytes(), Tokenizer::Words({"a"}), Lossless()}) {
    const auto size = static_cast<int32_t>(tokenizer.size());
    EXPECT_NO_THROW(tokenizer.Decode(Tokens{size - 1}));
    EXPECT_NO_THROW(tokenizer.Piece(size - 1));
    for (const int32_t token : {-1, size}) {
      const std::string sentence = fmt::format("token {} is outside", token);
      EXPECT_TRUE(Contains(MessageOf([&] { tokenizer.Decode(Tokens{0, token}); }), sentence));
      EXPECT_TRUE(Contains(MessageOf([&] { tokenizer.Piece(token); }), sentence));
      bool line_starts = true;
      std::string text;
      EXPECT_TRUE(
          Contains(MessageOf([&] { tokenizer.Decode(token, line_starts, text); }), sentence));
      EXPECT_EQ(text, "");
    }
  }
}

TEST(Tokenizer, FingerprintsDifferWhereEncodingsDo) {
  const Tokenizer tokenizers[] = {Tokenizer::Bytes(),
                                  Tokenizer::Words({"a", "b"}),
                                  Tokenizer::Words({"b", "a"}),
                                  Tokenizer::Words({"ab"}),
                                  Tokenizer::Words({"a,b"}),
                                  Lossless(),
                                  Tokenizer::SentencePiece(ForeignModel())};
  for (size_t i = 0; i < std::size(tokenizers); ++i) {
    EXPECT_EQ(tokenizers[i].Fingerprint().size(), 16u);
    EXPECT_EQ(tokenizers[i].Fingerprint().find_first_not_of("0123456789abcdef"), std::string::npos);
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(tokenizers[i].Fingerprint(), tokenizers[j].Fingerprint());
    }
  }
  EXPECT_EQ(Tokenizer::Words({"a", "b"}).Fingerprint(), tokenizers[1].Fingerprint());
  // Caches of tokens outlive the program: the number must not change with it.
  EXPECT_EQ(Tokenizer::Bytes().Fingerprint(), "178c3922ae36a9f6");
}

TEST(Tokenizer, SeveralThreadsMayEncodeAtOnce) {
  const Tokens expected = Lossless().Encode(SampleText());
  std::vector<std::thread> threads;
  std::vector<Tokens> results(4);
  for (Tokens& result : results) {
    threads.emplace_back([&result, copy = Lossless()] { result = copy.Encode(SampleText()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tokens& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace cosformer
