#include "reproduce/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cosformer/error.h"
#include "report/files.h"
#include "report/out_of_memory.h"
#include "report/units.h"
#include "reproduce/budget.h"
#include "reproduce/live_table.h"
#include "reproduce/process.h"
#include "reproduce/run_progress.h"
#include "reproduce/settings.h"
#include "runs/run_directory.h"

namespace cosformer::reproduce {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Of the budget: the rest is for the first preparation of data, and for the report.
constexpr double kSharedPart = 0.95;
// Of a training's share: the rest is for starting, and for an evaluation of its own after it.
constexpr double kTrainingPart = 0.9;

std::string Now() { return UtcText(std::time(nullptr)); }

// Of a share, as an option has it.
std::string MinutesOf(double share) { return fmt::format("{:.4f}", kTrainingPart * share / 60); }

// Whether it was stopped on the way.
bool Resumes(const fs::path& directory, const Command& command) {
  return !command.run.empty() && !Checkpoints((directory / command.run).string()).empty();
}

json KeyOf(const Cell& cell) {
  json key = json::object();
  if (!cell.system.empty()) key["system"] = cell.system;
  if (!cell.task.empty()) key["task"] = cell.task;
  if (cell.seed > 0) key["seed"] = cell.seed;
  if (cell.length > 0) key["length"] = cell.length;
  return key;
}

std::string ReadFrom(const fs::path& path, std::streamoff offset) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(offset);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool OutOfTime(const Result& result) {
  return result.state == State::kFailed && result.values.value("failed_by", "") == "time";
}

// How out-of-memory is told by who does not end with the code for it: OpenBLAS, the C library,
// earlier versions of this program.
bool SpeaksOfMemory(const std::string& text) {
  for (const char* words : {"out of memory", "not enough memory", "emory allocation",
                            "annot allocate memory", "std::bad_alloc"}) {
    if (text.find(words) != std::string::npos) return true;
  }
  return false;
}

// The signal that stopped a command, and with it all; 0: none. One that reached the command alone
// is as good: it has saved itself, says so by its code as in a shell, and can go on.
int StoppedBy(const Ending& ending) {
  if (ending.interrupted != 0) return ending.interrupted;
  if (ending.out_of_time) return 0;
  for (const int signal : {SIGINT, SIGTERM}) {
    if (ending.code == 128 + signal) return signal;
  }
  return 0;
}

// The time of a budget, shared out again as it goes: what came before the trainings has taken some
// of it, and they are to have the same.
class BudgetClock {
 public:
  BudgetClock(const std::vector<Job>& jobs, const RunOptions& options) : options_(options) {
    for (const Job& job : jobs) weight_left_ += job.cell->weight;
    if (weight_left_ > 0) rate_ = kSharedPart * options.budget / weight_left_;
  }

  bool Limited() const { return options_.budget > 0; }
  // Seconds until it is over.
  double Left() const { return options_.budget - report::SecondsSince(options_.begin); }
  // Of a measurement: what quick ones leave over goes to the slow ones.
  double ShareOfWhatIsLeft(const Cell& cell) const {
    if (!Limited() || weight_left_ == 0) return 0;
    return std::max(kLeast, cell.weight * Left() / weight_left_);
  }
  // Of a training: no more than those before it had, since they are compared.
  double EqualShare(const Cell& cell) {
    if (!Limited() || cell.weight == 0) return 0;
    rate_ = std::min(rate_, ShareOfWhatIsLeft(cell) / cell.weight);
    return rate_ * cell.weight;
  }
  void End(const Cell& cell) { weight_left_ -= cell.weight; }

 private:
  static constexpr double kLeast = 1e-3;  // seconds; 0 would be any number

  const RunOptions& options_;
  double weight_left_ = 0;
  double rate_ = 0;  // seconds for a weight of 1
};

class CellRun {
 public:
  CellRun(const Experiment& experiment, const Job& job, const RunOptions& options,
          const Interrupt& interrupt, BudgetClock& clock, LiveTable& table)
      : experiment_(experiment),
        job_(job),
        cell_(*job.cell),
        options_(options),
        interrupt_(interrupt),
        clock_(clock),
        table_(table) {
    result_.cell = cell_.id;
    result_.key = KeyOf(cell_);
    result_.fingerprint = FingerprintOf(cell_);
    result_.directory = DirectoryOf(cell_);
    result_.share_seconds = job.share;
    result_.version = options.version;
    result_.machine = options.machine;
    directory_ = fs::path(options.out) / result_.directory;
  }

  int stopped_by() const { return stopped_by_; }

  // Nothing if a signal stopped it.
  std::optional<Result> Go() {
    Prepare();
    for (const Command& command : cell_.commands) {
      if (!Run(command)) {
        if (stopped_by_ != 0) return std::nullopt;
        break;
      }
    }
    if (result_.state == State::kDone) Collect();
    result_.finished = Now();
    std::error_code error;
    fs::remove(BegunPath(), error);
    return result_;
  }

 private:
  // Where it is written, until it is known to be whole.
  std::string JsonOf(const Command& command) const {
    return (directory_ / (command.json + ".new")).string();
  }

  int64_t MemoryLimit() const { return cell_.memory > 0 ? cell_.memory : options_.memory; }

  void Prepare() {
    std::error_code error;
    fs::create_directories(directory_, error);
    if (error) {
      throw Error(fmt::format("cannot make the directory \"{}\": {}", directory_.string(),
                              error.message()));
    }
    if (job_.retried) ForgetFailure();
    const bool resumes =
        std::any_of(cell_.commands.begin(), cell_.commands.end(),
                    [&](const Command& command) { return Resumes(directory_, command); });
    for (const File& file : cell_.files) {
      // One that goes on does so for the time that it began with.
      if (file.name == kRecipeFile && resumes && job_.share > 0) continue;
      WriteFile(file);
    }
    result_.started = Now();
    const json begun = json::parse(ReadFrom(BegunPath(), 0), nullptr, false);
    if (begun.is_object() && begun.contains("started") && begun.contains("seconds")) {
      result_.started = begun["started"].get<std::string>();
      result_.seconds = begun["seconds"].get<double>();
    }
    NoteTime(0);
  }

  void WriteFile(const File& file, const std::string& more = "") const {
    std::string contents = file.contents;
    if (file.name == kRecipeFile) {
      contents = Fill(contents, {TomlEscaped(options_.out), TomlEscaped(directory_.string()),
                                 TomlEscaped(options_.data)});
    }
    report::WriteFile((directory_ / file.name).string(), contents + more);
  }

  // Of a training that is about to begin: what came before it in the cell, as the first preparation
  // of its data, is not in its share.
  void SettleShare() {
    job_.share = result_.share_seconds = clock_.EqualShare(cell_);
    if (job_.share == 0) return;
    share_begin_ = report::Clock::now();
    for (const File& file : cell_.files) {
      if (file.name != kRecipeFile) continue;
      WriteFile(file, fmt::format("minutes = {}\n", MinutesOf(job_.share)));
    }
  }

  // How much of a split the rest of the share has time for: at the speed of the training, which is
  // slower than an evaluation. 0: all of it.
  int64_t EvalTokens() const {
    if (job_.share == 0) return 0;
    const json train = json::parse(ReadFrom(directory_ / "train.json", 0), nullptr, false);
    const double speed = train.is_object() ? train.value("tokens_per_second", 0.0) : 0.0;
    const double left = share_begin_ ? job_.share - report::SecondsSince(*share_begin_)
                                     : clock_.Left();  // it was resumed
    return std::max<int64_t>(1, std::llround(speed * left));
  }

  // Seconds that a command may take; 0: any number.
  double TimeLimit() const {
    if (!clock_.Limited()) return 0;
    const double left = std::max(1e-3, clock_.Left());
    return cell_.limited ? std::min(left, job_.share) : left;
  }

  // What was done well stays. A training that failed would go on to fail in the same way; where all
  // commands came to an end, it is what they wrote that was no result.
  void ForgetFailure() {
    std::error_code error;
    for (const Command& command : cell_.commands) {
      if (command.json.empty() || fs::exists(directory_ / command.json)) continue;
      if (!command.run.empty()) fs::remove_all(directory_ / command.run, error);
      return;
    }
    for (const Command& command : cell_.commands) {
      if (!command.json.empty()) fs::remove(directory_ / command.json, error);
    }
  }

  fs::path BegunPath() const { return directory_ / "begun.json"; }

  // For the one who goes on, should this one be stopped or killed. A note that can't be written is
  // no reason to stop.
  void NoteTime(double seconds) {
    const json begun = {{"started", result_.started}, {"seconds", result_.seconds + seconds}};
    std::ofstream(BegunPath()) << begun << "\n";
  }

  // Whether the next command can be run.
  bool Run(const Command& command) {
    if (!command.json.empty() && fs::exists(directory_ / command.json)) return true;
    const fs::path log = directory_ / "log.txt";
    if (!command.run.empty() && !Resumes(directory_, command)) SettleShare();
    job_.eval_tokens = EvalTokens();
    Process process{options_.program, WordsOf(command, job_, options_, JsonOf(command)),
                    log.string(), MemoryLimit(), TimeLimit()};
    std::ofstream(log, std::ios::app) << "$ cosformer " << ShellText(process.words) << "\n";
    std::error_code error;
    const auto offset = static_cast<std::streamoff>(fs::file_size(log, error));
    const std::string run = command.run.empty() ? "" : (directory_ / command.run).string();
    const auto start = std::chrono::steady_clock::now();
    double noted = 0;
    const Ending ending = RunProcess(process, interrupt_, [&] {
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      constexpr double kNoteEvery = 10;
      if (seconds > noted + kNoteEvery) {
        NoteTime(seconds);
        noted = seconds;
      }
      const RunProgress progress = run.empty() ? RunProgress{} : ProgressOf(run);
      // What comes after a training is short beside it.
      part_ = std::max(part_, progress.part);
      table_.Show(cell_, part_,
                  progress.text.empty()
                      ? fmt::format("{}, {}", command.words[0], report::FormatDuration(seconds))
                      : progress.text);
    });
    result_.seconds += ending.seconds;
    result_.peak_bytes = std::max(result_.peak_bytes, ending.peak_bytes);
    NoteTime(0);
    stopped_by_ = StoppedBy(ending);
    if (stopped_by_ != 0) return false;
    if (ending.code == 0 && ending.signal == 0 && !ending.out_of_time) {
      return command.json.empty() || Keep(command);
    }
    Judge(ending, ReadFrom(log, offset), !run.empty() && HasMetrics(run));
    return false;
  }

  bool Keep(const Command& command) {
    std::error_code error;
    const fs::path written = JsonOf(command);
    if (!fs::exists(written)) {
      Fail("error", fmt::format("cosformer {} left no results", command.words[0]));
      return false;
    }
    fs::rename(written, directory_ / command.json, error);
    if (error) {
      throw Error(fmt::format("cannot rename \"{}\": {}", written.string(), error.message()));
    }
    return true;
  }

  void Fail(const char* by, const std::string& reason) {
    result_.state = State::kFailed;
    result_.reason = reason;
    result_.values["failed_by"] = by;
  }

  void Judge(const Ending& ending, const std::string& said, bool begun) {
    const std::string sentence = LastSentence(said);
    if (ending.out_of_time) {
      Fail("time", cell_.limited ? fmt::format("not done within its share of the budget, {}",
                                               report::FormatDuration(job_.share))
                                 : fmt::format("not done when the budget of {} was used up",
                                               report::FormatDuration(options_.budget)));
    } else if (ending.out_of_memory) {
      Fail("memory", fmt::format("out of memory: more than {}",
                                 report::FormatBytes(static_cast<double>(MemoryLimit()))));
    } else if (ending.code == report::kOutOfMemoryExit || SpeaksOfMemory(said)) {
      Fail("memory", "out of memory");
    } else if (ending.signal == SIGKILL) {
      Fail("memory", "killed by the system: out of memory, most likely");
    } else if (ending.signal != 0) {
      Fail("crash",
           fmt::format("ended by signal {} ({})", ending.signal, strsignal(ending.signal)));
    } else if (begun || sentence.empty() || sentence.starts_with("unexpected error")) {
      Fail("error", sentence.empty()
                        ? fmt::format("ended with code {} and without a word", ending.code)
                        : sentence);
    } else {
      result_.state = State::kRefused;
      result_.reason = sentence;
    }
  }

  void Collect() {
    try {
      result_.values = experiment_.collect(cell_, directory_.string());
      const auto failure = result_.values.find("failure");
      if (failure != result_.values.end()) {
        const std::string reason = failure->get<std::string>();
        Fail(SpeaksOfMemory(reason) ? "memory" : "error", reason);
      }
    } catch (const Error& error) {
      Fail("error", error.what());
    } catch (const json::exception& error) {
      Fail("error", fmt::format("its results are not as expected: {}", error.what()));
    }
  }

  const Experiment& experiment_;
  Job job_;
  const Cell& cell_;
  const RunOptions& options_;
  const Interrupt& interrupt_;
  BudgetClock& clock_;
  LiveTable& table_;
  fs::path directory_;
  Result result_;
  double part_ = 0;
  std::optional<report::Clock::time_point> share_begin_;  // of a training that was begun here
  int stopped_by_ = 0;
};

// What a cell needs and is not there; empty: nothing.
std::string Lacking(const Cell& cell, const std::vector<Cell>& cells, const Results& results) {
  for (const std::string& id : cell.needs) {
    for (const Cell& needed : cells) {
      if (needed.id != id) continue;
      const Result* result = results.Find(id, FingerprintOf(needed));
      if (result == nullptr) return fmt::format("{} was not run", needed.label);
      if (result->state != State::kDone) return fmt::format("{}: {}", needed.label, result->reason);
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> WordsOf(const Command& command, const Job& job, const RunOptions& options,
                                 const std::string& json) {
  const fs::path directory = fs::path(options.out) / DirectoryOf(*job.cell);
  if (Resumes(directory, command)) {
    return {"train", "--resume", (directory / command.run).string(), "--json", json};
  }
  std::vector<std::string> words;
  for (const auto* part : {&command.words, &command.also}) {
    for (const std::string& word : *part) {
      words.push_back(Fill(word, {options.out, directory.string(), options.data, json,
                                  options.threads, job.eval_tokens}));
    }
  }
  if (!command.run.empty() && job.share > 0) {
    words.insert(words.end(), {"--minutes", MinutesOf(job.share)});
  }
  return words;
}

std::string LastSentence(const std::string& log) {
  std::string last, sentence;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    const std::string line = log.substr(begin, end - begin);
    constexpr std::string_view kName = "cosformer: ";
    if (line.starts_with(kName)) sentence = line.substr(kName.size());
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
    begin = end + 1;
  }
  return sentence.empty() ? last : sentence;
}

std::vector<Job> JobsOf(const std::vector<Cell>& cells, const Results& results,
                        const RunOptions& options) {
  std::set<std::string> wanted;
  std::map<std::string, const Result*> late;  // those that ran out of time before
  std::vector<Job> jobs;
  // From the last to the first, since cells come after those that they need.
  for (size_t i = cells.size(); i-- > 0;) {
    const Cell& cell = cells[i];
    if (!cell.absent.empty() || (cell.support && !wanted.contains(cell.id))) continue;
    const Result* result = results.Find(cell.id, FingerprintOf(cell));
    const fs::path directory = fs::path(options.out) / DirectoryOf(cell);
    if (result != nullptr && OutOfTime(*result)) {
      late[cell.id] = result;
    } else if (result != nullptr && (result->state == State::kDone || !options.retry)) {
      // What serves others must still be there.
      if (!cell.support || result->state != State::kDone || fs::exists(directory)) continue;
    }
    Job job{&cell};
    job.changed = result == nullptr && results.Latest(cell.id) != nullptr;
    job.resumed = result == nullptr && fs::exists(directory);
    job.retried = result != nullptr && result->state != State::kDone && !OutOfTime(*result);
    jobs.insert(jobs.begin(), job);
    wanted.insert(cell.needs.begin(), cell.needs.end());
  }
  std::vector<double> weights;
  for (const Job& job : jobs) weights.push_back(job.cell->weight);
  const std::vector<double> shares = Shares(kSharedPart * options.budget, weights);
  for (size_t i = 0; i < jobs.size(); ++i) jobs[i].share = shares[i];
  // Another try makes sense with more time alone.
  std::erase_if(jobs, [&](const Job& job) {
    const auto found = late.find(job.cell->id);
    return found != late.end() && !options.retry && job.share > 0 &&
           job.share <= 1.01 * found->second->share_seconds;
  });
  return jobs;
}

RunSummary RunJobs(const Experiment& experiment, const std::vector<Cell>& cells,
                   const std::vector<Job>& jobs, const RunOptions& options, Results& results) {
  RunSummary summary;
  std::vector<const Cell*> running;
  for (const Job& job : jobs) running.push_back(job.cell);
  LiveTable table(running, options.budget, options.begin);
  const Interrupt interrupt;
  const auto start = report::Clock::now();
  BudgetClock clock(jobs, options);
  for (Job job : jobs) {
    const Cell& cell = *job.cell;
    const auto wait = [&](const std::string& why) {
      ++summary.waiting;
      table.End(cell, "·", "not run: " + why, 0);
      clock.End(cell);
    };
    if (clock.Limited() && clock.Left() <= 0) {
      wait(fmt::format("the budget of {} is used up", report::FormatDuration(options.budget)));
      continue;
    }
    if (cell.limited) job.share = clock.ShareOfWhatIsLeft(cell);
    if (const std::string lacking = Lacking(cell, cells, results); !lacking.empty()) {
      wait(lacking);
      continue;
    }
    CellRun run(experiment, job, options, interrupt, clock, table);
    const std::optional<Result> result = run.Go();
    clock.End(cell);
    if (!result) {
      summary.signal = run.stopped_by();
      break;
    }
    results.Add(*result);
    const bool done = result->state == State::kDone;
    ++(done ? summary.done : result->state == State::kFailed ? summary.failed : summary.refused);
    table.End(cell, SignOf(*result),
              !done          ? result->reason
              : cell.support ? ""
                             : experiment.figure(*result),
              result->seconds);
    if (interrupt.Signal() != 0) {
      summary.signal = interrupt.Signal();
      break;
    }
  }
  table.Clear();
  summary.seconds = report::SecondsSince(start);
  return summary;
}

}  // namespace cosformer::reproduce
