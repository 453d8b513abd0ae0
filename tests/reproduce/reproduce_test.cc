#include "reproduce/reproduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "contains.h"
#include "reproduce/last_run.h"
#include "stub_experiment.h"
#include "svg_reader.h"

namespace cosformer::reproduce {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::MessageOf;
using testing::StubCell;
using testing::StubExperiment;
using testing::TrainCell;
using testing::ValueCell;

class ReproduceTest : public testing::StubTest {
 protected:
  static Request Asked(const Experiment& experiment) { return Complete(experiment, {}); }
};

TEST_F(ReproduceTest, ItEndsInReportsForPeopleAndPrograms) {
  const Experiment experiment =
      StubExperiment({ValueCell("one", 1), StubCell("two", {"fail", "<no> & never"})});
  const Outcome outcome = Reproduce(experiment, Asked(experiment), Options());
  EXPECT_EQ(outcome.run.done, 1);
  EXPECT_TRUE(Contains(outcome.text, "report.html"));
  const std::string html = Read(Path("out/report.html"));
  EXPECT_NO_THROW(testing::ElementsOf(html.substr(html.find('\n') + 1))) << html;
  EXPECT_TRUE(Contains(html, "&lt;no&gt; &amp; never"));
  EXPECT_TRUE(Contains(Read(Path("out/report.md")), "# A stub"));
  const auto json = nlohmann::json::parse(Read(Path("out/report.json")));
  EXPECT_EQ(outcome.json, Read(Path("out/report.json")));
  ASSERT_EQ(json["cells"].size(), 2u);
  EXPECT_EQ(json["cells"][0]["values"]["value"], 1);
  EXPECT_EQ(json["cells"][1]["state"], "refused");
  EXPECT_EQ(json["cells"][1]["reason"], "<no> & never");
}

TEST_F(ReproduceTest, WhatWasNotRunIsShownAsNotRunWithItsReason) {
  Cell absent = ValueCell("absent", 1);
  absent.absent = "The set is not there.";
  Cell needy = ValueCell("needy", 1);
  needy.needs = {"broken"};
  const Experiment experiment = StubExperiment({absent, StubCell("broken", {"crash"}), needy});
  Reproduce(experiment, Asked(experiment), Options());
  const auto json = nlohmann::json::parse(Read(Path("out/report.json")));
  EXPECT_EQ(json["cells"][0]["state"], "not run");
  EXPECT_EQ(json["cells"][0]["reason"], "The set is not there.");
  EXPECT_EQ(json["cells"][2]["state"], "not run");
  EXPECT_TRUE(Contains(json["cells"][2]["reason"].get<std::string>(), "cell broken: ended by"));
}

TEST_F(ReproduceTest, AProgramThatCannotTrainIsSaidBeforeAnythingRuns) {
  const Experiment experiment = StubExperiment({ValueCell("one", 1)});
  RunOptions options = Options();
  options.program = Path("nothing");
  const std::string message = MessageOf([&] { Reproduce(experiment, Asked(experiment), options); });
  EXPECT_TRUE(Contains(message, "cannot train"));
  EXPECT_FALSE(fs::exists(Path("out/results.jsonl")));
}

TEST_F(ReproduceTest, ReportOnlyRunsNothingAndTakesWhatIsThere) {
  const Experiment before = StubExperiment({ValueCell("one", 1)});
  EXPECT_TRUE(Contains(MessageOf([&] { ReportOnly(before, Asked(before), Options()); }),
                       "there are no results"));
  Reproduce(before, Asked(before), Options());
  LogCalls();
  // Of other settings, which is said.
  const Experiment after = StubExperiment({ValueCell("one", 2), ValueCell("two", 3)});
  ReportOnly(after, Asked(after), Options());
  EXPECT_FALSE(fs::exists(Path("calls")));
  const auto json = nlohmann::json::parse(Read(Path("out/report.json")));
  EXPECT_EQ(json["cells"][0]["values"]["value"], 1);
  EXPECT_EQ(json["cells"][0]["other_settings"], true);
  EXPECT_EQ(json["cells"][1]["state"], "not run");
}

TEST_F(ReproduceTest, ADryRunShowsCommandsAndWhatIsDone) {
  const Experiment experiment = StubExperiment({ValueCell("one", 1), ValueCell("two", 2)});
  EXPECT_TRUE(Contains(DryRun(experiment, Asked(experiment), Options()), "cosformer write "));
  EXPECT_FALSE(fs::exists(Path("out")));
  const Experiment first = StubExperiment({ValueCell("one", 1)});
  Reproduce(first, Asked(first), Options());
  const std::string text = DryRun(experiment, Asked(experiment), Options());
  EXPECT_TRUE(Contains(text, "cell one: done\n"));
  EXPECT_TRUE(Contains(text, "cell two:\n  cosformer write "));
}

TEST_F(ReproduceTest, AReportHasWhatWasAskedForAndWhatHasResults) {
  Experiment experiment = StubExperiment({});
  experiment.systems = {"softmax", "cosformer", "linear"};
  experiment.cells = [](const Request& request) {
    std::vector<Cell> cells;
    for (const std::string& system : request.systems) cells.push_back(ValueCell(system, 1));
    return cells;
  };
  const auto shown = [&](std::vector<std::string> systems) {
    Request request;
    request.systems = std::move(systems);
    Reproduce(experiment, Complete(experiment, request), Options());
    const auto report = nlohmann::json::parse(Read(Path("out/report.json")));
    std::string states;
    for (const auto& cell : report["cells"]) {
      states += cell["cell"].get<std::string>() + " " + cell["state"].get<std::string>() + "; ";
    }
    return states;
  };
  EXPECT_EQ(shown({"linear"}), "linear done; ");
  EXPECT_FALSE(Contains(Read(Path("out/report.md")), "not run"));
  EXPECT_EQ(shown({"softmax"}), "softmax done; linear done; ");
  EXPECT_EQ(shown({}), "softmax done; cosformer done; linear done; ");
}

TEST_F(ReproduceTest, WhatWasNotAskedForAndHasNoResultStaysEmpty) {
  const std::vector<Cell> cells = {ValueCell("one", 1), ValueCell("two", 1)};
  const Results none(Path("none"));
  const Findings findings(cells, none, {cells[0]});
  Table table{.caption = "", .header = {}};
  EXPECT_EQ(Shown(findings.At("one"), "", table), "not run");
  EXPECT_EQ(Shown(findings.At("two"), "", table), "");
}

TEST_F(ReproduceTest, EveryWayToFailHasASignOfItsOwn) {
  const Cell cell = ValueCell("one", 1);
  const auto shown = [&](State state, const char* by) {
    Result result;
    result.state = state;
    result.reason = "a reason";
    if (*by != 0) result.values["failed_by"] = by;
    const Finding finding{.cell = &cell, .result = &result};
    Table table{.caption = "", .header = {}};
    return Shown(finding, "1.5", table);
  };
  EXPECT_EQ(shown(State::kDone, ""), "1.5");
  EXPECT_EQ(shown(State::kFailed, "memory"), "✗ [1]");
  EXPECT_EQ(shown(State::kFailed, "time"), "◔ [1]");
  EXPECT_EQ(shown(State::kFailed, "crash"), "! [1]");
  EXPECT_EQ(shown(State::kFailed, ""), "! [1]");
  EXPECT_EQ(shown(State::kRefused, ""), "- [1]");
}

TEST_F(ReproduceTest, TheReportOfAnotherExperimentIsNotReplaced) {
  const Experiment experiment = StubExperiment({ValueCell("one", 1)});
  Reproduce(experiment, Asked(experiment), Options());
  const std::string before = Read(Path("out/report.json"));
  Experiment other = experiment;
  other.name = "other";
  for (const bool known : {true, false}) {
    SCOPED_TRACE(known);
    const auto refused = [&](const auto& call) {
      return Contains(MessageOf(call), "out\" holds the experiment stub: give other another");
    };
    EXPECT_TRUE(refused([&] { Reproduce(other, Asked(other), Options()); }));
    EXPECT_TRUE(refused([&] { ReportOnly(other, Asked(other), Options()); }));
    fs::remove(Path("out/request.json"));  // earlier versions did not write whose it is
  }
  EXPECT_EQ(Read(Path("out/report.json")), before);
  EXPECT_EQ(Reproduce(experiment, Asked(experiment), Options()).failure, "");
}

TEST_F(ReproduceTest, ResultsThatAreThereAreNotMissedWithTheirSet) {
  const Experiment with = StubExperiment({ValueCell("one", 1)});
  Reproduce(with, Asked(with), Options());
  // Without its set a cell has other settings than with it.
  Cell absent = ValueCell("one", 2);
  absent.absent = "The set is not there.";
  const Experiment without = StubExperiment({absent});
  EXPECT_EQ(Reproduce(without, Asked(without), Options()).failure, "");
}

TEST_F(ReproduceTest, TheSetsOfTheLastRunAreTakenWhereNoneAreGiven) {
  fs::create_directories(Path("sets"));
  fs::create_directories(Path("out"));
  WriteLastRun(Path("out"), {"stub", "", {.data = Path("sets")}});
  EXPECT_EQ(WithLastSets({}, Path("out")).data, Path("sets"));
  EXPECT_EQ(WithLastSets({.data = "/others"}, Path("out")).data, "/others");
  fs::remove(Path("sets"));
  EXPECT_EQ(WithLastSets({}, Path("out")).data, "");
  EXPECT_EQ(WithLastSets({}, Path("nowhere")).data, "");
}

TEST_F(ReproduceTest, AReportIsAlsoATableForProgramsAndTablesForAPaper) {
  const Experiment experiment =
      StubExperiment({ValueCell("one", 1), StubCell("two", {"fail", "it says \"no, never\""})});
  const Outcome outcome = Reproduce(experiment, Asked(experiment), Options());
  const std::string csv = Read(Path("out/report.csv"));
  EXPECT_TRUE(csv.starts_with("cell,label,state,failed_by,system,"));
  EXPECT_TRUE(Contains(csv, ",directory,value\n"));
  EXPECT_TRUE(Contains(csv, "\none,cell one,done,,one,"));
  EXPECT_TRUE(Contains(csv, ",\"it says \"\"no, never\"\"\","));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_TRUE(fs::exists(Path("out/tables.tex")));
  EXPECT_TRUE(Contains(outcome.text, "report.csv and tables.tex"));
}

TEST_F(ReproduceTest, WithoutAnyResultOfWhatWasAskedForItHasFailed) {
  Cell absent = ValueCell("absent", 1);
  absent.absent = "The set is not there.";
  const Experiment nothing = StubExperiment({absent});
  EXPECT_EQ(Reproduce(nothing, Asked(nothing), Options()).failure,
            "the result that was asked for has not come about: The set is not there.");
  Cell support = ValueCell("set", 1);
  support.support = true;
  Cell needy = StubCell("needy", {"crash"});
  needy.needs = {"set"};
  const Experiment broken = StubExperiment({support, StubCell("no", {"fail", "never"}), needy});
  EXPECT_EQ(Reproduce(broken, Asked(broken), Options()).failure,
            "none of the 2 results that were asked for has come about: cell no: never");
  // Nothing is run, and nothing has changed.
  EXPECT_NE(Reproduce(broken, Asked(broken), Options()).failure, "");
  EXPECT_EQ(ReportOnly(broken, Asked(broken), Options()).failure, "");
  const Experiment some = StubExperiment({StubCell("no", {"fail", "never"}), ValueCell("yes", 1)});
  EXPECT_EQ(Reproduce(some, Asked(some), Options()).failure, "");
  EXPECT_EQ(Reproduce(some, Asked(some), Options()).failure, "");
}

TEST_F(ReproduceTest, ALaterReportShowsTheCommandAndTheSettingsOfTheLastRun) {
  const Experiment experiment = StubExperiment({ValueCell("one", 1)});
  Request request = Asked(experiment);
  request.data = "/sets";
  request.seeds = {3};
  request.threads = 2;
  request.by_time = true;
  RunOptions options = Options();
  options.command = "cosformer reproduce stub --data /sets";
  Reproduce(experiment, request, options);
  options.command = "cosformer reproduce stub";
  ReportOnly(experiment, Asked(experiment), options);
  EXPECT_TRUE(Contains(Read(Path("out/report.md")), "    cosformer reproduce stub --data /sets\n"));
  const Request last = WithLastRun({}, options.out);
  EXPECT_EQ(last.data, "/sets");
  EXPECT_EQ(last.seeds, (std::vector<int64_t>{3}));
  EXPECT_EQ(last.threads, 2);
  EXPECT_TRUE(last.by_time);
  Request asked;
  asked.data = "/others";
  EXPECT_EQ(WithLastRun(asked, options.out).data, "/others");
  EXPECT_EQ(WithLastRun(asked, Path("nowhere")).seeds, asked.seeds);
  // A command that finds nothing to do is not the one to go on with.
  Reproduce(experiment, Asked(experiment), options);
  EXPECT_EQ(ReadLastRun(options.out)->command, "cosformer reproduce stub --data /sets");
  Experiment unseeded = experiment;
  unseeded.seeded = false;
  fs::remove(Path("out/request.json"));
  Reproduce(unseeded, Complete(unseeded, {}), options);
  EXPECT_NO_THROW(Complete(unseeded, WithLastRun({}, options.out)));
  Write("out/request.json", "{}");
  EXPECT_TRUE(Contains(MessageOf([&] { ReadLastRun(options.out); }), "request.json"));
}

TEST_F(ReproduceTest, WhatIsLeftIsCountedAndItsTimeIsSaid) {
  const Experiment trainings =
      StubExperiment({TrainCell("one"), TrainCell("two"), ValueCell("map", 1)});
  const std::string plain = DryRun(trainings, Asked(trainings), Options());
  EXPECT_TRUE(Contains(plain, "3 of 3 results are to be made, which takes 2 trainings\n"));
  EXPECT_TRUE(Contains(plain, "20 min 00 s to 1 h 00 min in all"));
  RunOptions options = Options();
  options.budget = 180;
  const std::string shared = DryRun(trainings, Asked(trainings), options);
  EXPECT_TRUE(Contains(shared,
                       "3 min 00 s are shared out over them: 57 s at most for each, "
                       "what it evaluates included\n"));
  EXPECT_TRUE(Contains(shared, " --minutes 0.8550\n"));
  EXPECT_FALSE(Contains(plain, "--minutes"));
  Experiment measured = StubExperiment({ValueCell("one", 1)});
  measured.pace = "Roughly some seconds";
  EXPECT_TRUE(Contains(DryRun(measured, Asked(measured), Options()), "Roughly some seconds\n"));
  Reproduce(measured, Asked(measured), Options());
  EXPECT_FALSE(Contains(DryRun(measured, Asked(measured), Options()), "Roughly"));
}

TEST_F(ReproduceTest, ADryRunShowsATrainingThatGoesOnAsItGoesOn) {
  const Cell cell = TrainCell("one");
  const Experiment experiment = StubExperiment({cell});
  const fs::path run = fs::path(Options().out) / DirectoryOf(cell) / "run";
  fs::create_directories(run / "checkpoints");
  Write("out/" + DirectoryOf(cell) + "/run/checkpoints/step-00000001.safetensors", "");
  const std::string text = DryRun(experiment, Asked(experiment), Options());
  EXPECT_TRUE(Contains(text, "which takes 1 training; 1 of them begun before\n"));
  EXPECT_TRUE(Contains(text, "cosformer train --resume " + run.string()));
}

TEST_F(ReproduceTest, AReportSaysWhereAndWhenAndListsWhatWasRun) {
  std::vector<Cell> cells = {ValueCell("one", 1)};
  const Experiment before = StubExperiment(cells);
  RunOptions options = Options();
  options.command = "cosformer reproduce stub";
  Reproduce(before, Asked(before), options);
  for (int i = 0; i < 5; ++i) cells.push_back(ValueCell("more" + std::to_string(i), 1));
  const Experiment after = StubExperiment(cells);
  ReportOnly(after, Asked(after), options);
  const std::string markdown = Read(Path("out/report.md"));
  EXPECT_TRUE(Contains(markdown, "| cell one |"));
  EXPECT_FALSE(Contains(markdown, "| cell more0 |"));
  EXPECT_TRUE(Contains(markdown, "5 other results were not run"));
  const auto json = nlohmann::json::parse(Read(Path("out/report.json")));
  EXPECT_EQ(json["command"], "cosformer reproduce stub");
  EXPECT_EQ(json["version"], "1");
  EXPECT_EQ(json["machine"], "a machine");
  const Result result = Results(Path("out/results.jsonl")).all().at(0);
  EXPECT_EQ(json["started"], result.started);
  EXPECT_EQ(json["date"], result.finished);
  EXPECT_TRUE(Contains(markdown, "from " + result.started + " to " + result.finished));
  EXPECT_EQ(json["cells"].size(), 6u);  // a program is told of all
}

TEST_F(ReproduceTest, AHalfLineIsRunAgain) {
  const Experiment experiment = StubExperiment({ValueCell("one", 1), ValueCell("two", 2)});
  Reproduce(experiment, Asked(experiment), Options());
  const std::string lines = Read(Path("out/results.jsonl"));
  Write("out/results.jsonl", lines.substr(0, lines.size() - 20));
  EXPECT_EQ(Reproduce(experiment, Asked(experiment), Options()).run.done, 1);
  EXPECT_EQ(Results(Path("out/results.jsonl")).all().size(), 2u);
}

}  // namespace
}  // namespace cosformer::reproduce
