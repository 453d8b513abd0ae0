// The unit of an experiment: commands of this program that give one result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cosformer::reproduce {

// In words and files, {out} stands for the experiment's directory, {cell} for the cell's, {data}
// for that of the user's sets: where they are changes no result. In words also {json} for the file
// that the command's results go to, {threads} for a number that changes no result, and
// {eval_tokens} for how much of a split a budget leaves time to evaluate, 0: all of it.
struct Command {
  std::vector<std::string> words;  // from the subcommand on
  // The file in the cell's directory that {json} becomes. It takes this name only when the command
  // has ended well, so that a command whose file is there is not run again. Empty: there is none.
  std::string json;
  // Of a training: the directory of its run, in the cell's. One that was stopped is resumed.
  std::string run = {};
  // Words after the others that change no result, and so are no part of the fingerprint.
  std::vector<std::string> also = {};
};

// The file of a training's settings: the runner adds its time to it, where it has a share of one.
inline constexpr const char* kRecipeFile = "recipe.toml";

struct File {
  std::string name;  // in the cell's directory
  std::string contents;
};

struct Cell {
  std::string id;     // once in an experiment; letters, digits, "-" and "."
  std::string label;  // for people: "cosFormer, ListOps"
  std::string system = {};
  std::string task = {};
  int64_t seed = 0;
  int64_t length = 0;
  int64_t steps = 0;  // that its training's recipe has, whatever time it is given; 0: not known
  std::vector<File> files = {};  // written before the commands run
  std::vector<Command> commands = {};
  std::vector<std::string> needs = {};  // cells that must have given results before
  std::string absent = {};              // why it can't be run here, a sentence; empty: it can
  double weight = 1;                    // of its share of the budget; 0: takes none
  // Its share is a limit on its time. Otherwise it is what its training takes as --minutes.
  bool limited = false;
  // What it gives is no result, but serves other cells: a set of data, a pre-trained model.
  bool support = false;
  // Resident bytes that each of its processes may have, where that is part of what is measured; 0:
  // what the runner gives all.
  int64_t memory = 0;
};

// Whether one of its commands is a training.
bool IsTraining(const Cell& cell);

// A name for the settings of a cell: 16 digits, the same for the same files and commands. Whatever
// changes a result must stand in one of them.
std::string FingerprintOf(const Cell& cell);

// Where the cell works, in the experiment's directory: other settings, another directory.
std::string DirectoryOf(const Cell& cell);

struct Places {
  std::string out;
  std::string cell;
  std::string data = {};
  std::string json = {};
  int threads = 0;
  int64_t eval_tokens = 0;
};

// The text with its placeholders filled in.
std::string Fill(std::string text, const Places& places);

// As it would be typed in a shell.
std::string ShellText(const std::vector<std::string>& words);

}  // namespace cosformer::reproduce
