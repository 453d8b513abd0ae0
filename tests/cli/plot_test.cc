// `cosformer plot`: curves of runs as files and as a table.
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

class PlotCommandTest : public testing::CommandTest {
 protected:
  // A run of 40 steps whose perplexity is least at step 30.
  void WriteRun(const std::string& name, double perplexity) const {
    fs::create_directories(folder_ / name);
    std::ofstream file(folder_ / name / "metrics.jsonl");
    for (int step = 10; step <= 40; step += 10) {
      file << R"({"kind":"train","step":)" << step << R"(,"loss":)" << 5 - step / 40.0
           << R"(,"learning_rate":0.001,"gradient":1,"tokens":)" << 1000 * step << R"(,"seconds":)"
           << step << R"(,"tokens_per_second":1000})"
           << "\n";
      file << R"({"kind":"eval","step":)" << step << R"(,"split":"valid","loss":4,"perplexity":)"
           << perplexity + (step == 30 ? 0 : 10) << R"(,"tokens":)" << 1000 * step
           << R"(,"seconds":)" << step << "}\n";
    }
  }
};

TEST_F(PlotCommandTest, ARunIsDrawnAndItsBestFigureShown) {
  WriteRun("runs/one", 75.25);
  const Outcome outcome = Run("plot runs/one");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "run  steps                    best  at step\n"
            "one     40  valid perplexity 75.25       30\n"
            "The curves are in curves.svg\n");
  EXPECT_EQ(outcome.err, "");
  const std::string svg = ReadFile(folder_ / "curves.svg");
  for (const char* part : {"</svg>", ">Loss<", ">Perplexity<", ">Learning rate<", ">steps<"}) {
    EXPECT_TRUE(Contains(svg, part));
  }
}

TEST_F(PlotCommandTest, RunsAreNamedByWhatTellsThemApart) {
  WriteRun("runs/cosformer/seed1", 75);
  WriteRun("runs/softmax/seed1", 70);
  const Outcome outcome =
      Run("plot runs/cosformer/seed1/ runs/softmax/seed1/metrics.jsonl --out two.svg --json -");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.err, "The curves are in two.svg"));
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["plot"], "two.svg");
  ASSERT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["runs"][0]["name"], "cosformer");
  EXPECT_EQ(json["runs"][1]["name"], "softmax");
  EXPECT_EQ(json["runs"][1]["path"], "runs/softmax/seed1/metrics.jsonl");
  EXPECT_EQ(json["runs"][1]["steps"], 40);
  EXPECT_EQ(json["runs"][1]["best"],
            (nlohmann::json{
                {"split", "valid"}, {"figure", "perplexity"}, {"value", 70.0}, {"step", 30}}));
  EXPECT_TRUE(Contains(ReadFile(folder_ / "two.svg"), ">softmax</text>"));
}

TEST_F(PlotCommandTest, OptionsReachTheDrawing) {
  WriteRun("one", 75);
  const auto drawn = [this](const std::string& options) {
    const Outcome outcome = Run("plot one " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return ReadFile(folder_ / "curves.svg");
  };
  EXPECT_TRUE(Contains(drawn("--x tokens"), ">thousands of tokens<"));
  EXPECT_TRUE(Contains(drawn("--x time"), ">seconds<"));
  EXPECT_TRUE(Contains(drawn(""), "moving average (0.9 "));
  EXPECT_TRUE(Contains(drawn("--smooth 0.5"), "moving average (0.5 "));
  EXPECT_FALSE(Contains(drawn("--smooth 0"), "moving average"));
  EXPECT_NE(drawn("--log"), drawn(""));
}

TEST_F(PlotCommandTest, AccuracyIsShownInPercentAndARunWithoutEvaluationsWithNone) {
  fs::create_directories(folder_ / "runs/a");
  fs::create_directories(folder_ / "runs/b");
  std::ofstream(folder_ / "runs/a/metrics.jsonl")
      << R"({"kind":"eval","step":7,"split":"test","loss":4,"accuracy":0.8125,"tokens":1,"seconds":1})"
      << "\n";
  std::ofstream(folder_ / "runs/b/metrics.jsonl");
  const Outcome outcome = Run("plot runs/a runs/b");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.out, "a        7  test accuracy 81.25 %        7\n"));
  EXPECT_TRUE(Contains(outcome.out, "b        0                      -        -\n"));
}

TEST_F(PlotCommandTest, WhatCanNotBeDrawnIsOneSentence) {
  WriteRun("one", 75);
  fs::create_directories(folder_ / "empty");
  fs::create_directories(folder_ / "fresh");
  std::ofstream(folder_ / "fresh/metrics.jsonl");
  std::ofstream(folder_ / "bad.jsonl") << "{\"kind\":\"train\"}\n";
  ExpectRefusal("plot", "RUN");
  ExpectRefusal("plot nowhere", "there is no run \"nowhere\"");
  ExpectRefusal("plot empty", "\"empty\" holds no metrics.jsonl");
  ExpectRefusal("plot fresh", "no curves to draw");
  ExpectRefusal("plot bad.jsonl", "line 1 of \"bad.jsonl\": the key \"step\" is missing");
  ExpectRefusal("plot one one/metrics.jsonl", "named twice");
  ExpectRefusal("plot one ./one/", "named twice");
  ExpectRefusal("plot one --x epochs", "steps, tokens or time");
  ExpectRefusal("plot one --smooth 1", "--smooth is 1");
  ExpectRefusal("plot one --smooth=-0.1", "--smooth is -0.1");
  ExpectRefusal("plot one --smooth nan", "--smooth is nan");
  ExpectRefusal("plot one --out -", "--out");
  ExpectRefusal("plot one --out missing/c.svg", "missing/c.svg");
  ExpectRefusal("plot one --json missing/c.json", "missing/c.json");
  ExpectRefusal("plot one --out same --json same", "same");
  EXPECT_FALSE(fs::exists(folder_ / "curves.svg"));
}

}  // namespace
}  // namespace cosformer
