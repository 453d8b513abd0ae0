// What may be concluded from figures, and what may not.
#include "reproduce/conclusion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "contains.h"
#include "folder.h"

namespace cosformer::reproduce {
namespace {

using testing::Contains;

class ConclusionTest : public testing::FolderTest {
 protected:
  // Of a training with a recipe of 900 steps.
  std::string Lacks(nlohmann::json values) const {
    Cell cell{.id = "one", .label = "cosFormer"};
    cell.steps = 900;
    Result result;
    result.cell = "one";
    result.fingerprint = FingerprintOf(cell);
    result.values = std::move(values);
    Results results(Path("results.jsonl"));
    results.Add(result);
    const std::vector<Cell> cells = {cell};
    const Findings findings(cells, results);
    return HardlyTrained(findings, findings.all().back());
  }
};

TEST_F(ConclusionTest, FiguresHaveAnOrderIfTheirIntervalsAreApart) {
  const Estimate low{1, 0.9, 1.1}, high{2, 1.8, 2.2}, between{1.4, 1.05, 1.75};
  EXPECT_EQ(OrderOf(low, high).sign, -1);
  EXPECT_EQ(OrderOf(high, low).sign, 1);
  EXPECT_EQ(OrderOf(between, high).sign, -1);
  for (const Order& order : {OrderOf(low, between), OrderOf(low, low)}) {
    EXPECT_EQ(order.sign, 0);
    EXPECT_EQ(order.why, "not apart by more than their intervals, so nothing follows");
  }
  // One that has no interval has not been measured twice.
  EXPECT_EQ(OrderOf({1, NAN, NAN}, high).sign, 0);
}

TEST_F(ConclusionTest, NothingFollowsFromWhatIsUnfit) {
  Estimate unfit = Around(1, 0.02, "hardly trained");
  const Estimate fit = Around(2, 0.02);
  for (const Order& order : {OrderOf(unfit, fit), OrderOf(fit, unfit)}) {
    EXPECT_EQ(order.sign, 0);
    EXPECT_EQ(order.why, "hardly trained");
  }
}

TEST_F(ConclusionTest, ATieIsNoAgreementWithThePaper) {
  const Estimate ours = Around(50, 0.02), higher = Around(60, 0.02);
  EXPECT_EQ(BesideThePaper(OrderOf(higher, ours), 37.9, 36.4), ", in the same order");
  EXPECT_EQ(BesideThePaper(OrderOf(ours, higher), 37.9, 36.4), ", in the other order");
  EXPECT_TRUE(Contains(BesideThePaper(OrderOf(ours, ours), 36.4, 37.9), "; ours are not apart"));
  EXPECT_TRUE(Contains(BesideThePaper(OrderOf(ours, ours), 37.9, 36.4), "; ours are not apart"));
}

TEST_F(ConclusionTest, FewStepsAreHardlyATraining) {
  EXPECT_EQ(Lacks({{"steps", 1}}),
            "hardly trained, so nothing follows (cosFormer: 1 of the 900 steps of its recipe)");
  EXPECT_NE(Lacks({{"steps", 89}}), "");
  EXPECT_EQ(Lacks({{"steps", 90}}), "");
}

TEST_F(ConclusionTest, APerplexityNearThatOfFrequenciesIsHardlyATraining) {
  EXPECT_TRUE(
      Contains(Lacks({{"steps", 900}, {"token_perplexity", 600}, {"unigram_perplexity", 700}}),
               "a perplexity per token of 600, where the frequencies of tokens give 700"));
  EXPECT_EQ(Lacks({{"steps", 900}, {"token_perplexity", 40}, {"unigram_perplexity", 700}}), "");
}

TEST_F(ConclusionTest, WhatWasMadeFromAHardlyTrainedModelSaysNothingEither) {
  Cell pretrained{.id = "pretrained", .label = "pre-training"},
      tuned{.id = "tuned", .label = "SST-2"};
  pretrained.steps = 1500;
  tuned.needs = {"pretrained"};
  Results results(Path("results.jsonl"));
  for (const Cell& cell : {pretrained, tuned}) {
    Result result;
    result.cell = cell.id;
    result.fingerprint = FingerprintOf(cell);
    result.values = {{"steps", 100}};
    results.Add(result);
  }
  const std::vector<Cell> cells = {pretrained, tuned};
  const Findings findings(cells, results);
  EXPECT_TRUE(Contains(HardlyTrained(findings, findings.At("tuned")),
                       "pre-training: 100 of the 1,500 steps of its recipe"));
}

TEST_F(ConclusionTest, AnAccuracyThatMayBeThatOfTheMajorityIsHardlyATraining) {
  EXPECT_TRUE(Contains(Lacks({{"accuracy", 0.5}, {"low", 0.48}, {"majority", 0.49}}),
                       "an accuracy that is not above always the same class"));
  EXPECT_EQ(Lacks({{"accuracy", 0.55}, {"low", 0.53}, {"majority", 0.49}}), "");
}

}  // namespace
}  // namespace cosformer::reproduce
