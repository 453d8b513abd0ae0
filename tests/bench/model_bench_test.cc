// What `cosformer bench model` reports, on models so small that they take milliseconds.
#include "bench/model_bench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cosformer/error.h"

namespace cosformer::bench {
namespace {

ModelBenchConfig Tiny() {
  ModelBenchConfig config;
  config.model.vocabulary = 50;
  config.model.width = 16;
  config.model.layers = 2;
  config.model.heads = 2;
  config.lengths = {8, 32};
  config.tokens = 64;
  config.seconds = 1e-3;
  return config;
}

TEST(ModelBenchTest, EverySystemLengthAndPassHasARowWithItsFigures) {
  report::Progress progress;
  ModelBenchConfig config = Tiny();
  config.attention = {"cosformer", "softmax", "reformer", "synthesizer"};
  const ModelBench bench = RunModelBench(config, progress);
  ASSERT_EQ(bench.rows.size(), 4u * 2 * 2);
  EXPECT_TRUE(bench.skipped.empty());
  EXPECT_GT(bench.sgemm_gflops, 0);
  for (const ModelRow& row : bench.rows) {
    EXPECT_EQ(row.batch * row.length, 64);
    EXPECT_NEAR(row.tokens_per_second * row.seconds, 64, 1e-6);
    if (row.attention_share) {
      EXPECT_GT(*row.attention_share, 0);
    }
    EXPECT_GT(row.parameters, 50 * 16);
    ASSERT_TRUE(row.sgemm_share);
    EXPECT_GT(*row.sgemm_share, 0);
    EXPECT_LT(*row.sgemm_share, 1);
    if (row.peak_bytes) {
      EXPECT_GT(*row.peak_bytes, 1 << 20);
    }
  }
}

TEST(ModelBenchTest, TheRowsAreInTheJsonUnderTheirNames) {
  report::Progress progress;
  ModelBenchConfig config = Tiny();
  config.lengths = {8};
  config.passes = {"train"};
  config.encoder = true;
  config.attention = {"bigbird"};
  const ModelBench bench = RunModelBench(config, progress);
  const nlohmann::json json = nlohmann::json::parse(ToJson(bench));
  ASSERT_EQ(json["rows"].size(), 1u);
  const nlohmann::json& row = json["rows"][0];
  EXPECT_EQ(row["attention"], "bigbird");
  EXPECT_EQ(row["pass"], "train");
  EXPECT_EQ(row["length"], 8);
  EXPECT_EQ(row["threads"], bench.threads);
  EXPECT_TRUE(row["tokens_per_second"].is_number());
  EXPECT_TRUE(row["busy"].is_boolean());
  for (const char* key : {"attention_share", "sgemm_share", "peak_bytes", "waited_part"}) {
    EXPECT_TRUE(row.contains(key)) << key;
  }
  EXPECT_NE(ToTable(bench).find("bigbird"), std::string::npos);
}

TEST(ModelBenchTest, PositionsAreThoseThatTrainingHasUnlessOthersAreAskedFor) {
  report::Progress progress;
  ModelBenchConfig config = Tiny();
  config.lengths = {8};
  config.passes = {"forward"};
  config.attention = {"cosformer", "softmax", "cosformer-gate", "synthesizer"};
  const auto positions = [&] {
    std::vector<PositionKind> kinds;
    for (const ModelRow& row : RunModelBench(config, progress).rows) kinds.push_back(row.positions);
    return kinds;
  };
  using enum PositionKind;
  EXPECT_EQ(positions(), (std::vector{kRotary, kRotary, kNone, kLearned}));
  config.positions = kSinusoidal;
  EXPECT_EQ(positions(), std::vector(4, kSinusoidal));
  config.positions.reset();
  config.attention = {"cosformer", "synthesizer"};
  config.encoder = true;
  EXPECT_EQ(positions(), std::vector(2, kLearned));
  config.attention = {"synthesizer"};
  config.positions = kRotary;
  EXPECT_THROW(positions(), Error);
}

TEST(ModelBenchTest, WhatCannotBeIsSaidBeforeAnythingIsMeasured) {
  report::Progress progress;
  ModelBenchConfig config = Tiny();
  config.attention = {"cosformer", "bigbird"};
  EXPECT_THROW(RunModelBench(config, progress), Error);
  config.attention = {"cosfromer"};
  EXPECT_THROW(RunModelBench(config, progress), Error);
  config = Tiny();
  config.model.heads = 3;
  EXPECT_THROW(RunModelBench(config, progress), Error);
}

// Forward: 2 (layers width (4 width + 2 hidden) + width vocabulary) a token; training three times.
TEST(ModelBenchTest, TheMatrixProductsAreCounted) {
  report::Progress progress;
  ModelBenchConfig config = Tiny();
  config.lengths = {32};
  config.attention = {"linear"};
  const ModelBench bench = RunModelBench(config, progress);
  const double forward = 2.0 * (2 * 16 * (4 * 16 + 2 * 64) + 16 * 50) * 64;
  for (const ModelRow& row : bench.rows) {
    const double products = *row.sgemm_share * row.seconds * bench.sgemm_gflops * 1e9;
    EXPECT_NEAR(products, (row.pass == "train" ? 3 : 1) * forward, 1e-6 * forward);
  }
}

ModelBench OneRow(std::optional<double> attention, double waited) {
  ModelBench bench;
  bench.config = Tiny();
  ModelRow row;
  row.attention = "cosformer";
  row.pass = "train";
  row.seconds = 1;
  row.attention_share = attention;
  row.sgemm_share = 0.5;
  row.waited_part = waited;
  bench.rows = {row};
  return bench;
}

TEST(ModelBenchTest, APartThatIsLongerThanItsWholeIsNoFigure) {
  EXPECT_EQ(PossibleShare(3.145), std::nullopt);
  EXPECT_EQ(PossibleShare(0.25), 0.25);
  EXPECT_EQ(PossibleShare(1.01), 1);  // two timings of the same differ as much
  const ModelBench bench = OneRow(PossibleShare(3.145), 0);
  EXPECT_NE(ToTable(bench).find("? stands for a part that was timed as longer than its whole"),
            std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(ToJson(bench))["rows"][0]["attention_share"].is_null());
}

TEST(ModelBenchTest, ABusyMachineIsSaid) {
  const auto said = [](const ModelBench& bench) {
    return ToTable(bench).find(
               "the machine was busy: other programs had the cores for up to 23 %") !=
           std::string::npos;
  };
  EXPECT_TRUE(said(OneRow(0.3, 0.23)));
  EXPECT_FALSE(said(OneRow(0.3, 0.01)));
  EXPECT_TRUE(nlohmann::json::parse(ToJson(OneRow(0.3, 0.23)))["rows"][0]["busy"]);
  EXPECT_FALSE(nlohmann::json::parse(ToJson(OneRow(0.3, 0.01)))["rows"][0]["busy"]);
}

}  // namespace
}  // namespace cosformer::bench
