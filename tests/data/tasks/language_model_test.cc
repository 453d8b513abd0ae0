#include <gtest/gtest.h>

#include "data/tasks/reading.h"

namespace cosformer::data {
namespace {

using Names = std::vector<std::string>;
using LanguageModelTest = ReadingTest;

TEST_F(LanguageModelTest, OneFileIsTheTrainingText) {
  const std::string file = Write("poem.md", "one\ntwo\n");
  for (const char* task : {"lm", "mlm"}) {
    EXPECT_EQ(ReadAll(task, {.data = file}),
              (std::vector<Example>{{"one\ntwo\n", "", "", "poem.md", 1}}));
    EXPECT_TRUE(ReadAll(task, {.data = file}, Split::kValid).empty());
  }
}

TEST_F(LanguageModelTest, KnownNamesAreSplits) {
  const struct {
    const char *folder, *train, *valid, *test;
  } cases[] = {
      {"wikitext", "wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"},
      {"raw", "wiki.train.raw", "wiki.valid.raw", "wiki.test.raw"},
      {"txt", "train.txt", "valid.txt", "test.txt"},
      {"dev", "train.txt", "dev.txt", "test.txt"},
      {"text", "train.text", "validation.text", "test.text"},
      {"tokens", "train.tokens", "val.tokens", "test.tokens"},
  };
  for (const auto& layout : cases) {
    const std::string folder = std::string(layout.folder) + "/";
    const Names names = {folder + layout.train, folder + layout.valid, folder + layout.test};
    for (const std::string& name : names) Put(name, name);
    Put(folder + "README", "read me");
    Put(folder + "more/notes.txt", "not a split");
    for (const Split split : kSplits) {
      const Source source{.data = Path(layout.folder)};
      const std::string& name = names[static_cast<size_t>(split)];
      EXPECT_EQ(FilesOf("lm", source, split), Names{name});
      EXPECT_EQ(ReadAll("lm", source, split).at(0).first, name);
    }
  }
}

TEST_F(LanguageModelTest, OtherTextsAreAllForTraining) {
  Put("novels/b.txt", "second\n");
  Put("novels/a.txt", "first\n");
  Put("novels/more/c.txt", "third\n");
  const Source source{.data = Path("novels")};
  EXPECT_EQ(FilesOf("lm", source, Split::kTrain),
            (Names{"novels/a.txt", "novels/b.txt", "novels/more/c.txt"}));
  EXPECT_EQ(FilesOf("lm", source, Split::kValid), Names{});
  EXPECT_EQ(FilesOf("lm", {.valid = Path("novels")}, Split::kValid).size(), 3u);
}

TEST_F(LanguageModelTest, ADirectoryWithOnlyATestTextHasNoOtherSplit) {
  Put("d/test.txt", "test\n");
  EXPECT_EQ(FilesOf("lm", {.data = Path("d")}, Split::kTrain), Names{});
  EXPECT_EQ(FilesOf("lm", {.data = Path("d")}, Split::kTest), Names{"d/test.txt"});
}

TEST_F(LanguageModelTest, AnyBytesAreReadOnlyForBytes) {
  const std::string file = Write("a.txt", "caf\xE9\n");
  EXPECT_EQ(Sentence("lm", {.data = file}),
            "\"FOLDER/a.txt\", line 1, column 4 (offset 3): byte 0xE9 is not UTF-8; convert the "
            "file, as by iconv -f LATIN1 -t UTF-8, or train a model with --tokenizer bytes");
  EXPECT_EQ(ReadAll("lm", {.data = file, .any_bytes = true}).at(0).first, "caf\xE9\n");
}

TEST_F(LanguageModelTest, SourcesWithoutTextAreRefused) {
  Put("d/train.txt", "text\n");
  Put("d/valid.txt", "");
  Put("d/test.txt", " \n\n");
  Put("other/x.md", "text\n");
  const Source source{.data = Path("d")};
  EXPECT_EQ(Sentence("lm", source), "");
  EXPECT_EQ(Sentence("lm", source, Split::kValid),
            "there is no text in \"FOLDER/d/valid.txt\": empty");
  EXPECT_EQ(Sentence("lm", source, Split::kTest),
            "there is no text in \"FOLDER/d/test.txt\": nothing but blanks");
  EXPECT_EQ(Sentence("mlm", {.data = Path("other")}),
            "--data \"FOLDER/other\" holds nothing that task mlm reads; it reads " +
                FindTask("mlm").description().layouts);
}

}  // namespace
}  // namespace cosformer::data
