// What every cell is trained with, all in one place: recipes of recipes/, which the program has in
// it, and what the experiments change in them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cosformer::reproduce {

struct Settings {
  std::string comment;                                       // the first line of the recipe
  std::vector<std::pair<std::string, std::string>> options;  // values as TOML writes them

  // Replaces an option, or adds it.
  void Set(const std::string& option, const std::string& value);
  void SetText(const std::string& option, const std::string& text);
  void Remove(const std::string& option);
  // The value as it stands in the recipe; empty: it is not there.
  std::string Value(const std::string& option) const;
};

// As a file.
std::string TomlOf(const Settings& settings);

// What stands between the quotes of a text.
std::string TomlEscaped(const std::string& text);

// The recipes that experiments use, by name: "lra/text-compact", and the text of the file.
const std::vector<std::pair<std::string_view, std::string_view>>& EmbeddedRecipes();

// One of them. There must be one of this name.
Settings RecipeSettings(const std::string& recipe);

inline constexpr const char* kCompact = "compact";    // a CPU in hours
inline constexpr const char* kOriginal = "original";  // as published

// `scale` is one of the two.
Settings LanguageModelSettings(const std::string& scale);
// A language model that is large enough for curves and maps, on the same text.
Settings SmallLanguageModelSettings();
// `task` is one of listops, text, retrieval, image, pathfinder.
Settings LongRangeArenaSettings(const std::string& task, const std::string& scale);
Settings PretrainingSettings(const std::string& scale);
// `task` is one of sst-2, imdb, qqp, mnli, amazon, mrpc, rte.
Settings FinetuningSettings(const std::string& task, const std::string& scale);

// Examples of the generated sets: training, validation, test.
struct SetSizes {
  int train = 0;
  int valid = 0;
  int test = 0;
};
SetSizes GeneratedSizes(const std::string& task, const std::string& scale);

}  // namespace cosformer::reproduce
