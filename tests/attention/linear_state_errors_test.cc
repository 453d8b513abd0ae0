// What a state refuses, and that a refusal leaves it and the outputs as they were.
#include <gtest/gtest.h>

#include <limits>

#include "errors.h"
#include "streams.h"

namespace cosformer::testing {
namespace {

Case GoodState() {
  Case c;
  c.batch = 2;
  c.queries = c.keys = 11;
  c.kv_heads = 3;
  c.heads = 6;
  c.dim = 10;
  c.value_dim = 14;
  c.kernel.horizon = 53;
  return c;
}

TEST(LinearStateErrorsTest, ConfigurationsThatMakeNoSenseAreRefused) {
  const struct {
    const char* name;
    std::function<void(LinearStateConfig&)> spoil;
    std::vector<std::string> mentions;
  } table[] = {
      {"no batch", [](auto& c) { c.batch = 0; }, {"batch", "0"}},
      {"negative heads", [](auto& c) { c.heads = -3; }, {"heads", "-3"}},
      {"no dim", [](auto& c) { c.dim = 0; }, {"dim", "0"}},
      {"no value_dim", [](auto& c) { c.value_dim = 0; }, {"value_dim", "0"}},
      {"no horizon", [](auto& c) { c.kernel.horizon = 0; }, {"horizon", "0"}},
      {"NaN epsilon",
       [](auto& c) { c.kernel.epsilon = std::numeric_limits<float>::quiet_NaN(); },
       {"epsilon", "nan"}},
      {"endless without cos",
       [](auto& c) {
         c.endless = true;
         c.kernel.reweighting = Reweighting::kNone;
       },
       {"endless"}},
      {"endless with a horizon that has no half",
       [](auto& c) {
         c.endless = true;
         c.kernel.horizon = 1;
       },
       {"endless", "horizon", "1"}},
  };
  for (const auto& [name, spoil, mentions] : table) {
    LinearStateConfig config = ConfigOf(GoodState());
    spoil(config);
    ExpectError(name, mentions, [&] { LinearState state(config); });
  }
}

struct StepArguments {
  ConstView q, k, v;
  View o;
  int threads = 1;
};

TEST(LinearStateErrorsTest, StepsThatDisagreeWithTheStateChangeNothing) {
  const struct {
    const char* name;
    std::function<void(StepArguments&)> spoil;
    std::vector<std::string> mentions;
  } table[] = {
      {"batch of q", [](auto& a) { a.q.batch = 1; }, {"batch", "1", "2"}},
      {"batch of k", [](auto& a) { a.k.batch = 1; }, {"batch", "1", "2"}},
      {"batch of o", [](auto& a) { a.o.batch = 1; }, {"batch", "1", "2"}},
      {"heads of k", [](auto& a) { a.k.heads = 1; }, {"heads", "1", "3"}},
      {"heads of v", [](auto& a) { a.v.heads = 1; }, {"heads", "1", "3"}},
      {"heads of q", [](auto& a) { a.q.heads = a.o.heads = 5; }, {"heads", "5", "3"}},
      {"heads of o", [](auto& a) { a.o.heads = 3; }, {"3", "6"}},
      {"dim of q", [](auto& a) { a.q.dim = 9; }, {"dim", "9", "10"}},
      {"dim of k", [](auto& a) { a.k.dim = 9; }, {"dim", "9", "10"}},
      {"dim of v", [](auto& a) { a.v.dim = 13; }, {"dim", "13", "14"}},
      {"dim of o", [](auto& a) { a.o.dim = 13; }, {"dim", "13", "14"}},
      {"length of q", [](auto& a) { a.q.length = a.o.length = 9; }, {"length", "9", "11"}},
      {"length of v", [](auto& a) { a.v.length = 9; }, {"length", "9", "11"}},
      {"length of o", [](auto& a) { a.o.length = 9; }, {"9", "11"}},
      {"negative length", [](auto& a) { a.k.length = a.v.length = -1; }, {"-1"}},
      {"null q", [](auto& a) { a.q.data = nullptr; }, {"q", "null"}},
      {"null k", [](auto& a) { a.k.data = nullptr; }, {"k", "null"}},
      {"null v", [](auto& a) { a.v.data = nullptr; }, {"v", "null"}},
      {"null o", [](auto& a) { a.o.data = nullptr; }, {"o", "null"}},
      {"type of q", [](auto& a) { a.q.dtype = DType::kBFloat16; }, {"dtype"}},
      {"type of v", [](auto& a) { a.v.dtype = DType::kBFloat16; }, {"dtype"}},
      {"negative threads", [](auto& a) { a.threads = -2; }, {"threads", "-2"}},
  };
  for (const auto& [name, spoil, mentions] : table) {
    Problem<Linear> p(GoodState());
    LinearState state(ConfigOf(p.c));
    AbsorbThrough(state, p, 0, 5);
    const std::string before = Saved(state);
    StepArguments a{p.q.view(), p.k.view(), p.v.view(), p.o.view()};
    spoil(a);
    ExpectError(name, mentions, [&] { state.Step(a.q, a.k, a.v, a.o, a.threads); });
    EXPECT_EQ(Saved(state), before) << name;
    EXPECT_TRUE(p.o.IsPoisoned()) << name;
  }
}

TEST(LinearStateErrorsTest, ATokenPastTheHorizonIsAnErrorAndChangesNothing) {
  Case c = SelfAttention(30, 4);
  c.kernel.horizon = 25;
  Problem<Linear> p(c);
  LinearState state(ConfigOf(c));
  StepThrough(state, p, 20);
  p.o.Poison();
  const std::string before = Saved(state);
  ExpectError("Step", {"horizon", "25", "6", "20"}, [&] { StepThrough(state, p, 6); });
  ExpectError("Absorb", {"horizon", "25"}, [&] { AbsorbThrough(state, p, 20, 6); });
  EXPECT_EQ(Saved(state), before);
  EXPECT_TRUE(p.o.IsPoisoned());
  StepThrough(state, p, 5);  // as far as the horizon goes
  ExpectError("Step", {"horizon", "25"}, [&] { StepThrough(state, p, 1); });
  StepThrough(state, p, 0);
  EXPECT_EQ(state.position(), 25);
}

TEST(LinearStateErrorsTest, PositionsThatCannotBeWeighedAreRefused) {
  Case c = SelfAttention(30, 4);
  c.queries = 3;
  c.kernel.horizon = 40;
  Problem<Linear> p(c);
  LinearState state(ConfigOf(c)), endless(ConfigOf(c, true));
  AbsorbThrough(state, p, 0, 30);
  AbsorbThrough(endless, p, 0, 30);
  AbsorbThrough(endless, p, 0, 19);  // position 49: the oldest token is 20
  for (const int64_t position : {int64_t{-1}, int64_t{40}, int64_t{1} << 62}) {
    ExpectError("Attend", {std::to_string(position)},
                [&] { state.Attend(p.q.view(), p.o.view(), position); });
  }
  for (const int64_t position : {19, 60}) {
    ExpectError("Attend", {std::to_string(position)},
                [&] { endless.Attend(p.q.view(), p.o.view(), position); });
  }
  EXPECT_TRUE(p.o.IsPoisoned());
}

TEST(LinearStateErrorsTest, StatesThatDoNotFollowEachOtherDoNotMerge) {
  Case c = SelfAttention(30, 4);
  c.kernel.horizon = 40;
  Problem<Linear> p(c);
  LinearState state(ConfigOf(c)), next(ConfigOf(c)), endless(ConfigOf(c, true));
  AbsorbThrough(state, p, 0, 30);
  AbsorbThrough(next, p, 0, 11);
  const std::string before = Saved(state);
  ExpectError("past the horizon", {"horizon", "40", "30", "11"}, [&] { state.Merge(next); });
  Case other = c;
  other.kernel.epsilon = 0.25f;
  ExpectError("another epsilon", {"epsilon", "0.25"},
              [&] { state.Merge(LinearState(ConfigOf(other))); });
  other = c;
  other.dim = 5;
  ExpectError("another dim", {"dim", "4", "5"}, [&] { state.Merge(LinearState(ConfigOf(other))); });
  EXPECT_EQ(Saved(state), before);
  ExpectError("endless", {"endless"}, [&] { endless.Merge(LinearState(ConfigOf(c, true))); });
}

}  // namespace
}  // namespace cosformer::testing
