// The recipes that come with the command: each runs, here with a model of one small layer on a few
// examples; and recipes of one's own, right and wrong.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <string>

#include "training.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ReadFile;

class RecipesTest : public testing::TrainingTest {};

TEST_F(RecipesTest, EveryRecipeRuns) {
  PutText();
  PutTable();
  PutPairs();
  PutPapers();
  PutImages();
  PutLists();
  const std::map<std::string, std::string> data = {
      {"lm", "text"},          {"mlm", "text"},         {"classify", "table"},
      {"text", "table"},       {"image", "images"},     {"translate", "pairs"},
      {"retrieval", "papers"}, {"pathfinder", "paths"}, {"listops", "lists"}};
  int recipes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(COSFORMER_RECIPES)) {
    if (entry.path().extension() != ".toml") continue;
    SCOPED_TRACE(entry.path().string());
    const std::string text = ReadFile(entry.path());
    std::smatch task;
    ASSERT_TRUE(std::regex_search(text, task, std::regex("(^|\\n)task = \"([a-z]+)\"")));
    ASSERT_TRUE(data.contains(task[2])) << task[2];
    const bool images = task[2] == "image" || task[2] == "pathfinder";
    // A tokenizer that is made from so little text is small.
    const std::string tokenizer = Contains(text, "\"sentencepiece\"") ? " --vocabulary 290" : "";
    const std::string run = "run" + std::to_string(recipes++);
    ExpectDone(Run("train --recipe '" + entry.path().string() + "' --data " + data.at(task[2]) +
                   tokenizer + (images ? " --length 1024" : " --length 32") +
                   " --layers 1 --width 16 --heads 2 --hidden 32 --steps 1 --batch-tokens 64"
                   " --accumulate 1 --warmup 1 --threads 1 --cache cache --out " +
                   run));
    EXPECT_EQ(Steps(run), 1);
  }
  EXPECT_GE(recipes, 10);
}

TEST_F(RecipesTest, TheCommandLineStandsAboveTheRecipe) {
  PutText();
  Put("mine.toml",
      "task = \"lm\"\ndata = \"text\"\ntokenizer = \"bytes\"\nlayers = 2\nwidth = 32\nheads = 2\n"
      "length = 16\nbatch-tokens = 128\nsteps = 5\ncache = \"cache\"\nthreads = 1\nout = "
      "\"run\"\n");
  ExpectDone(Run("train --recipe mine.toml --width 16 --steps 2"));
  EXPECT_EQ(Config("run")["layers"], 2);
  EXPECT_EQ(Config("run")["width"], 16);
  EXPECT_EQ(Steps("run"), 2);
  EXPECT_TRUE(Contains(ReadFile(folder_ / "run/recipe.toml"), "width = 16"));
  // Another way to say how long stands above the recipe's steps too, but not a resumed run's.
  ExpectDone(Run("train --recipe mine.toml --epochs 0.5 --out half"));
  const int64_t half = Steps("half");
  EXPECT_GT(half, 5);
  ExpectDone(Run("train --recipe mine.toml --epochs 1 --out whole"));
  EXPECT_NEAR(static_cast<double>(Steps("whole")), 2.0 * static_cast<double>(half), 1.0);
  ExpectDone(Run("train --recipe mine.toml --minutes 0.0001 --out short"));
  EXPECT_LT(Steps("short"), 5);
  ExpectSentence(Run("train --resume half --epochs 2"), "give --steps, not --epochs");
}

TEST_F(RecipesTest, WhatARecipeMayNotSayIsASentence) {
  Put("typo.toml", "task = \"lm\"\nlayrs = 3\n");
  ExpectRefusal("train --recipe typo.toml --data text",
                "\"typo.toml\", line 2: \"layrs\" is no option of cosformer train");
  Put("word.toml", "layers = \"many\"\n");
  ExpectRefusal("train --recipe word.toml --data text",
                "\"word.toml\", line 1: layers = \"many\" is not of the kind that --layers takes");
  ExpectRefusal("train --layers two --data text", "--layers");
  for (const char* text : {"layers = 1\nlayers = 2\n", "[train]\nlr = 0.1\n", "lr =\n",
                           "attention = [\"softmax\"]\n"}) {
    Put("wrong.toml", text);
    ExpectSentence(Run("train --recipe wrong.toml --data text"), "\"wrong.toml\", line ");
  }
  ExpectSentence(Run("train --recipe none.toml --data text"), "none.toml");
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

}  // namespace
}  // namespace cosformer
