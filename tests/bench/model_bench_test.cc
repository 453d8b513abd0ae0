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
    EXPECT_GT(row.attention_share, 0);
    EXPECT_GT(row.parameters, 50 * 16);
    EXPECT_GT(row.sgemm_share, 0);
    EXPECT_LT(row.sgemm_share, 1);
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
  for (const char* key : {"tokens_per_second", "attention_share", "sgemm_share"}) {
    EXPECT_TRUE(row[key].is_number()) << key;
  }
  EXPECT_TRUE(row.contains("peak_bytes"));
  EXPECT_NE(ToTable(bench).find("bigbird"), std::string::npos);
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
    const double products = row.sgemm_share * row.seconds * bench.sgemm_gflops * 1e9;
    EXPECT_NEAR(products, (row.pass == "train" ? 3 : 1) * forward, 1e-6 * forward);
  }
}

}  // namespace
}  // namespace cosformer::bench
