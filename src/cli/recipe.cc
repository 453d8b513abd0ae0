#include "cli/recipe.h"

#include <filesystem>

namespace cosformer::cli {

void AddRecipeOption(CLI::App& app) {
  app.set_config("--recipe", "",
                 "A file in TOML with any of these options; those on the command "
                 "line stand above it");
  app.allow_config_extras(CLI::config_extras_mode::error);
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

std::string RecipeOf(const CLI::App& app) {
  return app.config_to_str(/*default_also=*/true, /*write_description=*/false);
}

}  // namespace cosformer::cli
