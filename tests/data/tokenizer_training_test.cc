#include "data/tokenizer_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "report/contains.h"

namespace cosformer::data {
namespace {

using testing::Contains;
using testing::MessageOf;
using Tokens = std::vector<int32_t>;

TextStream Stream(std::vector<std::string> stretches) {
  return [stretches](const auto& take) {
    for (const std::string& stretch : stretches) take(stretch);
  };
}

// Words made of syllables, as in a language that has some.
std::string RandomText(unsigned seed, size_t words) {
  std::mt19937 random(seed);
  const char* syllables[] = {"ka", "lo", "mi", "tan", "re", "su", "ber", "vo", "ni", "gal"};
  std::string text;
  for (size_t i = 0; i < words; ++i) {
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      text += syllables[std::min(random() % 10, random() % 10)];
    }
    text += random() % 12 == 0 ? '\n' : ' ';
  }
  return text;
}

std::vector<std::string> Words(const Tokenizer& tokenizer) {
  std::vector<std::string> words;
  for (int32_t i = 0; i < tokenizer.size(); ++i) words.push_back(tokenizer.Piece(i));
  return words;
}

TEST(TokenizerTraining, WordsAreTakenByTheirCountAndThenTheirBytes) {
  const TextStream text = Stream({"b a c\nb\n", "", "d b c\td\n"});
  EXPECT_EQ(Words(TrainWords(text, 0)), (std::vector<std::string>{"<unk>", "<s>", "</s>", "<sep>",
                                                                  "<mask>", "b", "c", "d", "a"}));
  EXPECT_EQ(Words(TrainWords(text, 7)),
            (std::vector<std::string>{"<unk>", "<s>", "</s>", "<sep>", "<mask>", "b", "c"}));
  EXPECT_EQ(TrainWords(text, 9).size(), 9);
}

TEST(TokenizerTraining, SpecialWordsOfTheTextTakeNoPlaceOfTheirOwn) {
  const TextStream text = Stream({"<unk> a <unk> b b <unk>\n"});
  EXPECT_EQ(Words(TrainWords(text, 6)),
            (std::vector<std::string>{"<s>", "</s>", "<sep>", "<mask>", "<unk>", "b"}));
  EXPECT_EQ(TrainWords(text, 7).size(), 7);
  EXPECT_EQ(TrainWords(text, 0).size(), 7);
  EXPECT_EQ(TrainWords(Stream({"a a 0 <unk>"}), 6).Encode("<unk> 0 a"), (Tokens{0, 0, 5}));
}

TEST(TokenizerTraining, WordsThatCannotBeAreRefusedWithWhatCan) {
  EXPECT_TRUE(Contains(MessageOf([] { TrainWords(Stream({"a b c\n"}), 9); }),
                       "vocabulary of 9; ask for at most 8"));
  EXPECT_EQ(TrainWords(Stream({"a b c\n"}), 8).size(), 8);
  EXPECT_TRUE(Contains(MessageOf([] { TrainWords(Stream({"a\n"}), 4); }), "too small"));
  EXPECT_TRUE(Contains(MessageOf([] { TrainWords(Stream({"a\n"}), 5); }), "too small"));
  EXPECT_TRUE(Contains(MessageOf([] { TrainWords(Stream({"a\n"}), -1); }), "too small"));
  EXPECT_TRUE(Contains(MessageOf([] { TrainWords(Stream({" \n\t\n"}), 0); }), "no words"));
  EXPECT_TRUE(Contains(MessageOf([] { TrainWords(Stream({}), 0); }), "no words"));
  EXPECT_EQ(TrainWords(Stream({"a \xFF b\n"}), 0).size(), 7);
}

TEST(TokenizerTraining, AModelHasTheSizeAskedForAndLosesNothing) {
  const std::string text = RandomText(1, 5000);
  const Tokenizer tokenizer = TrainSentencePiece(Stream({text}), 400);
  EXPECT_EQ(tokenizer.size(), 400);
  const Tokens tokens = tokenizer.Encode(text);
  EXPECT_EQ(tokenizer.Decode(tokens), text);
  // Syllables and words have become pieces.
  EXPECT_LT(tokens.size(), text.size() / 3);
  EXPECT_EQ(tokenizer.Encode("\n").size(), 1u);
  EXPECT_EQ(tokenizer.Encode(" ").size(), 1u);
  EXPECT_EQ(tokenizer.special().separator, 3);
  EXPECT_EQ(tokenizer.special().mask, 4);
}

TEST(TokenizerTraining, TheSameTextGivesTheSameModelHoweverItComes) {
  const std::string text = RandomText(2, 3000);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at) + 1, text.size() + 1);
    lines.push_back(text.substr(at, end == 0 ? std::string::npos : end - at));
    at += lines.back().size();
  }
  const std::string whole = TrainSentencePiece(Stream({text}), 350).Fingerprint();
  EXPECT_EQ(TrainSentencePiece(Stream({text}), 350).Fingerprint(), whole);
  EXPECT_EQ(TrainSentencePiece(Stream(lines), 350).Fingerprint(), whole);
}

TEST(TokenizerTraining, TheLargestVocabularyNamedIsOneThatWorks) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const TextStream text = Stream({RandomText(seed, 30 + 200 * seed)});
    const std::string message = MessageOf([&] { TrainSentencePiece(text, 100'000); });
    ASSERT_TRUE(Contains(message, "vocabulary of 100,000 pieces; ask for at most "));
    const int64_t most = std::stoll(message.substr(message.rfind(' ') + 1));
    EXPECT_EQ(TrainSentencePiece(text, most).size(), most);
    EXPECT_EQ(TrainSentencePiece(text, 100'000, /*fewer=*/true).size(), most);
    EXPECT_TRUE(Contains(MessageOf([&] { TrainSentencePiece(text, int64_t{1} << 40); }),
                         "vocabulary of 1,099,511,627,776 pieces; ask for at most "));
  }
}

TEST(TokenizerTraining, TheLeastVocabularyNamedIsOneThatWorks) {
  const TextStream text = Stream({"abc abc\n"});
  for (const int64_t vocabulary : {1, 2, 200, 265}) {
    EXPECT_TRUE(Contains(MessageOf([&] { TrainSentencePiece(text, vocabulary); }),
                         "letters alone need 266; ask for at least that"));
  }
  EXPECT_EQ(TrainSentencePiece(text, 266).size(), 266);
  for (const int64_t vocabulary : {0, -5}) {
    EXPECT_TRUE(Contains(MessageOf([&] { TrainSentencePiece(text, vocabulary); }), "is none"));
  }
}

// On some of these the trainer would end the process.
TEST(TokenizerTraining, TextsWithoutLettersAreLearntFromAllTheSame) {
  EXPECT_TRUE(Contains(MessageOf([] { TrainSentencePiece(Stream({}), 300); }), "is empty"));
  EXPECT_TRUE(Contains(MessageOf([] { TrainSentencePiece(Stream({"\n\n"}), 300); }), "is empty"));
  for (const std::string& text :
       {std::string(" "), std::string("\t"), std::string(1, '\0'), std::string("\xE2\x96\x85"),
        std::string("\xE2\x96\x81"), std::string("<s></s><sep>"), std::string("<unk>\n<unk>"),
        std::string(20000, '\t')}) {
    const Tokenizer tokenizer = TrainSentencePiece(Stream({text}), 263);
    EXPECT_EQ(tokenizer.size(), 263);
    EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text);
  }
  const std::string rare = std::string(20000, '\t') + "a\n";
  EXPECT_EQ(TrainSentencePiece(Stream({rare}), 263).size(), 263);
}

TEST(TokenizerTraining, ATextInOneLineIsLearntFrom) {
  std::string text = RandomText(3, 5000);
  std::replace(text.begin(), text.end(), '\n', ' ');
  const Tokenizer tokenizer = TrainSentencePiece(Stream({text}), 400);
  EXPECT_LT(tokenizer.Encode(text).size(), text.size() / 3);
}

}  // namespace
}  // namespace cosformer::data
