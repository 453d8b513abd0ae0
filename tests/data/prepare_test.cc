// Prepared data: what lies in them, when they are made again, and that nothing half is taken for
// whole. Every kind of tokenizer and both kinds of task, texts and examples.
#include "data/prepare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "contains.h"
#include "data/tasks/reading.h"

namespace cosformer::data {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::MessageOf;

constexpr int32_t kEndOfBytes = 257;

class PrepareTest : public ReadingTest {
 protected:
  PrepareTest() {
    options_.cache = Path("cache");
    options_.threads = 2;
    options_.tokenizer = "bytes";
  }

  // So many lines, no two alike.
  static std::string Lines(int count, int seed = 1) {
    constexpr const char* kWords[] = {"the", "sea", "was", "grey", "é", "and", "old", "harbour"};
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::string text;
    for (int line = 0; line < count; ++line) {
      text += fmt::format("{} of {}", line, seed);
      for (int word = 0; word < 8; ++word) text += fmt::format(" {}", kWords[random() % 8]);
      text += "\n";
    }
    return text;
  }

  // A table of so many examples of the classes, in turn.
  static std::string Rows(int count, const std::vector<std::string>& labels) {
    std::string text = "sentence\tlabel\n";
    for (int row = 0; row < count; ++row) {
      text +=
          fmt::format("example {}\t{}\n", row, labels[static_cast<size_t>(row) % labels.size()]);
    }
    return text;
  }

  TaskData Make(const std::string& task, const Source& source) {
    return Make(task, source, options_);
  }
  TaskData Make(const std::string& task, const Source& source, const PrepareOptions& options) {
    notices_.clear();
    return Prepare(FindTask(task), source, options,
                   [this](const std::string& what) { notices_.push_back(what); });
  }
  std::string Complaint(const std::string& task, const Source& source) {
    return MessageOf([&] { Make(task, source); });
  }

  static std::vector<int32_t> Tokens(const Dataset& set, int64_t example, int64_t part = 0) {
    std::vector<int64_t> wide(static_cast<size_t>(set.Length(example, part)));
    set.CopyText(example, part, set.Length(example, part), wide.data());
    return {wide.begin(), wide.end()};
  }
  static std::vector<std::string> Texts(const TaskData& data, const Dataset& set) {
    std::vector<std::string> texts;
    for (int64_t i = 0; i < set.examples(); ++i) {
      texts.push_back(data.tokenizer.Decode(Tokens(set, i)));
    }
    return texts;
  }
  static std::string Whole(const TaskData& data, const Dataset& set) {
    std::string whole;
    for (const std::string& text : Texts(data, set)) whole += text;
    return whole;
  }

  // Name, inode and time of every file of a directory.
  static std::map<std::string, std::pair<ino_t, int64_t>> Stamps(const std::string& directory) {
    std::map<std::string, std::pair<ino_t, int64_t>> stamps;
    for (const auto& entry : fs::directory_iterator(directory)) {
      struct stat status;
      EXPECT_EQ(stat(entry.path().c_str(), &status), 0);
      stamps[entry.path().filename().string()] = {
          status.st_ino, status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec};
    }
    return stamps;
  }

  PrepareOptions options_;
  std::vector<std::string> notices_;
};

TEST_F(PrepareTest, TheSecondTimeNothingIsMade) {
  Put("text/train.txt", Lines(300));
  Put("text/test.txt", Lines(20, 2));
  const Source source{.data = Path("text")};
  const TaskData first = Make("lm", source);
  EXPECT_FALSE(notices_.empty());
  const auto stamps = Stamps(first.directory);
  EXPECT_EQ(stamps.size(), 5u);  // prepared.json, the tokenizer, three splits
  const TaskData second = Make("lm", source);
  EXPECT_TRUE(notices_.empty());
  EXPECT_EQ(second.directory, first.directory);
  EXPECT_EQ(Stamps(first.directory), stamps);
  EXPECT_EQ(Whole(second, *second.train), Whole(first, *first.train));
  EXPECT_TRUE(second.held_out);
}

TEST_F(PrepareTest, WhatIsDamagedInTheCacheIsMadeAgain) {
  const Source source{.data = Write("a.txt", Lines(300))};
  const TaskData first = Make("lm", source);
  const std::string text = Whole(first, *first.train);
  const std::string file = (fs::path(first.directory) / "train.tokens").string();
  for (const char* damage : {"", "no tokens at all, though as many bytes as a header has"}) {
    std::ofstream(file, std::ios::trunc) << damage;
    const TaskData again = Make("lm", source);
    EXPECT_EQ(again.directory, first.directory);
    EXPECT_EQ(Whole(again, *again.train), text);
  }
}

TEST_F(PrepareTest, TextThatChangesTakesThePlaceOfTheOld) {
  const Source source{.data = Write("a.txt", Lines(300))};
  const std::string directory = Make("lm", source).directory;
  std::string other = Lines(300);
  std::replace(other.begin(), other.end(), 'e', 'E');
  // As long as before, and as if written later.
  Write("a.txt", other);
  fs::last_write_time(Path("a.txt"), fs::file_time_type::clock::now() + std::chrono::seconds(5));
  const TaskData data = Make("lm", source);
  EXPECT_FALSE(notices_.empty());
  EXPECT_EQ(data.directory, directory);
  const std::string text = Whole(data, *data.train);
  EXPECT_TRUE(Contains(text, "thE"));
  EXPECT_FALSE(Contains(text, "the"));
}

TEST_F(PrepareTest, WhateverItDependsOnMakesItAnew) {
  std::string rows = "sentence\tother\tlabel\tcolour\n";
  for (int row = 0; row < 80; ++row) {
    rows += fmt::format("good {} text\tother {}\t{}\t{}\n", row, row, row % 2, row % 3);
  }
  const Source source{.data = Write("a.tsv", rows)};
  options_.tokenizer = "words";
  std::set<std::string> directories = {Make("classify", source).directory};
  const auto expect_new = [&](const std::string& what, const Source& from,
                              const PrepareOptions& options, const std::string& task = "classify") {
    SCOPED_TRACE(what);
    const TaskData data = Make(task, from, options);
    EXPECT_FALSE(notices_.empty());
    EXPECT_TRUE(directories.insert(data.directory).second);
  };
  Source columns = source;
  columns.text_column = "other";
  expect_new("text column", columns, options_);
  columns = source;
  columns.label_column = "colour";
  expect_new("label column", columns, options_);
  columns = source;
  columns.pair_column = "other";
  expect_new("pair column", columns, options_);
  PrepareOptions options = options_;
  options.tokenizer = "bytes";
  expect_new("tokenizer", source, options);
  options = options_;
  options.vocabulary = 20;
  expect_new("vocabulary", source, options);
  options = options_;
  options.held_out = 0.2;
  expect_new("held out", source, options);
  expect_new(
      "another task", source,
      [&] {
        PrepareOptions plain;
        plain.cache = options_.cache;
        return plain;
      }(),
      "text");
  Source validated = source;
  validated.valid = Write("b.tsv", rows);
  expect_new("a validation split", validated, options_);
}

TEST_F(PrepareTest, EveryExampleIsInTrainingOrHeldOut) {
  std::mt19937 random(1);
  for (int round = 0; round < 12; ++round) {
    const int count = 12 + static_cast<int>(random() % 60);
    const double share = 0.02 + 0.48 * static_cast<double>(random()) / 4294967296.0;
    const int64_t every = std::max<int64_t>(2, std::llround(1 / share));
    if (count <= every / 2) continue;
    SCOPED_TRACE(fmt::format("{} examples, {} held out", count, share));
    const std::string name = fmt::format("{}.tsv", round);
    options_.held_out = share;
    const TaskData data =
        Make("classify", {.data = Write(name, Rows(count, {"a", "b", "c"}))}, options_);
    EXPECT_TRUE(data.held_out);
    std::vector<std::string> together = Texts(data, *data.train);
    const std::vector<std::string> held_out = Texts(data, *data.valid);
    EXPECT_NEAR(static_cast<double>(held_out.size()), static_cast<double>(count) / every, 1);
    together.insert(together.end(), held_out.begin(), held_out.end());
    EXPECT_EQ(together.size(), static_cast<size_t>(count));
    EXPECT_EQ(std::set(together.begin(), together.end()).size(), static_cast<size_t>(count));
  }
}

TEST_F(PrepareTest, HeldOutWordsAreUnknown) {
  options_.tokenizer = "words";
  const TaskData data = Make("classify", {.data = Write("a.tsv", Rows(40, {"a", "b"}))});
  ASSERT_EQ(data.valid->examples(), 2);
  EXPECT_EQ(Texts(data, *data.valid), (std::vector<std::string>{"example <unk>", "example <unk>"}));
  EXPECT_EQ(data.tokenizer.size(), 5 + 1 + 38);
}

TEST_F(PrepareTest, ASplitThatIsGoneLeavesNoFile) {
  options_.directory = Path("out");
  const std::string train = Write("a.txt", Lines(300)), test = Write("b.txt", Lines(30));
  EXPECT_TRUE(Make("lm", {.train = train, .test = test}).test);
  EXPECT_FALSE(Make("lm", {.train = train}).test);
  EXPECT_FALSE(fs::exists(Path("out/test.tokens")));
}

TEST_F(PrepareTest, AValidationSplitOfItsOwnLeavesTrainingWhole) {
  Put("set/train.tsv", Rows(40, {"a", "b"}));
  Put("set/dev.tsv", Rows(10, {"b", "a"}));
  const TaskData data = Make("classify", {.data = Path("set")});
  EXPECT_FALSE(data.held_out);
  EXPECT_EQ(data.train->examples(), 40);
  EXPECT_EQ(data.valid->examples(), 10);
  EXPECT_FALSE(data.test);
  EXPECT_EQ(data.valid->Label(0), 1);
  EXPECT_EQ(&data.Get(Split::kTrain), &data.train);
  EXPECT_EQ(&data.Get(Split::kValid), &data.valid);
  EXPECT_EQ(&data.Get(Split::kTest), &data.test);
}

TEST_F(PrepareTest, EveryTokenizerGivesTheTextBack) {
  Put("text/train.txt", Lines(600));
  Put("text/valid.txt", Lines(30, 2));
  const Source source{.data = Path("text")};
  for (const auto& [tokenizer, vocabulary] :
       {std::pair("bytes", 0), std::pair("words", 0), std::pair("sentencepiece", 330)}) {
    SCOPED_TRACE(tokenizer);
    options_.tokenizer = tokenizer;
    options_.vocabulary = vocabulary;
    const TaskData data = Make("lm", source);
    EXPECT_TRUE(vocabulary == 0 || data.tokenizer.size() == vocabulary);
    std::string train = Whole(data, *data.train);
    std::string expected = Lines(600);
    if (data.tokenizer.kind() == TokenizerKind::kWords) {
      // Where a line begins, words leave a blank or none.
      std::erase(train, ' ');
      std::erase(expected, ' ');
    }
    EXPECT_EQ(train, expected);
    if (data.tokenizer.kind() != TokenizerKind::kWords) {
      EXPECT_EQ(Whole(data, *data.valid), Lines(30, 2));
    }
    EXPECT_EQ(data.train->info().vocabulary, data.tokenizer.size());
    EXPECT_EQ(data.train->info().task, "lm");
  }
}

TEST_F(PrepareTest, PairsAreTwoTextsAndBytesAndWordsAreCounted) {
  Write("a.tsv",
        "sentence1\tsentence2\tlabel\n"
        "one two\tthree\tyes\n"
        "four\t five  six \tno\n"
        "seven\teight\tyes\n"
        "nine\tten\tno\n");
  options_.held_out = 0.5;
  const TaskData data = Make("classify", {.data = Path("a.tsv")});
  ASSERT_EQ(data.train->info().parts, 2);
  ASSERT_EQ(data.train->examples(), 2);
  EXPECT_EQ(data.tokenizer.Decode(Tokens(*data.train, 0, 0)), "one two");
  EXPECT_EQ(data.tokenizer.Decode(Tokens(*data.train, 0, 1)), "three");
  EXPECT_EQ(data.train->info().words, 5);
  EXPECT_EQ(data.train->info().bytes, 22);
  EXPECT_EQ(data.valid->info().words, 5);
}

TEST_F(PrepareTest, WordsAreWhatLiesBetweenBlanksAndTheEndsOfLines) {
  const std::string text = "  one\ttwo\r\n\nthree four";
  options_.held_out = 0.5;
  const TaskData data = Make("lm", {.train = Write("a.txt", text), .valid = Write("b.txt", "x\n")});
  EXPECT_EQ(data.train->info().words, 4 + 2);
  EXPECT_EQ(data.train->info().bytes, static_cast<int64_t>(text.size()));
  EXPECT_EQ(data.valid->info().words, 2);
}

TEST_F(PrepareTest, TheEndOfAFileIsATokenBetweenTexts) {
  for (const char* name : {"a", "b", "c"}) {
    Put(fmt::format("texts/{}.txt", name), Lines(60, name[0]));
  }
  const Source source{.data = Path("texts")};
  options_.held_out = 0.25;
  const TaskData data = Make("lm", source);
  std::vector<int32_t> expected[2];
  std::string file[2];
  int64_t index = 0;
  for (const Example& example : ReadAll("lm", source)) {
    const int held_out = index++ % 4 == 2;
    if (!file[held_out].empty() && file[held_out] != example.file) {
      expected[held_out].push_back(kEndOfBytes);
    }
    file[held_out] = example.file;
    for (const char c : example.first) {
      expected[held_out].push_back(static_cast<unsigned char>(c));
    }
  }
  const auto all = [](const Dataset& set) {
    std::vector<int64_t> wide(static_cast<size_t>(set.tokens()));
    set.Copy(0, set.tokens(), wide.data());
    return std::vector<int32_t>(wide.begin(), wide.end());
  };
  EXPECT_EQ(std::count(expected[0].begin(), expected[0].end(), kEndOfBytes), 2);
  EXPECT_EQ(all(*data.train), expected[0]);
  EXPECT_EQ(all(*data.valid), expected[1]);
}

TEST_F(PrepareTest, TheNumberOfThreadsChangesNothing) {
  Write("a.txt", Lines(3000));
  options_.tokenizer = "sentencepiece";
  options_.vocabulary = 330;
  std::map<std::string, std::string> first;
  for (const int threads : {1, 2, 5}) {
    options_.threads = threads;
    options_.directory = Path(fmt::format("out{}", threads));
    Make("mlm", {.data = Path("a.txt")});
    for (const char* name : {"train.tokens", "valid.tokens", "tokenizer.model"}) {
      const std::string bytes = Read((fs::path(options_.directory) / name).string());
      EXPECT_GT(bytes.size(), 1000u);
      if (threads == 1) first[name] = bytes;
      EXPECT_TRUE(first[name] == bytes) << name << " with " << threads << " threads";
    }
  }
}

TEST_F(PrepareTest, ClassesAreInOrderNumbersByValue) {
  const auto labels = [&](const std::vector<std::string>& names) {
    return Make("classify", {.data = Write("a.tsv", Rows(60, names))}).labels;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(labels({"sad", "glad", "mad"}), (Names{"glad", "mad", "sad"}));
  EXPECT_EQ(labels({"10", "9", "2", "1"}), (Names{"1", "2", "9", "10"}));
  EXPECT_EQ(labels({"10", "9", "x"}), (Names{"10", "9", "x"}));
  EXPECT_EQ(labels({"1", "01"}), (Names{"01", "1"}));
  const TaskData data = Make("classify", {.data = Write("a.tsv", Rows(60, {"10", "9"}))});
  EXPECT_EQ(data.train->Label(0), 1);
  EXPECT_EQ(data.train->Label(1), 0);
}

TEST_F(PrepareTest, AClassWhoseOnlyExampleIsHeldOutIsKnown) {
  std::string rows = "sentence\tlabel\n";
  for (int row = 0; row < 20; ++row) {
    rows += fmt::format("example {}\t{}\n", row, row == 10 ? "rare" : row % 2 ? "odd" : "even");
  }
  const TaskData data = Make("classify", {.data = Write("a.tsv", rows)});
  EXPECT_EQ(data.labels, (std::vector<std::string>{"even", "odd", "rare"}));
  ASSERT_EQ(data.valid->examples(), 1);
  EXPECT_EQ(data.valid->Label(0), 2);
}

TEST_F(PrepareTest, AModelsOwnTokenizerAndClassesAreKept) {
  const Tokenizer words = Tokenizer::Words({"example", "3", "5"});
  options_.tokenizer = "";
  options_.given_tokenizer = words;
  options_.given_labels = {"b", "a", "never"};
  options_.splits = {Split::kTest};
  const Source source{.test = Write("t.tsv", Rows(8, {"a", "b"}))};
  const TaskData data = Make("classify", source);
  EXPECT_FALSE(data.train || data.valid);
  ASSERT_EQ(data.test->examples(), 8);
  EXPECT_EQ(data.labels, options_.given_labels);
  EXPECT_EQ(data.test->Label(0), 1);
  EXPECT_EQ(data.test->Label(1), 0);
  EXPECT_EQ(data.tokenizer.Fingerprint(), words.Fingerprint());
  EXPECT_EQ(data.tokenizer.Decode(Tokens(*data.test, 3)), "example 3");
  // Other classes are another directory: a model with them is not served the old labels.
  options_.given_labels = {"a", "b"};
  EXPECT_EQ(Make("classify", source).test->Label(0), 0);
  options_.given_labels = {"b", "c"};
  EXPECT_EQ(Complaint("classify", source),
            fmt::format("\"{}\", line 2: the label \"a\" was not seen in training, which has b, c",
                        Path("t.tsv")));
}

TEST_F(PrepareTest, AGivenSplitThatIsNotThereIsNamed) {
  options_.given_tokenizer = Tokenizer::Bytes();
  options_.tokenizer = "";
  options_.splits = {Split::kValid};
  const std::string file = Write("t.txt", Lines(100));
  EXPECT_TRUE(Contains(Complaint("lm", {.test = file}),
                       fmt::format("\"{}\" has no valid split for the task lm", file)));
}

}  // namespace
}  // namespace cosformer::data
