// A state as a file: the round trip, and damage anywhere. The table of files that are no states is
// in tests/formats/corrupt_files_test.cc.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <functional>
#include <limits>

#include "errors.h"
#include "streams.h"

namespace cosformer::testing {
namespace {

LinearState StateAt(const Case& c, bool endless, int64_t position) {
  Problem<Linear> p(c);
  LinearState state(ConfigOf(c, endless));
  AbsorbThrough(state, p, 0, position);
  return state;
}

// Small, so that every byte of its file can be altered.
Case Small() {
  Case c = SelfAttention(30, 2);
  c.kv_heads = c.heads = 2;
  c.value_dim = 3;
  c.kernel.horizon = 31;
  return c;
}

// The file with its last four bytes made the checksum of the rest, so that a field is met that the
// checksum vouches for.
std::string WithChecksum(std::string file) {
  const size_t content = file.size() - 4;
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(file.data()), static_cast<uInt>(content)));
  std::memcpy(file.data() + content, &crc, 4);
  return file;
}

TEST(LinearStateFileTest, RoundTripsToTheBit) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Case c = RandomStream(seed, 90);
    const bool endless = c.kernel.reweighting == Reweighting::kCos && seed % 2 == 0;
    if (c.kernel.reweighting == Reweighting::kCos) c.kernel.horizon = endless ? 20 : 90;
    SCOPED_TRACE(Describe(c));
    Problem<Linear> kept(c), restored(c);
    LinearState state(ConfigOf(c, endless));
    for (const int64_t position : {0, 1, 20, 41, 60}) {
      AbsorbThrough(state, kept, state.position(), position - state.position());
      const std::string file = Saved(state);
      LinearState loaded = Loaded(file);
      EXPECT_EQ(loaded.position(), position);
      EXPECT_EQ(loaded.bytes(), state.bytes());
      EXPECT_EQ(Saved(loaded), file);
      std::istringstream in(file, std::ios::binary);
      EXPECT_NO_THROW(LinearState::Load(in, state.config()));
      LinearState original = state;
      StepThrough(original, kept, 30);
      StepThrough(loaded, restored, 30);
      ExpectSameBits("o", kept.o, restored.o, [&](int64_t, int64_t i, int64_t) {
        return position <= i && i < position + 30;
      });
      EXPECT_EQ(Saved(original), Saved(loaded));
    }
  }
}

TEST(LinearStateFileTest, AStateThatHasFoldedRoundTrips) {
  // Long enough that a state keeps distant tokens apart from the latest.
  Case c = SelfAttention(200'000, 2);
  const LinearState state = StateAt(c, false, 200'000);
  EXPECT_EQ(Saved(Loaded(Saved(state))), Saved(state));
}

TEST(LinearStateFileTest, NanAndInfRoundTrip) {
  Case c = Small();
  Problem<Linear> p(c);
  p.v.SetRow(0, 3, 0, std::numeric_limits<float>::quiet_NaN());
  p.v.SetRow(0, 4, 1, std::numeric_limits<float>::infinity());
  LinearState state(ConfigOf(c));
  AbsorbThrough(state, p, 0, 10);
  EXPECT_EQ(Saved(Loaded(Saved(state))), Saved(state));
}

TEST(LinearStateFileTest, AHorizonThatIsNotUsedRoundTrips) {
  for (const int64_t horizon : {int64_t{-1}, int64_t{0}, std::numeric_limits<int64_t>::max()}) {
    LinearStateConfig config{1, 1, 2, 2, {}, false};
    config.kernel.reweighting = Reweighting::kNone;
    config.kernel.horizon = horizon;
    const LinearState state(config);
    EXPECT_NO_THROW(EXPECT_EQ(Saved(Loaded(Saved(state))), Saved(state))) << horizon;
  }
}

TEST(LinearStateFileTest, SeveralStatesFollowEachOtherInOneStream) {
  const LinearState first = StateAt(Small(), false, 7), second = StateAt(Small(), true, 30);
  std::stringstream stream(std::ios::in | std::ios::out | std::ios::binary);
  first.Save(stream);
  second.Save(stream);
  stream << "what follows";
  EXPECT_EQ(Saved(LinearState::Load(stream)), Saved(first));
  EXPECT_EQ(Saved(LinearState::Load(stream)), Saved(second));
  std::string rest;
  std::getline(stream, rest);
  EXPECT_EQ(rest, "what follows");
}

TEST(LinearStateFileTest, AFileThatIsCutAnywhereIsRefused) {
  for (const bool endless : {false, true}) {
    const std::string file = Saved(StateAt(Small(), endless, 25));
    for (size_t length = 0; length < file.size(); ++length) {
      EXPECT_THROW(Loaded(file.substr(0, length)), Error) << "cut to " << length << " bytes";
    }
  }
}

TEST(LinearStateFileTest, AFileWithAnyByteAlteredIsRefused) {
  for (const bool endless : {false, true}) {
    const std::string file = Saved(StateAt(Small(), endless, 25));
    for (size_t at = 0; at < file.size(); ++at) {
      for (const int flip : {0x01, 0x10, 0x80, 0xff}) {
        std::string altered = file;
        altered[at] = static_cast<char>(altered[at] ^ flip);
        EXPECT_THROW(Loaded(altered), Error) << "byte " << at << " of " << file.size();
      }
    }
  }
}

// Version 1 lacked the byte that names the normaliser, after magic, version, sizes and two enums.
TEST(LinearStateFileTest, VersionOneStillLoads) {
  const std::string file = Saved(StateAt(Small(), false, 25));
  const size_t normaliser = 8 + 4 + 4 * 8 + 2;
  ASSERT_EQ(file[normaliser], 0);
  const std::string old = WithChecksum(file.substr(0, 8) + '\1' + file.substr(9, normaliser - 9) +
                                       file.substr(normaliser + 1));
  EXPECT_EQ(Saved(Loaded(old)), file);
}

// Numbers that no state has, in every place of the header and with a right checksum: they must
// neither be believed nor cost memory. A byte that only makes another valid state may load.
TEST(LinearStateFileTest, HostileHeadersAreRefusedOrHarmless) {
  for (const auto& [endless, forgets] :
       {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    Case c = Small();
    c.forgets = forgets;
    const LinearState state = StateAt(c, endless, 25);
    const std::string file = Saved(state);
    const size_t header = 12 + 4 * 8 + 5 + (forgets ? 1 : 0) + 4 + 4 + 4 * 8;
    for (size_t at = 8; at < header; ++at) {
      for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
        std::string altered = file;
        altered[at] = static_cast<char>(value);
        try {
          LinearState loaded = Loaded(WithChecksum(altered));
          EXPECT_LE(loaded.bytes(), 16 * file.size() + 4096) << "byte " << at << " as " << value;
        } catch (const Error&) {
        }
        if (at + 8 > header) continue;
        altered.replace(at, 8, 8, static_cast<char>(value));
        try {
          Loaded(WithChecksum(altered));
        } catch (const Error&) {
        }
      }
    }
  }
}

TEST(LinearStateFileTest, WhatForgetsNothingIsWrittenAsBefore) {
  Case c = Small();
  EXPECT_EQ(Saved(StateAt(c, false, 25))[8], 2);
  c.forgets = true;
  EXPECT_EQ(Saved(StateAt(c, false, 25))[8], 3);
}

TEST(LinearStateFileTest, AStateOfAnotherModelIsRefusedByTheFieldThatDiffers) {
  const Case c = Small();
  const LinearState state = StateAt(c, false, 25);
  const struct {
    const char* field;
    std::function<void(LinearStateConfig&)> change;
    std::vector<std::string> values;  // the state's and the expected
  } table[] = {
      {"batch", [](auto& x) { x.batch = 7; }, {"1", "7"}},
      {"heads", [](auto& x) { x.heads = 7; }, {"2", "7"}},
      {"dim", [](auto& x) { x.dim = 7; }, {"2", "7"}},
      {"value_dim", [](auto& x) { x.value_dim = 7; }, {"3", "7"}},
      {"feature_map", [](auto& x) { x.kernel.feature_map = FeatureMap::kEluPlusOne; }, {}},
      {"leaky_slope", [](auto& x) { x.kernel.leaky_slope = 0.25f; }, {"0.01", "0.25"}},
      {"reweighting", [](auto& x) { x.kernel.reweighting = Reweighting::kNone; }, {}},
      {"horizon", [](auto& x) { x.kernel.horizon = 4096; }, {"31", "4096"}},
      {"normaliser", [](auto& x) { x.kernel.normaliser = Normaliser::kNone; }, {"1"}},
      {"epsilon", [](auto& x) { x.kernel.epsilon = 0.5f; }, {"0.5"}},
      {"endless", [](auto& x) { x.endless = true; }, {}},
  };
  for (const auto& [field, change, values] : table) {
    LinearStateConfig expected = state.config();
    change(expected);
    std::istringstream in(Saved(state), std::ios::binary);
    std::vector<std::string> mentions = values;
    mentions.push_back(field);
    ExpectError(field, mentions, [&] { LinearState::Load(in, expected); });
  }
}

TEST(LinearStateFileTest, AStreamThatCannotBeWrittenIsAnError) {
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_THROW(StateAt(Small(), false, 3).Save(out), Error);
}

}  // namespace
}  // namespace cosformer::testing
