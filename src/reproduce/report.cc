#include "reproduce/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report/units.h"
#include "reproduce/conclusion.h"

namespace cosformer::reproduce {
namespace {

using nlohmann::ordered_json;
using report::FormatDuration;

const char* StateText(const Finding& finding) {
  if (finding.result == nullptr) return "not run";
  switch (finding.result->state) {
    case State::kDone:
      return "done";
    case State::kFailed:
      return "failed";
    case State::kRefused:
      return "refused";
  }
  return "";
}

// How the time of trainings was settled, and whether all were given the same.
std::string RuleText(const Findings& findings, const Request& request) {
  double least = INFINITY, most = 0;
  bool steps = false;
  for (const Finding& finding : findings.all()) {
    if (finding.result == nullptr || finding.cell->support || finding.cell->limited) continue;
    if (finding.result->share_seconds > 0) {
      least = std::min(least, finding.result->share_seconds);
      most = std::max(most, finding.result->share_seconds);
    } else {
      steps = true;
    }
  }
  std::string text;
  if (most > 0) {
    text = least >= 0.99 * most
               ? fmt::format(
                     "Equal time: each cell was given {} of a budget, whatever its system; "
                     "the steps that a system made in it differ.",
                     FormatDuration(most))
               : fmt::format(
                     "Shares of a budget: cells were given {} to {}. Compare those that had "
                     "the same.",
                     FormatDuration(least), FormatDuration(most));
    if (steps) text += " Others were trained for the steps of their recipes.";
  } else if (steps) {
    text = "Equal steps: every system was trained for the steps of the same recipe.";
  }
  if (!request.scale.empty()) {
    text += fmt::format("{}Scale: {}.", text.empty() ? "" : " ", request.scale);
  }
  return text;
}

// What part of their splits trainings were judged by, where it was not all.
std::string EvaluatedText(const Findings& findings) {
  double least = 1, most = 0;
  for (const Finding& finding : findings.all()) {
    const double part = finding.Value("evaluated_part");
    if (!std::isfinite(part)) continue;
    least = std::min(least, part);
    most = std::max(most, part);
  }
  if (least == 1) return "";
  return fmt::format(
      "Evaluated: {} of the test (or validation) splits, spread over them, as the budget or "
      "--eval-tokens left room for; the part of each is in its line of report.csv.",
      most - least < 0.005 ? fmt::format("{:.2g} %", 100 * least)
                           : fmt::format("{:.2g} to {:.2g} %", 100 * least, 100 * most));
}

// Where and when the results came about.
struct Origin {
  std::string machine;  // several, if there were
  std::string version;
  std::string started;  // the first; empty: there are no results
  std::string finished;
  double seconds = 0;
};

Origin OriginOf(const Findings& findings) {
  std::set<std::string> machines, versions;
  Origin origin;
  for (const Finding& finding : findings.all()) {
    const Result* result = finding.result;
    if (result == nullptr) continue;
    machines.insert(result->machine);
    versions.insert(result->version);
    origin.seconds += result->seconds;
    if (origin.started.empty() || result->started < origin.started) {
      origin.started = result->started;
    }
    origin.finished = std::max(origin.finished, result->finished);
  }
  origin.machine = fmt::format("{}", fmt::join(machines, "; "));
  origin.version = fmt::format("{}", fmt::join(versions, ", "));
  return origin;
}

std::vector<Block> HowItWasMade(const Experiment& experiment, const Request& request,
                                const Findings& findings, const std::string& command) {
  const Origin origin = OriginOf(findings);
  std::map<std::string, int> states;
  for (const Finding& finding : findings.all()) {
    if (!finding.cell->support && finding.Counts()) ++states[StateText(finding)];
  }
  std::vector<std::string> counts;
  for (const auto& [state, count] : states) counts.push_back(fmt::format("{} {}", count, state));
  std::vector<std::string> items = {fmt::format("Results: {}.", fmt::join(counts, ", "))};
  for (const std::string& rule :
       {RuleText(findings, request), EvaluatedText(findings), ConclusionRule()}) {
    if (!rule.empty()) items.push_back(rule);
  }
  if (experiment.seeded) {
    items.push_back(fmt::format("Seeds: {}.", fmt::join(request.seeds, ", ")));
  }
  if (!origin.started.empty()) {
    items.push_back(fmt::format("Machine: {}.", origin.machine));
    items.push_back(fmt::format("cosformer {}.", origin.version));
    items.push_back(fmt::format("Time taken: {} in all, from {} to {}.",
                                FormatDuration(origin.seconds), origin.started, origin.finished));
  }
  std::vector<Block> blocks = {Heading{"How it was made"}, Bullets{items}};
  blocks.push_back(Paragraph{
      "✗ is out of memory, ◔ out of its time, ! another failure, - what a system does not do. Each "
      "cell is a directory with its recipe, its log (which begins with the commands) and what "
      "they wrote; results.jsonl has a line a result. The same command goes on with what is "
      "left:"});
  blocks.push_back(Code{command});
  Table table{.caption = "Every cell",
              .header = {"cell", "state", "result", "time", "peak of its processes", "directory"},
              .columns = "lllrrl",
              .folded = true};
  for (const Finding& finding : findings.all()) {
    const Result* result = finding.result;
    if (result == nullptr) continue;
    table.rows.push_back({finding.cell->label, StateText(finding),
                          result->state != State::kDone ? result->reason
                          : finding.cell->support       ? ""
                                                        : experiment.figure(*result),
                          FormatDuration(result->seconds),
                          report::FormatBytes(static_cast<double>(result->peak_bytes)),
                          result->directory});
  }
  blocks.push_back(std::move(table));
  blocks.push_back(
      Paragraph{"The peak of its processes is of all that they did, with what measuring itself "
                "takes; where a "
                "table above has the memory of a step, that is of the step alone."});
  if (const int rest = states["not run"]; rest > 0) {
    blocks.push_back(Paragraph{fmt::format(
        "{} not run, as the tables above show.",
        rest == 1 ? "One other result was" : fmt::format("{} other results were", rest))});
  }
  return blocks;
}

// As RFC 4180 quotes them. What is no number is empty, as null is.
std::string CsvField(const ordered_json& value) {
  if (!value.is_string()) {
    const std::string text = value.dump();
    return text == "null" ? "" : text;
  }
  const std::string text = value.get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// A row a cell.
ordered_json RowsOf(const Findings& findings) {
  ordered_json cells = ordered_json::array();
  for (const Finding& finding : findings.all()) {
    const Cell& cell = *finding.cell;
    if (cell.support || !finding.Counts()) continue;
    ordered_json row = {{"cell", cell.id}, {"label", cell.label}, {"state", StateText(finding)}};
    if (!cell.system.empty()) row["system"] = cell.system;
    if (!cell.task.empty()) row["task"] = cell.task;
    if (cell.seed > 0) row["seed"] = cell.seed;
    if (cell.length > 0) row["length"] = cell.length;
    if (finding.result == nullptr) {
      const std::string& why = cell.absent.empty() ? finding.blocked : cell.absent;
      if (!why.empty()) row["reason"] = why;
    } else {
      const Result& result = *finding.result;
      if (result.state != State::kDone) row["reason"] = result.reason;
      if (result.values.contains("failed_by")) row["failed_by"] = result.values["failed_by"];
      if (result.state == State::kDone) row["values"] = result.values;
      row["seconds"] = result.seconds;
      row["peak_bytes"] = result.peak_bytes;
      row["directory"] = result.directory;
      if (result.share_seconds > 0) row["share_seconds"] = result.share_seconds;
      if (finding.other_settings) row["other_settings"] = true;
    }
    cells.push_back(std::move(row));
  }
  return cells;
}

// A line a cell; lists, as the curves of maps, are in the JSON alone.
std::string CsvOf(const ordered_json& rows) {
  std::vector<std::string> columns = {
      "cell",   "label",  "state",   "failed_by",  "system",        "task",           "seed",
      "length", "reason", "seconds", "peak_bytes", "share_seconds", "other_settings", "directory"};
  std::set<std::string> values;
  for (const ordered_json& row : rows) {
    if (!row.contains("values")) continue;
    for (const auto& [name, value] : row["values"].items()) {
      if (value.is_primitive()) values.insert(name);
    }
  }
  const size_t own = columns.size();
  columns.insert(columns.end(), values.begin(), values.end());
  std::string text = fmt::format("{}\n", fmt::join(columns, ","));
  for (const ordered_json& row : rows) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const ordered_json none = ordered_json::object();
      const ordered_json& from = i < own ? row : row.contains("values") ? row["values"] : none;
      const auto found = from.find(columns[i]);
      text += fmt::format("{}{}", i == 0 ? "" : ",", found == from.end() ? "" : CsvField(*found));
    }
    text += "\n";
  }
  return text;
}

std::string JsonOf(const Experiment& experiment, const Request& request, const Findings& findings,
                   const ordered_json& rows_of_cells, const std::vector<std::string>& summary,
                   const std::string& command) {
  ordered_json json = {{"experiment", experiment.name}, {"title", experiment.title}};
  if (!request.scale.empty()) json["scale"] = request.scale;
  const Origin origin = OriginOf(findings);
  json["command"] = command;
  json["version"] = origin.version;
  json["machine"] = origin.machine;
  json["started"] = origin.started;
  json["date"] = origin.finished;
  json["seconds"] = origin.seconds;
  json["summary"] = summary;
  json["published"] = ordered_json::array();
  for (const PublishedTable& table : experiment.published) {
    ordered_json rows = ordered_json::object();
    for (const PublishedRow& row : table.rows) {
      for (size_t i = 0; i < table.columns.size(); ++i) {
        rows[row.system][table.columns[i]] = row.values[i];  // NaN becomes null
      }
    }
    json["published"].push_back({{"what", table.what}, {"rows", std::move(rows)}});
  }
  json["cells"] = rows_of_cells;
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

Report ReportOf(const Experiment& experiment, const Request& request, const Findings& findings,
                const std::string& out, const std::string& command) {
  Report report;
  report.summary = experiment.summarise(findings, request);
  if (report.summary.empty()) report.summary = {"There is too little yet to conclude anything."};
  report.document.title = experiment.title;
  std::vector<Block>& blocks = report.document.blocks;
  blocks.push_back(Paragraph{
      "An experiment of cosFormer: Rethinking Softmax in Attention (Qin et al., ICLR 2022, arXiv "
      "2202.08791), run on this machine and set beside the published figures."});
  blocks.push_back(Heading{"In one minute"});
  blocks.push_back(Bullets{report.summary});
  for (Block& block : experiment.report(findings, request, out)) blocks.push_back(std::move(block));
  blocks.push_back(Heading{"What this does not show"});
  blocks.push_back(Bullets{experiment.limits});
  for (Block& block : HowItWasMade(experiment, request, findings, command)) {
    blocks.push_back(std::move(block));
  }
  const ordered_json rows = RowsOf(findings);
  report.json = JsonOf(experiment, request, findings, rows, report.summary, command);
  report.csv = CsvOf(rows);
  return report;
}

}  // namespace cosformer::reproduce
