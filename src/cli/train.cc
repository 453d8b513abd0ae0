// `cosformer train`: options in, a run directory out.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/program.h"
#include "cli/recipe.h"
#include "cosformer/error.h"
#include "cosformer/torch.h"
#include "formats/json.h"
#include "model/model_files.h"
#include "report/files.h"
#include "report/units.h"
#include "runs/run_directory.h"
#include "runtime/network.h"
#include "train/process.h"
#include "train/trainer.h"

namespace cosformer::cli {
namespace {

constexpr const char* kTrainDescription =
    R"(Trains a model on your data, and leaves it in a run directory with all that was used.

Ctrl-C finishes the step, saves, and says how to go on; a run that goes on gives the same losses as
one that was never stopped.)";

constexpr const char* kTrainExamples = R"(
Examples
  cosformer train --data my.txt --minutes 30
  cosformer train --task classify --data SST-2 --length 64 --epochs 3
  cosformer train --recipe recipes/quickstart.toml --data my.txt --attention softmax
  cosformer train --task classify --data IMDB --from runs/masked --lr 1e-4
  cosformer train --resume runs/lm-cosformer)";

struct TrainArguments {
  DataArguments data;
  ModelArguments model;
  TrainOptions train;
  std::string schedule = NameOf(ScheduleKind::kCosine);
  std::string out;
  std::string resume;
  std::string json;
  int threads = 0;
  std::vector<std::string> typed;  // options of the command line; the others are a recipe's
};

void AddTrainOptions(CLI::App& app, TrainArguments& arguments) {
  TrainOptions& train = arguments.train;
  constexpr const char* kLoop = "Training";
  constexpr const char* kRun = "Run";
  app.add_option("--length", train.length, "Of a sequence, in tokens; 0: the task's")->group(kLoop);
  app.add_option("--steps", train.steps, "Updates of the weights")->group(kLoop);
  app.add_option(
         "--minutes", train.minutes,
         "Without --steps: as many as fit, with all that is evaluated; making tokens of the "
         "data, once, comes before")
      ->group(kLoop);
  app.add_option("--epochs", train.epochs, "Without both: passes over the training examples")
      ->group(kLoop);
  app.add_option("--batch-tokens", train.batch_tokens,
                 "Tokens that are computed together: as many sequences as fit, at least one")
      ->group(kLoop);
  app.add_option("--accumulate", train.accumulate, "So many of them make an update")->group(kLoop);
  app.add_option("--lr", train.adamw.lr, "Learning rate at its peak")->group(kLoop);
  app.add_option("--schedule", arguments.schedule, "constant, inverse-sqrt, cosine, polynomial")
      ->group(kLoop);
  app.add_option("--warmup", train.warmup, "Steps to the peak; -1: a twentieth of all")
      ->group(kLoop);
  app.add_option("--final-lr", train.final_share, "At the end, as part of the peak")->group(kLoop);
  app.add_option("--power", train.power, "Of the polynomial schedule")->group(kLoop);
  app.add_option("--beta1", train.adamw.beta1, "AdamW: memory of gradients")->group(kLoop);
  app.add_option("--beta2", train.adamw.beta2, "AdamW: memory of their squares")->group(kLoop);
  app.add_option("--epsilon", train.adamw.epsilon, "AdamW: least divisor")->group(kLoop);
  app.add_option("--weight-decay", train.adamw.weight_decay, "AdamW: of matrices")->group(kLoop);
  app.add_option("--clip", train.clip, "Longest gradient; 0: any")->group(kLoop);
  app.add_option("--smoothing", train.smoothing, "Of the targets' probabilities")->group(kLoop);
  app.add_option("--masked", train.masked, "Masked LM: part of the tokens to predict")
      ->group(kLoop);
  app.add_option("--seed", train.seed, "Of the weights, the order of the data, dropout and masks")
      ->check(WholeNumber<uint64_t>())
      ->group(kLoop);
  app.add_option("--out", arguments.out, "The run's directory; otherwise runs/TASK-ATTENTION")
      ->group(kRun);
  app.add_option("--resume", arguments.resume, "Go on with the run in this directory")
      ->configurable(false)
      ->group(kRun);
  app.add_option("--eval-every", train.eval_every, "Steps; 0: ten times in the run")->group(kRun);
  app.add_option("--eval-tokens", train.eval_tokens,
                 "Of the validation split at most, spread over it; 0: all of it, or what --minutes "
                 "leave time for")
      ->group(kRun);
  app.add_option("--test-tokens", train.test_tokens, "Of the test split at the end, likewise")
      ->group(kRun);
  app.add_option("--save-every", train.save_every, "Steps; 0: with every evaluation")->group(kRun);
  app.add_option("--keep", train.keep, "Checkpoints to keep")->group(kRun);
  app.add_option("--patience", train.patience,
                 "Stop after so many evaluations without a better one; 0: never")
      ->group(kRun);
  app.add_option("--threads", arguments.threads,
                 "Threads; 0: all cores, or one where that is faster")
      ->group(kRun);
  AddJsonOption(app, arguments.json);
}

void Check(const TrainArguments& arguments) {
  if (!arguments.model.from.empty() && !arguments.model.config.empty()) {
    throw Error("--from and --config are both given; a model begins with one of them");
  }
  CheckOptions(arguments.train);
  CheckThreads(arguments.threads);
}

// The name of the attention, as part of a directory's name.
std::string ShortName(const ModelConfig& config) {
  const std::string first = config.attention.front().system;
  for (const SystemConfig& layer : config.attention) {
    if (layer.system != first) return "hybrid";
  }
  return first;
}

int64_t PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

void PrintStart(const TrainArguments& arguments, const data::TaskData& data, ModelImpl& model) {
  const data::Dataset& train = *data.train;
  fmt::print(stderr, "{}: {} training examples, {} tokens; {}\n", arguments.data.task,
             report::FormatInteger(train.examples()), report::FormatInteger(train.tokens()),
             !data.valid
                 ? "no validation split"
                 : fmt::format("{} to validate on{}", report::FormatInteger(data.valid->examples()),
                               data.held_out ? ", held out from them" : ""));
  if (!data.labels.empty()) {
    fmt::print(stderr, "{} classes; tokenizer: {} ({} tokens)\n", data.labels.size(),
               Name(data.tokenizer.kind()), report::FormatInteger(data.tokenizer.size()));
  } else {
    fmt::print(stderr, "tokenizer: {} ({} tokens)\n", Name(data.tokenizer.kind()),
               report::FormatInteger(data.tokenizer.size()));
  }
  fmt::print(stderr, "model: {} parameters, {} layers of width {}, {}\n",
             report::FormatCount(static_cast<double>(model.ParameterCount())),
             model.config().AttentionLayers(), model.config().width, ShortName(model.config()));
  const ModelConfig& config = model.config();
  if (config.kind == ModelKind::kDecoder && config.positions.kind == PositionKind::kLearned) {
    fmt::print(
        stderr,
        "it will read texts of up to {} tokens, where its learned positions end; --positions "
        "rotary, sinusoidal or none have no end\n",
        report::FormatInteger(config.max_length));
  }
  try {
    runtime::Network::CheckSupported(config);
  } catch (const Error& error) {
    fmt::print(stderr, "cosformer eval will run it, cosformer generate and score will not: {}\n",
               error.what());
  }
  if (const std::string complaint = BlasComplaint(); !complaint.empty()) {
    fmt::print(stderr, "warning: {}\n", complaint);
  }
}

// The first few, and how many more there are.
std::string FirstOf(const std::vector<std::string>& names, const char* between) {
  constexpr size_t kMost = 3;
  const auto end = names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), kMost));
  std::string text = fmt::format("{}", fmt::join(names.begin(), end, between));
  if (names.size() > kMost) text += fmt::format("{}and {} more", between, names.size() - kMost);
  return text;
}

// A model that begins with another has its tokens too: an embedding stands for its token alone.
void RequireTokenizerOf(const std::string& from, const Tokenizer& own) {
  const std::string directory = ModelDirectory(from).string();
  if (!Tokenizer::IsIn(directory) ||
      Tokenizer::Load(directory).Fingerprint() == own.Fingerprint()) {
    return;
  }
  throw Error(
      fmt::format("\"{}\" has another tokenizer than these data: its embeddings would stand for "
                  "other tokens; leave --tokenizer and --vocabulary out, or begin without --from",
                  from));
}

// Loads what fits of a pre-trained model, and says what did not.
void BeginFrom(const std::string& from, ModelImpl& model) {
  const LoadReport loaded = LoadMatching(model, ModelDirectory(from).string());
  fmt::print(stderr, "from {}: {} of {} tensors", from, loaded.loaded.size(),
             loaded.loaded.size() + loaded.kept.size() + loaded.differ.size());
  if (!loaded.kept.empty()) fmt::print(stderr, "; new: {}", FirstOf(loaded.kept, ", "));
  if (!loaded.differ.empty()) {
    fmt::print(stderr, "; new, since {}", FirstOf(loaded.differ, "; "));
  }
  fmt::print(stderr, "\n");
}

// The options of a command line, without their values.
std::vector<std::string> OptionsIn(const std::vector<std::string>& words) {
  std::vector<std::string> options;
  for (const std::string& word : words) {
    if (word.starts_with("--")) options.push_back(word.substr(0, word.find('=')));
  }
  return options;
}

bool IsTyped(const TrainArguments& arguments, const char* option) {
  return std::count(arguments.typed.begin(), arguments.typed.end(), option) > 0;
}

// A recipe that trains from nothing serves to go on from a model as well: shape and tokenizer are
// then that model's.
void TakeShapeOf(TrainArguments& arguments, CLI::App& app, const ModelOptions& model_options) {
  std::vector<std::string> left_out = model_options.InheritShape(arguments.typed);
  for (const char* name : {"--tokenizer", "--vocabulary"}) {
    CLI::Option* option = app.get_option(name);
    if (option->count() == 0 || IsTyped(arguments, name)) continue;
    option->clear();
    left_out.push_back(name);
  }
  const data::PrepareOptions defaults;
  if (app.get_option("--tokenizer")->count() == 0) {
    arguments.data.prepare.tokenizer = defaults.tokenizer;
  }
  if (app.get_option("--vocabulary")->count() == 0) {
    arguments.data.prepare.vocabulary = defaults.vocabulary;
  }
  if (!left_out.empty()) {
    fmt::print(stderr, "from {}: as it has them, not as the recipe: {}\n", arguments.model.from,
               fmt::join(left_out, ", "));
  }
}

// Of steps, minutes and epochs the first that is given counts; one that was typed stands above a
// recipe's.
void SettleLength(TrainArguments& arguments) {
  const bool minutes = IsTyped(arguments, "--minutes");
  if (IsTyped(arguments, "--steps") || !(minutes || IsTyped(arguments, "--epochs"))) return;
  if (!arguments.resume.empty()) {
    throw Error(fmt::format(
        "--resume goes on to the steps that the run settled on; for more or fewer give --steps, "
        "not {}",
        minutes ? "--minutes" : "--epochs"));
  }
  arguments.train.steps = 0;
  if (!minutes) arguments.train.minutes = 0;
}

std::vector<const char*> PathsIn(const TrainArguments& arguments) {
  std::vector<const char*> paths = {"--data",  "--train", "--valid", "--test",
                                    "--cache", "--from",  "--config"};
  if (!data::IsTokenizerKind(arguments.data.prepare.tokenizer)) paths.push_back("--tokenizer");
  return paths;
}

// What a run that goes on does otherwise than it began.
struct Change {
  std::string option, before, now;
};

std::vector<Change> ChangesOf(const TrainArguments& arguments, const CLI::App& app) {
  const Recipe recipe = Recipe::Read(RecipePath(arguments.resume));
  std::vector<Change> changes;
  for (const std::string& name : arguments.typed) {
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option == nullptr || !option->get_configurable() || option->count() == 0) continue;
    const std::string* before = recipe.Find(name.substr(2));
    if (before == nullptr) continue;
    const std::string now = option->results().back();
    if (now != *before) changes.push_back({name, *before, now});
  }
  return changes;
}

// What a run began with is part of all that it has done since.
void RequireSameBeginning(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    for (const char* fixed : {"--seed", "--from"}) {
      if (change.option != fixed) continue;
      throw Error(
          fmt::format("{} is {}, but the run began with {}: what it has learned follows "
                      "from that; leave {} out, or begin another run",
                      fixed, change.now, change.before.empty() ? "none" : change.before, fixed));
    }
  }
}

// Those that decide what a run becomes, not how it is computed and told.
std::vector<std::string> NamesOf(const std::vector<Change>& changes) {
  constexpr std::array<std::string_view, 3> kOther = {"--threads", "--test-tokens", "--cache"};
  std::vector<std::string> names;
  for (const Change& change : changes) {
    if (std::count(kOther.begin(), kOther.end(), change.option) == 0) {
      names.push_back(change.option);
    }
  }
  return names;
}

// For the help.
std::string SystemList() {
  std::string text = "\nSystems for --attention\n";
  for (const SystemDescription& system : AttentionSystems()) {
    text += fmt::format("  {:<22}{}\n", system.name, system.summary);
  }
  return text;
}

// Of an evaluation that was of a part of a split.
std::string PartOf(double part) {
  return part < 1 ? fmt::format(", on {:.2g} % of it", 100 * part) : "";
}

std::string Figure(bool classes, double loss_or_accuracy) {
  return classes ? fmt::format("accuracy {:.2f} %", 100 * loss_or_accuracy)
                 : fmt::format("perplexity {:.2f} (loss {:.4f})", std::exp(loss_or_accuracy),
                               loss_or_accuracy);
}

void PrintSummary(const TrainArguments& arguments, const TrainSummary& summary, bool classes,
                  const ModelImpl& model) {
  const std::string directory = arguments.out;
  std::string text;
  nlohmann::json json{
      {"run", directory},
      {"model", ModelPath(directory)},
      {"finished", summary.signal == 0 && !summary.out_of_time},
      {"step", summary.step},
      {"steps", summary.steps},
      {"tokens", summary.tokens},
      {"seconds", summary.seconds},
      {"tokens_per_second", summary.tokens_per_second},
      {"waited_for_data_seconds", summary.waited_seconds},
      {"peak_bytes", PeakBytes()},
      {"parameters", model.ParameterCount()},
  };
  if (summary.signal != 0) {
    text += fmt::format(
        "Stopped at step {} of {}, and saved. Go on with:\n  cosformer train --resume {}\n",
        report::FormatInteger(summary.step), report::FormatInteger(summary.steps), directory);
  } else {
    const std::string at =
        fmt::format("Stopped at step {} of {}", report::FormatInteger(summary.step),
                    report::FormatInteger(summary.steps));
    text += summary.stopped_early
                ? fmt::format("{}: no better for {} evaluations.\n", at, arguments.train.patience)
            : summary.out_of_time
                ? fmt::format(
                      "{}: the minutes were over. For the rest:\n  cosformer train --resume {}\n",
                      at, directory)
                : fmt::format("Done: {} steps.\n", report::FormatInteger(summary.steps));
  }
  if (summary.best) {
    text += fmt::format("  best      {} on the validation split{}, at step {}\n",
                        Figure(classes, *summary.best), PartOf(summary.best_part),
                        report::FormatInteger(summary.best_step));
    json["best"] = {{"step", summary.best_step},
                    {classes ? "accuracy" : "loss", *summary.best},
                    {"part", summary.best_part}};
    if (!classes) json["best"]["perplexity"] = std::exp(*summary.best);
  }
  if (summary.test) {
    const Evaluation& test = *summary.test;
    text += fmt::format("  test      {} on the test split{}: {} predictions\n",
                        Figure(classes, classes ? test.Accuracy() : test.Loss()), PartOf(test.part),
                        report::FormatInteger(test.Predictions()));
    json["test"] = {
        {"loss", test.Loss()}, {"predictions", test.Predictions()}, {"part", test.part}};
    if (classes) {
      json["test"]["accuracy"] = test.Accuracy();
    } else {
      json["test"]["perplexity"] = std::exp(test.Loss());
    }
  }
  text += fmt::format("  time      {}, {} tokens, {} tokens/s, waited for data {}\n",
                      report::FormatDuration(summary.seconds),
                      report::FormatCount(static_cast<double>(summary.tokens)),
                      report::FormatCount(summary.tokens_per_second),
                      report::FormatSeconds(summary.waited_seconds));
  text += fmt::format("  memory    {} at its highest\n",
                      report::FormatBytes(static_cast<double>(PeakBytes())));
  if (summary.best || summary.signal == 0) {
    text += fmt::format("  model     {}\n", ModelPath(directory));
  }
  PrintResults(text, JsonText(json, 2) + "\n", arguments.json);
}

// Returns the signal that stopped it, or 0.
int RunTraining(TrainArguments& arguments, CLI::App& app, const ModelOptions& model_options) {
  Check(arguments);
  model_options.Check();
  CheckJsonOutput(arguments.json);
  TrainOptions& train = arguments.train;
  train.schedule = ScheduleKindOf(arguments.schedule);
  const bool resume = !arguments.resume.empty();
  if (resume) {
    if (IsTyped(arguments, "--out")) {
      throw Error("--resume goes on in the run's own directory: leave --out out");
    }
    arguments.out = arguments.resume;
    if (!std::filesystem::exists(RecipePath(arguments.resume))) {
      throw Error(fmt::format(
          "\"{}\" is no run: there is no recipe.toml in it; give --resume the directory "
          "that --out was",
          arguments.resume));
    }
    if (Checkpoints(arguments.resume).empty()) {
      throw Error(
          fmt::format("\"{}\" has no checkpoint to go on from; it was stopped before the "
                      "first: begin again without --resume",
                      arguments.resume));
    }
  }
  SettleLength(arguments);
  std::vector<Change> changes;
  if (resume) {
    MakePathsAbsolute(app, PathsIn(arguments));  // as the recipe has them
    changes = ChangesOf(arguments, app);
  }
  RequireSameBeginning(changes);
  if (!resume && !arguments.out.empty()) RequireNoRun(arguments.out);
  const bool begins_from = !arguments.model.from.empty() && !resume;
  // Where the recipe itself begins with a model, what else it says is meant for that.
  if (begins_from && IsTyped(arguments, "--from")) TakeShapeOf(arguments, app, model_options);
  SetThreads(arguments.threads);
  const data::Task& task = data::FindTask(arguments.data.task);
  // A pre-trained model brings its tokenizer, unless the task has one whatever the text.
  if (!arguments.model.from.empty() && arguments.data.prepare.tokenizer.empty() &&
      task.FixedTokenizer() == nullptr) {
    arguments.data.prepare.tokenizer =
        std::filesystem::absolute(ModelDirectory(arguments.model.from)).lexically_normal().string();
  }
  if (train.length == 0) train.length = task.description().length;
  const data::TaskData data = PrepareData(arguments.data);
  if (begins_from) RequireTokenizerOf(arguments.model.from, data.tokenizer);
  TrainJob job;  // whose time begins
  const ModelConfig config = model_options.Config(task, data, train.length);
  if (arguments.out.empty()) {
    arguments.out = fmt::format("runs/{}-{}", arguments.data.task, ShortName(config));
  }
  torch::manual_seed(train.seed);
  Model model(config);
  PrintStart(arguments, data, *model);
  if (begins_from) BeginFrom(arguments.model.from, *model);

  job.directory = arguments.out;
  job.task = &task;
  job.data = &data;
  job.options = train;
  job.resume = resume;
  job.faster_threads = arguments.threads == 0 && !resume;
  job.changed = NamesOf(changes);
  job.settled = [&](const SettledOptions& settled) {
    for (const Change& change : changes) {
      fmt::print(stderr, "changed: {} is {}, and was {}\n", change.option, change.now,
                 change.before.empty() ? "not given" : change.before);
    }
    arguments.train.steps = settled.steps;
    arguments.train.eval_every = settled.eval_every;
    if (job.faster_threads) {
      arguments.threads = settled.threads;
      app.get_option("--threads")->clear();  // where it was given as 0
    }
    if (arguments.train.eval_tokens != settled.eval_tokens) {
      arguments.train.eval_tokens = settled.eval_tokens;
      app.get_option("--eval-tokens")->clear();
    }
    for (CLI::Option* option : app.get_options()) {
      if (option->get_configurable() && option->count() == 0) option->capture_default_str();
    }
    model_options.LeaveInheritedOut();
    MakePathsAbsolute(app, PathsIn(arguments));
    report::WriteFile(RecipePath(arguments.out), RecipeOf(app).ToToml());
    WriteConfig((std::filesystem::path(ModelPath(arguments.out)) / kConfigFile).string(), config);
  };
  const TrainSummary summary = Train(job, model);
  PrintSummary(arguments, summary, !data.labels.empty(), *model);
  return summary.signal;
}

}  // namespace

int RunTrain(int argc, char** argv) {
  TrainArguments arguments;
  arguments.train.length = 0;
  CLI::App app(kTrainDescription, "cosformer train");
  app.footer(TaskList() + SystemList() + kTrainExamples);
  app.get_formatter()->column_width(32);
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  CLI::Option* recipe = AddRecipeOption(app);
  AddDataOptions(app, arguments.data);
  const ModelOptions model_options(app, arguments.model);
  AddTrainOptions(app, arguments);
  // A run that goes on does so by its own recipe.
  app.get_option("--resume")
      ->each([&](const std::string& directory) {
        if (std::filesystem::exists(RecipePath(directory))) ApplyRecipe(app, RecipePath(directory));
      })
      ->trigger_on_parse()
      ->excludes(recipe);
  int signal = 0;
  app.callback([&] { signal = RunTraining(arguments, app, model_options); });

  const std::vector<std::string> words(argv + 1, argv + argc);
  arguments.typed = OptionsIn(words);
  const int code = RunProgram(app, words);
  return code == 0 && signal != 0 ? 128 + signal : code;
}

}  // namespace cosformer::cli
