#include "cli/recipe.h"

#include <fmt/format.h>

#include <filesystem>

#include "cosformer/error.h"

namespace cosformer::cli {
namespace {

[[noreturn]] void Refuse(const std::string& path, const Recipe::Entry& entry,
                         const std::string& why) {
  throw Error(fmt::format("\"{}\", line {}: {}", path, entry.line, why));
}

}  // namespace

CLI::Option* AddRecipeOption(CLI::App& app) {
  return app
      .add_option_function<std::string>(
          "--recipe", [&app](const std::string& path) { ApplyRecipe(app, path); },
          "A TOML file with any of these options, one per line (lr = 0.001); options on the "
          "command "
          "line take precedence")
      ->trigger_on_parse()
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw)
      ->configurable(false);
}

void ApplyRecipe(CLI::App& app, const std::string& path, UnknownOptions unknown) {
  const Recipe recipe = Recipe::Read(path);
  for (const Recipe::Entry& entry : recipe.entries()) {
    CLI::Option* option = app.get_option_no_throw("--" + entry.option);
    if (option == nullptr && unknown == UnknownOptions::kSkip) continue;
    if (option == nullptr || !option->get_configurable()) {
      Refuse(path, entry,
             fmt::format("\"{}\" is no option of {} that a recipe may hold", entry.option,
                         app.get_name()));
    }
    if (option->count() > 0) continue;
    option->add_result(entry.value);
    try {
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      Refuse(path, entry,
             fmt::format("{} = {} is not of the kind that --{} takes ({})", entry.option,
                         TomlValue(entry.value), entry.option, option->get_type_name()));
    }
  }
}

void MakePathsAbsolute(CLI::App& app, const std::vector<const char*>& options) {
  for (const char* name : options) {
    CLI::Option* option = app.get_option(name);
    if (option->count() == 0) continue;
    const std::string path = option->results().back();
    if (path.empty() || !std::filesystem::exists(path)) continue;
    option->clear();
    option->add_result(std::filesystem::absolute(path).lexically_normal().string());
  }
}

Recipe RecipeOf(const CLI::App& app) {
  Recipe recipe;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_configurable() || option->get_lnames().empty()) continue;
    recipe.Set(option->get_lnames().front(),
               option->count() > 0 ? option->results().back() : option->get_default_str());
  }
  return recipe;
}

}  // namespace cosformer::cli
