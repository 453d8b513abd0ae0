#include "reproduce/reproduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "cosformer/error.h"
#include "formats/read_file.h"
#include "report/files.h"
#include "report/units.h"
#include "reproduce/last_run.h"
#include "reproduce/process.h"
#include "reproduce/report.h"
#include "reproduce/settings.h"
#include "runs/run_directory.h"

namespace cosformer::reproduce {
namespace {

namespace fs = std::filesystem;

std::string ResultsPath(const RunOptions& options) {
  return (fs::path(options.out) / "results.jsonl").string();
}

void MakeDirectory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    throw Error(fmt::format("cannot make the directory \"{}\": {}", directory, error.message()));
  }
}

// Without cosformer-train every cell would be refused, one by one.
void RequireTraining(const RunOptions& options) {
  const std::string log = (fs::path(options.out) / "start.log").string();
  std::error_code error;
  fs::remove(log, error);
  const Interrupt interrupt;
  const Ending ending = RunProcess({options.program, {"train", "--help"}, log}, interrupt, nullptr);
  if (ending.interrupted != 0) throw Error("stopped before anything was run");
  if (ending.code != 0 || ending.signal != 0) {
    throw Error(fmt::format("{} cannot train: {}", options.program,
                            LastSentence(ReadFile(log, size_t{1} << 20))));
  }
  fs::remove(log, error);
}

// What was asked for or has results, in the order of the experiment, then the rest.
template <class T>
std::vector<T> Shown(const std::vector<T>& all, const std::vector<T>& asked,
                     const std::vector<T>& run) {
  const auto holds = [](const std::vector<T>& list, const T& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  std::vector<T> shown;
  for (const std::vector<T>* list : {&all, &asked, &run}) {
    for (const T& value : *list) {
      if ((holds(asked, value) || holds(run, value)) && !holds(shown, value)) {
        shown.push_back(value);
      }
    }
  }
  return shown;
}

// What was asked for, and what was run beyond it.
Request WithResults(const Experiment& experiment, const Request& asked, const Results& results) {
  std::vector<std::string> systems, tasks;
  std::vector<int64_t> seeds, lengths;
  for (const Result& result : results.all()) {
    // What serves others, as a set that was made, is of no system.
    if (!result.key.contains("system")) continue;
    systems.push_back(result.key["system"].get<std::string>());
    if (result.key.contains("task")) tasks.push_back(result.key["task"].get<std::string>());
    if (result.key.contains("seed")) seeds.push_back(result.key["seed"].get<int64_t>());
    if (result.key.contains("length")) lengths.push_back(result.key["length"].get<int64_t>());
  }
  Request request = asked;
  request.systems = Shown(experiment.systems, asked.systems, systems);
  // An experiment may have names for parts of its own, which nobody can choose.
  std::erase_if(tasks, [&](const std::string& task) {
    return std::count(experiment.tasks.begin(), experiment.tasks.end(), task) == 0;
  });
  request.tasks = Shown(experiment.tasks, asked.tasks, tasks);
  if (experiment.seeded) request.seeds = Shown({}, asked.seeds, seeds);
  if (!experiment.lengths.empty()) {
    request.lengths = Shown(experiment.lengths, asked.lengths, lengths);
  }
  std::sort(request.seeds.begin(), request.seeds.end());
  std::sort(request.lengths.begin(), request.lengths.end());
  return request;
}

Outcome WriteReport(const Experiment& experiment, const Request& asked, const RunOptions& options,
                    const Results& results) {
  const Request request = WithResults(experiment, asked, results);
  const std::vector<Cell> cells = experiment.cells(request);
  const Findings findings(cells, results, experiment.cells(asked));
  const std::optional<LastRun> last = ReadLastRun(options.out);
  const Report report =
      ReportOf(experiment, request, findings, options.out, last ? last->command : options.command);
  const fs::path out = options.out;
  for (const Block& block : report.document.blocks) {
    const auto* picture = std::get_if<Picture>(&block);
    if (picture == nullptr) continue;
    MakeDirectory((out / "figures").string());
    report::WriteFile((out / PicturePath(*picture)).string(), picture->svg);
  }
  report::WriteFile((out / "report.md").string(), ToMarkdown(report.document));
  report::WriteFile((out / "report.html").string(), ToHtml(report.document));
  report::WriteFile((out / "report.json").string(), report.json);
  report::WriteFile((out / "report.csv").string(), report.csv);
  report::WriteFile((out / "tables.tex").string(), ToLatex(report.document));
  Outcome outcome;
  outcome.json = report.json;
  for (const std::string& sentence : report.summary) outcome.text += sentence + "\n";
  outcome.text +=
      fmt::format("The report is in {}; beside it report.md, report.csv and tables.tex\n",
                  (out / "report.html").string());
  return outcome;
}

void Say(const std::string& line) { fmt::print(stderr, "{}\n", line); }

// How long it will take: what the budget gives, or what is known of the recipes.
std::string TimeLeft(const Experiment& experiment, const Request& request,
                     const std::vector<Job>& jobs, size_t trainings, const RunOptions& options) {
  using report::FormatDuration;
  if (options.budget > 0) {
    double most = 0;
    for (const Job& job : jobs) most = std::max(most, job.share);
    const std::string shared = fmt::format("{} are shared out over them: {}",
                                           FormatDuration(options.budget), FormatDuration(most));
    return trainings > 0
               ? shared + " at most for each, what it evaluates included"
               : shared + " for each, and what others leave over; one that takes longer is stopped";
  }
  if (trainings == 0) return experiment.pace;
  if (request.scale == kOriginal) {
    return "At the original scale a training takes days on a CPU; --budget 12h would share out the "
           "time that you have";
  }
  // Of one core, after the recipes of the compact scale.
  constexpr double kLeast = 10 * 60, kMost = 30 * 60;
  const auto count = static_cast<double>(trainings);
  return fmt::format(
      "Roughly 10 to 30 minutes a training on one core: {} to {} in all; --budget "
      "limits it",
      FormatDuration(kLeast * count), FormatDuration(kMost * count));
}

std::vector<std::string> WhatIsLeft(const Experiment& experiment, const Request& request,
                                    const std::vector<Cell>& cells, const std::vector<Job>& jobs,
                                    const RunOptions& options) {
  size_t results = 0;
  for (const Cell& cell : cells) results += cell.support ? 0 : 1;
  size_t left = 0, changed = 0, resumed = 0, trainings = 0;
  for (const Job& job : jobs) {
    left += job.cell->support ? 0 : 1;
    changed += job.changed ? 1 : 0;
    resumed += job.resumed ? 1 : 0;
    trainings += IsTraining(*job.cell) ? 1 : 0;
  }
  std::string first = fmt::format("{} of {} results are to be made", left, results);
  if (trainings > 0) {
    first +=
        fmt::format(", which takes {} {}", trainings, trainings == 1 ? "training" : "trainings");
  }
  if (resumed > 0) first += fmt::format("; {} of them begun before", resumed);
  std::vector<std::string> lines = {first};
  if (changed > 0) {
    lines.push_back(
        fmt::format("The settings of {} have changed since they were run: they are run anew, in "
                    "directories of their own; the earlier results stay in results.jsonl.",
                    changed));
  }
  if (jobs.empty()) return lines;
  std::string time = TimeLeft(experiment, request, jobs, trainings, options);
  if (!time.empty()) lines.push_back(std::move(time));
  return lines;
}

void SayWhatIsAbsent(const std::vector<Cell>& cells) {
  std::vector<std::string> said;
  for (const Cell& cell : cells) {
    if (cell.absent.empty() || std::count(said.begin(), said.end(), cell.absent) > 0) continue;
    Say(cell.absent);
    said.push_back(cell.absent);
  }
}

// Why there is no result at all of what was asked for; empty: there is one.
std::string FailureOf(const std::vector<Cell>& cells, const Results& results) {
  size_t asked = 0;
  std::string reason;
  for (const Cell& cell : cells) {
    // Without its set a cell has not the settings that it was run with.
    const Result* result =
        cell.absent.empty() ? results.Find(cell.id, FingerprintOf(cell)) : results.Latest(cell.id);
    if (result != nullptr && result->state != State::kDone && reason.empty()) {
      reason = fmt::format("{}: {}", cell.label, result->reason);
    }
    if (cell.support) continue;
    ++asked;
    if (result != nullptr && result->state == State::kDone) return "";
    if (reason.empty()) reason = cell.absent;
  }
  if (asked == 0) return "";
  return fmt::format("{} come about{}{}",
                     asked == 1
                         ? "the result that was asked for has not"
                         : fmt::format("none of the {} results that were asked for has", asked),
                     reason.empty() ? "" : ": ", reason);
}

}  // namespace

Outcome Reproduce(const Experiment& experiment, const Request& request, const RunOptions& options) {
  MakeDirectory(options.out);
  const RunLock lock(options.out);
  RequireOwnDirectory(options.out, experiment.name);
  Results results(ResultsPath(options));
  if (!results.Remark().empty()) Say(results.Remark());
  const std::vector<Cell> cells = experiment.cells(request);
  const std::vector<Job> jobs = JobsOf(cells, results, options);
  for (const std::string& line : WhatIsLeft(experiment, request, cells, jobs, options)) Say(line);
  SayWhatIsAbsent(cells);
  if (!jobs.empty()) RequireTraining(options);
  // A command that finds nothing to do is not the one to go on with.
  if (!jobs.empty() || !ReadLastRun(options.out)) {
    Request choices = request;
    if (!experiment.seeded) choices.seeds.clear();  // which it would be refused
    WriteLastRun(options.out, {experiment.name, options.command, choices});
  }
  RunSummary run;
  if (!jobs.empty()) {
    run = RunJobs(experiment, cells, jobs, options, results);
  }
  Outcome outcome = WriteReport(experiment, request, options, results);
  outcome.run = run;
  if (run.signal != 0) {
    outcome.text += "Stopped. The same command goes on from here.\n";
  } else {
    outcome.failure = FailureOf(cells, results);
  }
  return outcome;
}

Outcome ReportOnly(const Experiment& experiment, const Request& request,
                   const RunOptions& options) {
  RequireOwnDirectory(options.out, experiment.name);
  const Results results(ResultsPath(options));
  if (results.all().empty()) {
    throw Error(
        fmt::format("there are no results in \"{}\": run cosformer reproduce {} --out {} "
                    "without --report-only first",
                    options.out, experiment.name, options.out));
  }
  if (!results.Remark().empty()) Say(results.Remark());
  return WriteReport(experiment, request, options, results);
}

std::string DryRun(const Experiment& experiment, const Request& request,
                   const RunOptions& options) {
  const Results results(ResultsPath(options));
  const std::vector<Cell> cells = experiment.cells(request);
  const std::vector<Job> jobs = JobsOf(cells, results, options);
  std::string text;
  for (const std::string& line : WhatIsLeft(experiment, request, cells, jobs, options)) {
    text += line + "\n";
  }
  if (std::any_of(jobs.begin(), jobs.end(), [](const Job& job) {
        return IsTraining(*job.cell) && !job.cell->files.empty();
      })) {
    text += fmt::format("A training's {} is written when its cell is run\n", kRecipeFile);
  }
  for (const Cell& cell : cells) {
    const auto job = std::find_if(jobs.begin(), jobs.end(),
                                  [&](const Job& candidate) { return candidate.cell == &cell; });
    const Result* result = results.Find(cell.id, FingerprintOf(cell));
    if (!cell.absent.empty()) {
      text += fmt::format("{}: not run: {}\n", cell.label, cell.absent);
    } else if (job == jobs.end()) {
      text += fmt::format("{}: {}\n", cell.label,
                          result == nullptr               ? "not needed"
                          : result->state == State::kDone ? "done"
                                                          : SignOf(*result) + " " + result->reason);
    } else {
      text += fmt::format("{}:{}{}\n", cell.label,
                          job->resumed   ? " goes on"
                          : job->changed ? " anew, its settings have changed"
                                         : "",
                          job->share > 0
                              ? fmt::format(" {} of the budget", report::FormatDuration(job->share))
                              : "");
      const fs::path directory = fs::path(options.out) / DirectoryOf(cell);
      for (const Command& command : cell.commands) {
        const fs::path json = directory / command.json;
        if (!command.json.empty() && fs::exists(json)) continue;
        std::vector<std::string> words = WordsOf(command, *job, options, json.string());
        words.insert(words.begin(), "cosformer");
        text += "  " + ShellText(words) + "\n";
      }
    }
  }
  return text;
}

}  // namespace cosformer::reproduce
