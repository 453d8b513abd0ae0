// Tokenizers in files: what is saved comes back, and what is broken is refused with a sentence.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "contains.h"
#include "folder.h"
#include "formats/tokenizer.h"
#include "sentencepiece_models.h"

namespace cosformer {
namespace {

using testing::Contains;
using testing::Lossless;
using testing::MessageOf;
using TokenizerFilesTest = testing::FolderTest;

TEST_F(TokenizerFilesTest, WhatIsSavedComesBack) {
  const Tokenizer words =
      Tokenizer::Words({"the", "\"quoted\"", "back\\slash", "caf\xC3\xA9", "\x01", "<unk>"});
  for (const Tokenizer& tokenizer : {Tokenizer::Bytes(), words, Lossless()}) {
    EXPECT_EQ(Tokenizer::IsIn(folder_.string()), FilesInFolder() > 0);
    tokenizer.Save(folder_.string());
    // The file of the one before it is gone.
    EXPECT_EQ(FilesInFolder(), 1);
    EXPECT_TRUE(Tokenizer::IsIn(folder_.string()));
    const Tokenizer loaded = Tokenizer::Load(folder_.string());
    EXPECT_EQ(loaded.kind(), tokenizer.kind());
    EXPECT_EQ(loaded.size(), tokenizer.size());
    EXPECT_EQ(loaded.Fingerprint(), tokenizer.Fingerprint());
    EXPECT_EQ(loaded.Encode("the caf\xC3\xA9 \x01\n"), tokenizer.Encode("the caf\xC3\xA9 \x01\n"));
    for (int32_t i = 0; i < tokenizer.size(); ++i) ASSERT_EQ(loaded.Piece(i), tokenizer.Piece(i));
  }
  words.Save(folder_.string());
  EXPECT_EQ(FilesInFolder(), 1);
  EXPECT_EQ(Tokenizer::Load(Path("tokenizer.json")).Fingerprint(), words.Fingerprint());
}

TEST_F(TokenizerFilesTest, AModelIsSavedAsSentencePieceWroteIt) {
  const std::string model = testing::ForeignModel();
  Tokenizer::SentencePiece(model).Save(folder_.string());
  EXPECT_EQ(Read(Path("tokenizer.model")), model);
  Tokenizer::Load(Path("tokenizer.model"));
}

TEST_F(TokenizerFilesTest, AVocabularyLikeThatOfWikiText103ComesBack) {
  std::vector<std::string> words;
  for (int i = 0; i < 267'735; ++i) words.push_back(fmt::format("word-of-some-length-{}", i));
  const Tokenizer large = Tokenizer::Words(words);
  large.Save(folder_.string());
  EXPECT_EQ(Tokenizer::Load(folder_.string()).Fingerprint(), large.Fingerprint());
}

TEST_F(TokenizerFilesTest, NothingIsRemovedWhenSavingFails) {
  Lossless().Save(folder_.string());
  std::filesystem::create_directory(Path("tokenizer.json"));
  EXPECT_TRUE(Contains(MessageOf([&] { Tokenizer::Bytes().Save(folder_.string()); }),
                       fmt::format("cannot write \"{}\"", Path("tokenizer.json"))));
  EXPECT_TRUE(std::filesystem::exists(Path("tokenizer.model")));
  EXPECT_TRUE(Contains(MessageOf([&] { Tokenizer::Bytes().Save(Path("missing")); }),
                       fmt::format("cannot write \"{}", Path("missing"))));
}

TEST_F(TokenizerFilesTest, AFileOfTheOtherFormThatCannotBeRemovedIsNamed) {
  std::filesystem::create_directories(Path("tokenizer.model/full"));
  EXPECT_TRUE(Contains(MessageOf([&] { Tokenizer::Bytes().Save(folder_.string()); }),
                       fmt::format("cannot remove \"{}\"", Path("tokenizer.model"))));
}

TEST_F(TokenizerFilesTest, WhereThereIsNoneOrTwoItIsSaid) {
  EXPECT_FALSE(Tokenizer::IsIn(folder_.string()));
  EXPECT_FALSE(Tokenizer::IsIn(Path("missing")));
  EXPECT_EQ(MessageOf([&] { Tokenizer::Load(folder_.string()); }),
            fmt::format("\"{}\" has no tokenizer: expected tokenizer.model or tokenizer.json in it",
                        folder_.string()));
  EXPECT_TRUE(Contains(MessageOf([&] { Tokenizer::Load(Path("missing.json")); }),
                       fmt::format("cannot read \"{}", Path("missing.json"))));
  EXPECT_TRUE(Contains(MessageOf([&] { Tokenizer::Load(Path("missing.model")); }),
                       fmt::format("cannot read \"{}", Path("missing.model"))));
  EXPECT_TRUE(Contains(MessageOf([&] { Tokenizer::Load(Write("words.txt", "a b")); }),
                       "expected a directory, or a file *.model or *.json"));
  Lossless().Save(folder_.string());
  Write("tokenizer.json", "{}");
  EXPECT_TRUE(
      Contains(MessageOf([&] { Tokenizer::Load(folder_.string()); }), "has two tokenizers"));
}

struct Broken {
  std::string text;
  const char* sentence;
};

TEST_F(TokenizerFilesTest, BrokenJsonIsRefusedWithItsReason) {
  const Broken cases[] = {
      {"", "is empty"},
      {"{", "is not valid JSON"},
      {"[]", "expected an object"},
      {"{}", "\"format\" is missing"},
      {R"({"format": 1})", "\"kind\" is missing"},
      {R"({"kind": "bytes"})", "\"format\" is missing"},
      {R"({"format": 2, "kind": "bytes"})", "is of format 2, which a later version"},
      {R"({"format": "1", "kind": "bytes"})", "\"format\" is the text \"1\""},
      {R"({"format": 1, "kind": "letters"})", "\"kind\" is the text \"letters\""},
      {R"({"format": 1, "kind": 3})", "\"kind\" is 3"},
      {R"({"format": 1, "kind": "sentencepiece"})", "\"bytes\", \"words\""},
      {R"({"format": 1, "kind": "bytes", "words": ["a"]})", "\"words\""},
      {R"({"format": 1, "kind": "bytes", "size": 3})", "\"size\""},
      {R"({"format": 1, "kind": "words"})", "\"words\" is missing"},
      {R"({"format": 1, "kind": "words", "words": ["a"], "lower": true})", "\"lower\""},
      {R"({"format": 1, "kind": "words", "words": {"a": 1}})", "\"words\" is an object"},
      {R"({"format": 1, "kind": "words", "words": "a"})", "\"words\" is the text \"a\""},
      {R"({"format": 1, "kind": "words", "words": null})", "\"words\" is null"},
      {R"({"format": 1, "kind": "words", "words": []})", "no words"},
      {R"({"format": 1, "kind": "words", "words": ["a", 2]})", "word 2 of the vocabulary is 2"},
      {R"({"format": 1, "kind": "words", "words": ["a", ""]})", "is empty"},
      {R"({"format": 1, "kind": "words", "words": ["a b"]})", "has a blank"},
      {R"({"format": 1, "kind": "words", "words": ["b", "a", "b"]})", "\"b\" stands twice"},
      {"{\"format\": 1, \"kind\": \"words\", \"words\": [\"\xFF\"]}", "ill-formed UTF-8"},
  };
  for (const Broken& broken : cases) {
    const std::string path = Write("tokenizer.json", broken.text);
    const std::string message = MessageOf([&] { Tokenizer::Load(path); });
    EXPECT_TRUE(Contains(message, broken.sentence)) << broken.text;
    EXPECT_TRUE(Contains(message, "\"" + path + "\"")) << broken.text;
  }
  std::filesystem::remove(Path("tokenizer.json"));
  std::filesystem::create_directory(Path("tokenizer.json"));
  EXPECT_TRUE(Contains(MessageOf([&] { Tokenizer::Load(folder_.string()); }), "Is a directory"));
}

TEST_F(TokenizerFilesTest, BrokenModelsAreRefusedByName) {
  for (const std::string& text : {std::string(), std::string("hello, world"),
                                  std::string(100, '\0'), testing::ForeignModel().substr(0, 500)}) {
    const std::string path = Write("tokenizer.model", text);
    EXPECT_TRUE(Contains(MessageOf([&] { Tokenizer::Load(path); }),
                         "\"" + path + "\" is no SentencePiece model"));
  }
  const std::string huge = Path("huge.model");
  Write("huge.model", "");
  std::filesystem::resize_file(huge, (uint64_t{256} << 20) + 1);
  EXPECT_EQ(MessageOf([&] { Tokenizer::Load(huge); }),
            "\"" + huge + "\" is larger than 256 MB: is it the right file?");
}

}  // namespace
}  // namespace cosformer
