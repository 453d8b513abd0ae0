// The checks pass what the operator computes and, above all, fail what it doesn't.
#include "bench/attention_check.h"

#include <gtest/gtest.h>

#include "bench/attention_problem.h"
#include "contains.h"

namespace cosformer::bench {
namespace {

using cosformer::testing::Contains;
using cosformer::testing::MessageOf;

AttentionShape SmallShape(DType dtype) {
  return {.batch = 2, .heads = 4, .kv_heads = 2, .dim = 12, .value_dim = 9, .dtype = dtype};
}

TEST(AttentionCheckTest, RightResultsPassInEveryModeAndType) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t length : {1, 2, 70, 200}) {
      AttentionProblem problem(SmallShape(dtype), length, 11, true);
      for (const System system : {System::kCosformer, System::kLinear, System::kSoftmax}) {
        for (const bool causal : {true, false}) {
          EXPECT_NO_THROW(CheckForward(problem, system, causal, 1));
          EXPECT_NO_THROW(CheckForwardBackward(problem, system, causal, 2));
          EXPECT_NO_THROW(CheckShortGradients(problem.shape(), length, system, causal, 1));
        }
        Decoder decoder(system, problem);
        EXPECT_NO_THROW(CheckStep(problem, decoder, 1));
        EXPECT_NO_THROW(CheckStep(problem, decoder, 2));
      }
    }
  }
}

// The operator can't be made to err, so the question is changed under it: results for one problem
// are held against the reference for another.
TEST(AttentionCheckTest, AStepWithAnotherPastIsCaught) {
  for (const System system : {System::kCosformer, System::kLinear, System::kSoftmax}) {
    AttentionProblem problem(SmallShape(DType::kFloat32), 50, 11, false);
    Decoder decoder(system, problem);
    problem.k.FillRandom(99);
    const std::string message = MessageOf([&] { CheckStep(problem, decoder, 1); });
    EXPECT_TRUE(Contains(message, NameOf(system)));
    EXPECT_TRUE(Contains(message, "not timed"));
  }
}

TEST(AttentionCheckTest, ValuesThatAreNotFiniteAreCaught) {
  AttentionProblem problem(SmallShape(DType::kFloat32), 50, 11, true);
  problem.v.FillNan();
  EXPECT_TRUE(Contains(MessageOf([&] { CheckForward(problem, System::kCosformer, true, 1); }),
                       "element 0 of o"));
}

TEST(AttentionCheckTest, TheGradientOfTheOutputIsRandomAgainAfterACheck) {
  AttentionProblem problem(SmallShape(DType::kFloat32), 20, 11, true);
  const float before = problem.d_o.At(123);
  CheckForwardBackward(problem, System::kCosformer, true, 1);
  EXPECT_EQ(problem.d_o.At(123), before);
}

}  // namespace
}  // namespace cosformer::bench
