// `cosformer data`: prepares data for training, generates the sets that are made by rule, and shows
// what is in any of them.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cosformer/error.h"
#include "data/batches.h"
#include "data/listops.h"
#include "data/pathfinder.h"
#include "data/statistics.h"
#include "formats/json.h"
#include "report/meter.h"
#include "report/units.h"

namespace cosformer::cli {
namespace {

using data::Dataset;
using data::SetStatistics;
using data::Split;
using data::TaskData;

struct ShowArguments {
  DataArguments data;
  int64_t length = 0;
  int64_t samples = 2;
  std::string json;
};

// A picture in characters, two a pixel so that it is square.
std::string Draw(const std::vector<int64_t>& pixels, int64_t height, int64_t width) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  std::string text;
  for (int64_t y = 0; y < height; ++y) {
    text += "    ";
    for (int64_t x = 0; x < width; ++x) {
      const int64_t value = std::clamp<int64_t>(pixels[static_cast<size_t>(y * width + x)], 0, 255);
      text += std::string(2, kShades[static_cast<size_t>(value) * kShades.size() / 256]);
    }
    text += "\n";
  }
  return text;
}

// The beginning of a text, on one line.
std::string Excerpt(const TaskData& data, const Dataset& set, int64_t example, int64_t part) {
  constexpr int64_t kTokens = 60;
  const int64_t length = set.Length(example, part);
  std::vector<int64_t> wide(static_cast<size_t>(std::min(kTokens, length)));
  set.CopyText(example, part, static_cast<int64_t>(wide.size()), wide.data());
  const std::vector<int32_t> tokens(wide.begin(), wide.end());
  std::string text = data.tokenizer.Decode(tokens);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) {
    text.replace(at, 1, " ⏎ ");
  }
  if (length > kTokens) text += fmt::format(" … ({} tokens)", report::FormatInteger(length));
  return text;
}

std::string Samples(const data::TaskDescription& task, const TaskData& data, const Dataset& set,
                    int64_t count) {
  std::string text;
  count = std::min(count, set.examples());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t example = i * set.examples() / count;
    text += fmt::format(
        "\nexample {}{}\n", report::FormatInteger(example),
        set.info().labelled
            ? fmt::format(", class {}", data.labels.at(static_cast<size_t>(set.Label(example))))
            : "");
    if (task.image.height > 0 && set.Length(example) == task.image.height * task.image.width) {
      std::vector<int64_t> pixels(static_cast<size_t>(set.Length(example)));
      set.CopyText(example, 0, set.Length(example), pixels.data());
      text += Draw(pixels, task.image.height, task.image.width);
      continue;
    }
    for (int64_t part = 0; part < set.info().parts; ++part) {
      text += fmt::format("    {}\n", Excerpt(data, set, example, part));
    }
  }
  return text;
}

void Show(const ShowArguments& arguments) {
  for (const auto& [option, value] :
       {std::pair("--length", arguments.length), std::pair("--samples", arguments.samples)}) {
    if (value < 0) throw Error(fmt::format("{} is {}; it must be at least 0", option, value));
  }
  CheckJsonOutput(arguments.json);
  const data::TaskDescription& task = data::FindTask(arguments.data.task).description();
  const TaskData data = PrepareData(arguments.data);
  const int64_t length = arguments.length > 0 ? arguments.length : task.length;
  nlohmann::json object{{"task", task.name},
                        {"directory", data.directory},
                        {"tokenizer", Name(data.tokenizer.kind())},
                        {"vocabulary", data.tokenizer.size()},
                        {"held_out", data.held_out},
                        {"splits", nlohmann::json::object()}};
  std::string table = fmt::format("{}: {} tokens in the vocabulary ({}), prepared in {}\n\n",
                                  task.name, report::FormatInteger(data.tokenizer.size()),
                                  Name(data.tokenizer.kind()), data.directory);
  table += fmt::format("{:<7}{:>11}{:>14}{:>10}{}\n", "split", "examples", "tokens", "bytes",
                       task.stream ? "" : "   length: least, median, mean, 95 %, most");
  for (const Split split : data::kSplits) {
    const auto& set = data.Get(split);
    if (!set) continue;
    const SetStatistics figures = StatisticsOf(*set, static_cast<int64_t>(data.labels.size()));
    nlohmann::json& row =
        object["splits"][std::string(Name(split))] = {{"examples", figures.examples},
                                                      {"tokens", figures.tokens},
                                                      {"bytes", figures.bytes},
                                                      {"words", figures.words}};
    table +=
        fmt::format("{:<7}{:>11}{:>14}{:>10}", Name(split), report::FormatInteger(figures.examples),
                    report::FormatInteger(figures.tokens),
                    report::FormatBytes(static_cast<double>(figures.bytes)));
    if (!task.stream) {
      data::BatchOptions batch;
      batch.objective = task.objective;
      batch.special = data.tokenizer.special();
      batch.length = length;
      batch.images = task.image.height > 0;
      const int64_t cut = data::Batches(*set, batch).CountCut();
      row["length"] = {{"least", figures.shortest},
                       {"median", figures.median},
                       {"mean", figures.mean},
                       {"share_95", figures.most},
                       {"most", figures.longest},
                       {"longer_than", length},
                       {"longer", cut}};
      table += fmt::format("   {}, {}, {:.0f}, {}, {}", figures.shortest, figures.median,
                           figures.mean, figures.most, figures.longest);
      if (cut > 0) {
        table += fmt::format("; {} are cut to {}", report::FormatInteger(cut), length);
      }
    }
    if (task.objective == data::Objective::kCausal) {
      row["unigram_perplexity"] = data::UnigramPerplexity(*set);
    }
    table += "\n";
    if (figures.classes.empty()) continue;
    row["majority"] = figures.majority;
    for (size_t c = 0; c < figures.classes.size(); ++c) {
      row["classes"][data.labels[c]] = figures.classes[c];
    }
  }
  if (data.held_out) table += "The validation split is held out from the training examples.\n";
  if (!data.labels.empty()) {
    table += "\n";
    for (const Split split : data::kSplits) {
      if (!data.Get(split)) continue;
      const std::string name(Name(split));
      nlohmann::json& row = object["splits"][name];
      table += fmt::format("{:<7}majority baseline {:.2f} %; classes:", name,
                           100 * row["majority"].get<double>());
      for (const std::string& label : data.labels) {
        table +=
            fmt::format(" {} {:.1f} %", label,
                        100 * row["classes"][label].get<double>() / row["examples"].get<double>());
      }
      table += "\n";
    }
  }
  for (const Split split : data::kSplits) {
    if (!data.Get(split)) continue;
    table += Samples(task, data, *data.Get(split), arguments.samples);
    break;
  }
  PrintResults(table, JsonText(object, 2) + "\n", arguments.json);
}

void AddShow(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "show", "Prepares data if need be, and shows figures and examples of them");
  const auto arguments = std::make_shared<ShowArguments>();
  app->footer(TaskList());
  app->get_formatter()->column_width(30);
  app->option_defaults()->always_capture_default();
  AddDataOptions(*app, arguments->data);
  app->add_option("--length", arguments->length,
                  "Count the examples that are longer than so many tokens; 0: the task's length");
  app->add_option("--samples", arguments->samples, "Examples to show");
  AddJsonOption(*app, arguments->json);
  app->callback([arguments] { Show(*arguments); });
}

void AddPrepare(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "prepare", "Tokenises data into a directory that train and show take as --data");
  const auto arguments = std::make_shared<ShowArguments>();
  app->footer(TaskList());
  app->get_formatter()->column_width(30);
  app->option_defaults()->always_capture_default();
  AddDataOptions(*app, arguments->data);
  app->add_option("--out", arguments->data.prepare.directory, "The directory")->required();
  AddJsonOption(*app, arguments->json);
  arguments->samples = 0;
  app->callback([arguments] { Show(*arguments); });
}

struct MakeArguments {
  std::string out;
  bool force = false;
  data::ListOpsOptions listops;
  data::PathfinderOptions pathfinder;
};

template <class Generate>
void RunGeneration(const MakeArguments& arguments, int threads, const Generate& generate) {
  CheckThreads(threads);
  const std::string& out = arguments.out;
  std::error_code error;
  if (!arguments.force && std::filesystem::is_directory(out, error) &&
      !std::filesystem::is_empty(out, error)) {
    throw Error(fmt::format(
        "\"{}\" is not empty: give --out another directory, or --force to write over a set in it",
        out));
  }
  report::Meter meter;
  meter.Show(0, "the first examples");
  generate([&](int64_t done, int64_t total) {
    meter.Show(static_cast<double>(done) / static_cast<double>(total),
               fmt::format("{} of {} examples", report::FormatInteger(done),
                           report::FormatInteger(total)));
  });
  meter.Clear();
  fmt::print("{}\n", out);
}

// Both sets have splits, a seed and threads.
template <class Options>
CLI::App* AddGenerator(CLI::App& parent, const char* name, const char* summary,
                       MakeArguments& arguments, Options& options) {
  CLI::App* app = parent.add_subcommand(name, summary);
  app->option_defaults()->always_capture_default();
  app->add_option("--out", arguments.out, "The directory to write to")->required();
  app->add_flag("--force", arguments.force, "Write over what is there");
  app->add_option("--train", options.train, "Training examples");
  app->add_option("--valid", options.valid, "Validation examples");
  app->add_option("--test", options.test, "Test examples");
  app->add_option("--seed", options.seed, "The same seed gives the same files")
      ->check(WholeNumber<uint64_t>());
  app->add_option("--threads", options.threads, "Threads; 0: all cores");
  return app;
}

void AddGenerateSet(CLI::App& parent) {
  CLI::App* generate = parent.add_subcommand("generate", "Makes a set of examples by rule");
  generate->require_subcommand(1);
  const auto arguments = std::make_shared<MakeArguments>();

  CLI::App* listops = AddGenerator(*generate, "listops", "Long-Range Arena's nested lists",
                                   *arguments, arguments->listops);
  listops->add_option("--least-length", arguments->listops.least_length,
                      "Examples are longer than this, in tokens");
  listops->add_option("--most-length", arguments->listops.most_length, "And shorter than this");
  listops->callback([arguments] {
    RunGeneration(*arguments, arguments->listops.threads, [&](const auto& progress) {
      data::GenerateListOps(arguments->out, arguments->listops, progress);
    });
  });

  CLI::App* pathfinder = AddGenerator(*generate, "pathfinder", "Long-Range Arena's images of paths",
                                      *arguments, arguments->pathfinder);
  pathfinder->add_option("--contour-length", arguments->pathfinder.contour_length,
                         "Paddles of a path: 14 is the hard set, 9 the intermediate, 6 the easy");
  pathfinder->callback([arguments] {
    RunGeneration(*arguments, arguments->pathfinder.threads, [&](const auto& progress) {
      data::GeneratePathfinder(arguments->out, arguments->pathfinder, progress);
    });
  });
}

}  // namespace

void AddData(CLI::App& app) {
  CLI::App* data = app.add_subcommand(
      "data", "Prepares, generates and shows data for training; cleans their cache");
  data->require_subcommand(1);
  data->footer(R"(
Examples
  cosformer data show --task lm --data my.txt
  cosformer data show --task classify --data SST-2 --samples 5 --json -
  cosformer data prepare --task lm --data texts/ --vocabulary 16384 --out prepared
  cosformer data generate listops --out listops
  cosformer data generate pathfinder --out pathfinder --contour-length 14
  cosformer data clean --older-than 30 --dry-run)");
  AddShow(*data);
  AddPrepare(*data);
  AddGenerateSet(*data);
  AddDataClean(*data);
}

}  // namespace cosformer::cli
