// Recipes on the command line: the file that --recipe names fills options of a subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "formats/recipe.h"

namespace cosformer::cli {

// Makes `--recipe FILE` an option of the program. What the command line says stands above what the
// file says, and a key that is no option is an error.
CLI::Option* AddRecipeOption(CLI::App& app);

// Gives every option of the recipe that the command line has not given yet its value; one that
// comes later on the command line stands above it. For an option's callback that runs while the
// command line is parsed. Throws Error with the file and line of what is wrong.
enum class UnknownOptions { kRefuse, kSkip };
void ApplyRecipe(CLI::App& app, const std::string& path,
                 UnknownOptions unknown = UnknownOptions::kRefuse);

// Of those options that name something that exists: so that a recipe means the same from any
// directory.
void MakePathsAbsolute(CLI::App& app, const std::vector<const char*>& options);

// The options of `app`, as they are now.
Recipe RecipeOf(const CLI::App& app);

}  // namespace cosformer::cli
