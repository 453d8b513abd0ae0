// Tokenizers in files: what is saved comes back, and where there is none it is said. What is broken
// is in corrupt_files_test.cc.
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

TEST_F(TokenizerFilesTest, AModelThatIsTooLargeIsNotRead) {
  const std::string huge = Path("huge.model");
  Write("huge.model", "");
  std::filesystem::resize_file(huge, (uint64_t{256} << 20) + 1);
  EXPECT_EQ(MessageOf([&] { Tokenizer::Load(huge); }),
            "\"" + huge + "\" is larger than 256 MB: is it the right file?");
}

}  // namespace
}  // namespace cosformer
