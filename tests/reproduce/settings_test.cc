// The recipes that experiments are made of.
#include "reproduce/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "contains.h"

namespace cosformer::reproduce {
namespace {

using testing::Contains;

TEST(SettingsTest, ARecipeIsTakenWhole) {
  ASSERT_FALSE(EmbeddedRecipes().empty());
  for (const auto& [name, text] : EmbeddedRecipes()) {
    SCOPED_TRACE(name);
    const std::string toml = TomlOf(RecipeSettings(std::string(name)));
    size_t lines = 0, begin = 0;
    while (begin < text.size()) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line(text.substr(begin, end - begin));
      begin = end + 1;
      if (line.empty() || line.starts_with("#")) continue;
      EXPECT_TRUE(Contains(toml, "\n" + line + "\n"));
      ++lines;
    }
    EXPECT_EQ(RecipeSettings(std::string(name)).options.size(), lines);
  }
}

TEST(SettingsTest, AnOptionStandsOnce) {
  Settings settings{.comment = "a comment", .options = {}};
  settings.Set("steps", "1");
  settings.SetText("data", "a \"b\" \\c");
  settings.Set("steps", "2");
  EXPECT_EQ(TomlOf(settings), "# a comment\nsteps = 2\ndata = \"a \\\"b\\\" \\\\c\"\n");
  settings.Remove("steps");
  settings.Remove("nothing");
  EXPECT_EQ(settings.options.size(), 1u);
}

TEST(SettingsTest, ShortTrainingsHaveTheShapeOfTheirRecipe) {
  const std::string recipe = TomlOf(RecipeSettings("wikitext-2"));
  const std::string compact = TomlOf(LanguageModelSettings(kCompact));
  for (const char* line : {"layers = 4\n", "width = 256\n", "vocabulary = 4096\n"}) {
    EXPECT_TRUE(Contains(recipe, line));
    EXPECT_TRUE(Contains(compact, line));
  }
  EXPECT_TRUE(Contains(recipe, "\nepochs = "));
  EXPECT_FALSE(Contains(compact, "\nepochs = "));
  EXPECT_TRUE(Contains(compact, "\nsteps = 900\n"));
}

}  // namespace
}  // namespace cosformer::reproduce
