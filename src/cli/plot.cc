// `cosformer plot`: the metrics of runs in, their curves and best figures out.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cosformer/error.h"
#include "report/files.h"
#include "report/plot.h"
#include "report/units.h"
#include "runs/curves.h"
#include "runs/metrics.h"
#include "runs/run_directory.h"
#include "runs/run_names.h"

namespace cosformer::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlotDescription =
    R"(Draws the curves of training runs: loss, perplexity or accuracy, learning rate.

Works while a run is going on. One run or many: each has its colour; the training loss is dotted,
evaluations are lines with markers.)";

constexpr const char* kPlotFooter = R"(
Examples
  cosformer plot runs/wikitext
  cosformer plot runs/cosformer runs/softmax --x time --out compared.svg)";

struct PlotArguments {
  std::vector<std::string> runs;
  std::string out = "curves.svg";
  std::string x = "steps";
  double smooth = CurveOptions().smoothing;
  bool log = false;
  std::string json;
};

CurveOptions OptionsOf(const PlotArguments& arguments) {
  static const std::map<std::string, CurveAxis> kAxes = {
      {"steps", CurveAxis::kSteps}, {"tokens", CurveAxis::kTokens}, {"time", CurveAxis::kTime}};
  const auto axis = kAxes.find(arguments.x);
  if (axis == kAxes.end()) {
    throw Error(
        fmt::format("--x does not know \"{}\": it takes steps, tokens or time", arguments.x));
  }
  if (!(arguments.smooth >= 0 && arguments.smooth < 1)) {
    throw Error(fmt::format("--smooth is {}: it must be at least 0 and less than 1, as 0.9",
                            arguments.smooth));
  }
  return {.x = axis->second, .smoothing = arguments.smooth, .log = arguments.log};
}

// What a run is called by: its directory, or the file where it has another name.
std::string PlaceOf(const std::string& path) {
  const fs::path place(path);
  return place.filename() == fs::path(MetricsPath("")).filename()
             ? fs::absolute(place).parent_path().string()
             : path;
}

std::vector<TrainingRun> ReadRuns(const std::vector<std::string>& paths) {
  std::vector<std::string> places;
  for (const std::string& path : paths) {
    places.push_back(fs::absolute(PlaceOf(path)).lexically_normal().string());
    if (places.back().ends_with("/")) places.back().pop_back();
    if (std::count(places.begin(), places.end(), places.back()) > 1) {
      throw Error(fmt::format("the run \"{}\" is named twice: name it once", path));
    }
  }
  const std::vector<std::string> names = RunNames(places);
  std::vector<TrainingRun> runs;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string& path = paths[i];
    if (!fs::exists(path)) {
      throw Error(
          fmt::format("there is no run \"{}\": give a run's directory or its metrics.jsonl", path));
    }
    if (fs::is_directory(path) && !fs::exists(MetricsPath(path))) {
      throw Error(
          fmt::format("\"{}\" holds no metrics.jsonl: is it the directory of a run?", path));
    }
    runs.push_back({names[i], ReadMetrics(fs::is_directory(path) ? MetricsPath(path) : path)});
  }
  return runs;
}

int64_t StepsOf(const History& history) {
  int64_t steps = 0;
  for (const TrainMetrics& train : history.train) steps = std::max(steps, train.step);
  for (const EvalMetrics& eval : history.evals) steps = std::max(steps, eval.step);
  return steps;
}

std::string BestText(const Best& best) {
  return best.figure == "accuracy"
             ? fmt::format("{} {} {:.2f} %", best.split, best.figure, 100 * best.value)
             : fmt::format("{} {} {:.4g}", best.split, best.figure, best.value);
}

std::string TableOf(const std::vector<TrainingRun>& runs, const std::string& out) {
  std::vector<std::vector<std::string>> rows = {{"run", "steps", "best", "at step"}};
  for (const TrainingRun& run : runs) {
    const std::optional<Best> best = BestOf(run.history);
    rows.push_back({run.name, report::FormatInteger(StepsOf(run.history)),
                    best ? BestText(*best) : "-", best ? report::FormatInteger(best->step) : "-"});
  }
  return TableText(rows, "lrrr") + fmt::format("The curves are in {}\n", out);
}

std::string JsonOf(const std::vector<TrainingRun>& runs, const PlotArguments& arguments) {
  nlohmann::ordered_json json;
  json["plot"] = arguments.out;
  json["runs"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    nlohmann::ordered_json row = {{"name", runs[i].name},
                                  {"path", arguments.runs[i]},
                                  {"steps", StepsOf(runs[i].history)},
                                  {"best", nullptr}};
    if (const std::optional<Best> best = BestOf(runs[i].history)) {
      row["best"] = {{"split", best->split},
                     {"figure", best->figure},
                     {"value", best->value},
                     {"step", best->step}};
    }
    json["runs"].push_back(std::move(row));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void RunPlot(const PlotArguments& arguments) {
  const CurveOptions options = OptionsOf(arguments);
  if (arguments.out == "-") throw Error("--out takes a file name, as --out curves.svg");
  if (arguments.json == arguments.out) {
    throw Error(fmt::format("--json and --out both name \"{}\": give two files", arguments.json));
  }
  const std::vector<TrainingRun> runs = ReadRuns(arguments.runs);
  const std::string svg = report::RenderSvg(CurvesOf(runs, options));
  CheckJsonOutput(arguments.json);
  report::WriteFile(arguments.out, svg);
  PrintResults(TableOf(runs, arguments.out), JsonOf(runs, arguments), arguments.json);
}

}  // namespace

void AddPlot(CLI::App& app) {
  CLI::App* plot = app.add_subcommand("plot", kPlotDescription);
  plot->footer(kPlotFooter);
  plot->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<PlotArguments>();
  plot->add_option("RUN", arguments->runs, "Directories of runs, or their metrics.jsonl")
      ->required()
      ->type_name("")
      ->default_str("");
  plot->add_option("--out", arguments->out, "The SVG file to draw");
  plot->add_option("--x", arguments->x, "What to draw against: steps, tokens or time");
  plot->add_option("--smooth", arguments->smooth,
                   "Share of the past in the moving average of the training loss; 0 for none");
  plot->add_flag("--log", arguments->log, "Loss and perplexity on logarithmic axes");
  AddJsonOption(*plot, arguments->json);
  plot->callback([arguments] { RunPlot(*arguments); });
}

}  // namespace cosformer::cli
