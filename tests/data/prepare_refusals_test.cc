// Prepared data: what can't be prepared or opened is a sentence, and nothing half is taken for
// whole.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "contains.h"
#include "data/prepare.h"
#include "data/tasks/reading.h"
#include "report/full_disk.h"

namespace cosformer::data {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::MessageOf;

class PrepareRefusalsTest : public ReadingTest {
 protected:
  PrepareRefusalsTest() {
    options_.cache = Path("cache");
    options_.threads = 1;
    options_.tokenizer = "bytes";
  }

  static std::string Rows(int count, const char* second_label) {
    std::string text = "sentence\tlabel\n";
    for (int row = 0; row < count; ++row) {
      text += fmt::format("example {}\t{}\n", row, row % 2 ? second_label : "a");
    }
    return text;
  }
  static std::string Lines(int count) {
    std::string text;
    for (int line = 0; line < count; ++line) text += fmt::format("line {} of the text\n", line);
    return text;
  }

  TaskData Make(const std::string& task, const Source& source) {
    return Prepare(FindTask(task), source, options_, [](const std::string&) {});
  }
  std::string Complaint(const std::string& task, const Source& source) {
    return MessageOf([&] { Make(task, source); });
  }
  TaskData MakeInto(const std::string& directory, const std::string& task, const Source& source) {
    options_.directory = Path(directory);
    TaskData data = Make(task, source);
    options_.directory = "";
    return data;
  }

  PrepareOptions options_;
};

TEST_F(PrepareRefusalsTest, ALabelThatTrainingLacksIsNamedWithItsPlace) {
  Put("set/train.tsv", Rows(30, "b"));
  Put("set/dev.tsv", Rows(4, "c"));
  EXPECT_EQ(Complaint("classify", {.data = Path("set")}),
            fmt::format("\"{}\", line 3: the label \"c\" was not seen in training, which has a, b",
                        Path("set/dev.tsv")));
}

TEST_F(PrepareRefusalsTest, OneClassIsNothingToTellApart) {
  const std::string file = Write("a.tsv", Rows(30, "a"));
  const std::string expected = fmt::format(
      "the training examples of \"{}\" are all of the class \"a\"; there is nothing to tell apart",
      file);
  EXPECT_EQ(Complaint("classify", {.data = file}), expected);
  EXPECT_EQ(Complaint("classify", {.train = file}), expected);
}

TEST_F(PrepareRefusalsTest, TooFewExamplesToHoldOutAreASentence) {
  const Source source{.data = Write("a.tsv", Rows(10, "b"))};
  EXPECT_EQ(Complaint("classify", source),
            fmt::format("there are no valid examples in \"{}\": it has too few to keep every 20th "
                        "for validation; give --valid, or a larger --held-out",
                        Path("a.tsv")));
  options_.held_out = 0.25;
  EXPECT_EQ(Make("classify", source).valid->examples(), 2);
}

TEST_F(PrepareRefusalsTest, ImpossibleOptionsAreSentences) {
  const Source source{.data = Write("a.txt", Lines(300))};
  for (const double share : {0.0, -0.1, 0.6, std::nan("")}) {
    options_.held_out = share;
    EXPECT_TRUE(Contains(Complaint("lm", source), "--held-out is"));
  }
  options_.held_out = 0.05;
  options_.vocabulary = -1;
  EXPECT_TRUE(Contains(Complaint("lm", source), "--vocabulary is negative"));
  options_.vocabulary = 261;
  EXPECT_TRUE(Contains(Complaint("lm", source), "--vocabulary is 261, but the tokenizer has 260"));
  options_.vocabulary = 0;
  options_.tokenizer = "letters";
  EXPECT_TRUE(Contains(Complaint("lm", source),
                       "--tokenizer \"letters\" is neither bytes, words, sentencepiece nor"));
  options_.tokenizer = "bytes";
  EXPECT_TRUE(Contains(Complaint("listops", source), "has a tokenizer of its own"));
  EXPECT_FALSE(fs::exists(Path("cache")));
}

TEST_F(PrepareRefusalsTest, AVocabularyBeyondTheTextIsASentenceThatSaysWhatWouldDo) {
  const Source source{.data = Write("a.txt", Lines(300))};
  options_.vocabulary = 5000;
  for (const char* tokenizer : {"words", "sentencepiece"}) {
    options_.tokenizer = tokenizer;
    const std::string complaint = Complaint("lm", source);
    EXPECT_TRUE(Contains(complaint, "5,000"));
    EXPECT_TRUE(Contains(complaint, "ask for at most"));
  }
}

TEST_F(PrepareRefusalsTest, BytesTakeWhatIsNoUtf8AndOthersNameTheLine) {
  const std::string text = Lines(100) + "caf\xe9\n" + Lines(100);
  const Source source{.data = Write("a.txt", text), .valid = Write("b.txt", "\xff\xfe\n")};
  const TaskData data = Make("lm", source);
  EXPECT_EQ(data.train->info().bytes, static_cast<int64_t>(text.size()));
  std::vector<int64_t> tokens(2);
  data.valid->Copy(0, 2, tokens.data());
  EXPECT_EQ(tokens, (std::vector<int64_t>{0xff, 0xfe}));
  for (const char* tokenizer : {"words", "sentencepiece"}) {
    options_.tokenizer = tokenizer;
    const std::string complaint = Complaint("lm", source);
    EXPECT_TRUE(Contains(complaint, Path("a.txt")));
    EXPECT_TRUE(Contains(complaint, "line 101"));
    EXPECT_TRUE(Contains(complaint, "UTF-8"));
  }
}

TEST_F(PrepareRefusalsTest, ColumnsAreNamedOnlyWhereThereAreTables) {
  const std::string file = Write("a.txt", Lines(200));
  EXPECT_TRUE(Contains(Complaint("lm", {.data = file, .text_column = "text"}), "no tables"));
}

TEST_F(PrepareRefusalsTest, WhatIsNotThereIsNamed) {
  EXPECT_TRUE(Contains(Complaint("lm", {.data = Path("none.txt")}), Path("none.txt")));
  EXPECT_TRUE(Contains(Complaint("lm", {.data = Write("empty.txt", "")}),
                       fmt::format("there is no text in \"{}\": empty", Path("empty.txt"))));
  const std::string table = Write("a.tsv", Rows(30, "b"));
  EXPECT_TRUE(
      Contains(Complaint("classify", {.data = table, .text_column = "sentense"}),
               "has no column \"sentense\" for --text-column (did you mean \"sentence\"?)"));
  const std::string complaint = Complaint("lm", {.valid = Write("v.txt", Lines(10))});
  EXPECT_TRUE(Contains(complaint, fmt::format("\"{}\" has no training split", Path("v.txt"))));
}

TEST_F(PrepareRefusalsTest, ADirectoryThatCannotBeMadeIsNamed) {
  options_.cache = Write("file", "") + "/cache";
  const std::string complaint = Complaint("lm", {.data = Write("a.txt", Lines(300))});
  EXPECT_TRUE(Contains(complaint, "cannot make the directory \"" + options_.cache));
}

TEST_F(PrepareRefusalsTest, APreparedDirectoryIsTakenAsData) {
  const std::string file = Write("a.tsv", Rows(60, "b"));
  const TaskData made = MakeInto("out", "classify", {.data = file});
  EXPECT_EQ(made.directory, Path("out"));
  fs::remove(file);
  const Source prepared{.data = Path("out")};
  const TaskData data = Make("classify", prepared);
  EXPECT_EQ(data.labels, made.labels);
  EXPECT_EQ(data.train->examples(), 57);
  EXPECT_EQ(data.valid->examples(), 3);
  EXPECT_TRUE(data.held_out);
  EXPECT_EQ(Complaint("lm", prepared),
            fmt::format("\"{}\" was prepared for the task classify, not for lm; give --task "
                        "classify, or prepare it again",
                        Path("out")));
  options_.given_tokenizer = Tokenizer::Bytes();
  options_.given_labels = {"a", "b"};
  EXPECT_EQ(Complaint("classify", prepared), "");
  options_.given_labels = {"b", "a"};
  EXPECT_TRUE(Contains(Complaint("classify", prepared), "with other classes than the model's"));
  options_.given_labels = {"a", "b"};
  options_.given_tokenizer = Tokenizer::Words({"example"});
  EXPECT_TRUE(Contains(Complaint("classify", prepared), "another tokenizer than the model's"));
}

TEST_F(PrepareRefusalsTest, APreparedDirectoryThatWasTamperedWithIsASentence) {
  const Source text{.data = Write("a.txt", Lines(800))};
  const Source prepared{.data = Path("out")};
  const auto complaint_after = [&](const auto& tamper) {
    fs::remove_all(Path("out"));
    MakeInto("out", "lm", text);
    EXPECT_EQ(Complaint("lm", prepared), "");
    tamper();
    return Complaint("lm", prepared);
  };
  const std::string tokens = Path("out/train.tokens");
  EXPECT_TRUE(Contains(complaint_after([&] { Tokenizer::Words({"a"}).Save(Path("out")); }),
                       tokens + "\" was made with another tokenizer than the one beside it"));
  for (const int64_t left : {0, 7, 8, 100}) {
    EXPECT_TRUE(Contains(
        complaint_after([&] { fs::resize_file(tokens, static_cast<size_t>(left)); }), tokens));
  }
  EXPECT_TRUE(Contains(complaint_after([&] { fs::resize_file(tokens, fs::file_size(tokens) - 1); }),
                       "cut short"));
  EXPECT_EQ(complaint_after([&] { fs::remove(tokens); }),
            fmt::format("\"{}\" is gone; prepare the data again", tokens));
  EXPECT_TRUE(
      Contains(complaint_after([&] { fs::remove(Path("out/tokenizer.json")); }), "tokenizer"));
  EXPECT_TRUE(Contains(complaint_after([&] { Write("out/prepared.json", "{"); }),
                       Path("out/prepared.json")));
  EXPECT_TRUE(Contains(
      complaint_after([&] { Write("out/prepared.json", R"({"format": 2, "task": "lm"})"); }),
      "is of format 2, which a later version of cosformer wrote; this one reads up to 1: "
      "update cosformer, or prepare the data again"));
  EXPECT_EQ(complaint_after([&] { fs::remove(Path("out/prepared.json")); }),
            fmt::format("\"{}\" holds prepared data, but not all: there is no prepared.json; "
                        "prepare them again",
                        Path("out")));
}

TEST_F(PrepareRefusalsTest, TokensOfAnotherTaskAreNotReadAsExamples) {
  MakeInto("text", "lm", {.data = Write("a.txt", Lines(800))});
  const Source classes{.data = Path("out")};
  MakeInto("out", "classify", {.data = Write("a.tsv", Rows(60, "b"))});
  EXPECT_EQ(Complaint("classify", classes), "");
  fs::copy_file(Path("text/valid.tokens"), Path("out/valid.tokens"),
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(Contains(Complaint("classify", classes), "valid.tokens\" is of another task"));
  // More classes than the directory knows names for.
  std::string rows = "sentence\tlabel\n";
  for (int row = 0; row < 60; ++row) rows += fmt::format("example\t{}\n", row % 5);
  MakeInto("five", "classify", {.data = Write("b.tsv", rows)});
  fs::copy_file(Path("five/train.tokens"), Path("out/valid.tokens"),
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(Contains(Complaint("classify", classes), "it holds class 2 of 2"));
}

TEST_F(PrepareRefusalsTest, ADamagedCacheIsMadeAgain) {
  const Source source{.data = Write("a.txt", Lines(800))};
  const std::string directory = Make("lm", source).directory;
  const std::string whole = Read(directory + "/train.tokens");
  const auto expect_healed = [&] {
    const TaskData data = Make("lm", source);
    EXPECT_EQ(data.directory, directory);
    EXPECT_TRUE(data.train && data.valid);
    EXPECT_TRUE(Read(directory + "/train.tokens") == whole);
  };
  fs::resize_file(directory + "/train.tokens", 100);
  expect_healed();
  fs::remove(directory + "/train.tokens");
  expect_healed();
  Tokenizer::Words({"a"}).Save(directory);
  expect_healed();
  fs::resize_file(directory + "/prepared.json", 10);
  expect_healed();
}

// The size limit of the process stands for a full disk.
TEST_F(PrepareRefusalsTest, AFullDiskLeavesNothingThatIsTakenForWhole) {
  const Source source{.data = Write("a.txt", Lines(800))};
  const std::string directory = Make("lm", source).directory;
  const std::string whole = Read(directory + "/train.tokens");
  Write("a.txt", Lines(800) + "one more\n");
  for (const rlim_t bytes : {rlim_t{50}, rlim_t{2000}}) {
    std::string complaint;
    {
      const cosformer::testing::FullDisk disk(bytes);
      complaint = Complaint("lm", source);
    }
    EXPECT_TRUE(Contains(complaint, "cannot write"));
    EXPECT_FALSE(fs::exists(directory + "/prepared.json"));
  }
  // The old text again, as it was: its place in the cache is made anew.
  Write("a.txt", Lines(800));
  const TaskData data = Make("lm", source);
  EXPECT_TRUE(data.train && data.valid);
  EXPECT_TRUE(Read(directory + "/train.tokens") == whole);
  for (const auto& entry : fs::directory_iterator(directory)) {
    EXPECT_TRUE(entry.path().extension() == ".tokens" || entry.path().extension() == ".json")
        << entry.path();
  }
}

}  // namespace
}  // namespace cosformer::data
