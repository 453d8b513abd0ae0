// What every system promises, asked of every system by name through cosformer::Attention: no look
// into the future, padding and packing and streams that equal the sequence alone, gradients, any
// length, shared heads, positions, and sentences for what it cannot do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "tests/zoo/naive.h"

namespace cosformer::testing {
namespace {

constexpr int64_t kWidth = 16;
constexpr int64_t kMaxLength = 100;
const std::vector<std::string> kPositions = {"rotary", "spe-sine", "spe-conv"};

struct Subject {
  std::string system;
  std::string options;
  Abilities abilities;
};
void PrintTo(const Subject& subject, std::ostream* out) {
  *out << subject.system << " " << subject.options;
}

// With its defaults, and where these make one block of a hundred tokens, with small ones.
std::vector<Subject> Subjects() {
  const std::map<std::string, std::string> small = {
      {"bigbird", R"({"block": 4, "random_blocks": 1, "global_blocks": 1})"},
      {"linformer", R"({"k": 7})"},
      {"local", R"({"block": 8})"},
      {"longformer", R"({"window": 6})"},
      {"reformer", R"({"chunk": 8, "rounds": 2})"},
      {"sinkhorn", R"({"block": 8})"},
      {"sparse-fixed", R"({"stride": 7, "summary": 2})"},
      {"sparse-strided", R"({"stride": 7})"},
  };
  std::vector<Subject> subjects;
  for (const SystemDescription& system : AttentionSystems()) {
    subjects.push_back({system.name, "{}", system.abilities});
    const auto found = small.find(system.name);
    if (found != small.end()) subjects.push_back({system.name, found->second, system.abilities});
  }
  return subjects;
}

bool Able(const Abilities& abilities, Direction direction) {
  switch (direction) {
    case Direction::kCausal:
      return abilities.causal;
    case Direction::kBidirectional:
      return abilities.bidirectional;
    case Direction::kCross:
      return abilities.cross;
  }
  return false;
}

constexpr Direction kDirections[] = {Direction::kCausal, Direction::kBidirectional,
                                     Direction::kCross};
const char* NameOf(Direction direction) {
  return direction == Direction::kCausal          ? "causal"
         : direction == Direction::kBidirectional ? "bidirectional"
                                                  : "cross";
}

// In evaluation. All biases are 1, so that queries and keys have a direction in common: the weights
// of systems whose kernels have both signs then add up to something, and rounding stays small.
Attention Make(AttentionConfig config) {
  torch::manual_seed(21);
  config.width = kWidth;
  if (config.heads == 8) config.heads = 2;
  config.max_length = kMaxLength;
  Attention attention(config);
  attention->eval();
  const torch::NoGradGuard no_grad;
  attention->named_parameters()["in_bias"].fill_(1);
  return attention;
}

Tensor Random(int64_t batch, int64_t length, uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn({batch, length, kWidth});
}

// Two ways to compute the same thing: sums over the keys, the heads and the width, and weights that
// are exponentials of scores of some size.
void ExpectSame(const std::string& what, const Tensor& actual, const Tensor& expected) {
  ExpectClose(what, actual, expected.to(torch::kFloat64), GrowthOf(kMaxLength + 2 * kWidth, 8));
}

Tensor Attend(Attention& attention, const Tensor& x, const Tensor& memory,
              const Layout& layout = {}) {
  return memory.defined() ? attention->forward(x, memory, layout) : attention->forward(x, layout);
}

void ExpectCausalToTheBit(Attention& attention, int64_t length) {
  const Tensor x = Random(2, length, 31);
  const Tensor o = attention->forward(x);
  ASSERT_EQ(o.sizes(), x.sizes());
  ASSERT_TRUE(o.isfinite().all().item<bool>());
  for (const int64_t kept :
       {int64_t{1}, int64_t{2}, length / 3, length / 2 + 1, length - 2, length - 1}) {
    if (kept < 1 || kept >= length) continue;
    Tensor changed = x.clone();
    changed.slice(1, kept) = Random(2, length - kept, 32) * 3;
    EXPECT_TRUE(torch::equal(attention->forward(changed).slice(1, 0, kept), o.slice(1, 0, kept)))
        << "tokens from " << kept << " of " << length << " on change what comes before";
    ExpectSame(c10::str("the first ", kept, " tokens alone"),
               attention->forward(x.slice(1, 0, kept)), o.slice(1, 0, kept));
  }
}

void ExpectStreamsAsForward(Attention& attention, int64_t length) {
  const Tensor x = Random(2, length, 33);
  const Tensor o = attention->forward(x);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{1}, std::vector<int64_t>{5, 1, 1, 17, 2},
        std::vector<int64_t>{40, 1}}) {
    const auto stream = attention->NewStream(2);
    EXPECT_EQ(stream->position(), 0);
    std::vector<Tensor> parts;
    for (size_t i = 0; stream->position() < length; ++i) {
      const int64_t at = stream->position();
      const int64_t count = std::min(length - at, sizes[i % sizes.size()]);
      parts.push_back(attention->Step(x.slice(1, at, at + count), *stream));
      ASSERT_EQ(stream->position(), at + count);
    }
    EXPECT_GT(stream->bytes(), 0u);
    ExpectSame(c10::str("the stream in pieces of ", sizes), torch::cat(parts, 1), o);
  }
}

class SystemContract : public ::testing::TestWithParam<Subject> {
 protected:
  AttentionConfig Config(Direction direction = Direction::kCausal) const {
    return {.system = GetParam().system, .options = GetParam().options, .direction = direction};
  }
  const Abilities& abilities() const { return GetParam().abilities; }
  bool Takes(const std::string& positions) const {
    const zoo::Entry& entry = zoo::FindEntry(GetParam().system);
    if (positions == "none") return true;
    return positions == "rotary" ? entry.rotary != zoo::RotaryUse::kNone
                                 : entry.stochastic_positions;
  }
  static void SetPositions(AttentionConfig& config, const std::string& kind) {
    config.positions = kind;
    if (kind == "spe-sine") config.position_options = R"({"realisations": 12})";
    if (kind == "spe-conv") config.position_options = R"({"realisations": 12, "kernel": 20})";
  }
  // The system's directions; each is traced.
  template <class Check>
  void ForDirections(Check check) const {
    for (const Direction direction : kDirections) {
      if (!Able(abilities(), direction)) continue;
      SCOPED_TRACE(NameOf(direction));
      check(direction);
    }
  }
  static Tensor Memory(Direction direction, int64_t batch, int64_t length) {
    return direction == Direction::kCross ? Random(batch, length, 41) : Tensor();
  }
};

INSTANTIATE_TEST_SUITE_P(Every, SystemContract, ::testing::ValuesIn(Subjects()),
                         [](const ::testing::TestParamInfo<Subject>& info) {
                           std::string name = info.param.system;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name + (info.param.options == "{}" ? "" : "_small");
                         });

TEST_P(SystemContract, TheFutureChangesNothingInThePastToTheBit) {
  if (!abilities().causal) GTEST_SKIP();
  const torch::NoGradGuard no_grad;
  for (const int64_t kv_heads : {2, 1}) {
    AttentionConfig config = Config();
    config.kv_heads = kv_heads;
    Attention attention = Make(config);
    for (const int64_t length : {2, 17, 64, 99}) ExpectCausalToTheBit(attention, length);
  }
}

TEST_P(SystemContract, APaddedSequenceIsAsAlone) {
  if (!abilities().padding) GTEST_SKIP();
  const torch::NoGradGuard no_grad;
  ForDirections([&](Direction direction) {
    Attention attention = Make(Config(direction));
    const std::vector<int64_t> lengths = {41, 1, 30, 0, 9}, key_lengths = {3, 50, 17, 8, 1};
    const int64_t batch = static_cast<int64_t>(lengths.size());
    const Tensor memory = Memory(direction, batch, 50);
    Layout layout = Layout::Padded(lengths);
    if (memory.defined()) layout.key_lengths = key_lengths;
    const Tensor x = Random(batch, 41, 34);
    const Tensor o = Attend(attention, x, memory, layout);
    EXPECT_TRUE(o.isfinite().all().item<bool>());
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      if (length == 0) continue;
      const Tensor alone =
          Attend(attention, x.slice(0, b, b + 1).slice(1, 0, length),
                 memory.defined()
                     ? memory.slice(0, b, b + 1).slice(1, 0, key_lengths[static_cast<size_t>(b)])
                     : memory);
      ExpectSame(c10::str("entry ", b), o.slice(0, b, b + 1).slice(1, 0, length), alone);
    }
  });
}

// What stands in the padding is nobody's business, nor is its gradient.
TEST_P(SystemContract, PaddingReachesNoRowAndGetsNoGradient) {
  if (!abilities().padding) GTEST_SKIP();
  ForDirections([&](Direction direction) {
    Attention attention = Make(Config(direction));
    const std::vector<int64_t> lengths = {23, 12};
    const Tensor memory = Memory(direction, 2, 23);
    Layout layout = Layout::Padded(lengths);
    if (memory.defined()) layout.key_lengths = lengths;
    Tensor x = Random(2, 23, 35);
    Tensor other = x.clone();
    other[1].slice(0, 12) = Random(1, 11, 36)[0] * 5;
    Tensor other_memory = memory.defined() ? memory.clone() : memory;
    if (memory.defined()) other_memory[1].slice(0, 12) = Random(1, 11, 37)[0] * 5;
    x.requires_grad_();
    const Tensor o = Attend(attention, x, memory, layout);
    const Tensor changed = Attend(attention, other, other_memory, layout);
    EXPECT_TRUE(torch::equal(o[0], changed[0]));
    ExpectSame("the padded entry", changed[1].slice(0, 0, 12).detach(),
               o[1].slice(0, 0, 12).detach());
    (o[0].square().sum() + o[1].slice(0, 0, 12).square().sum()).backward();
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
    EXPECT_EQ(x.grad()[1].slice(0, 12).abs().max().item<double>(), 0);
  });
}

TEST_P(SystemContract, PackedSequencesAreAsAlone) {
  if (!abilities().packing) GTEST_SKIP();
  const torch::NoGradGuard no_grad;
  ForDirections([&](Direction direction) {
    Attention attention = Make(Config(direction));
    const std::vector<int64_t> offsets = {0, 20, 21, 21, 60}, key_offsets = {0, 5, 30, 31, 50};
    const Tensor memory = Memory(direction, 1, 50);
    Layout layout = Layout::Packed(offsets);
    if (memory.defined()) layout.key_offsets = key_offsets;
    const Tensor x = Random(1, 60, 38);
    const Tensor o = Attend(attention, x, memory, layout);
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      if (offsets[s] == offsets[s + 1]) continue;
      const Tensor alone =
          Attend(attention, x.slice(1, offsets[s], offsets[s + 1]),
                 memory.defined() ? memory.slice(1, key_offsets[s], key_offsets[s + 1]) : memory);
      ExpectSame(c10::str("sequence ", s), o.slice(1, offsets[s], offsets[s + 1]), alone);
    }
  });
}

TEST_P(SystemContract, AStreamIsAsForward) {
  if (!abilities().streaming) GTEST_SKIP();
  const torch::NoGradGuard no_grad;
  for (const int64_t kv_heads : {2, 1}) {
    AttentionConfig config = Config();
    config.kv_heads = kv_heads;
    Attention attention = Make(config);
    for (const int64_t length : {1, 30, 100}) ExpectStreamsAsForward(attention, length);
  }
}

// Differences of a random weighing of the outputs along random directions. Their own error: float32
// outputs leave some 1e-5 of the loss, over the step; kinks (ReLU) and jumps (hashing) on one side
// or between two points spoil some of the slopes, not all.
void ExpectGradientsAgreeWithDifferences(const AttentionConfig& config) {
  const Direction direction = config.direction;
  Attention attention = Make(config);
  Tensor x = Random(2, 19, 39).requires_grad_();
  const Tensor memory = direction == Direction::kCross ? Random(2, 23, 40).requires_grad_() : x;
  const Tensor weights = Random(2, 19, 42);
  const auto loss = [&] {
    const Tensor o =
        direction == Direction::kCross ? attention->forward(x, memory) : attention->forward(x);
    return (o * weights).sum(torch::kFloat64);
  };
  std::vector<std::string> names = {"x"};
  std::vector<Tensor> of = {x};
  if (direction == Direction::kCross) {
    names.push_back("memory");
    of.push_back(memory);
  }
  for (const auto& item : attention->named_parameters()) {
    names.push_back(item.key());
    of.push_back(item.value());
  }
  const Tensor at_start = loss();
  const double middle = at_start.item<double>();
  const auto gradients = torch::autograd::grad({at_start}, of, {}, false, false, true);
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < of.size(); ++i) {
    const Tensor gradient = gradients[i].defined() ? gradients[i] : torch::zeros_like(of[i]);
    const Tensor start = of[i].clone();
    const double size = gradient.norm().item<double>();
    torch::manual_seed(43 + i);
    const Tensor way = torch::randn_like(start);
    const double expected = (gradient * way).sum(torch::kFloat64).item<double>();
    double nearest = std::numeric_limits<double>::infinity();
    for (const double step : {3e-3, 1e-3, 3e-4, 1e-4}) {
      of[i].copy_(start + step * way);
      const double above = loss().item<double>();
      of[i].copy_(start - step * way);
      const double below = loss().item<double>();
      for (const double slope :
           {(above - below) / (2 * step), (above - middle) / step, (middle - below) / step}) {
        nearest = std::min(nearest, std::abs(slope - expected));
      }
    }
    of[i].copy_(start);
    EXPECT_LT(nearest, 0.02 * size + 2e-3) << names[i] << ": the gradient is of size " << size;
  }
}

TEST_P(SystemContract, GradientsAgreeWithDifferences) {
  ForDirections([&](Direction direction) {
    for (const std::string kind : {"none", "rotary", "spe-sine", "spe-conv"}) {
      if (!Takes(kind)) continue;
      SCOPED_TRACE(kind);
      AttentionConfig config = Config(direction);
      config.heads = 4;
      config.kv_heads = 2;
      SetPositions(config, kind);
      ExpectGradientsAgreeWithDifferences(config);
    }
  });
}

TEST_P(SystemContract, WorksAtEveryLength) {
  ForDirections([&](Direction direction) {
    Attention attention = Make(Config(direction));
    for (const int64_t length : {1, 2, 3, 7, 8, 9, 31, 33, 63, 64, 65, 99, 100}) {
      Tensor x = Random(1, length, 44).requires_grad_();
      const Tensor o = Attend(attention, x, Memory(direction, 1, kMaxLength + 1 - length));
      ASSERT_EQ(o.sizes(), x.sizes());
      EXPECT_TRUE(o.isfinite().all().item<bool>()) << length;
      o.square().sum().backward();
      EXPECT_TRUE(x.grad().isfinite().all().item<bool>()) << length;
    }
  });
}

// Either it has no table of that size and works, or the sentence has both numbers.
TEST_P(SystemContract, BeyondTheLongestItWorksOrSaysSo) {
  const torch::NoGradGuard no_grad;
  ForDirections([&](Direction direction) {
    Attention attention = Make(Config(direction));
    const Tensor x = Random(1, 117, 45);
    try {
      EXPECT_TRUE(Attend(attention, x, Memory(direction, 1, 117)).isfinite().all().item<bool>());
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("117"), std::string::npos) << text;
      EXPECT_NE(text.find("100"), std::string::npos) << text;
    }
  });
}

// Key heads that are copies of each other are as one that is shared.
TEST_P(SystemContract, SharedHeadsAreAsCopiesOfThem) {
  if (GetParam().system == "reformer") GTEST_SKIP() << "its keys are its queries";
  const torch::NoGradGuard no_grad;
  ForDirections([&](Direction direction) {
    AttentionConfig config = Config(direction);
    config.heads = 4;
    config.kv_heads = 2;
    Attention shared = Make(config);
    config.kv_heads = 4;
    Attention copied = Make(config);
    // Rows that belong to heads one after the other, `parts` times over.
    const auto copy = [](const Tensor& from, Tensor to, int64_t parts) {
      if (from.sizes() == to.sizes()) return void(to.copy_(from));
      ASSERT_EQ(to.size(0), 2 * from.size(0)) << "a shape that does not follow kv_heads";
      to.copy_(from.unflatten(0, {parts * 2, -1}).repeat_interleave(2, 0).flatten(0, 1));
    };
    const auto parameters = copied->named_parameters(), buffers = copied->named_buffers();
    for (const auto& item : shared->named_parameters()) {
      const std::string& name = item.key();
      const Tensor from = item.value();
      const Tensor to = parameters[name];
      SCOPED_TRACE(name);
      if (name.starts_with("in_") && to.size(0) == 3 * kWidth) {
        to.slice(0, 0, kWidth).copy_(from.slice(0, 0, kWidth));  // queries
        copy(from.slice(0, kWidth), to.slice(0, kWidth), 2);
      } else {
        copy(from, to, name.find("key_value") != std::string::npos ? 2 : 1);
      }
    }
    for (const auto& item : shared->named_buffers()) {
      copy(item.value(), buffers[item.key()], 1);
    }
    const Tensor x = Random(2, 37, 46), memory = Memory(direction, 2, 29);
    ExpectSame("shared", Attend(shared, x, memory), Attend(copied, x, memory));
  });
}

TEST_P(SystemContract, WithPositionsItWorksOrSaysWhyNot) {
  const torch::NoGradGuard no_grad;
  ForDirections([&](Direction direction) {
    for (const std::string& kind : kPositions) {
      SCOPED_TRACE(kind);
      AttentionConfig config = Config(direction);
      config.positions = kind;
      config.position_options = kind == "rotary"     ? "{}"
                                : kind == "spe-sine" ? R"({"realisations": 12})"
                                                     : R"({"realisations": 12, "kernel": 20})";
      const zoo::Entry& entry = zoo::FindEntry(config.system);
      const bool takes =
          kind == "rotary" ? entry.rotary != zoo::RotaryUse::kNone : entry.stochastic_positions;
      if (!takes) {
        ExpectRefused([&] { Make(config); }, {config.system, kind, "because "});
        continue;
      }
      Attention attention = Make(config);
      Attention without = Make(Config(direction));
      const Tensor x = Random(1, 70, 47), memory = Memory(direction, 1, 33);
      const Tensor o = Attend(attention, x, memory);
      EXPECT_TRUE(o.isfinite().all().item<bool>());
      EXPECT_GT((o - Attend(without, x, memory)).abs().max().item<double>(), 1e-3)
          << "the positions have no effect";
      if (direction != Direction::kCausal) continue;
      ExpectCausalToTheBit(attention, 70);
      if (abilities().streaming) ExpectStreamsAsForward(attention, 70);
    }
  });
}

std::vector<std::string> AbleSystems(bool Abilities::*ability) {
  std::vector<std::string> names;
  for (const SystemDescription& system : AttentionSystems()) {
    if (system.abilities.*ability) names.push_back(system.name);
  }
  return names;
}

TEST_P(SystemContract, WhatItCannotDoIsRefusedWithThoseThatCan) {
  const auto expect_refused = [&](bool Abilities::*ability, const std::function<void()>& run) {
    if (abilities().*ability) return;
    const auto able = AbleSystems(ability);
    ASSERT_FALSE(able.empty());
    ExpectRefused(run, {GetParam().system, able.front(), able.back()});
  };
  expect_refused(&Abilities::causal, [&] { Make(Config(Direction::kCausal)); });
  expect_refused(&Abilities::bidirectional, [&] { Make(Config(Direction::kBidirectional)); });
  expect_refused(&Abilities::cross, [&] { Make(Config(Direction::kCross)); });
  ForDirections([&](Direction direction) {
    Attention attention = Make(Config(direction));
    const Tensor x = Random(1, 8, 48), memory = Memory(direction, 1, 8);
    expect_refused(&Abilities::streaming, [&] { attention->NewStream(1); });
    expect_refused(&Abilities::padding, [&] { Attend(attention, x, memory, Layout::Padded({3})); });
    expect_refused(&Abilities::packing, [&] {
      Attend(attention, x, memory, Layout::Packed({0, 8}));
    });
    if (direction != Direction::kCausal && abilities().streaming) {
      ExpectRefused([&] { attention->NewStream(1); }, {"causal"});
    }
    if (direction == Direction::kCross) {
      ExpectRefused([&] { attention->forward(x); }, {"memory"});
    } else {
      ExpectRefused([&] { attention->forward(x, x); }, {"memory"});
    }
  });
}

TEST_P(SystemContract, UnknownOptionsAreRefusedByName) {
  ForDirections([&](Direction direction) {
    AttentionConfig config = Config(direction);
    config.options = R"({"colour": "blue"})";
    ExpectRefused([&] { Make(config); }, {GetParam().system, "colour"});
    config.options = "[1]";
    ExpectRefused([&] { Make(config); }, {GetParam().system, "object"});
  });
}

TEST_P(SystemContract, DescribesItself) {
  EXPECT_FALSE(zoo::FindEntry(GetParam().system).summary.empty());
  const Abilities& a = abilities();
  EXPECT_TRUE(a.causal || a.bidirectional || a.cross);
  EXPECT_TRUE(!a.streaming || a.causal);
}

// The state is all there is: a module with the same parameters and buffers computes the same.
TEST_P(SystemContract, ParametersAndBuffersAreAllItRemembers) {
  const torch::NoGradGuard no_grad;
  ForDirections([&](Direction direction) {
    Attention first = Make(Config(direction));
    const Tensor x = Random(2, 50, 49), memory = Memory(direction, 2, 50);
    first->train();
    Attend(first, x, memory);  // random systems draw anew
    first->eval();
    Attention second = Make(Config(direction));
    const auto copy = [](const auto& from, const auto& to) {
      for (const auto& item : from) {
        Tensor target = to[item.key()];
        target.copy_(item.value());
      }
    };
    copy(first->named_parameters(), second->named_parameters());
    copy(first->named_buffers(), second->named_buffers());
    EXPECT_TRUE(torch::equal(Attend(first, x, memory), Attend(second, x, memory)));
  });
}

TEST(AttentionConfig, AnUnknownSystemIsRefusedWithTheNearest) {
  ExpectRefused([] { Make({.system = "cosfromer"}); }, {"cosfromer", "cosformer", "softmax"});
}

TEST(AttentionConfig, OptionsOfAWrongTypeAreRefused) {
  ExpectRefused([] { Make({.system = "performer", .options = R"({"features": "many"})"}); },
                {"performer", "features", "many", "integer"});
  ExpectRefused([] { Make({.system = "cosformer", .options = R"({"horizon": 2.5})"}); },
                {"cosformer", "horizon", "2.5"});
  ExpectRefused([] { Make({.system = "cosformer", .options = "horizon"}); },
                {"cosformer", "horizon", "JSON"});
}

TEST(AttentionConfig, UnknownPositionsAreRefused) {
  ExpectRefused([] { Make({.system = "softmax", .positions = "sinus"}); },
                {"sinus", "rotary", "spe-sine"});
}

}  // namespace
}  // namespace cosformer::testing
