// Learning rates by hand, where they join, and where they end.
#include "runs/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "contains.h"

namespace cosformer {
namespace {

using testing::Contains;
using testing::MessageOf;

constexpr ScheduleKind kKinds[] = {ScheduleKind::kConstant, ScheduleKind::kInverseSquareRoot,
                                   ScheduleKind::kCosine, ScheduleKind::kPolynomial};

TEST(ScheduleTest, NamesGoBothWays) {
  for (const ScheduleKind kind : kKinds) EXPECT_EQ(ScheduleKindOf(NameOf(kind)), kind);
  EXPECT_EQ(NameOf(ScheduleKind::kInverseSquareRoot), "inverse-sqrt");
  EXPECT_TRUE(Contains(MessageOf([] { ScheduleKindOf("linear"); }),
                       "\"linear\": there are constant, inverse-sqrt, cosine, polynomial"));
}

TEST(ScheduleTest, AllWarmUpInAStraightLine) {
  for (const ScheduleKind kind : kKinds) {
    const Schedule schedule{.kind = kind, .peak = 2, .warmup = 8, .steps = 100};
    for (int64_t step = 1; step <= 8; ++step) {
      EXPECT_DOUBLE_EQ(schedule.LearningRate(step), 0.25 * static_cast<double>(step));
    }
  }
}

TEST(ScheduleTest, WithoutWarmUpTheFirstStepHasThePeak) {
  for (const ScheduleKind kind : kKinds) {
    for (const int64_t warmup : {0, 1}) {
      const Schedule schedule{.kind = kind, .peak = 2, .warmup = warmup, .steps = 100};
      EXPECT_EQ(schedule.LearningRate(1), 2);
    }
  }
}

TEST(ScheduleTest, ValuesAfterTheWarmUpAreThoseWorkedOutByHand) {
  Schedule schedule{
      .kind = ScheduleKind::kInverseSquareRoot, .peak = 3, .warmup = 100, .steps = 900};
  EXPECT_DOUBLE_EQ(schedule.LearningRate(400), 1.5);
  EXPECT_DOUBLE_EQ(schedule.LearningRate(900), 1);
  EXPECT_DOUBLE_EQ(schedule.LearningRate(10'000), 0.3);
  schedule.kind = ScheduleKind::kConstant;
  EXPECT_EQ(schedule.LearningRate(901), 3);

  schedule = {.kind = ScheduleKind::kCosine, .peak = 2, .warmup = 10, .steps = 130};
  EXPECT_NEAR(schedule.LearningRate(50), 1.5, 1e-12);  // a third of the way: cos 60° is a half
  EXPECT_NEAR(schedule.LearningRate(70), 1, 1e-12);
  EXPECT_NEAR(schedule.LearningRate(90), 0.5, 1e-12);
  EXPECT_NEAR(schedule.LearningRate(130), 0, 1e-12);
  schedule.final_share = 0.1;
  EXPECT_NEAR(schedule.LearningRate(70), 2 * 0.55, 1e-12);
  EXPECT_NEAR(schedule.LearningRate(130), 0.2, 1e-12);

  schedule = {.kind = ScheduleKind::kPolynomial, .peak = 2, .warmup = 10, .steps = 110};
  EXPECT_NEAR(schedule.LearningRate(35), 1.5, 1e-12);
  schedule.power = 2;
  EXPECT_NEAR(schedule.LearningRate(60), 0.5, 1e-12);
  schedule.final_share = 0.5;
  EXPECT_NEAR(schedule.LearningRate(60), 2 * (0.5 + 0.5 * 0.25), 1e-12);
  EXPECT_NEAR(schedule.LearningRate(110), 1, 1e-12);
}

TEST(ScheduleTest, RatesRiseToThePeakAndNeverAfterAndNeverJump) {
  for (const ScheduleKind kind : kKinds) {
    for (const int64_t warmup : {0, 1, 7, 50}) {
      const Schedule schedule{.kind = kind,
                              .peak = 1,
                              .warmup = warmup,
                              .steps = 400,
                              .final_share = 0.01,
                              .power = 1.5};
      double last = schedule.LearningRate(1);
      for (int64_t step = 2; step <= 500; ++step) {
        const double rate = schedule.LearningRate(step);
        EXPECT_GT(rate, 0);
        EXPECT_LE(rate, 1);
        EXPECT_EQ(rate > last, step <= warmup);
        // Inverse square root without warm-up falls by 0.29 in its second step.
        EXPECT_LE(std::abs(rate - last), step <= warmup ? 1.0 / 6 : warmup > 1 ? 0.07 : 0.3);
        last = rate;
      }
    }
  }
}

TEST(ScheduleTest, AfterTheEndTheRateStays) {
  for (const ScheduleKind kind : {ScheduleKind::kCosine, ScheduleKind::kPolynomial}) {
    const Schedule schedule{.kind = kind, .peak = 1, .warmup = 5, .steps = 20, .final_share = 0.25};
    for (const int64_t step : {20, 21, 1000}) EXPECT_DOUBLE_EQ(schedule.LearningRate(step), 0.25);
  }
}

TEST(ScheduleTest, ARunThatIsAllWarmUpIsFine) {
  for (const ScheduleKind kind : kKinds) {
    for (const int64_t steps : {1, 5, 10}) {
      const Schedule schedule{.kind = kind, .peak = 1, .warmup = 10, .steps = steps};
      EXPECT_DOUBLE_EQ(schedule.LearningRate(steps), 0.1 * static_cast<double>(steps));
      EXPECT_EQ(schedule.LearningRate(10), 1);
      EXPECT_TRUE(std::isfinite(schedule.LearningRate(11)));
    }
    const Schedule one{.kind = kind, .peak = 1, .warmup = 0, .steps = 1};
    EXPECT_EQ(one.LearningRate(1), 1);
  }
}

TEST(ScheduleTest, WhatMakesNoSenseIsNamed) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Schedule good{.kind = ScheduleKind::kCosine, .peak = 1, .warmup = 0, .steps = 1};
  good.Check();
  const auto complaint = [&good](auto change) {
    Schedule schedule = good;
    change(schedule);
    return MessageOf([&schedule] { schedule.Check(); });
  };
  for (const double bad : {0.0, -1.0, kNan, HUGE_VAL}) {
    EXPECT_TRUE(Contains(complaint([bad](Schedule& s) { s.peak = bad; }), "peak learning rate"));
    EXPECT_TRUE(Contains(complaint([bad](Schedule& s) { s.power = bad; }), "power"));
  }
  for (const double bad : {-0.1, 1.1, kNan}) {
    EXPECT_TRUE(Contains(complaint([bad](Schedule& s) { s.final_share = bad; }), "final"));
  }
  EXPECT_TRUE(Contains(complaint([](Schedule& s) { s.warmup = -1; }), "warm-up is -1"));
  EXPECT_TRUE(Contains(complaint([](Schedule& s) { s.steps = 0; }), "0 steps"));
}

}  // namespace
}  // namespace cosformer
