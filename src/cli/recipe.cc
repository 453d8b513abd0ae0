#include "cli/recipe.h"

namespace cosformer::cli {

void AddRecipeOption(CLI::App& app) {
  app.set_config("--recipe", "",
                 "A file in TOML with any of these options; those on the command "
                 "line stand above it");
  app.allow_config_extras(CLI::config_extras_mode::error);
}

std::string RecipeOf(const CLI::App& app) {
  return app.config_to_str(/*default_also=*/true, /*write_description=*/false);
}

}  // namespace cosformer::cli
