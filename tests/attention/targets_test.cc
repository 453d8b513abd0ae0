// Every instruction set that this processor has, not only the best one.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <set>

#include "streams.h"

namespace cosformer::testing {
namespace {

// Dispatch goes to one target as long as this lives, then to the best again.
class OnTarget {
 public:
  explicit OnTarget(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

class TargetsTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(TargetsTest, IsTheOneInUse) {
  const OnTarget on(GetParam());
  EXPECT_STREQ(AttentionTarget(), hwy::TargetName(GetParam()));
}

TEST_P(TargetsTest, LinearAttentionAgreesWithTheReference) {
  const OnTarget on(GetParam());
  CheckRandomCases<Linear>(77, kSanitized ? 25 : 250);
}

TEST_P(TargetsTest, SoftmaxAttentionAgreesWithTheReference) {
  const OnTarget on(GetParam());
  CheckRandomCases<Softmax>(77, kSanitized ? 15 : 100);
}

TEST_P(TargetsTest, EveryDim) {
  const OnTarget on(GetParam());
  for (int64_t dim = 1; dim <= 34; ++dim) {
    Case c = SelfAttention(kChunk + 5, dim, dim % 2 == 0);
    c.value_dim = 35 - dim;
    Problem<Linear>(c).Check();
    Problem<Softmax>(c).Check();
  }
}

TEST_P(TargetsTest, StreamingEqualsParallel) {
  const OnTarget on(GetParam());
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Case c = RandomStream(seed, 75);
    SCOPED_TRACE(Describe(c));
    Problem<Linear> p(c);
    LinearState state(ConfigOf(c));
    for (const int64_t n : {1, 1, 40, 1, 31, 1}) StepThrough(state, p, n);
    ExpectStreamed(p);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, TargetsTest,
                         ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

}  // namespace
}  // namespace cosformer::testing
