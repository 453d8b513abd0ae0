// What the table, the JSON and the plot say of results that are given.
#include "bench/attention_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "contains.h"

namespace cosformer::bench {
namespace {

using cosformer::testing::Contains;

// cosFormer against softmax, forward and step, with two threads at lengths 512 and 4096; softmax
// is ahead at the first and skipped at a third.
AttentionBench Results() {
  AttentionBench bench;
  bench.config.lengths = {512, 4096, 16384};
  bench.config.threads = {2};
  bench.machine.cpu = "a <CPU>";
  bench.machine.target = "AVX2";
  bench.machine.threads = 2;
  bench.machine.read_bytes = 1 << 30;
  bench.machine.limits[1] = {100, 17, 90};
  bench.machine.limits[2] = {200, 30, 170};
  for (const Pass pass : {Pass::kForward, Pass::kStep}) {
    for (const int64_t length : bench.config.lengths) {
      AttentionRow row;
      row.pass = pass;
      row.length = length;
      row.threads = 2;
      row.seconds = row.seconds_min = 1e-6 * static_cast<double>(length);
      row.tokens_per_second = 1e6;
      row.limit = pass == Pass::kStep ? Limit::kL2Bandwidth : Limit::kFmaPeak;
      row.peak_share = 0.61;
      row.extra_bytes = 3 << 20;
      if (length < 16384) row.ratio_to_softmax = length == 512 ? 0.5 : 2;
      bench.rows.push_back(row);
      if (length == 16384) {
        bench.skipped.push_back({System::kSoftmax, pass, true, length, 2, "too long"});
        continue;
      }
      row.system = System::kSoftmax;
      row.seconds = row.seconds_min = row.seconds * *row.ratio_to_softmax;
      row.ratio_to_softmax = 1;
      bench.rows.push_back(row);
    }
  }
  return bench;
}

TEST(AttentionReportTest, JsonHasTheFieldsThatOthersRead) {
  const auto json = nlohmann::json::parse(ToJson(Results()));
  for (const char* key :
       {"fma_peak_gflops_1", "fma_peak_gflops_all", "read_gbps_1", "read_gbps_all", "l2_gbps_1",
        "l2_gbps_all", "threads", "cpu", "target"}) {
    EXPECT_TRUE(json["machine"].contains(key)) << key;
  }
  EXPECT_EQ(json["machine"]["fma_peak_gflops_all"], 200);
  ASSERT_EQ(json["rows"].size(), 10u);
  for (const auto& row : json["rows"]) {
    for (const char* key : {"system", "pass", "causal", "length", "batch", "heads", "kv_heads",
                            "dim", "value_dim", "dtype", "threads", "seconds", "tokens_per_second",
                            "peak_share", "limit", "extra_bytes", "ratio_to_softmax"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
    EXPECT_EQ(row["ratio_to_softmax"].is_null(), row["length"] == 16384);
  }
  EXPECT_EQ(json["skipped"].size(), 2u);
}

TEST(AttentionReportTest, UnknownMemoryIsNullAndExplained) {
  AttentionBench bench = Results();
  for (AttentionRow& row : bench.rows) row.extra_bytes.reset();
  EXPECT_TRUE(nlohmann::json::parse(ToJson(bench))["rows"][0]["extra_bytes"].is_null());
  EXPECT_TRUE(Contains(ToTable(bench), "Extra memory is unknown"));
}

TEST(AttentionReportTest, TheTableSaysFromWhereCosformerIsAheadAndWhatWasSkipped) {
  const std::string table = ToTable(Results());
  EXPECT_TRUE(Contains(table, "ahead from 4,096 on, 2.00 × as fast at 4,096"));
  EXPECT_TRUE(Contains(table, "skipped: too long"));
  EXPECT_TRUE(Contains(table, "200 GFLOP/s"));
  EXPECT_TRUE(Contains(table, "61 % FMA peak"));

  AttentionBench behind = Results();
  for (AttentionRow& row : behind.rows) {
    if (row.ratio_to_softmax) row.ratio_to_softmax = 0.9;
  }
  EXPECT_TRUE(Contains(ToTable(behind), "not ahead"));
}

TEST(AttentionReportTest, TheTableAdmitsABusyMachine) {
  AttentionBench bench = Results();
  EXPECT_FALSE(Contains(ToTable(bench), "busy"));
  bench.rows[0].seconds_min = bench.rows[0].seconds / 2;
  EXPECT_TRUE(Contains(ToTable(bench), "up to 2.0 times the fastest"));
}

TEST(AttentionReportTest, TheFigureHasAPanelForTheSequenceAndOneForTheStep) {
  const report::Figure figure = ToFigure(Results());
  ASSERT_EQ(figure.panels.size(), 2u);
  EXPECT_EQ(figure.panels[0].title, "Causal");
  EXPECT_EQ(figure.panels[1].title, "One decoding step");
  for (const report::Panel& panel : figure.panels) {
    ASSERT_EQ(panel.series.size(), 2u);
    EXPECT_EQ(panel.series[0].points.size(), 3u);
    EXPECT_EQ(panel.series[1].points.size(), 2u);
  }
  EXPECT_TRUE(Contains(report::RenderSvg(figure), "a &lt;CPU&gt;"));
}

}  // namespace
}  // namespace cosformer::bench
