// Recipes: files in TOML whose keys are the options of a subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cosformer::cli {

// Makes `--recipe FILE` an option of the program: what the command line says stands above what the
// file says, and a key that is no option is an error.
void AddRecipeOption(CLI::App& app);

// Of those options that name something that exists: so that a recipe means the same from any
// directory.
void MakePathsAbsolute(CLI::App& app, const std::vector<const char*>& options);

// The options of `app`, as they are now, as the text of a recipe.
std::string RecipeOf(const CLI::App& app);

}  // namespace cosformer::cli
