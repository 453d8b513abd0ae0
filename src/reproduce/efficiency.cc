// Steps a second and peak memory against length: the paper's table of speeds on byte-level text,
// which goes to 4K, and on to 64K. One model for all systems; a step is one sequence.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "cosformer/error.h"
#include "formats/json.h"
#include "report/plot.h"
#include "report/units.h"
#include "reproduce/conclusion.h"
#include "reproduce/experiments.h"
#include "reproduce/published.h"
#include "reproduce/systems.h"

namespace cosformer::reproduce {
namespace {

using nlohmann::json;
using report::FormatInteger;
using report::FormatRatio;

// Long-Range Arena's model for byte-level text: 4 layers of width 256 with 4 heads, 256 bytes.
constexpr const char* kLayersArgument = "4";
constexpr const char* kWidth = "256";
constexpr const char* kHeads = "4";
constexpr const char* kVocabulary = "256";
// A median over steps of a second in all; one step where that takes longer.
constexpr const char* kSeconds = "1";

const std::vector<std::string>& TimedSystems() {
  static const std::vector<std::string> kSystems = {
      "softmax",        "cosformer", "local",       "linformer",    "reformer",
      "bigbird",        "linear",    "performer",   "longformer",   "sparse-fixed",
      "sparse-strided", "sinkhorn",  "synthesizer", "rfa-gaussian", "rfa-arccos"};
  return kSystems;
}

struct Pass {
  const char* name;   // as bench model has it
  const char* title;  // as the paper has it
  const PublishedTable& (*published)();
};
constexpr Pass kPasses[] = {{"forward", "Inference", PublishedInference},
                            {"train", "Training", PublishedTraining}};

std::string IdOf(const char* pass, const std::string& system, int64_t length) {
  return fmt::format("{}-{}-{}", pass, system, length);
}

std::vector<Cell> EfficiencyCells(const Request& request) {
  std::vector<Cell> cells;
  // Length by length, so that what takes longest comes last.
  for (size_t i = 0; i < request.lengths.size(); ++i) {
    const int64_t length = request.lengths[i];
    for (const Pass& pass : kPasses) {
      for (const std::string& system : request.systems) {
        Cell cell{
            .id = IdOf(pass.name, system, length),
            .label = fmt::format("{} at {}, {}", LabelOf(system), FormatInteger(length),
                                 std::string(pass.name) == "train" ? "training" : "inference"),
            .system = system,
            .task = pass.name,
            .length = length};
        // One token a step at most gives one sequence, the least there is.
        cell.commands = {{{"bench",
                           "model",
                           "--encoder",
                           "--attention",
                           system,
                           "--lengths",
                           fmt::format("{}", length),
                           "--passes",
                           pass.name,
                           "--tokens",
                           "1",
                           "--layers",
                           kLayersArgument,
                           "--width",
                           kWidth,
                           "--heads",
                           kHeads,
                           "--vocabulary",
                           kVocabulary,
                           "--seconds",
                           kSeconds,
                           "--threads",
                           fmt::format("{}", request.threads),
                           "--json",
                           "{json}"},
                          "bench.json"}};
        // What has no room at a length has none at a longer one.
        if (i > 0) cell.needs = {IdOf(pass.name, system, request.lengths[i - 1])};
        cell.limited = true;
        cell.memory = request.memory;
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

json CollectEfficiency(const Cell&, const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / "bench.json").string();
  const json bench = ReadJsonFile(path);
  if (!bench.at("skipped").empty()) {
    return {{"failure", bench["skipped"][0].at("reason").get<std::string>()}};
  }
  if (bench.at("rows").size() != 1) throw Error(fmt::format("\"{}\" has not one row", path));
  const json& row = bench["rows"][0];
  return {{"steps_per_second", 1 / row.at("seconds").get<double>()},
          {"seconds_per_step", row["seconds"]},
          {"tokens_per_second", row.at("tokens_per_second")},
          {"attention_share", row.at("attention_share")},
          {"memory_bytes", row.at("peak_bytes")},
          {"threads", row.at("threads")},
          {"busy", row.value("busy", false)}};
}

std::string Number(double value) {
  return value >= 100  ? fmt::format("{:.0f}", value)
         : value >= 10 ? fmt::format("{:.1f}", value)
         : value >= 1  ? fmt::format("{:.2f}", value)
                       : fmt::format("{:.3g}", value);
}

std::string EfficiencyFigureOf(const Result& result) {
  std::string text =
      fmt::format("{} steps/s", Number(result.values.at("steps_per_second").get<double>()));
  if (result.values.at("memory_bytes").is_number()) {
    text += ", " + report::FormatBytes(result.values["memory_bytes"].get<double>());
  }
  return text;
}

// Ours to softmax's; NaN where one of them has no figure.
double SpeedRatio(const Findings& findings, const Pass& pass, const std::string& system,
                  int64_t length) {
  return findings.At(IdOf(pass.name, system, length)).Value("steps_per_second") /
         findings.At(IdOf(pass.name, "softmax", length)).Value("steps_per_second");
}

double PublishedRatio(const Pass& pass, const std::string& system, int64_t length) {
  const std::string column = fmt::format("{}", length);
  return pass.published().Find(system, column).value_or(NAN) /
         pass.published().Find("softmax", column).value_or(NAN);
}

bool Busy(const Finding& finding) {
  return finding.Done() && finding.result->values.value("busy", false);
}

std::string RatioText(double ratio) { return std::isfinite(ratio) ? FormatRatio(ratio) : ""; }

bool Published(const Pass& pass, int64_t length) {
  return pass.published().Find("softmax", fmt::format("{}", length)).has_value();
}

Table FiguresTable(const Findings& findings, const Request& request, const Pass& pass,
                   const char* what, const char* value, std::string (*text)(double)) {
  Table table{.caption = fmt::format("{}: {}", pass.title, what), .header = {"system"}};
  table.columns = "l";
  for (const int64_t length : request.lengths) {
    table.header.push_back(FormatInteger(length));
    table.columns += 'r';
  }
  for (const std::string& system : request.systems) {
    std::vector<std::string> row = {LabelOf(system)};
    for (const int64_t length : request.lengths) {
      const Finding& finding = findings.At(IdOf(pass.name, system, length));
      const double figure = finding.Value(value);
      std::string shown = Shown(finding, std::isfinite(figure) ? text(figure) : "?", table);
      if (Busy(finding)) shown += " " + NoteMark(table, "Measured on a busy machine.");
      row.push_back(std::move(shown));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string PublishedText(const Pass& pass, const std::string& system, int64_t length,
                          Table& table) {
  const auto value = pass.published().Find(system, fmt::format("{}", length));
  if (!value) return "";
  if (std::isnan(*value)) return "✗";
  const double ratio = PublishedRatio(pass, system, length);
  if (std::isfinite(ratio)) return FormatRatio(ratio);
  return fmt::format("{}/s {}", Number(*value),
                     NoteMark(table,
                              "Softmax was out of memory in the paper at this length: no "
                              "ratio, the published steps a second instead."));
}

Table RatioTable(const Findings& findings, const Request& request, const Pass& pass) {
  Table table{.caption = fmt::format("{}: speed as a multiple of softmax's at the same length, "
                                     "ours and the paper's",
                                     pass.title),
              .header = {"system"}};
  table.columns = "l";
  for (const int64_t length : request.lengths) {
    table.header.push_back(FormatInteger(length));
    table.columns += 'r';
    if (!Published(pass, length)) continue;
    table.header.push_back("paper");
    table.columns += 'r';
  }
  for (const std::string& system : request.systems) {
    std::vector<std::string> row = {LabelOf(system)};
    for (const int64_t length : request.lengths) {
      row.push_back(RatioText(SpeedRatio(findings, pass, system, length)));
      if (Published(pass, length)) row.push_back(PublishedText(pass, system, length, table));
    }
    const bool empty = std::all_of(row.begin() + 1, row.end(),
                                   [](const std::string& cell) { return cell.empty(); });
    if (!empty) table.rows.push_back(std::move(row));
  }
  return table;
}

// The two that the experiment is about stand out among the many.
bool StandsOut(const std::string& system) { return system == "softmax" || system == "cosformer"; }

// A line a system; those that have no figure are left out. Empty if all are.
std::string Draw(const Findings& findings, const Request& request, const std::string& title,
                 const char* value, const report::Axis& y) {
  report::Figure figure{.title = title, .subtitle = "", .panels = {}};
  std::vector<std::string> drawn;
  for (const std::string& system : request.systems) {
    if (std::any_of(findings.all().begin(), findings.all().end(), [&](const Finding& finding) {
          return finding.cell->system == system && finding.Value(value) > 0;
        })) {
      drawn.push_back(system);
    }
  }
  const std::vector<int> hues = HuesOf(drawn, TimedSystems());
  for (const Pass& pass : kPasses) {
    report::Panel panel{.title = pass.title,
                        .x = {"length in tokens", report::Scale::kLog2, ""},
                        .y = y,
                        .series = {}};
    for (size_t i = 0; i < drawn.size(); ++i) {
      const bool stands_out = StandsOut(drawn[i]);
      report::Series series{.name = LabelOf(drawn[i]),
                            .points = {},
                            .hue = hues[i],
                            .dash = hues[i] / 7,  // the first seven are unbroken
                            .width = stands_out ? 4.0 : 1.5,
                            .opacity = stands_out ? 1.0 : 0.6};
      for (const int64_t length : request.lengths) {
        const double figure_here = findings.At(IdOf(pass.name, drawn[i], length)).Value(value);
        if (figure_here > 0) series.points.push_back({static_cast<double>(length), figure_here});
      }
      if (!series.points.empty()) panel.series.push_back(std::move(series));
    }
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }
  return figure.panels.empty() ? "" : RenderSvg(figure);
}

std::vector<Block> ReportEfficiency(const Findings& findings, const Request& request,
                                    const std::string&) {
  std::vector<Block> blocks;
  blocks.push_back(Heading{"Speed"});
  for (const Pass& pass : kPasses) {
    blocks.push_back(FiguresTable(findings, request, pass, "steps a second, one sequence a step",
                                  "steps_per_second", Number));
    blocks.push_back(RatioTable(findings, request, pass));
  }
  if (std::string svg = Draw(findings, request, "Time a step", "seconds_per_step",
                             {"time a step", report::Scale::kLog10, "s"});
      !svg.empty()) {
    blocks.push_back(
        Picture{"time", "Time a step against length; both axes are logarithmic.", std::move(svg)});
  }
  blocks.push_back(Heading{"Memory"});
  for (const Pass& pass : kPasses) {
    blocks.push_back(
        FiguresTable(findings, request, pass,
                     "peak memory of the process in one step, some 150 MiB of it libtorch's own",
                     "memory_bytes", report::FormatBytes));
  }
  if (std::string svg = Draw(findings, request, "Peak memory", "memory_bytes",
                             {"peak memory", report::Scale::kLog2, "B"});
      !svg.empty()) {
    blocks.push_back(Picture{"memory",
                             "Peak memory in one step against length; both axes are logarithmic.",
                             std::move(svg)});
  }
  return blocks;
}

// Steps a second; of one that was measured on a busy machine nothing follows.
Estimate SpeedOf(const Findings& findings, const Pass& pass, const std::string& system,
                 int64_t length) {
  constexpr double kChance = 0.1;  // seen between runs on a machine that does nothing else
  const Finding& finding = findings.At(IdOf(pass.name, system, length));
  return Around(finding.Value("steps_per_second"), kChance,
                Busy(finding) ? fmt::format("measured on a busy machine, so nothing follows ({})",
                                            finding.cell->label)
                              : "");
}

// The fastest of those that are faster than cosFormer; empty: none is.
std::string Faster(const Findings& findings, const Request& request, const Pass& pass,
                   int64_t length) {
  const Estimate ours = SpeedOf(findings, pass, "cosformer", length);
  std::string best;
  double most = 0;
  for (const std::string& system : request.systems) {
    const Estimate other = SpeedOf(findings, pass, system, length);
    if (!other.Known() || other.value <= most || OrderOf(other, ours).sign <= 0) continue;
    most = other.value;
    best = system;
  }
  return best;
}

// The longest length at which both have a figure that holds for `usable`.
template <class Usable>
int64_t Longest(const Request& request, const Usable& usable) {
  for (size_t i = request.lengths.size(); i-- > 0;) {
    if (usable(request.lengths[i])) return request.lengths[i];
  }
  return 0;
}

std::string SpeedSentence(const Findings& findings, const Request& request, const Pass& pass,
                          int64_t length) {
  const double ours = SpeedRatio(findings, pass, "cosformer", length);
  const double theirs = PublishedRatio(pass, "cosformer", length);
  const Order order = OrderOf(SpeedOf(findings, pass, "cosformer", length),
                              SpeedOf(findings, pass, "softmax", length));
  std::string text = fmt::format("{} at {}: cosFormer runs at {} softmax's speed", pass.title,
                                 FormatInteger(length), FormatRatio(ours));
  if (std::isfinite(theirs)) {
    text += fmt::format(" here, {} in the paper{}", FormatRatio(theirs),
                        BesideThePaper(order, theirs, 1));
  } else if (order.sign == 0) {
    text += "; ours are " + order.why;
  }
  const std::string fastest = Faster(findings, request, pass, length);
  if (!fastest.empty()) {
    text += fmt::format("; the fastest is {}, at {} softmax's", LabelOf(fastest),
                        FormatRatio(SpeedRatio(findings, pass, fastest, length)));
  } else if (request.systems.size() > 2 &&
             SpeedOf(findings, pass, "cosformer", length).unfit.empty()) {
    text += "; no other that was run is faster by more than their intervals";
  }
  return text + ".";
}

std::vector<std::string> SummariseEfficiency(const Findings& findings, const Request& request) {
  std::vector<std::string> sentences;
  for (const Pass& pass : kPasses) {
    const auto measured = [&](int64_t length) {
      return std::isfinite(SpeedRatio(findings, pass, "cosformer", length));
    };
    const int64_t published = Longest(request, [&](int64_t length) {
      return measured(length) && std::isfinite(PublishedRatio(pass, "cosformer", length));
    });
    const int64_t longest = Longest(request, measured);
    if (published > 0) sentences.push_back(SpeedSentence(findings, request, pass, published));
    if (longest != published) sentences.push_back(SpeedSentence(findings, request, pass, longest));
    const auto memory = [&](const char* system, int64_t length) {
      return findings.At(IdOf(pass.name, system, length)).Value("memory_bytes");
    };
    const int64_t both = Longest(request, [&](int64_t length) {
      return std::isfinite(memory("cosformer", length) + memory("softmax", length));
    });
    if (both > 0) {
      sentences.push_back(fmt::format("{} at {}: cosFormer takes {} of memory, softmax {}.",
                                      pass.title, FormatInteger(both),
                                      report::FormatBytes(memory("cosformer", both)),
                                      report::FormatBytes(memory("softmax", both))));
    }
  }
  for (const auto& [sign, what] : kSigns) {
    std::string cells;
    for (const Finding& finding : findings.all()) {
      if (finding.result == nullptr || SignOf(*finding.result) != sign) continue;
      cells += (cells.empty() ? "" : "; ") + finding.cell->label;
    }
    if (!cells.empty()) sentences.push_back(fmt::format("{} {}: {}.", sign, what, cells));
  }
  return sentences;
}

}  // namespace

Experiment EfficiencyExperiment() {
  Experiment experiment;
  experiment.name = "efficiency";
  experiment.title = "Efficiency: speed and memory against length";
  experiment.summary = "steps a second and peak memory of every system, 1K to 64K tokens";
  experiment.systems = TimedSystems();
  experiment.lengths = {1024, 2048, 3072, 4096, 8192, 16384, 32768, 65536};
  experiment.seeded = false;
  experiment.pace =
      "Roughly some seconds for each at 1,024 tokens; at 65,536 minutes, and an hour for softmax "
      "on "
      "one core. --budget limits it, and --lengths leaves lengths out";
  experiment.limits = {
      "The paper measured on a GPU, with a softmax that holds all N² weights, and so ran out of "
      "memory. The softmax here works in blocks and needs no more memory than the others: ratios "
      "compare better than absolute figures, and ✗ has other causes.",
      "Long-Range Arena batches several sequences a step; here a step is one.",
      "A figure is from steps of about a second: where the machine does other work too, neighbours "
      "in a table may differ by more than their systems do.",
      "The model is the same but for what a system adds: Linformer and Synthesizer have parameters "
      "that grow with the length.",
      "The paper's Sparse Transformer is set beside the fixed pattern, which Long-Range Arena "
      "has. RFA's gated variants have no place in an encoder: they are causal."};
  experiment.published = {PublishedInference(), PublishedTraining()};
  experiment.cells = EfficiencyCells;
  experiment.collect = CollectEfficiency;
  experiment.figure = EfficiencyFigureOf;
  experiment.summarise = SummariseEfficiency;
  experiment.report = ReportEfficiency;
  return experiment;
}

}  // namespace cosformer::reproduce
