// What is counted as useful work, what is refused, and that a run has the rows it was asked for.
#include "bench/attention_bench.h"

#include <gtest/gtest.h>

#include <string>

#include "contains.h"

namespace cosformer::bench {
namespace {

using cosformer::testing::Contains;
using cosformer::testing::MessageOf;

constexpr AttentionShape kEight = {
    .batch = 1, .heads = 8, .kv_heads = 8, .dim = 64, .value_dim = 64};

double OperationsAToken(System system, Pass pass, const AttentionShape& shape) {
  return UsefulOperations(system, pass, shape, 1000, true) / 1000;
}

TEST(UsefulWorkTest, LinearAttentionCountsEightThenTwentyProductsATokenAndHead) {
  const double product = 64.0 * 64 * 8;
  EXPECT_EQ(OperationsAToken(System::kCosformer, Pass::kForward, kEight), 8 * product);
  EXPECT_EQ(OperationsAToken(System::kCosformer, Pass::kForwardBackward, kEight), 28 * product);
  EXPECT_EQ(OperationsAToken(System::kLinear, Pass::kForward, kEight), 4 * product);
  EXPECT_EQ(OperationsAToken(System::kLinear, Pass::kForwardBackward, kEight), 14 * product);
}

TEST(UsefulWorkTest, SharedKeyValueHeadsAbsorbOnce) {
  AttentionShape shape = kEight;
  shape.kv_heads = 2;
  const double product = 64.0 * 64;
  EXPECT_EQ(OperationsAToken(System::kCosformer, Pass::kForward, shape), 4 * product * (8 + 2));
  EXPECT_EQ(OperationsAToken(System::kCosformer, Pass::kForwardBackward, shape),
            4 * product * (8 + 2 + 2 * 8 + 3 * 2));
}

TEST(UsefulWorkTest, SoftmaxCountsFourOperationsADimensionAndScore) {
  EXPECT_EQ(UsefulOperations(System::kSoftmax, Pass::kForward, kEight, 100, true),
            4.0 * 64 * 8 * 100 * 101 / 2);
  EXPECT_EQ(UsefulOperations(System::kSoftmax, Pass::kForward, kEight, 100, false),
            4.0 * 64 * 8 * 100 * 100);
  EXPECT_EQ(UsefulOperations(System::kSoftmax, Pass::kForwardBackward, kEight, 100, false),
            3.5 * UsefulOperations(System::kSoftmax, Pass::kForward, kEight, 100, false));
}

TEST(UsefulWorkTest, AStepReadsAndWritesItsStateOrReadsItsCache) {
  EXPECT_EQ(UsefulStepBytes(System::kCosformer, kEight, 4096), 2.0 * 8 * 2 * 64 * 65 * 4);
  EXPECT_EQ(UsefulStepBytes(System::kLinear, kEight, 4096), 2.0 * 8 * 64 * 65 * 4);
  EXPECT_EQ(UsefulStepBytes(System::kSoftmax, kEight, 4096), 4096.0 * 8 * 128 * 4);
}

template <class Change>
std::string Refusal(Change change) {
  AttentionBenchConfig config;
  change(config);
  return MessageOf([&config] { Checked(config); });
}

TEST(AttentionBenchTest, WhatCanNotBeMeasuredIsRefusedWithItsValue) {
  EXPECT_TRUE(Contains(Refusal([](auto& c) { c.lengths = {4, 0}; }), "--lengths is 0"));
  EXPECT_TRUE(Contains(Refusal([](auto& c) { c.lengths = {}; }), "--lengths"));
  EXPECT_TRUE(Contains(Refusal([](auto& c) { c.shape.dim = -1; }), "--dim is -1"));
  EXPECT_TRUE(Contains(Refusal([](auto& c) { c.shape.kv_heads = 3; }), "--kv-heads 3"));
  EXPECT_TRUE(Contains(Refusal([](auto& c) { c.threads = {100000}; }), "--threads is 100000"));
  EXPECT_TRUE(Contains(Refusal([](auto& c) { c.seconds = 0; }), "--seconds is 0"));
  EXPECT_TRUE(Contains(Refusal([](auto& c) { c.lengths = {1'000'000'000}; }), "memory"));
  EXPECT_TRUE(Contains(Refusal([](auto& c) {
                         c.causal = {false};
                         c.passes = {Pass::kStep};
                       }),
                       "decoding step"));
  EXPECT_EQ(Refusal([](auto&) {}), "");
}

TEST(AttentionBenchTest, CheckingCompletesThreadsAndOrdersLengths) {
  AttentionBenchConfig config;
  config.lengths = {64, 8, 64};
  config = Checked(config);
  EXPECT_EQ(config.lengths, (std::vector<int64_t>{8, 64}));
  EXPECT_EQ(config.threads.front(), 1);
  EXPECT_EQ(config.threads.back(), AllThreads());
}

TEST(AttentionBenchTest, ARunHasARowForEachPointAndSaysWhatItSkipped) {
  AttentionBenchConfig config;
  config.shape = {.batch = 2, .heads = 4, .kv_heads = 2, .dim = 16, .value_dim = 8};
  config.lengths = {16, 40};
  config.threads = {1};
  config.causal = {true, false};
  config.systems = {System::kCosformer, System::kLinear, System::kSoftmax};
  config.seconds = 0.001;
  config.max_softmax_length = 20;
  report::Progress progress;
  const AttentionBench bench = RunAttentionBench(Checked(config), progress);

  // Two modes with two passes and a causal step, at two lengths; softmax at one.
  EXPECT_EQ(bench.rows.size(), 5u * (2 + 2 + 1));
  EXPECT_EQ(bench.skipped.size(), 5u);
  for (const AttentionRow& row : bench.rows) {
    EXPECT_GT(row.seconds, 0);
    EXPECT_GE(row.seconds, row.seconds_min);
    EXPECT_GT(row.peak_share, 0);
    EXPECT_EQ(row.ratio_to_softmax.has_value(), row.length <= 20);
    EXPECT_TRUE(row.system != System::kSoftmax || row.ratio_to_softmax == 1.0);
    if (row.pass == Pass::kStep) {
      EXPECT_TRUE(row.causal);
      EXPECT_NE(row.limit, Limit::kFmaPeak);
      EXPECT_GT(row.extra_bytes.value(), 0);
    }
  }
  for (const AttentionSkip& skip : bench.skipped) {
    EXPECT_EQ(skip.system, System::kSoftmax);
    EXPECT_EQ(skip.length, 40);
    EXPECT_TRUE(Contains(skip.reason, "--max-softmax-length 20"));
  }
}

}  // namespace
}  // namespace cosformer::bench
