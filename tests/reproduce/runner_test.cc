#include "reproduce/runner.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "contains.h"
#include "stub_experiment.h"

namespace cosformer::reproduce {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::StubCell;
using testing::TrainCell;
using testing::ValueCell;

class RunnerTest : public testing::StubTest {};

TEST_F(RunnerTest, WhateverBecomesOfACellIsAResultAndTheNextOneRuns) {
  std::vector<Cell> cells = {
      ValueCell("fine", 3),
      StubCell("refused", {"fail", "it does not do this"}),
      StubCell("unexpected", {"fail", "unexpected error: odd"}),
      StubCell("memory", {"fail", "out of memory: take less"}),
      StubCell("torch", {"fail", "unexpected error: not enough memory: you"}),
      StubCell("code", {"fail", "there is no room", "3"}),
      StubCell("crash", {"crash"}),
      StubCell("swallows", {"swallow", "400"}),
      StubCell("silent", {"write", "{cell}/elsewhere", ""}, "v.json"),
      ValueCell("last", 4)};
  cells[7].memory = int64_t{100} << 20;
  const RunSummary summary = Run(cells, Options());
  EXPECT_EQ(summary.done, 2);
  EXPECT_EQ(summary.refused, 1);
  EXPECT_EQ(summary.failed, 7);
  EXPECT_EQ(summary.signal, 0);
  const Results results = ResultsOf(Options());
  const auto reason = [&](const char* id) { return results.Latest(id)->reason; };
  EXPECT_EQ(results.Latest("fine")->values["value"], 3);
  EXPECT_EQ(results.Latest("last")->values["value"], 4);
  EXPECT_EQ(results.Latest("refused")->state, State::kRefused);
  EXPECT_EQ(reason("refused"), "it does not do this");
  EXPECT_EQ(reason("unexpected"), "unexpected error: odd");
  EXPECT_EQ(reason("memory"), "out of memory");
  EXPECT_EQ(reason("torch"), "out of memory");
  EXPECT_EQ(reason("code"), "out of memory");
  EXPECT_TRUE(Contains(reason("crash"), "signal 11"));
  EXPECT_EQ(reason("swallows"), "out of memory: more than 100 MiB");
  EXPECT_TRUE(Contains(reason("silent"), "left no results"));
  for (const char* id : {"unexpected", "memory", "torch", "code", "crash", "swallows", "silent"}) {
    EXPECT_EQ(results.Latest(id)->state, State::kFailed) << id;
  }
}

TEST_F(RunnerTest, ATrainingThatHadBegunHasFailedAndWasNotRefused) {
  Cell cell = StubCell("one", {"fail", "the loss is not finite"});
  cell.commands[0].run = "run";
  const fs::path run = fs::path(Options().out) / DirectoryOf(cell) / "run";
  fs::create_directories(run);
  std::ofstream(run / "metrics.jsonl") << "{}\n";
  Run({cell}, Options());
  EXPECT_EQ(ResultsOf(Options()).Latest("one")->state, State::kFailed);
}

TEST_F(RunnerTest, AValueNamedFailureIsOne) {
  const Cell cell =
      StubCell("one", {"write", "{json}", R"({"failure":"out of memory"})"}, "v.json");
  EXPECT_EQ(Run({cell}, Options()).failed, 1);
  EXPECT_EQ(ResultsOf(Options()).Latest("one")->reason, "out of memory");
  // Another try runs it again, and does not read what the first one wrote.
  LogCalls();
  RunOptions again = Options();
  again.retry = true;
  EXPECT_EQ(Run({cell}, again).failed, 1);
  EXPECT_TRUE(Contains(Calls(), "write"));
}

TEST_F(RunnerTest, WhatIsDoneIsNotDoneAgain) {
  LogCalls();
  const std::vector<Cell> cells = {ValueCell("one", 1), StubCell("two", {"fail", "no"})};
  Run(cells, Options());
  const std::string before = Calls();
  EXPECT_EQ(Run(cells, Options()).done, 0);
  EXPECT_EQ(Calls(), before);
  RunOptions again = Options();
  again.retry = true;
  EXPECT_EQ(Run(cells, again).refused, 1);
  EXPECT_EQ(Calls(), before + "fail no \n");
}

TEST_F(RunnerTest, ChangedSettingsRunInAnotherDirectoryAndLoseNothing) {
  Run({ValueCell("one", 1)}, Options());
  const std::vector<Cell> changed = {ValueCell("one", 2)};
  const Results results = ResultsOf(Options());
  const std::vector<Job> jobs = JobsOf(changed, results, Options());
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_TRUE(jobs[0].changed);
  EXPECT_EQ(Run(changed, Options()).done, 1);
  const Results both = ResultsOf(Options());
  EXPECT_EQ(both.Find("one", FingerprintOf(ValueCell("one", 1)))->values["value"], 1);
  EXPECT_EQ(both.Find("one", FingerprintOf(changed[0]))->values["value"], 2);
  EXPECT_NE(both.all()[0].directory, both.all()[1].directory);
  for (const Result& result : both.all()) {
    EXPECT_TRUE(fs::exists(Options().out + "/" + result.directory + "/v.json"));
  }
}

TEST_F(RunnerTest, ACellWaitsForWhatItNeeds) {
  Cell needy = ValueCell("needy", 1);
  needy.needs = {"broken"};
  Cell glad = ValueCell("glad", 2);
  glad.needs = {"whole"};
  const RunSummary summary =
      Run({StubCell("broken", {"crash"}), ValueCell("whole", 0), needy, glad}, Options());
  EXPECT_EQ(summary.waiting, 1);
  EXPECT_EQ(summary.done, 2);
  EXPECT_EQ(ResultsOf(Options()).Latest("needy"), nullptr);
}

TEST_F(RunnerTest, WhatServesOthersRunsOnlyForThem) {
  Cell support = ValueCell("set", 0);
  support.support = true;
  Cell user = ValueCell("user", 1);
  user.needs = {"set"};
  EXPECT_TRUE(JobsOf({support}, ResultsOf(Options()), Options()).empty());
  const std::vector<Cell> cells = {support, user};
  EXPECT_EQ(Run(cells, Options()).done, 2);
  EXPECT_TRUE(JobsOf(cells, ResultsOf(Options()), Options()).empty());
  // Its directory was removed to make room: nothing is to be done, until someone needs it.
  fs::remove_all(fs::path(Options().out) / DirectoryOf(support));
  EXPECT_TRUE(JobsOf(cells, ResultsOf(Options()), Options()).empty());
  Cell other = ValueCell("other", 1);
  other.needs = {"set"};
  EXPECT_EQ(JobsOf({support, user, other}, ResultsOf(Options()), Options()).size(), 2u);
}

TEST_F(RunnerTest, WhatCannotBeRunHereIsNotTried) {
  Cell absent = ValueCell("absent", 1);
  absent.absent = "The set is not there.";
  EXPECT_TRUE(JobsOf({absent}, ResultsOf(Options()), Options()).empty());
}

TEST_F(RunnerTest, ABudgetIsSharedOutOverWhatIsLeftAndReachesTrainings) {
  LogCalls();
  Cell first = TrainCell("first"), second = TrainCell("second");
  second.weight = 3;
  RunOptions options = Options();
  options.budget = 4 * 60;
  const std::vector<Cell> cells = {first, second};
  const std::vector<Job> jobs = JobsOf(cells, ResultsOf(options), options);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].share, 57);  // a twentieth is for what is none of theirs
  EXPECT_EQ(jobs[1].share, 171);
  Run(cells, options);
  // Nine tenths of the share are for the training itself.
  EXPECT_TRUE(Contains(Calls(), "--minutes 0.8550 \n"));
  EXPECT_TRUE(Contains(Calls(), "--minutes 2.5650 \n"));
  EXPECT_EQ(ResultsOf(options).Latest("first")->share_seconds, 57);
  const std::vector<Cell> more = {first, second, TrainCell("third")};
  EXPECT_EQ(JobsOf(more, ResultsOf(options), options)[0].share, 228);
}

TEST_F(RunnerTest, AMeasurementIsStoppedAtItsShareAndTriedAgainWithMoreAlone) {
  Cell cell = StubCell("slow", {"wait", "{cell}/waiting"});
  cell.limited = true;
  RunOptions options = Options();
  options.budget = 0.3;
  EXPECT_EQ(Run({cell}, options).failed, 1);
  EXPECT_TRUE(Contains(ResultsOf(options).Latest("slow")->reason, "its share of the budget"));
  EXPECT_TRUE(JobsOf({cell}, ResultsOf(options), options).empty());
  options.budget = 3;
  EXPECT_EQ(JobsOf({cell}, ResultsOf(options), options).size(), 1u);
  options.budget = 0;
  EXPECT_EQ(JobsOf({cell}, ResultsOf(options), options).size(), 1u);
}

TEST_F(RunnerTest, TheBudgetEndsWhatIsRunningAndNothingBeginsAfterIt) {
  const std::vector<Cell> cells = {StubCell("slow", {"wait", "{cell}/waiting"}),
                                   ValueCell("late", 1)};
  RunOptions options = Options();
  options.budget = 2;
  const RunSummary summary = Run(cells, options);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.waiting, 1);
  ASSERT_NE(ResultsOf(options).Latest("slow"), nullptr);
  EXPECT_TRUE(Contains(ResultsOf(options).Latest("slow")->reason, "when the budget of"));
  EXPECT_EQ(ResultsOf(options).Latest("late"), nullptr);
}

TEST_F(RunnerTest, WhatIsGoneBeforeTheTrainingsIsTakenFromAllOfThemAlike) {
  LogCalls();
  RunOptions options = Options();
  options.budget = 60 * 60;
  options.begin -= std::chrono::minutes(30);
  Run({TrainCell("first"), TrainCell("second")}, options);
  const Results results = ResultsOf(options);
  const double first = results.Latest("first")->share_seconds;
  EXPECT_NEAR(first, 15 * 60, 30);
  EXPECT_EQ(results.Latest("second")->share_seconds, first);
}

TEST_F(RunnerTest, AnEvaluationHasTheRestOfItsTrainingsShare) {
  LogCalls();
  Cell cell = TrainCell("one");
  cell.commands[1].also = {"--tokens", "{eval_tokens}"};
  Run({cell}, Options());
  EXPECT_TRUE(Contains(Calls(), "--tokens 0 \n"));  // all
  cell.commands[1].words.push_back("anew");
  RunOptions options = Options();
  options.budget = 600;
  Run({cell}, options);
  // At 8 tokens per second, as the training had; 570 seconds less what it took.
  const std::string calls = Calls();
  const int64_t tokens = std::stoll(calls.substr(calls.rfind("--tokens ") + 9));
  EXPECT_GT(tokens, 4000);
  EXPECT_LE(tokens, 4560);
}

TEST_F(RunnerTest, ASignalStopsItWithoutAResultAndItGoesOnTheNextTime) {
  const Cell cell = StubCell("one", {"wait", "{cell}/waiting"});
  const std::vector<Cell> cells = {ValueCell("zero", 0), cell, ValueCell("two", 2)};
  const fs::path waiting = fs::path(Options().out) / DirectoryOf(cell) / "waiting";
  const pid_t child = fork();
  if (child == 0) _exit(Run(cells, Options()).signal == SIGTERM ? 17 : 1);
  while (!fs::exists(waiting)) usleep(1000);
  kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 17);
  EXPECT_EQ(Read(waiting.string()), std::to_string(SIGTERM));  // passed on, and waited for
  const Results results = ResultsOf(Options());
  EXPECT_NE(results.Latest("zero"), nullptr);
  EXPECT_EQ(results.Latest("one"), nullptr);
  EXPECT_EQ(results.Latest("two"), nullptr);
  // What it took so far is kept for the one who goes on.
  const auto begun = nlohmann::json::parse(Read((waiting.parent_path() / "begun.json").string()));
  EXPECT_GT(begun["seconds"].get<double>(), 0);
  const std::vector<Job> jobs = JobsOf(cells, results, Options());
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_TRUE(jobs[0].resumed);
}

TEST_F(RunnerTest, ASignalToTheCommandAloneStopsAllTheSame) {
  const std::vector<Cell> cells = {StubCell("one", {"fail", "stopped", "143"}),
                                   ValueCell("two", 2)};
  EXPECT_EQ(Run(cells, Options()).signal, SIGTERM);
  EXPECT_TRUE(ResultsOf(Options()).all().empty());
}

TEST_F(RunnerTest, ATrainingThatWasStoppedIsResumed) {
  LogCalls();
  const Cell cell = TrainCell("one");
  const fs::path run = fs::path(Options().out) / DirectoryOf(cell) / "run";
  fs::create_directories(run / "checkpoints");
  std::ofstream(run / "checkpoints" / "step-00000001.safetensors") << "";
  EXPECT_EQ(Run({cell}, Options()).done, 1);
  EXPECT_TRUE(Contains(Calls(), "train --resume " + run.string()));
  EXPECT_FALSE(Contains(Calls(), "--out"));
}

TEST_F(RunnerTest, TheTimeBeforeAnInterruptionCounts) {
  const Cell cell = ValueCell("one", 1);
  const fs::path directory = fs::path(Options().out) / DirectoryOf(cell);
  fs::create_directories(directory);
  std::ofstream(directory / "begun.json") << R"({"started":"2026-01-31T12:00:00Z","seconds":1000})";
  Run({cell}, Options());
  const Result result = *ResultsOf(Options()).Latest("one");
  EXPECT_EQ(result.started, "2026-01-31T12:00:00Z");
  EXPECT_GE(result.seconds, 1000);
  EXPECT_FALSE(fs::exists(directory / "begun.json"));  // another try begins anew
  // A note that was cut off is none.
  const Cell other = ValueCell("two", 2);
  const fs::path half = fs::path(Options().out) / DirectoryOf(other);
  fs::create_directories(half);
  std::ofstream(half / "begun.json") << R"({"started":"2026-01)";
  Run({other}, Options());
  EXPECT_LT(ResultsOf(Options()).Latest("two")->seconds, 1000);
  EXPECT_LE(ResultsOf(Options()).Latest("two")->started,
            ResultsOf(Options()).Latest("two")->finished);
}

TEST_F(RunnerTest, ARecipeHasTheTimeThatItsTrainingWasGiven) {
  Cell cell = TrainCell("one");
  cell.files = {{kRecipeFile, "seed = 1\n"}};
  const std::string fingerprint = FingerprintOf(cell);
  const fs::path directory = fs::path(Options().out) / DirectoryOf(cell);
  RunOptions options = Options();
  options.budget = 60;
  Run({cell}, options);
  EXPECT_EQ(Read((directory / kRecipeFile).string()), "seed = 1\nminutes = 0.8550\n");
  EXPECT_EQ(ResultsOf(options).Latest("one")->fingerprint, fingerprint);
  // One that goes on has the time that it began with, whatever is shared out now.
  fs::remove(Path("out/results.jsonl"));
  options.budget = 120;
  Run({cell}, options);
  EXPECT_EQ(Read((directory / kRecipeFile).string()), "seed = 1\nminutes = 0.8550\n");
  // Without a budget it is the cell's own.
  Cell other = TrainCell("other");
  other.files = cell.files;
  Run({other}, Options());
  EXPECT_EQ(Read(Options().out + "/" + DirectoryOf(other) + "/recipe.toml"), "seed = 1\n");
}

TEST_F(RunnerTest, WordsThatChangeNoResultAreRunWithTheOthers) {
  LogCalls();
  Cell cell = ValueCell("one", 1);
  cell.commands[0].also = {"--force"};
  Run({cell}, Options());
  EXPECT_TRUE(Contains(Calls(), "{\"value\":1} --force \n"));
}

TEST_F(RunnerTest, KilledAnywhereItGoesOnToTheSameResults) {
  Cell support = ValueCell("set", 0);
  support.support = true;
  Cell user = TrainCell("user");
  user.needs = {"set"};
  const std::vector<Cell> cells = {support, user, TrainCell("other"), ValueCell("last", 7)};
  constexpr int kCommands = 6;
  for (const char* where : {"before", "half", "after"}) {
    for (int at = 1; at <= kCommands; ++at) {
      SCOPED_TRACE(std::string(where) + " call " + std::to_string(at));
      fs::remove_all(Path("out"));
      fs::remove(Path("calls"));
      LogCalls();
      setenv("STUB_KILL_AT", std::to_string(at).c_str(), 1);
      setenv("STUB_KILL", where, 1);
      const pid_t child = fork();
      if (child == 0) {
        Run(cells, Options());
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
      unsetenv("STUB_KILL_AT");
      Run(cells, Options());
      const Results results = ResultsOf(Options());
      ASSERT_EQ(results.all().size(), cells.size());
      for (size_t i = 0; i < cells.size(); ++i) {
        EXPECT_EQ(results.all()[i].cell, cells[i].id);
        EXPECT_EQ(results.all()[i].state, State::kDone) << results.all()[i].reason;
      }
      EXPECT_EQ(results.Latest("user")->values["value"], 5);
      // One call more than there are commands: the one that was killed.
      const std::string calls = Calls();
      EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), kCommands + 1) << calls;
      EXPECT_TRUE(JobsOf(cells, results, Options()).empty());
    }
  }
}

TEST(LastSentenceTest, TheProgramsOwnSentenceComesFirst) {
  EXPECT_EQ(LastSentence("a\ncosformer: it failed\nlater\n"), "it failed");
  EXPECT_EQ(LastSentence("a\nlast line\n  \n"), "last line");
  EXPECT_EQ(LastSentence("cosformer: first\ncosformer: second"), "second");
  EXPECT_EQ(LastSentence(""), "");
}

}  // namespace
}  // namespace cosformer::reproduce
