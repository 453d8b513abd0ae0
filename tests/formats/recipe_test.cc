// Recipes as they are read and written.
#include "formats/recipe.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cosformer/error.h"

namespace cosformer {
namespace {

std::string ErrorOf(const std::string& text) {
  try {
    Recipe::Parse(text, "my.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RecipeTest, HoldsValuesAsTheCommandLineWouldHaveThem) {
  const Recipe recipe = Recipe::Parse(
      "# a comment\n"
      "task = \"lm\"   # another\n"
      "lr = 1e-4\n"
      "beta2=0.9990\n"
      "vocabulary = 32_768\n"
      "seed = 0x10\n"
      "bias = false\n"
      "attention = '{\"system\": \"performer\"}'\n"
      "data = \"a \\\"b\\\" \\\\ c\"\n"
      "out = \"Zürich\"\n",
      "my.toml");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"task", "lm"},
      {"lr", "1e-4"},
      {"beta2", "0.9990"},
      {"vocabulary", "32768"},
      {"seed", "16"},
      {"bias", "false"},
      {"attention", "{\"system\": \"performer\"}"},
      {"data", "a \"b\" \\ c"},
      {"out", "Zürich"}};
  ASSERT_EQ(recipe.entries().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(recipe.entries()[i].option, expected[i].first);
    EXPECT_EQ(recipe.entries()[i].value, expected[i].second);
    EXPECT_EQ(recipe.entries()[i].line, static_cast<int>(i) + 2);
  }
  EXPECT_EQ(*recipe.Find("beta2"), "0.9990");
  EXPECT_EQ(recipe.Find("beta"), nullptr);
}

TEST(RecipeTest, ReadsWhatItWrote) {
  const std::vector<std::string> values = {"0",
                                           "-1",
                                           "600",
                                           "0.002",
                                           "1e-08",
                                           "1E5",
                                           "true",
                                           "lm",
                                           "",
                                           "a \"b\" \\ c\t\n\x7f",
                                           "inf",
                                           ".5",
                                           "1.",
                                           "007",
                                           "0x10",
                                           "1_000",
                                           "18446744073709551615",
                                           "nan",
                                           "1979-05-27",
                                           "[1]",
                                           "{\"system\": \"rfa\"}",
                                           "softmax,cosformer",
                                           "Zürich"};
  Recipe recipe;
  for (size_t i = 0; i < values.size(); ++i) recipe.Set("o" + std::to_string(i), values[i]);
  const Recipe again = Recipe::Parse(recipe.ToToml(), "again");
  ASSERT_EQ(again.entries().size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(again.entries()[i].value, values[i]);
  EXPECT_EQ(TomlValue("600"), "600");
  EXPECT_EQ(TomlValue("1e-08"), "1e-08");
  EXPECT_EQ(TomlValue("bytes"), "\"bytes\"");
}

TEST(RecipeTest, ReadsTheNumbersOfOlderRuns) {
  const Recipe recipe = Recipe::Parse("lr=.001\nclip=1.\nfinal-lr=-.5e2\nout=\"a.\"\n", "run");
  EXPECT_EQ(*recipe.Find("lr"), "0.001");
  EXPECT_EQ(*recipe.Find("clip"), "1.0");
  EXPECT_EQ(*recipe.Find("final-lr"), "-0.5e2");
  EXPECT_EQ(*recipe.Find("out"), "a.");
}

TEST(RecipeTest, SetReplacesWithoutChangingTheOrder) {
  Recipe recipe = Recipe::Parse("steps = 5\nlr = 0.1\n", "run");
  recipe.Set("steps", "7");
  recipe.Set("out", "runs/a");
  EXPECT_EQ(recipe.ToToml(), "steps = 7\nlr = 0.1\nout = \"runs/a\"\n");
}

TEST(RecipeTest, AFileOfOneLongLineIsRefused) {
  EXPECT_NE(ErrorOf(std::string(1'000'000, 'a')).find("line 1: not TOML"), std::string::npos);
}

TEST(RecipeTest, WhatIsNoRecipeIsRefusedWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"layers = 2\nlayers = 3\n", "line 2"},
      {"lr =\n", "line 1: not TOML"},
      {"a = 1\nlr = abc\n", "line 2: not TOML"},
      {"[train]\nlr = 0.1\n", "line 1: \"train\" is a table"},
      {"\nattention = [\"softmax\", \"cosformer\"]\n", "line 2: \"attention\" is a list"},
      {"out = 1979-05-27\n", "line 1: \"out\" is a date"},
      {"lr 0.1\n", "line 1: not TOML"},
      {"data = \"my.txt\n", "line 1: not TOML"},
      {"data = \"\xff\"\n", "line 1: not TOML"}};
  for (const auto& [text, mentions] : table) {
    SCOPED_TRACE(text);
    const std::string error = ErrorOf(text);
    EXPECT_TRUE(error.starts_with("\"my.toml\", ")) << error;
    EXPECT_NE(error.find(mentions), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace cosformer
