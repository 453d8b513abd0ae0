// Long-Range Arena: five tasks, every system, one shape for all of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "report/plot.h"
#include "report/units.h"
#include "reproduce/experiments.h"
#include "reproduce/systems.h"
#include "reproduce/training.h"

namespace cosformer::reproduce {
namespace {

std::string LraTitleOf(const std::string& task) {
  return task == "listops" ? "ListOps"
                           : std::string(1, static_cast<char>(task[0] - 32)) + task.substr(1);
}

const std::vector<std::string>& ArenaSystems() {
  static const std::vector<std::string> kSystems = {
      "softmax",  "cosformer", "local",     "linear",      "reformer",   "sparse-fixed",
      "sinkhorn", "linformer", "performer", "synthesizer", "longformer", "bigbird"};
  return kSystems;
}

// A set that is made by rule, where the user has none.
Cell GeneratedSet(const std::string& task, const std::string& scale) {
  const SetSizes sizes = GeneratedSizes(task, scale);
  Cell cell{.id = "data-" + task, .label = "the set " + LraTitleOf(task), .task = task};
  cell.commands = {
      {{"data", "generate", task, "--out", "{cell}/set", "--train", fmt::format("{}", sizes.train),
        "--valid", fmt::format("{}", sizes.valid), "--test", fmt::format("{}", sizes.test),
        "--seed", "1", "--threads", "{threads}"},
       ""}};
  cell.commands[0].also = {"--force"};  // what was killed has left a part of the set
  cell.support = true;
  cell.weight = 0;
  return cell;
}

std::vector<Cell> LraCells(const Request& request) {
  std::vector<Cell> cells;
  for (const std::string& task : request.tasks) {
    // Text is IMDB, byte by byte.
    Set set = FindSet(task == "text" ? "imdb" : task, request.data);
    std::string needs;
    if (!set.absent.empty() && (task == "listops" || task == "pathfinder")) {
      cells.push_back(GeneratedSet(task, request.scale));
      needs = cells.back().id;
      set = {.options = {{"data", fmt::format("{{out}}/{}/set", DirectoryOf(cells.back()))}}};
    }
    for (const int64_t seed : request.seeds) {
      for (const std::string& system : request.systems) {
        Cell cell =
            TrainingCell(request, {.id = TrainingId(TaskAndSystem(task, system), seed),
                                   .label = fmt::format("{}, {}{}", LraTitleOf(task),
                                                        LabelOf(system), SeedLabel(request, seed)),
                                   .system = system,
                                   .task = task,
                                   .seed = seed,
                                   .settings = LongRangeArenaSettings(task, request.scale),
                                   .set = set,
                                   .judged = Judged::kTest});
        if (!needs.empty()) cell.needs = {needs};
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

// Over the tasks, which are independent of each other; not known unless all have a figure.
Estimate Average(const Findings& findings, const std::string& system, const Request& request) {
  const auto tasks = static_cast<double>(request.tasks.size());
  double sum = 0, below = 0, above = 0;
  std::string unfit;
  for (const std::string& task : request.tasks) {
    const Estimate one = EstimateOf(findings, request, TaskAndSystem(task, system), "accuracy");
    sum += one.value;
    below += std::pow(one.value - one.low, 2);
    above += std::pow(one.high - one.value, 2);
    if (unfit.empty()) unfit = one.unfit;
  }
  const double mean = sum / tasks;
  return {mean, mean - std::sqrt(below) / tasks, mean + std::sqrt(above) / tasks, unfit};
}

Table AccuracyTable(const Findings& findings, const Request& request) {
  Table table{.caption = "Accuracy on the test split in percent", .header = {"system", "average"}};
  table.columns = "lr";
  std::vector<std::string> majority = {"always the same class", ""};
  for (const std::string& task : request.tasks) {
    table.header.push_back(LraTitleOf(task));
    table.columns += 'r';
    majority.push_back(MajorityText(findings, request, task));
  }
  table.rows.push_back(std::move(majority));
  for (const std::string& system : request.systems) {
    std::vector<std::string> row = {LabelOf(system),
                                    PercentText(100 * Average(findings, system, request).value)};
    for (const std::string& task : request.tasks) {
      row.push_back(AccuracyText(RepeatsOf(findings, request, TaskAndSystem(task, system)), table));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table CostTable(const Findings& findings, const Request& request) {
  Table table{.caption = "Training: parameters, steps and tokens a second", .header = {"system"}};
  table.columns = "l";
  for (const std::string& task : request.tasks) {
    table.header.push_back(LraTitleOf(task));
    table.columns += 'r';
  }
  for (const std::string& system : request.systems) {
    std::vector<std::string> row = {LabelOf(system)};
    for (const std::string& task : request.tasks) {
      const auto mean = [&](const char* value) {
        return MeanOf(findings, request, TaskAndSystem(task, system), value);
      };
      if (!std::isfinite(mean("parameters"))) {
        row.push_back("");
        continue;
      }
      row.push_back(fmt::format("{}; {}; {}/s", report::FormatCount(mean("parameters")),
                                report::FormatInteger(std::llround(mean("steps"))),
                                report::FormatCount(mean("tokens_per_second"))));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Of one seed what the size of the test split leaves open, of several their range.
void AddInterval(const std::vector<const Finding*>& seeds, report::Point& point) {
  const auto spread = SpreadOf(seeds, "accuracy");
  if (!spread) return;
  const bool one = spread->count == 1;
  const auto low = SpreadOf(seeds, "low"), high = SpreadOf(seeds, "high");
  if (one && !(low && high)) return;
  point.low = 100 * (one ? low->mean : spread->low);
  point.high = 100 * (one ? high->mean : spread->high);
}

// Accuracy against the speed of training, a panel a task.
std::string Draw(const Findings& findings, const Request& request) {
  report::Figure figure{.title = "Accuracy against speed",
                        .subtitle = "upper right is better: a point a system",
                        .panels = {},
                        .columns = 2};
  std::vector<std::string> drawn;
  for (const std::string& system : request.systems) {
    if (std::any_of(request.tasks.begin(), request.tasks.end(), [&](const std::string& task) {
          return std::isfinite(MeanOf(findings, request, TaskAndSystem(task, system), "accuracy"));
        })) {
      drawn.push_back(system);
    }
  }
  const std::vector<int> hues = HuesOf(drawn, ArenaSystems());
  for (const std::string& task : request.tasks) {
    report::Panel panel{.title = LraTitleOf(task),
                        .x = {"training, tokens a second", report::Scale::kLog10, ""},
                        .y = {"accuracy, %", report::Scale::kLinear, ""},
                        .series = {}};
    for (size_t i = 0; i < drawn.size(); ++i) {
      const std::string& system = drawn[i];
      const double speed =
          MeanOf(findings, request, TaskAndSystem(task, system), "tokens_per_second");
      const double accuracy = MeanOf(findings, request, TaskAndSystem(task, system), "accuracy");
      if (!(speed > 0) || !std::isfinite(accuracy)) continue;
      report::Point point{speed, 100 * accuracy};
      AddInterval(RepeatsOf(findings, request, TaskAndSystem(task, system)), point);
      panel.series.push_back(
          {.name = LabelOf(system), .points = {point}, .hue = hues[i], .dash = 0});
    }
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }
  return figure.panels.empty() ? "" : RenderSvg(figure);
}

std::vector<Block> ReportArena(const Findings& findings, const Request& request,
                               const std::string&) {
  std::vector<Block> blocks = {Heading{"Accuracy"}, AccuracyTable(findings, request),
                               PublishedAccuracies(PublishedLongRangeArena(), request, LraTitleOf),
                               CostTable(findings, request)};
  if (std::string svg = Draw(findings, request); !svg.empty()) {
    blocks.push_back(
        Picture{"speed",
                "Accuracy against the speed of training. Bars are the intervals of the table, or "
                "the range of the seeds.",
                std::move(svg)});
  }
  return blocks;
}

// How many of the others have more, as far as anything follows.
std::string AverageSentence(const Findings& findings, const Request& request) {
  const Estimate ours = Average(findings, "cosformer", request);
  if (!ours.Known() || request.tasks.size() < 2) return "";
  std::string text = fmt::format("On average over the {} tasks, cosFormer has {:.2f} %",
                                 request.tasks.size(), 100 * ours.value);
  if (!ours.unfit.empty()) return fmt::format("{}; it is {}.", text, ours.unfit);
  int more = 0, less = 0, open = 0;
  for (const std::string& system : request.systems) {
    const Estimate other = Average(findings, system, request);
    if (system == "cosformer" || !other.Known()) continue;
    const int sign = OrderOf(ours, other).sign;
    ++(sign < 0 ? more : sign > 0 ? less : open);
  }
  text += fmt::format("; of {} other systems {} have more, {} less, and of {} nothing follows",
                      more + less + open, more, less, open);
  const PublishedTable& published = PublishedLongRangeArena();
  if (request.tasks.size() + 1 == published.columns.size()) {
    text += "; in the paper it has 55.23 %, and none has more";
  }
  return text + ".";
}

std::vector<std::string> SummariseLra(const Findings& findings, const Request& request) {
  std::vector<std::string> sentences;
  for (const std::string& task : request.tasks) {
    sentences.push_back(
        AccuracySentence(findings, request, task, LraTitleOf(task), PublishedLongRangeArena()));
  }
  sentences.push_back(AverageSentence(findings, request));
  std::erase(sentences, "");
  return sentences;
}

}  // namespace

Experiment LongRangeArenaExperiment() {
  Experiment experiment;
  experiment.name = "lra";
  experiment.title = "Long-Range Arena: five tasks, every system";
  experiment.summary = "accuracy on ListOps, text, retrieval, image and Pathfinder";
  experiment.needs = fmt::format(
      "text: {}; retrieval: {}; image: {}; listops and pathfinder are "
      "generated, unless there is {} or {}",
      FoldersOf("imdb"), FoldersOf("retrieval"), FoldersOf("image"), FoldersOf("listops"),
      FoldersOf("pathfinder"));
  experiment.systems = ArenaSystems();
  experiment.tasks = {"listops", "text", "retrieval", "image", "pathfinder"};
  experiment.scales = {kCompact, kOriginal};
  experiment.published = {PublishedLongRangeArena()};
  experiment.limits = {
      "The compact scale has one small shape (2 layers of width 64) and some thousand steps for "
      "all "
      "tasks: accuracies are below published ones, and tasks that are learned late may not be "
      "learned at all. Differences between systems within their intervals are none.",
      "Width, layers and hidden size are the same for all; Linformer, Synthesizer and Sinkhorn add "
      "parameters of their own, as the table of costs shows.",
      "A subset of AAN, or another split of it, does not compare with the paper's Retrieval.",
      "The paper's Sparse Transformer is set beside the fixed pattern, which Long-Range Arena "
      "has."};
  experiment.cells = LraCells;
  experiment.collect = [](const Cell& cell, const std::string& directory) {
    return cell.support ? nlohmann::json::object() : CollectTraining(directory);
  };
  experiment.figure = TrainingFigure;
  experiment.summarise = SummariseLra;
  experiment.report = ReportArena;
  return experiment;
}

}  // namespace cosformer::reproduce
