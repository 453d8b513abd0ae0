#include "reproduce/experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cosformer/error.h"
#include "reproduce/experiments.h"
#include "reproduce/systems.h"

namespace cosformer::reproduce {
namespace {

template <class T>
void RequireChoice(const char* option, const std::vector<T>& asked, const std::vector<T>& offered,
                   const std::string& experiment) {
  if (!asked.empty() && offered.empty()) {
    throw Error(fmt::format("{} has no {} to choose: leave it out", experiment, option));
  }
  for (const T& one : asked) {
    if (std::count(asked.begin(), asked.end(), one) > 1) {
      throw Error(fmt::format("{} names {} twice: name it once", option, one));
    }
  }
}

}  // namespace

double Finding::Value(const std::string& name) const {
  if (!Done()) return NAN;
  const auto found = result->values.find(name);
  return found != result->values.end() && found->is_number() ? found->get<double>() : NAN;
}

Findings::Findings(const std::vector<Cell>& cells, const Results& results) {
  for (const Cell& cell : cells) {
    Finding finding{&cell, results.Find(cell.id, FingerprintOf(cell))};
    if (finding.result == nullptr) {
      finding.result = results.Latest(cell.id);
      finding.other_settings = finding.result != nullptr;
    }
    if (finding.result == nullptr) finding.blocked = Blocked(cell);
    findings_.push_back(std::move(finding));
  }
}

Findings::Findings(const std::vector<Cell>& cells, const Results& results,
                   const std::vector<Cell>& asked)
    : Findings(cells, results) {
  std::set<std::string> ids;
  for (const Cell& cell : asked) ids.insert(cell.id);
  for (Finding& finding : findings_) finding.asked = ids.contains(finding.cell->id);
}

// Cells come after those that they need.
std::string Findings::Blocked(const Cell& cell) const {
  for (const std::string& id : cell.needs) {
    const Finding& needed = At(id);
    if (needed.cell == nullptr) continue;
    if (!needed.blocked.empty()) return needed.blocked;
    if (needed.result != nullptr && needed.result->state != State::kDone) {
      return fmt::format("{}: {}", needed.cell->label, needed.result->reason);
    }
  }
  return "";
}

const Finding& Findings::At(const std::string& id) const {
  const auto found = std::find_if(findings_.begin(), findings_.end(),
                                  [&](const Finding& finding) { return finding.cell->id == id; });
  return found == findings_.end() ? none_ : *found;
}

const std::vector<Experiment>& Experiments() {
  static const std::vector<Experiment> kExperiments = {
      EfficiencyExperiment(), LongRangeArenaExperiment(), LanguageModelExperiment(),
      FinetuneExperiment(),   AblationExperiment(),       LocalityExperiment()};
  return kExperiments;
}

const Experiment& FindExperiment(const std::string& name) {
  std::vector<std::string> names;
  for (const Experiment& experiment : Experiments()) {
    if (experiment.name == name) return experiment;
    names.push_back(experiment.name);
  }
  throw Error(
      fmt::format("there is no experiment \"{}\": there are {}", name, fmt::join(names, ", ")));
}

Request Complete(const Experiment& experiment, Request request) {
  RequireChoice("--systems", request.systems, experiment.systems, experiment.name);
  RequireChoice("--tasks", request.tasks, experiment.tasks, experiment.name);
  RequireChoice("--lengths", request.lengths, experiment.lengths, experiment.name);
  RequireChoice("--seeds", request.seeds, std::vector<int64_t>(experiment.seeded ? 1 : 0),
                experiment.name);
  if (request.eval_tokens > 0 && !experiment.seeded) {
    throw Error(fmt::format("{} evaluates nothing: leave --eval-tokens out", experiment.name));
  }
  for (const std::string& system : request.systems) CheckSystem(system);
  for (const std::string& task : request.tasks) {
    if (std::count(experiment.tasks.begin(), experiment.tasks.end(), task) > 0) continue;
    throw Error(fmt::format("--tasks does not know \"{}\": {} has {}", task, experiment.name,
                            fmt::join(experiment.tasks, ", ")));
  }
  for (const int64_t seed : request.seeds) {
    if (seed < 1) throw Error(fmt::format("--seeds has {}; a seed is 1 or more", seed));
  }
  for (const int64_t length : request.lengths) {
    if (length < 1) throw Error(fmt::format("--lengths has {}; a length is 1 or more", length));
  }
  if (!request.scale.empty() &&
      std::count(experiment.scales.begin(), experiment.scales.end(), request.scale) == 0) {
    throw Error(experiment.scales.empty()
                    ? fmt::format("{} has one scale: leave --scale out", experiment.name)
                    : fmt::format("--scale is \"{}\"; {} has {}", request.scale, experiment.name,
                                  fmt::join(experiment.scales, ", ")));
  }
  if (request.systems.empty()) request.systems = experiment.systems;
  if (request.tasks.empty()) request.tasks = experiment.tasks;
  if (request.lengths.empty()) request.lengths = experiment.lengths;
  if (request.seeds.empty()) request.seeds = {1};
  if (request.scale.empty() && !experiment.scales.empty()) request.scale = experiment.scales[0];
  std::sort(request.lengths.begin(), request.lengths.end());
  return request;
}

std::string Shown(const Finding& finding, const std::string& value, Table& table) {
  if (finding.cell == nullptr || !finding.Counts()) return "";
  if (finding.result == nullptr) {
    const std::string& why = finding.cell->absent.empty() ? finding.blocked : finding.cell->absent;
    return why.empty() ? "not run" : fmt::format("not run {}", NoteMark(table, why));
  }
  const Result& result = *finding.result;
  std::string shown = result.state == State::kDone
                          ? value
                          : fmt::format("{} {}", SignOf(result), NoteMark(table, result.reason));
  if (finding.other_settings) {
    shown += fmt::format(
        " {}", NoteMark(table, finding.cell->absent.empty()
                                   ? "A result of other settings than those of this report."
                                   : "Made earlier: without its set it cannot be told whether the "
                                     "settings are still the same."));
  }
  return shown;
}

}  // namespace cosformer::reproduce
