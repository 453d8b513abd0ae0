// `cosformer reproduce` as a user meets it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "contains.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ReadFile;

class ReproduceCommandTest : public testing::CommandTest {};

TEST_F(ReproduceCommandTest, ExperimentsAreListedAndExplained) {
  const Outcome list = Run("reproduce --list");
  EXPECT_EQ(list.code, 0) << list.err;
  const Outcome help = Run("reproduce --help");
  EXPECT_EQ(help.code, 0);
  for (const char* name :
       {"efficiency", "lra", "language-model", "finetune", "ablation", "locality"}) {
    EXPECT_TRUE(Contains(list.out, name));
    EXPECT_TRUE(Contains(help.out, name));
  }
  EXPECT_TRUE(Contains(help.out, "aclImdb, imdb or IMDB"));
}

TEST_F(ReproduceCommandTest, WhatMakesNoSenseIsRefused) {
  ExpectRefusal("reproduce", "which experiment?");
  ExpectRefusal("reproduce nothing", "there is no experiment \"nothing\"");
  ExpectRefusal("reproduce lra --list", "leave the name out");
  ExpectRefusal("reproduce lra --budget soon", "--budget is \"soon\"");
  ExpectRefusal("reproduce lra --memory much", "--memory is \"much\"");
  ExpectRefusal("reproduce lra --data nowhere", "--data is \"nowhere\"");
  ExpectRefusal("reproduce lra --systems cosfromer", "does not know \"cosfromer\"");
  ExpectRefusal("reproduce lra --threads -1", "--threads is -1");
  ExpectRefusal("reproduce lra --report-only --dry-run", "choose one");
  ExpectRefusal("reproduce lra --report-only", "there are no results");
  ExpectRefusal("reproduce efficiency --tasks text", "no --tasks to choose");
  ExpectRefusal("reproduce efficiency --eval-tokens 10", "efficiency evaluates nothing");
  ExpectRefusal("reproduce lra --eval-tokens -1", "--eval-tokens is -1");
}

TEST_F(ReproduceCommandTest, ADryRunShowsCommandsAndMissingSetsAndLeavesNothing) {
  const Outcome outcome = Run("reproduce lra --systems cosformer --dry-run --threads 1");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.out, "cosformer data generate listops --out "));
  EXPECT_TRUE(Contains(outcome.out, "cosformer train --recipe "));
  EXPECT_TRUE(Contains(outcome.out, "Text, cosFormer: not run: The set imdb is not there"));
  EXPECT_FALSE(fs::exists(folder_ / "reproduce"));
}

TEST_F(ReproduceCommandTest, ADryRunWithABudgetShowsTheTimeOfTrainings) {
  const Outcome outcome =
      Run("reproduce lra --systems cosformer --tasks listops --budget 10m --dry-run --threads 1");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.out, "1 of 1 results are to be made, which takes 1 training\n"));
  EXPECT_TRUE(Contains(outcome.out, "--minutes 8.5500\n"));
  EXPECT_TRUE(Contains(outcome.out, "recipe.toml is written when its cell is run\n"));
  EXPECT_TRUE(Contains(outcome.out, " --force\n"));  // a set that was half made is made again
}

TEST_F(ReproduceCommandTest, AnExperimentWithoutItsDataEndsWithOneAndItsReason) {
  const Outcome outcome = Run("reproduce language-model --systems cosformer --out lm");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(Contains(outcome.err,
                       "the result that was asked for has not come about: The set "
                       "wikitext-2 is not there: give --data"));
  EXPECT_TRUE(fs::exists(folder_ / "lm" / "report.html"));
}

TEST_F(ReproduceCommandTest, AReportOfWhatIsThereIsWritten) {
  fs::create_directories(folder_ / "out");
  std::ofstream(folder_ / "out" / "results.jsonl")
      << R"({"cell":"forward-cosformer-1024","key":{"system":"cosformer","task":"forward",)"
      << R"("length":1024},"state":"done","reason":"","values":{"steps_per_second":4.0,)"
      << R"("seconds_per_step":0.25,"memory_bytes":1048576},"seconds":1,"peak_bytes":1,)"
      << R"("share_seconds":0,"directory":"cells/x","fingerprint":"0","version":"0",)"
      << R"("machine":"m","finished":"2026-01-31T12:00:00Z"})"
      << "\n";
  const Outcome outcome = Run("reproduce efficiency --out out --report-only --json -");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.err, "report.html"));
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["experiment"], "efficiency");
  EXPECT_TRUE(Contains(ReadFile(folder_ / "out" / "report.csv"), "forward-cosformer-1024,"));
  EXPECT_TRUE(Contains(ReadFile(folder_ / "out" / "tables.tex"), "\\toprule"));
  const std::string before = ReadFile(folder_ / "out" / "report.json");
  for (const char* option : {"", " --report-only", " --dry-run"}) {
    ExpectRefusal(std::string("reproduce locality --out out") + option,
                  "out\" holds the experiment efficiency: give locality another directory");
  }
  EXPECT_EQ(ReadFile(folder_ / "out" / "report.json"), before);
  EXPECT_EQ(json["cells"][1]["values"]["steps_per_second"], 4.0);
  EXPECT_EQ(json["cells"][0]["state"], "not run");
  EXPECT_TRUE(Contains(ReadFile(folder_ / "out" / "report.md"), "4.00"));
}

#ifndef COSFORMER_HAS_TORCH
TEST_F(ReproduceCommandTest, WithoutTrainingItSaysSoOnce) {
  const Outcome outcome = Run("reproduce efficiency --systems cosformer --lengths 64");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(Contains(outcome.err, "cosformer-train"));
  EXPECT_FALSE(fs::exists(folder_ / "reproduce" / "efficiency" / "results.jsonl"));
}
#else
TEST_F(ReproduceCommandTest, AnExperimentRunsFromBeginningToEnd) {
  const std::string command =
      "reproduce efficiency --systems cosformer,rfa-gate-gaussian --lengths 64 --threads 1 --json "
      "r.json";
  const Outcome outcome = Run(command);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(ReadFile(folder_ / "r.json"));
  int done = 0, refused = 0;
  for (const auto& cell : json["cells"]) {
    done += cell["state"] == "done" ? 1 : 0;
    refused += cell["state"] == "refused" ? 1 : 0;
  }
  EXPECT_EQ(done, 2);
  EXPECT_EQ(refused, 2);
  EXPECT_TRUE(Contains(Run(command).err, "0 of 4 results are to be made"));
}
#endif

}  // namespace
}  // namespace cosformer
