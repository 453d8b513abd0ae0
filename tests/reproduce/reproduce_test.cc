#include "reproduce/reproduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "contains.h"
#include "stub_experiment.h"
#include "svg_reader.h"

namespace cosformer::reproduce {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::MessageOf;
using testing::StubCell;
using testing::StubExperiment;
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
