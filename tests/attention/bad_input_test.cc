// A table of calls that are wrong in one thing. Each must throw an Error whose sentence holds the
// sizes or the field and its value, and must not have written anything.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "errors.h"
#include "problem.h"

namespace cosformer::testing {
namespace {

// Everything a call is given, to be spoilt in one place.
struct Arguments {
  ConstView q, k, v, d_o;
  View o, dq, dk, dv;
  std::span<float> normaliser;
  std::vector<int64_t> query_lengths, key_lengths, query_offsets, key_offsets;
  LinearKernel kernel;
  bool causal = true;
  int threads = 0;
  std::span<const float> keep = {};
  std::span<float> d_log_keep = {};

  Sequences SequencesView() const {
    return {query_lengths, key_lengths, query_offsets, key_offsets};
  }
};

enum Calls { kForward = 1, kBackward = 2, kBoth = 3 };

struct BadCall {
  const char* name;
  std::function<void(Arguments&)> spoil;
  std::vector<std::string> mentions;
  Calls calls = kBoth;
  bool linear_only = false;
};

void PrintTo(const BadCall& bad, std::ostream* out) { *out << bad.name; }

// Distinct sizes, so that a number in a message is the number of one thing.
Case Good() {
  Case c;
  c.batch = 2;
  c.queries = 37;
  c.keys = 41;
  c.heads = 6;
  c.kv_heads = 3;
  c.dim = 10;
  c.value_dim = 14;
  c.kernel.horizon = 53;
  return c;
}

// Fewer rows of batch, for what wants one batch entry.
template <class V>
void One(V& view) {
  view.batch = 1;
}
void OneEntry(Arguments& a) {
  One(a.q), One(a.k), One(a.v), One(a.d_o), One(a.o), One(a.dq), One(a.dk), One(a.dv);
  a.normaliser = a.normaliser.first(37 * 6);
}

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();
float kept[2 * 41 * 3];  // for every key and head

std::vector<BadCall> Table() {
  return {
      {"LittleKeep",
       [](Arguments& a) { a.keep = std::span(kept).first(245); },
       {"keep", "245", "246"},
       kBoth,
       true},
      {"KeepInBothDirections",
       [](Arguments& a) {
         a.keep = kept;
         a.causal = false;
       },
       {"keep", "causal"},
       kBoth,
       true},
      {"GradientOfNothingKept",
       [](Arguments& a) { a.d_log_keep = kept; },
       {"d_log_keep", "246", "0"},
       kBackward,
       true},
      {"KeepGradientFromBFloat16",
       [](Arguments& a) {
         a.keep = a.d_log_keep = kept;
         a.dk.dtype = DType::kBFloat16;
       },
       {"dk", "float32"},
       kBackward,
       true},

      {"NullQ", [](Arguments& a) { a.q.data = nullptr; }, {"q", "null"}},
      {"NullK", [](Arguments& a) { a.k.data = nullptr; }, {"k", "null"}},
      {"NullV", [](Arguments& a) { a.v.data = nullptr; }, {"v", "null"}},
      {"NullO", [](Arguments& a) { a.o.data = nullptr; }, {"o", "null"}},
      {"NullDO", [](Arguments& a) { a.d_o.data = nullptr; }, {"d_o", "null"}, kBackward},
      {"NullDQ", [](Arguments& a) { a.dq.data = nullptr; }, {"dq", "null"}, kBackward},
      {"NullDK", [](Arguments& a) { a.dk.data = nullptr; }, {"dk", "null"}, kBackward},
      {"NullDV", [](Arguments& a) { a.dv.data = nullptr; }, {"dv", "null"}, kBackward},

      {"BatchOfQ", [](Arguments& a) { a.q.batch = 1; }, {"batch", "1", "2"}},
      {"BatchOfK", [](Arguments& a) { a.k.batch = 1; }, {"batch", "1", "2"}},
      {"BatchOfV", [](Arguments& a) { a.v.batch = 1; }, {"batch", "1", "2"}},
      {"BatchOfO", [](Arguments& a) { a.o.batch = 1; }, {"batch", "1", "2"}},
      {"LengthOfV", [](Arguments& a) { a.v.length = 40; }, {"length", "40", "41"}},
      {"LengthOfO", [](Arguments& a) { a.o.length = 36; }, {"length", "36", "37"}},
      {"HeadsOfV", [](Arguments& a) { a.v.heads = 1; }, {"heads", "1", "3"}},
      {"HeadsOfO", [](Arguments& a) { a.o.heads = 5; }, {"heads", "5", "6"}},
      {"HeadsNotAMultiple",
       [](Arguments& a) { a.q.heads = a.o.heads = a.d_o.heads = a.dq.heads = 5; },
       {"heads", "5", "3"}},
      {"FewerQueryHeadsThanKeyHeads",
       [](Arguments& a) { a.q.heads = a.o.heads = a.d_o.heads = a.dq.heads = 2; },
       {"heads", "2", "3"}},
      {"DimOfK", [](Arguments& a) { a.k.dim = 9; }, {"dim", "9", "10"}},
      {"DimOfQ", [](Arguments& a) { a.q.dim = 9; }, {"dim", "9", "10"}},
      {"DimOfO", [](Arguments& a) { a.o.dim = 13; }, {"dim", "13", "14"}},
      {"ShapeOfDO", [](Arguments& a) { a.d_o.length = 36; }, {"d_o", "36", "37"}, kBackward},
      {"ShapeOfDQ", [](Arguments& a) { a.dq.dim = 9; }, {"dq", "9", "10"}, kBackward},
      {"ShapeOfDK", [](Arguments& a) { a.dk.length = 40; }, {"dk", "40", "41"}, kBackward},
      {"ShapeOfDV", [](Arguments& a) { a.dv.heads = 1; }, {"dv", "1", "3"}, kBackward},

      {"ZeroDim", [](Arguments& a) { a.q.dim = a.k.dim = a.dq.dim = a.dk.dim = 0; }, {"dim", "0"}},
      {"ZeroValueDim",
       [](Arguments& a) { a.v.dim = a.o.dim = a.d_o.dim = a.dv.dim = 0; },
       {"dim", "0"}},
      {"ZeroHeads",
       [](Arguments& a) { a.k.heads = a.v.heads = a.dk.heads = a.dv.heads = 0; },
       {"heads", "0"}},
      {"NegativeBatch", [](Arguments& a) { a.q.batch = -2; }, {"q", "-2"}},
      {"NegativeLength", [](Arguments& a) { a.k.length = -41; }, {"k", "-41"}},
      {"NegativeHeads", [](Arguments& a) { a.q.heads = -6; }, {"q", "-6"}},
      {"NegativeDim", [](Arguments& a) { a.v.dim = -14; }, {"v", "-14"}},
      {"NegativeThreads", [](Arguments& a) { a.threads = -3; }, {"threads", "-3"}},

      {"TypeOfQ", [](Arguments& a) { a.q.dtype = DType::kBFloat16; }, {"bfloat16", "float32"}},
      {"TypeOfK", [](Arguments& a) { a.k.dtype = DType::kBFloat16; }, {"bfloat16", "float32"}},
      {"TypeOfV", [](Arguments& a) { a.v.dtype = DType::kBFloat16; }, {"bfloat16", "float32"}},
      {"TypeUnknown", [](Arguments& a) { a.o.dtype = static_cast<DType>(77); }, {"dtype", "77"}},

      {"ShortNormaliser",
       [](Arguments& a) { a.normaliser = a.normaliser.first(443); },
       {"443", "444"}},
      {"NoNormaliser", [](Arguments& a) { a.normaliser = {}; }, {"0", "444"}, kBackward},

      {"MoreQueriesThanKeysInCausalUse",
       [](Arguments& a) { a.k.length = a.v.length = a.dk.length = a.dv.length = 35; },
       {"causal", "37", "35"}},
      {"MoreQueriesThanKeysInOneSequence",
       [](Arguments& a) {
         a.query_lengths = {20, 30};
         a.key_lengths = {20, 29};
       },
       {"causal", "30", "29"}},
      {"LengthsOfAnotherBatch",
       [](Arguments& a) {
         a.query_lengths = {1, 2, 3};
         a.key_lengths = {1, 2, 3};
       },
       {"query_lengths", "3", "2"}},
      {"KeyLengthsOfAnotherBatch",
       [](Arguments& a) {
         a.query_lengths = {1, 2};
         a.key_lengths = {2};
       },
       {"key_lengths", "1", "2"}},
      {"LengthBeyondTheRows",
       [](Arguments& a) {
         a.query_lengths = {5, 38};
         a.key_lengths = {5, 41};
       },
       {"query_lengths", "38", "37"}},
      {"NegativeSequenceLength",
       [](Arguments& a) {
         a.query_lengths = {5, 6};
         a.key_lengths = {5, -7};
       },
       {"key_lengths", "-7"}},
      {"LengthsOfQueriesOnlyThoughTheKeysHaveOthers",
       [](Arguments& a) {
         a.query_lengths = {5, 6};
       },
       {"37", "41"}},
      {"LengthsAndOffsets",
       [](Arguments& a) {
         OneEntry(a);
         a.query_lengths = {5};
         a.key_offsets = {0, 5};
       },
       {"lengths", "offsets"}},
      {"OffsetsWithABatch",
       [](Arguments& a) {
         a.query_offsets = {0, 5};
         a.key_offsets = {0, 5};
       },
       {"offsets", "2", "1"}},
      {"OffsetsThatRunBackwards",
       [](Arguments& a) {
         OneEntry(a);
         a.query_offsets = {0, 25, 19, 37};
         a.key_offsets = {0, 25, 26, 41};
       },
       {"query_offsets", "19", "25"}},
      {"KeyOffsetsThatRunBackwards",
       [](Arguments& a) {
         OneEntry(a);
         a.query_offsets = {0, 5, 6};
         a.key_offsets = {0, 33, 32};
       },
       {"key_offsets", "33", "32"}},
      {"OffsetsBeyondTheRows",
       [](Arguments& a) {
         OneEntry(a);
         a.query_offsets = {0, 5, 37};
         a.key_offsets = {0, 5, 42};
       },
       {"key_offsets", "42", "41"}},
      {"NegativeOffset",
       [](Arguments& a) {
         OneEntry(a);
         a.query_offsets = {-4, 5, 37};
         a.key_offsets = {0, 15, 41};
       },
       {"query_offsets", "-4"}},
      {"OffsetsOfOtherNumbersOfSequences",
       [](Arguments& a) {
         OneEntry(a);
         a.query_offsets = {0, 5, 9, 12};
         a.key_offsets = {0, 20};
       },
       {"3", "1", "sequences"}},
      {"OffsetsOfQueriesOnlyThoughTheKeysHaveOthers",
       [](Arguments& a) {
         OneEntry(a);
         a.query_offsets = {0, 37};
       },
       {"37", "41"}},

      {"HorizonShorterThanTheKeys",
       [](Arguments& a) { a.kernel.horizon = 40; },
       {"horizon", "40", "41"},
       kBoth,
       true},
      {"HorizonShorterThanTheQueries",
       [](Arguments& a) {
         a.causal = false;
         a.k.length = a.v.length = a.dk.length = a.dv.length = 20;
         a.kernel.horizon = 36;
       },
       {"horizon", "36", "37"},
       kBoth,
       true},
      {"HorizonShorterThanOneSequence",
       [](Arguments& a) {
         a.query_lengths = {5, 31};
         a.key_lengths = {5, 31};
         a.kernel.horizon = 30;
       },
       {"horizon", "30", "31"},
       kBoth,
       true},
      {"NoHorizon", [](Arguments& a) { a.kernel.horizon = 0; }, {"horizon", "0"}, kBoth, true},
      {"NegativeHorizon",
       [](Arguments& a) { a.kernel.horizon = -100; },
       {"horizon", "-100"},
       kBoth,
       true},
      {"SumsWithoutNormaliser",
       [](Arguments& a) { a.kernel.normaliser = Normaliser::kNone; },
       {"normaliser", "444"},
       kBoth,
       true},
      {"NanEpsilon",
       [](Arguments& a) { a.kernel.epsilon = kNan; },
       {"epsilon", "nan"},
       kBoth,
       true},
      {"NegativeEpsilon",
       [](Arguments& a) { a.kernel.epsilon = -0.5f; },
       {"epsilon", "-0.5"},
       kBoth,
       true},
      {"InfiniteEpsilon",
       [](Arguments& a) { a.kernel.epsilon = kInf; },
       {"epsilon", "inf"},
       kBoth,
       true},
      {"NanSlope",
       [](Arguments& a) { a.kernel.leaky_slope = kNan; },
       {"leaky_slope", "nan"},
       kBoth,
       true},
      {"UnknownFeatureMap",
       [](Arguments& a) { a.kernel.feature_map = static_cast<FeatureMap>(99); },
       {"feature map", "99"},
       kBoth,
       true},
      {"UnknownReweighting",
       [](Arguments& a) { a.kernel.reweighting = static_cast<Reweighting>(98); },
       {"98"},
       kBoth,
       true},
  };
}

class BadInputTest : public ::testing::TestWithParam<BadCall> {};

template <class System>
void Run(Calls call, const Arguments& a) {
  const auto options = [&] {
    if constexpr (std::is_same_v<System, Linear>) {
      return LinearOptions{a.kernel, a.causal, a.SequencesView(), a.threads, a.keep};
    } else {
      return SoftmaxOptions{a.causal, 0, a.SequencesView(), a.threads};
    }
  }();
  if (call == kForward) {
    System::Forward(a.q, a.k, a.v, a.o, a.normaliser, options);
  } else if constexpr (std::is_same_v<System, Linear>) {
    System::Backward(a.q, a.k, a.v, a.o, a.normaliser, a.d_o, a.dq, a.dk, a.dv, options,
                     a.d_log_keep);
  } else {
    System::Backward(a.q, a.k, a.v, a.o, a.normaliser, a.d_o, a.dq, a.dk, a.dv, options);
  }
}

template <class System>
void ExpectRefused(const BadCall& bad, Calls call) {
  Problem<System> p(Good());
  Arguments a{p.q.view(),  p.k.view(),  p.v.view(),  p.d_o.view(), p.o.view(),
              p.dq.view(), p.dk.view(), p.dv.view(), p.Sums(),     {},
              {},          {},          {},          p.c.kernel,   true};
  bad.spoil(a);
  ExpectError(bad.name, bad.mentions, [&] { Run<System>(call, a); });
  for (const auto& [name, tensor] : {std::pair{"o", &p.o},
                                     {"normaliser", &p.normaliser},
                                     {"dq", &p.dq},
                                     {"dk", &p.dk},
                                     {"dv", &p.dv}}) {
    EXPECT_TRUE(tensor->IsPoisoned()) << name << " was written";
  }
}

TEST_P(BadInputTest, IsRefusedBeforeAnythingIsWritten) {
  const BadCall& bad = GetParam();
  for (const Calls call : {kForward, kBackward}) {
    if ((bad.calls & call) == 0) continue;
    {
      SCOPED_TRACE(call == kForward ? "LinearAttentionForward" : "LinearAttentionBackward");
      ExpectRefused<Linear>(bad, call);
    }
    if (bad.linear_only) continue;
    SCOPED_TRACE(call == kForward ? "SoftmaxAttentionForward" : "SoftmaxAttentionBackward");
    ExpectRefused<Softmax>(bad, call);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, BadInputTest, ::testing::ValuesIn(Table()),
                         [](const auto& info) { return info.param.name; });

TEST(BadInputBaseTest, TheCallThatTheTableSpoilsIsGood) {
  Problem<Linear>(Good()).Check();
  Problem<Softmax>(Good()).Check();
}

TEST(BadInputBaseTest, AScaleMustBeANumber) {
  for (const float scale : {kNan, kInf}) {
    Problem<Softmax> p(Good());
    p.c.scale = scale;
    EXPECT_THROW(p.Forward(), Error) << scale;
    EXPECT_TRUE(p.o.IsPoisoned());
  }
}

TEST(BadInputBaseTest, AViewOfNoRowsMayBeNull) {
  Case c = Good();
  c.queries = c.keys = 0;
  Problem<Linear> p(c);
  Problem<Softmax> s(c);
  const auto null = [](auto view) {
    view.data = nullptr;
    return view;
  };
  EXPECT_NO_THROW(LinearAttentionForward(null(p.q.view()), null(p.k.view()), null(p.v.view()),
                                         null(p.o.view()), {}, Linear::OptionsOf(c)));
  EXPECT_NO_THROW(SoftmaxAttentionForward(null(s.q.view()), null(s.k.view()), null(s.v.view()),
                                          null(s.o.view()), {}, Softmax::OptionsOf(c)));
}

}  // namespace
}  // namespace cosformer::testing
