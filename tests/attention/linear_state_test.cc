// The streaming state: cut anywhere, forked, merged, endless, ten million tokens in.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "errors.h"
#include "streams.h"

namespace cosformer::testing {
namespace {

TEST(LinearStateTest, StreamingEqualsParallelAtEverySplit) {
  const int64_t length = 2 * kChunk + 1;
  for (const FeatureMap map : AllFeatureMaps()) {
    for (const bool forgets : {false, true}) {
      Case c = SelfAttention(length, 9);
      c.heads = 2;
      c.kernel.feature_map = map;
      c.forgets = forgets;
      Problem<Linear> p(c);
      for (int64_t split = 0; split <= length; ++split) {
        SCOPED_TRACE(::testing::Message()
                     << Name(map) << (forgets ? ", forgetting" : "") << ", split at " << split);
        LinearState state(ConfigOf(c));
        p.o.Poison();
        StepThrough(state, p, split);
        EXPECT_EQ(state.position(), split);
        StepThrough(state, p, length - split);
        EXPECT_EQ(state.position(), length);
        ExpectStreamed(p);
      }
    }
  }
}

TEST(LinearStateTest, StreamingEqualsParallelTokenByToken) {
  for (uint64_t seed = 0; seed < (kSanitized ? 20 : 100); ++seed) {
    const Case c = RandomStream(seed, 1 + static_cast<int64_t>(seed % 80));
    SCOPED_TRACE(Describe(c));
    Problem<Linear> p(c);
    LinearState state(ConfigOf(c));
    for (int64_t n = 0; n < c.keys; ++n) StepThrough(state, p, 1);
    ExpectStreamed(p);
  }
}

// Such tokens leave rows of the state alone, or all of it.
TEST(LinearStateTest, StreamingEqualsParallelWhereFeaturesAreZero) {
  for (const bool forgets : {false, true}) {
    for (const int64_t dim : {5, 64}) {
      Case c = SelfAttention(40, dim);
      c.forgets = forgets;
      Problem<Linear> p(c);
      for (int64_t i = 0; i < c.keys; i += 3) p.k.SetRow(0, i, 0, -1);
      for (int64_t i = 0; i < c.keys; i += 4) p.q.SetRow(0, i, 0, -1);
      SCOPED_TRACE(Describe(c));
      LinearState state(ConfigOf(c));
      for (int64_t n = 0; n < c.keys; ++n) StepThrough(state, p, 1);
      ExpectStreamed(p);
    }
  }
}

// Zero times NaN is not zero, whether the token comes alone or with others.
TEST(LinearStateTest, AValueThatIsNoNumberReachesEveryRow) {
  Case c = SelfAttention(9, 4);
  Problem<Linear> p(c);
  p.k.SetRow(0, 3, 0, -1);
  p.v.SetRow(0, 3, 0, std::numeric_limits<float>::quiet_NaN());
  for (const int64_t at_once : {1, 9}) {
    LinearState state(ConfigOf(c));
    for (int64_t n = 0; n < c.keys; n += at_once) AbsorbThrough(state, p, n, at_once);
    EXPECT_FALSE(state.finite()) << at_once << " at a time";
  }
}

// Read once by each query of a group, whose features are zero.
TEST(LinearStateTest, AValueThatIsNoNumberReachesEveryQueryOfAGroup) {
  Case c = SelfAttention(3, 4);
  c.heads = 3;
  for (const int64_t at_once : {1, 3}) {
    Problem<Linear> p(c);
    p.v.SetRow(0, 0, 0, std::numeric_limits<float>::quiet_NaN());
    for (int64_t h = 0; h < c.heads; ++h) p.q.SetRow(0, 2, h, -1);
    LinearState state(ConfigOf(c));
    for (int64_t n = 0; n < c.keys; n += at_once) StepThrough(state, p, at_once);
    for (int64_t h = 0; h < c.heads; ++h) {
      EXPECT_TRUE(std::isnan(p.o.At(0, 2, h, 0)))
          << "head " << h << ", " << at_once << " at a time";
    }
  }
}

TEST(LinearStateTest, StreamingEqualsParallelInAnyChunks) {
  for (uint64_t seed = 0; seed < (kSanitized ? 30 : 200); ++seed) {
    const Case c = RandomStream(seed, 100);
    SCOPED_TRACE(Describe(c));
    Problem<Linear> p(c);
    LinearState state(ConfigOf(c));
    for (const int64_t n : RandomCuts(p.random, c.keys, seed % 2 == 0 ? 5 : 70)) {
      StepThrough(state, p, n);
    }
    ExpectStreamed(p);
  }
}

TEST(LinearStateTest, AbsorbedTokensCountAsSteppedOnes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Case c = RandomStream(seed, 90);
    SCOPED_TRACE(Describe(c));
    Problem<Linear> p(c);
    LinearState state(ConfigOf(c));
    StepThrough(state, p, 0);
    // The first half has its outputs from another state, the second follows what is absorbed.
    LinearState half(ConfigOf(c));
    StepThrough(half, p, 40);
    for (const int64_t n : {1, 0, 32, 7}) AbsorbThrough(state, p, state.position(), n);
    StepThrough(state, p, 50);
    ExpectStreamed(p);
  }
}

TEST(LinearStateTest, ThreadsDoNotChangeABit) {
  for (const int64_t length : {1, 90, 3000, 3001}) {
    Case c = RandomStream(4, length);
    c.threads = 1;
    c.forgets = length == 3001;
    Problem<Linear> one(c);
    LinearState with_one(ConfigOf(c));
    StepThrough(with_one, one, length);
    for (const int threads : {2, 3, 4, 7}) {
      c.threads = threads;
      Problem<Linear> many(c);
      LinearState with_many(ConfigOf(c));
      StepThrough(with_many, many, length);
      ExpectSameBits("o", one.o, many.o);
      EXPECT_EQ(Saved(with_one), Saved(with_many)) << threads << " threads";
    }
  }
}

TEST(LinearStateTest, ACopyIsAForkOfTheStream) {
  Case c = SelfAttention(60, 8);
  Problem<Linear> left(c), right(c);
  for (int64_t i = 30; i < 60; ++i) right.v.SetRow(0, i, 0, 7);
  LinearState state(ConfigOf(c));
  StepThrough(state, left, 30);
  StepThrough(state, right, 0);
  const std::string before = Saved(state);
  LinearState fork = state;
  for (int64_t i = 0; i < 30; ++i) {
    for (int64_t e = 0; e < 8; ++e) right.o.Set(0, i, 0, e, left.o.At(0, i, 0, e));
  }
  StepThrough(fork, right, 30);
  EXPECT_EQ(Saved(state), before) << "the fork's tokens reached the original";
  StepThrough(state, left, 30);
  ExpectStreamed(left);
  ExpectStreamed(right);
}

TEST(LinearStateTest, ResetForgetsEverything) {
  Case c = SelfAttention(50, 8);
  for (const bool endless : {false, true}) {
    Problem<Linear> p(c);
    LinearState state(ConfigOf(c, endless));
    const std::string fresh = Saved(state);
    StepThrough(state, p, 50);
    state.Reset();
    EXPECT_EQ(state.position(), 0);
    EXPECT_EQ(Saved(state), fresh);
    StepThrough(state, p, 20);
    StepThrough(state, p, 30);
    endless ? ExpectEndless(p) : ExpectStreamed(p);
  }
}

TEST(LinearStateTest, TellsWhetherItsNumbersAreFinite) {
  Case c = SelfAttention(30, 2);
  c.kernel.horizon = 30;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -HUGE_VALF}) {
    Problem<Linear> p(c);
    p.v.SetRow(0, 3, 0, bad);
    LinearState state(ConfigOf(c));
    AbsorbThrough(state, p, 0, 3);
    EXPECT_TRUE(state.finite());
    AbsorbThrough(state, p, 3, 1);
    EXPECT_FALSE(state.finite());
    AbsorbThrough(state, p, 4, 26);
    EXPECT_FALSE(state.finite());
    state.Reset();
    EXPECT_TRUE(state.finite());
    // One that forgets, forgets that too: the older of its spans at the end of its horizon.
    LinearStateConfig config = ConfigOf(c, true);
    config.kernel.horizon = 20;
    LinearState endless(config);
    AbsorbThrough(endless, p, 0, 20);
    EXPECT_FALSE(endless.finite());
    AbsorbThrough(endless, p, 20, 10);
    EXPECT_TRUE(endless.finite());
  }
}

// Attends from p.q at `position` on to `keys` tokens that begin at `oldest`, against the reference.
void ExpectAttends(const LinearState& state, Problem<Linear>& p, int64_t oldest, int64_t keys,
                   int64_t position) {
  SCOPED_TRACE(::testing::Message() << "attending from position " << position << " to " << keys
                                    << " tokens from " << oldest << " on");
  p.o.Poison();
  state.Attend(p.q.view(), p.o.view(), position, p.c.threads);
  LinearOptions options = Linear::OptionsOf(p.c);
  options.causal = false;
  std::vector<double> exact, magnitude;
  for (int64_t b = 0; b < p.c.batch; ++b) {
    for (int64_t i = 0; i < p.c.queries; ++i) {
      for (int64_t h = 0; h < p.c.heads; ++h) {
        // One query row, standing at whatever position the reference is asked for.
        ConstView q = Rows<ConstView>(p.q.view(), i, 1);
        q.length = position - oldest + i + 1;
        q.length_stride = 0;
        const auto row = reference::LinearRow(q, Rows<ConstView>(p.k.view(), oldest, keys),
                                              Rows<ConstView>(p.v.view(), oldest, keys), options, b,
                                              position - oldest + i, h);
        exact.insert(exact.end(), row.output.begin(), row.output.end());
        magnitude.insert(magnitude.end(), row.magnitude.begin(), row.magnitude.end());
      }
    }
  }
  ExpectClose("o", p.o, exact, magnitude, StreamGrowth(p.c));
}

TEST(LinearStateTest, AttendIsCrossAttentionToWhatWasAbsorbed) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Case c = RandomStream(seed, 70);
    c.forgets = false;
    c.queries = Uniform(*std::make_unique<Random>(seed), 1, 40);
    if (c.kernel.reweighting == Reweighting::kCos) c.kernel.horizon = 150;
    SCOPED_TRACE(Describe(c));
    Problem<Linear> p(c);
    LinearState state(ConfigOf(c));
    ExpectAttends(state, p, 0, 0, 0);
    AbsorbThrough(state, p, 0, 33);
    for (const int64_t position : {0, 20, 33, 110}) ExpectAttends(state, p, 0, 33, position);
    AbsorbThrough(state, p, 33, 37);
    for (const int64_t position : {0, 69, 70, 110}) ExpectAttends(state, p, 0, 70, position);
  }
}

TEST(LinearStateTest, MergingEqualsAbsorbingAll) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Case c = RandomStream(seed, 120);
    c.forgets = false;
    c.queries = 5;
    SCOPED_TRACE(Describe(c));
    Problem<Linear> p(c);
    const auto span = [&](int64_t begin, int64_t end) {
      LinearState state(ConfigOf(c));
      AbsorbThrough(state, p, begin, end - begin);
      return state;
    };
    Random random(seed);
    const int64_t first = Uniform(random, 0, 60), second = first + Uniform(random, 0, 60);
    LinearState left = span(0, first);
    left.Merge(span(first, second));
    EXPECT_EQ(left.position(), second);
    ExpectAttends(left, p, 0, second, second);
    left.Merge(span(second, 120));

    LinearState tail = span(first, second);
    tail.Merge(span(second, 120));
    LinearState right = span(0, first);
    right.Merge(tail);

    for (const LinearState* state : {&left, &right}) {
      EXPECT_EQ(state->position(), 120);
      for (const int64_t position : {0, 60, 115}) ExpectAttends(*state, p, 0, 120, position);
    }
  }
}

TEST(LinearStateTest, AStreamGoesOnAfterAMerge) {
  Case c = SelfAttention(200, 16);
  Problem<Linear> p(c);
  LinearState state(ConfigOf(c)), next(ConfigOf(c));
  StepThrough(state, p, 60);
  AbsorbThrough(next, p, 60, 41);
  LinearState whole(ConfigOf(c));
  StepThrough(whole, p, 101);  // writes the rows that the merge skips
  state.Merge(next);
  for (const int64_t n : {1, 1, 40, 57}) StepThrough(state, p, n);
  ExpectStreamed(p);
}

TEST(LinearStateTest, EndlessStreamsAttendToTheLastHalfHorizonAndMore) {
  for (const int64_t horizon : {2, 3, 7, 64, 100, 129}) {
    for (const int64_t largest : {1, 3, 50, 1000}) {
      Case c = SelfAttention(std::max<int64_t>(40, 5 * horizon + 3), 8);
      c.heads = 2;
      c.batch = 2;
      c.kernel.horizon = horizon;
      c.seed = horizon;
      c.forgets = horizon % 3 == 1;
      SCOPED_TRACE(::testing::Message() << "horizon " << horizon << ", chunks to " << largest);
      Problem<Linear> p(c);
      LinearState state(ConfigOf(c, true));
      for (const int64_t n : RandomCuts(p.random, c.keys, largest)) StepThrough(state, p, n);
      ExpectEndless(p);
    }
  }
}

TEST(LinearStateTest, EndlessStreamsEqualAtEverySplit) {
  for (const bool forgets : {false, true}) {
    Case c = SelfAttention(50, 3);
    c.kernel.horizon = 13;
    c.forgets = forgets;
    Problem<Linear> p(c);
    for (int64_t split = 0; split <= 50; ++split) {
      SCOPED_TRACE(split);
      LinearState state(ConfigOf(c, true));
      p.o.Poison();
      StepThrough(state, p, split);
      StepThrough(state, p, 50 - split);
      ExpectEndless(p);
    }
  }
}

TEST(LinearStateTest, WhatForgetsIsReadAsTokensComeAndNotMerged) {
  Case c = SelfAttention(30, 4);
  c.forgets = true;
  Problem<Linear> p(c);
  LinearState state(ConfigOf(c));
  AbsorbThrough(state, p, 0, 20);
  const std::string before = Saved(state);
  ExpectError("Attend", {"forgets", "Step"}, [&] { state.Attend(p.q.view(), p.o.view(), 20); });
  ExpectError("Merge", {"forget"}, [&] { state.Merge(LinearState(ConfigOf(c))); });
  ExpectError("no keep", {"forgets"}, [&] { state.Absorb(p.k.view(), p.v.view()); });
  ExpectError("too little", {"keep", "29", "30"},
              [&] { state.Absorb(p.k.view(), p.v.view(), 1, Floats(p.keep).first(29)); });
  EXPECT_EQ(Saved(state), before);
  c.forgets = false;
  LinearState other(ConfigOf(c));
  ExpectError("keep for nothing", {"keep", "does not forget"},
              [&] { other.Absorb(p.k.view(), p.v.view(), 1, Floats(p.keep)); });
}

TEST(LinearStateTest, EndlessWeightsAreWeights) {
  // Positions in groups of as many as there are value dimensions: each output is the weight that
  // a position of that kind gets, and their sum is one.
  Case c = SelfAttention(500, 6);
  c.kernel.horizon = 32;
  c.value_dim = 40;
  Problem<Linear> p(c);
  p.v.Fill([] { return 0.f; });
  for (int64_t j = 0; j < c.keys; ++j) {
    p.v.Set(0, j, 0, j % 39, 1);
    p.v.Set(0, j, 0, 39, 1);
  }
  LinearState state(ConfigOf(c, true));
  for (const int64_t n : RandomCuts(p.random, c.keys, 40)) StepThrough(state, p, n);
  ExpectEndless(p);
  p.o.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
    ASSERT_GE(p.o.At(b, i, h, e), 0) << "row " << i << ", element " << e;
  });
}

TEST(LinearStateTest, EndlessStatesAttendToWhatTheyRemember) {
  Case c = SelfAttention(200, 8);
  c.queries = 4;
  c.kernel.horizon = 40;
  Problem<Linear> p(c);
  for (const int64_t absorbed : {5, 19, 21, 39, 41, 75, 199}) {
    LinearState state(ConfigOf(c, true));
    AbsorbThrough(state, p, 0, absorbed);
    const int64_t oldest = std::max<int64_t>(0, (absorbed / 20 - 1) * 20);
    // The last of the four queries stands at most at the horizon of the oldest token.
    for (const int64_t position : {oldest, std::min(absorbed, oldest + 37), oldest + 37}) {
      ExpectAttends(state, p, oldest, absorbed - oldest, position);
    }
  }
}

TEST(LinearStateTest, MemoryIsConstant) {
  Case c = SelfAttention(5000, 16);
  c.kernel.horizon = 64;
  Problem<Linear> p(c);
  LinearState state(ConfigOf(c, true));
  StepThrough(state, p, 64);
  const size_t bytes = state.bytes();
  // Two states of cos and sin parts, 16 x 17 numbers each, in whole vectors of at most 16 lanes.
  EXPECT_LE(bytes, 2 * 2 * 16 * (16 + 2 * 16) * sizeof(float));
  while (state.position() < 5000) {
    StepThrough(state, p, std::min<int64_t>(100, 5000 - state.position()));
    EXPECT_EQ(state.bytes(), bytes) << "at " << state.position();
  }
}

// Long enough that the latest tokens are summed apart from the distant ones.
TEST(LinearStateTest, LongStreamsAgreeInEveryWayToTakeATokenIn) {
  Case c = SelfAttention(140'000, 3);
  c.value_dim = 2;
  c.heads = 2;
  for (const int threads : {1, 2}) {
    c.threads = threads;
    Problem<Linear> p(c);
    LinearState state(ConfigOf(c));
    AbsorbThrough(state, p, 0, 65'000);
    for (const int64_t n : {400, 300, 1, 1, 64'000, 900, 1000}) StepThrough(state, p, n);
    for (const int64_t row : {65'000, 65'399, 65'400, 65'535, 65'536, 65'699, 65'700, 65'701,
                              100'000, 129'701, 130'601, 131'072, 131'601}) {
      ExpectRow(p, row);
    }
    AbsorbThrough(state, p, state.position(), 8'398);
    ASSERT_EQ(state.position(), 140'000);

    Case few = c;
    few.queries = 2;
    Problem<Linear> attending(few);
    attending.k = p.k;
    attending.v = p.v;
    ExpectAttends(state, attending, 0, 140'000, 139'998);
    for (const int64_t cut : {10, 64'000, 70'000, 139'000}) {
      LinearState left(ConfigOf(c)), right(ConfigOf(c));
      AbsorbThrough(left, p, 0, cut);
      AbsorbThrough(right, p, cut, 140'000 - cut);
      left.Merge(right);
      ExpectAttends(left, attending, 0, 140'000, 139'998);
    }
  }
}

// A text of millions of tokens in one buffer: row j of the keys is the 4 numbers from j on.
struct LongStream {
  explicit LongStream(int64_t tokens) : numbers(tokens + 8) {
    Random random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& x : numbers) x = uniform(random);
  }
  ConstView Rows(int64_t begin, int64_t count) const {
    ConstView view = ConstView::Of(numbers.data() + begin, 1, count, 1, 4);
    view.length_stride = 1;
    return view;
  }
  std::vector<float> numbers;
};

void ExpectExactAt(LinearState& state, const LongStream& stream, int64_t oldest, double growth) {
  const int64_t position = state.position();
  const std::vector<float> query{0.3f, -0.2f, 0.7f, 0.1f};
  const ConstView q = ConstView::Of(query.data(), 1, 1, 1, 4);
  Tensor o(DType::kFloat32, 1, 1, 1, 4);
  state.Step(q, stream.Rows(position, 1), stream.Rows(position + 3, 1), o.view());
  LinearOptions options;
  options.kernel = state.config().kernel;
  const int64_t keys = position - oldest + 1;
  const auto exact = reference::LinearRow(q, stream.Rows(oldest, keys),
                                          stream.Rows(oldest + 3, keys), options, 0, 0, 0);
  ExpectClose("o", o, exact.output, exact.magnitude, growth);
}

constexpr int64_t kFar = kSanitized ? 1'000'000 : 10'000'000;

void AbsorbTo(LinearState& state, const LongStream& stream, int64_t position, int64_t chunk) {
  while (state.position() < position) {
    const int64_t at = state.position(), count = std::min(chunk, position - at);
    state.Absorb(stream.Rows(at, count), stream.Rows(at + 3, count));
  }
}

TEST(LinearStateTest, Position10000000OfAnEndlessStreamIsAsExactAsPosition10) {
  const LongStream stream(kFar + 2000);
  for (const int64_t horizon : {1000, 8192}) {
    LinearStateConfig config{1, 1, 4, 4, {}, true};
    config.kernel.horizon = horizon;
    LinearState state(config);
    const int64_t half = horizon / 2;
    for (const int64_t position : {int64_t{10}, kFar, kFar + 1, kFar + 1009}) {
      SCOPED_TRACE(::testing::Message() << "position " << position << ", horizon " << horizon);
      AbsorbTo(state, stream, position, 100'000);
      ASSERT_EQ(state.position(), position);
      // The growth of a sum that is 10 tokens long, for both.
      ExpectExactAt(state, stream, std::max<int64_t>(0, (position / half - 1) * half),
                    Growth(4 + kChunk + 10));
    }
  }
}

TEST(LinearStateTest, Position10000000WithinTheHorizonIsAsExactAsPosition10) {
  const LongStream stream(kFar + 2000);
  for (const int64_t chunk : {100'000, 1}) {
    LinearStateConfig config{1, 1, 4, 4, {}, false};
    config.kernel.horizon = 1 << 24;
    LinearState state(config);
    const int64_t far = chunk == 1 ? kFar / 10 : kFar;
    for (const int64_t position : {int64_t{10}, far}) {
      SCOPED_TRACE(::testing::Message() << "position " << position << ", chunks of " << chunk);
      AbsorbTo(state, stream, position, chunk);
      ExpectExactAt(state, stream, 0, Growth(4 + kChunk + 10));
    }
  }
}

TEST(LinearStateTest, ALongParallelTextIsAsExactAsAShortOne) {
  // One call over a million tokens, looked at in its last row.
  const int64_t length = kSanitized ? 200'000 : 1'000'000;
  const LongStream stream(length);
  LinearOptions options;
  options.kernel.horizon = length;
  Tensor o(DType::kFloat32, 1, length, 1, 4);
  const ConstView q = stream.Rows(1, length), k = stream.Rows(0, length),
                  v = stream.Rows(3, length);
  LinearAttentionForward(q, k, v, o.view(), {}, options);
  for (const int64_t row : {int64_t{10}, length - 1}) {
    const auto exact = reference::LinearRow(q, k, v, options, 0, row, 0);
    for (int64_t e = 0; e < 4; ++e) {
      EXPECT_NEAR(
          o.At(0, row, 0, e), exact.output[e],
          Tolerance(Growth(4 + kChunk + length / kChunk), exact.magnitude[e], 0, DType::kFloat32))
          << "row " << row;
    }
  }
}

}  // namespace
}  // namespace cosformer::testing
