// `cosformer data`: figures and examples of texts, tables and images, prepared directories, and
// sets that are made by rule.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::ReadFile;

class DataCommandTest : public testing::CommandTest {
 protected:
  void Put(const std::string& name, const std::string& contents) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << contents;
  }

  static std::string Lines(int count) {
    std::string text;
    for (int line = 0; line < count; ++line) {
      text += "line " + std::to_string(line) + " of a text\n";
    }
    return text;
  }

  // Three in four are good.
  static std::string Rows(int count) {
    std::string text = "sentence\tlabel\n";
    for (int row = 0; row < count; ++row) {
      text += "example " + std::to_string(row) + (row % 4 == 0 ? "\tbad\n" : "\tgood\n");
    }
    return text;
  }

  Outcome Show(const std::string& arguments) const {
    return Run("data show --cache cache " + arguments);
  }
};

TEST_F(DataCommandTest, ATextIsCountedAndShown) {
  Put("text/train.txt", Lines(100));
  Put("text/valid.txt", "ein Satz\n");
  const Outcome outcome = Show("--task lm --data text --tokenizer words --samples 1 --json -");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json figures = json::parse(outcome.out);
  EXPECT_EQ(figures["task"], "lm");
  EXPECT_EQ(figures["tokenizer"], "words");
  EXPECT_EQ(figures["held_out"], false);
  EXPECT_EQ(figures["vocabulary"], 5 + 4 + 100);
  EXPECT_EQ(figures["splits"]["train"]["tokens"], 600);
  EXPECT_EQ(figures["splits"]["train"]["words"], 600);
  EXPECT_EQ(figures["splits"]["train"]["bytes"], Lines(100).size());
  EXPECT_EQ(figures["splits"]["valid"]["examples"], 1);
  EXPECT_FALSE(figures["splits"].contains("test"));
  // The table goes where JSON does not.
  EXPECT_TRUE(Contains(outcome.err, "line 0 of a text ⏎ line 1"));
  EXPECT_TRUE(Contains(outcome.err, "lm: 109 tokens in the vocabulary (words)"));
  EXPECT_FALSE(Contains(outcome.err, "held out"));
  EXPECT_TRUE(fs::is_directory(folder_ / figures["directory"].get<std::string>()));
}

TEST_F(DataCommandTest, AValidationSplitThatWasHeldOutIsSaidToBe) {
  Put("text.txt", Lines(2000));
  const Outcome outcome = Show("--data text.txt --tokenizer bytes");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.out, "The validation split is held out"));
  EXPECT_TRUE(Contains(outcome.out, "260 tokens in the vocabulary (bytes)"));
}

TEST_F(DataCommandTest, ClassesAndLengthsAreShown) {
  Put("set/train.tsv", Rows(100));
  Put("set/dev.tsv", Rows(8));
  const std::string options = "--task classify --data set --tokenizer bytes --length 10";
  const Outcome outcome = Show(options + " --samples 3");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"train          100", "train  majority baseline 75.00 %; classes: bad 25.0 % good 75.0 %",
        "9, 10, 10, 10, 10; 90 are cut to 10", "example 0, class bad\n    example 0\n",
        "example 33, class good\n    example 33\n", "example 66, class good\n"}) {
    EXPECT_TRUE(Contains(outcome.out, part));
  }
  EXPECT_LT(outcome.out.find("train  majority"), outcome.out.find("valid  majority"));
  ASSERT_EQ(Show(options + " --json figures.json").code, 0);
  const json figures = json::parse(ReadFile(folder_ / "figures.json"));
  EXPECT_EQ(figures["splits"]["train"]["classes"], (json{{"bad", 25}, {"good", 75}}));
  EXPECT_EQ(figures["splits"]["valid"]["majority"], 0.75);
  EXPECT_EQ(figures["splits"]["train"]["length"]["longer"], 90);
}

TEST_F(DataCommandTest, PicturesAreDrawn) {
  // White above, black below, one grey pixel in the corner.
  std::string image(1025, '\0');
  image[0] = '\1';
  for (size_t pixel = 0; pixel < 512; ++pixel) image[1 + pixel] = '\xff';
  image[1] = '\x80';
  std::string other = image;
  other[0] = '\0';
  for (const char* split : {"train", "valid", "test"}) {
    Put(std::string("set/") + split + ".bin", image + other);
  }
  const Outcome outcome = Show("--task pathfinder --data set --samples 1");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.out, "example 0, class 1\n    ++" + std::string(62, '@') + "\n    " +
                                        std::string(64, '@') + "\n"));
  EXPECT_TRUE(Contains(outcome.out, "    " + std::string(64, ' ') + "\n"));
}

TEST_F(DataCommandTest, WhatWasPreparedIsShownWithoutItsSource) {
  Put("set.tsv", Rows(100));
  const Outcome made =
      Run("data prepare --task classify --data set.tsv --tokenizer words --out prepared");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(Contains(made.out, "prepared in prepared"));
  EXPECT_FALSE(Contains(made.out, "example 0"));
  EXPECT_TRUE(fs::exists(folder_ / "prepared/prepared.json"));
  fs::remove(folder_ / "set.tsv");
  const Outcome shown = Show("--task classify --data prepared --json -");
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(json::parse(shown.out)["splits"]["train"]["examples"], 95);
  EXPECT_TRUE(Contains(shown.err, "example 0, class bad"));
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
  ExpectRefusal("data show --task lm --data prepared", "was prepared for the task classify");
  ExpectRefusal("data prepare --task lm --data prepared", "--out is required");
  // What was settled then is not asked for again.
  const std::string again = "data show --task classify --data prepared ";
  EXPECT_EQ(Run(again + "--tokenizer words").code, 0);
  ExpectRefusal(again + "--tokenizer bytes", "with the tokenizer words, not bytes");
  ExpectRefusal(again + "--valid other.tsv", "without \"other.tsv\"");
  ExpectRefusal(again + "--label-column label", "column \"label\"");
  ExpectRefusal("data prepare --task classify --data prepared --out new", "not prepared again");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(DataCommandTest, TextThatIsNamedAsTokensIsNotOverwritten) {
  Put("corpus/train.tokens", Lines(300));
  Put("corpus/valid.tokens", Lines(30));
  ExpectRefusal("data prepare --task lm --data corpus --tokenizer bytes --out corpus",
                "train.tokens\" is no file of tokens, or a damaged one, and would be overwritten");
  EXPECT_EQ(ReadFile(folder_ / "corpus/train.tokens"), Lines(300));
  EXPECT_EQ(Run("data prepare --task lm --data corpus --tokenizer bytes --out prepared").code, 0);
}

TEST_F(DataCommandTest, NamesOfFilesNeedNotBeUtf8) {
  Put("caf\xe9.txt", Lines(2000));
  const std::string show =
      "--task lm --tokenizer bytes --data \"$(printf 'caf\\351.txt')\" --json -";
  const Outcome first = Show(show);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_GT(json::parse(first.out)["splits"]["train"]["tokens"], 1000);
}

TEST_F(DataCommandTest, ATextIsCutByItselfWhereItIsReadByItself) {
  // Each line has 40 and 40 characters; retrieval and translation read one beside the other.
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    rows += std::string(40, static_cast<char>('a' + i % 26)) + "\t" + std::string(40, 'z') + "\n";
  }
  Put("pairs.tsv", rows);
  const auto cut = [&](int length) {
    const Outcome shown =
        Show("--task translate --tokenizer bytes --data pairs.tsv --json - --length " +
             std::to_string(length));
    EXPECT_EQ(shown.code, 0) << shown.err;
    return json::parse(shown.out)["splits"]["train"]["length"]["longer"].get<int>();
  };
  EXPECT_EQ(cut(41), 0);  // with the token that begins or ends it
  EXPECT_EQ(cut(40), 38);
}

TEST_F(DataCommandTest, SetsAreMadeByRuleAndTheSameForASeed) {
  const std::string lists =
      "data generate listops --train 30 --valid 5 --test 5 --least-length 5 "
      "--most-length 40 ";
  const Outcome made = Run(lists + "--out lists");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, "lists\n");
  ExpectRefusal(lists + "--out lists", "is not empty");
  EXPECT_EQ(Run(lists + "--out lists --force").code, 0);
  ASSERT_EQ(Run(lists + "--out same --threads 1").code, 0);
  ASSERT_EQ(Run(lists + "--out other --seed 2").code, 0);
  EXPECT_EQ(ReadFile(folder_ / "lists/basic_train.tsv"),
            ReadFile(folder_ / "same/basic_train.tsv"));
  EXPECT_NE(ReadFile(folder_ / "lists/basic_train.tsv"),
            ReadFile(folder_ / "other/basic_train.tsv"));
  const Outcome shown = Show("--task listops --data lists --json -");
  ASSERT_EQ(shown.code, 0) << shown.err;
  const json splits = json::parse(shown.out)["splits"];
  EXPECT_EQ(splits["train"]["examples"], 30);
  EXPECT_LT(splits["train"]["length"]["most"], 40);
  EXPECT_GT(splits["train"]["length"]["least"], 5);

  ASSERT_EQ(Run("data generate pathfinder --train 6 --valid 2 --test 2 --out paths").code, 0);
  EXPECT_EQ(fs::file_size(folder_ / "paths/train.bin"), 6u * 1025);
  const Outcome drawn = Show("--task pathfinder --data paths --samples 1");
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_TRUE(Contains(drawn.out, "@@"));
}

TEST_F(DataCommandTest, TheCacheIsCleanedAndWhatGoesIsListed) {
  for (const char* name : {"a.txt", "b.txt", "c.txt"}) {
    Put(name, Lines(2000));
    ASSERT_EQ(Show(std::string("--tokenizer bytes --data ") + name).code, 0);
  }
  Put("cache/mine/notes.txt", "mine");
  const auto clean = [&](const std::string& options) {
    const Outcome outcome = Run("data clean --cache cache --json - " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  json result = clean("");
  EXPECT_EQ(result["removed"].size(), 0u);
  EXPECT_EQ(result["kept"].size(), 3u);
  EXPECT_GT(result["kept_bytes"], 3 * 70000);

  Put("b.txt", "other text");
  result = clean("--dry-run");
  ASSERT_EQ(result["removed"].size(), 1u);
  EXPECT_EQ(result["removed"][0]["task"], "lm");
  EXPECT_TRUE(Contains(result["removed"][0]["why"].get<std::string>(), "b.txt\" has changed"));
  EXPECT_TRUE(fs::exists(folder_ / result["removed"][0]["path"].get<std::string>()));
  const json removed = clean("");
  ASSERT_EQ(removed["removed"].size(), 1u);
  EXPECT_EQ(removed["removed"][0]["path"], result["removed"][0]["path"]);
  EXPECT_FALSE(fs::exists(folder_ / result["removed"][0]["path"].get<std::string>()));

  const fs::path old = folder_ / removed["kept"][0]["path"].get<std::string>();
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(24 * 40));
  EXPECT_EQ(clean("--older-than 41")["removed"].size(), 0u);
  result = clean("--older-than 39.5");
  ASSERT_EQ(result["removed"].size(), 1u);
  EXPECT_EQ(result["removed"][0]["why"], "unused for 40 days");
  EXPECT_FALSE(fs::exists(old));

  const Outcome all = Run("data clean --cache cache --all");
  EXPECT_TRUE(Contains(all.out, "removed: 1 set, "));
  EXPECT_TRUE(Contains(all.out, "kept in cache: 0 sets, 0 B"));
  EXPECT_EQ(ReadFile(folder_ / "cache/mine/notes.txt"), "mine");
  EXPECT_EQ(clean("--all")["removed"].size(), 0u);
  EXPECT_EQ(Run("data clean --cache nowhere").code, 0);
  ExpectRefusal("data clean --cache cache --older-than=-1", "--older-than is -1");
  ExpectRefusal("data clean --cache cache --all --older-than 3", "--all");
}

TEST_F(DataCommandTest, TheCacheStaysWithinItsLimitAndThatIsSaid) {
  for (const char* name : {"a.txt", "b.txt"}) {
    Put(name, Lines(2000));
    const Outcome outcome = Show(std::string("--tokenizer bytes --data ") + name);
    EXPECT_FALSE(Contains(outcome.err, "cache")) << outcome.err;
  }
  // Room for one of them, which is the one in use. A set takes some 0.1 MiB.
  const Outcome outcome = Show("--tokenizer bytes --data a.txt --cache-limit 0.00012");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.err, "removed from the cache, which takes up to "));
  EXPECT_TRUE(Contains(outcome.err, "1 prepared set that was unused for longest, "));
  json kept = json::parse(Run("data clean --cache cache --dry-run --json -").out)["kept"];
  ASSERT_EQ(kept.size(), 1u);
  // One that is too small says so, and keeps what is in use.
  const Outcome tight = Show("--tokenizer bytes --data a.txt --cache-limit 1e-9");
  ASSERT_EQ(tight.code, 0) << tight.err;
  EXPECT_TRUE(Contains(tight.err, "cosformer data clean makes room"));
  EXPECT_TRUE(fs::exists(folder_ / kept[0]["path"].get<std::string>()));
  ExpectRefusal("data show --data a.txt --cache-limit=-1", "--cache-limit is -1");
}

TEST_F(DataCommandTest, WhatCannotBeShownIsASentence) {
  Put("set.tsv", Rows(100));
  Put("latin.txt", Lines(2000) + "caf\xe9\n");
  ExpectRefusal("data show", "there are no data: give --data PATH; the task lm reads");
  ExpectRefusal("data show --task wonder --data set.tsv", "wonder");
  ExpectRefusal("data show --data none.txt", "none.txt");
  ExpectRefusal("data show --data latin.txt --cache cache", "latin.txt");
  ExpectRefusal("data show --task classify --data set.tsv --label-column lable --cache cache",
                "did you mean \"label\"?");
  ExpectRefusal("data show --task image --data set.tsv --cache cache", "set.tsv");
  ExpectRefusal("data show --data latin.txt --tokenizer nowhere", "--tokenizer \"nowhere\"");
  ExpectRefusal("data show --data latin.txt --json no/such/folder.json", "no/such/folder.json");
  ExpectRefusal("data generate listops --out lists --train 0", "0 examples");
  ExpectRefusal("data generate listops --out lists --train 9223372036854775807",
                "9223372036854775807 examples");
  ExpectRefusal("data generate listops --out lists --seed -1", "\"-1\" is no whole number");
  ExpectRefusal("data generate listops --out lists --threads 100000", "--threads is 100000");
  ExpectRefusal("data generate pathfinder --out lists --contour-length 2", "2 paddles");
  ExpectRefusal(
      "data generate listops --out lists --least-length 100000000 --most-length 1000000000",
      "of 100,000 trees none had a length above 100000000 and below 1000000000");
  ExpectRefusal("data show --data set.tsv --length -5", "--length is -5; it must be at least 0");
  ExpectRefusal("data show --data set.tsv --samples -5", "--samples is -5; it must be at least 0");
  ExpectRefusal("data generate cubes --out x", "\"cubes\" is not known here");
  EXPECT_FALSE(fs::exists(folder_ / "lists"));
}

TEST_F(DataCommandTest, HelpNamesEveryTask) {
  for (const char* command : {"data show --help", "data prepare --help"}) {
    const Outcome help = Run(command);
    EXPECT_EQ(help.code, 0);
    for (const char* task : {"lm", "mlm", "classify", "translate", "listops", "text", "retrieval",
                             "image", "pathfinder"}) {
      EXPECT_TRUE(Contains(help.out, std::string("\n  ") + task + " "));
    }
  }
}

}  // namespace
}  // namespace cosformer
