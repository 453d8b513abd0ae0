// A table of corrupt sessions, made by hand. Every one of them is refused with the sentence beside
// it, and costs no more memory than an honest file of its size may.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "corrupt_files.h"
#include "runtime/session_file.h"
#include "tests/runtime/support.h"
#include "vouched.h"

namespace cosformer::runtime::testing {
namespace {

using cosformer::testing::Corrupt;
using cosformer::testing::CorruptFilesTest;
using cosformer::testing::Vouched;

constexpr int64_t kTokens = 5;
constexpr size_t kWidth = 24;

// Where the fields stand.
constexpr size_t kVersion = 8, kLayers = 12, kModel = 16, kTokenizer = 32, kPosition = 48,
                 kWidthField = 72, kLast = 80, kStates = kLast + 4 * kWidth;
// In the state of a linear layer.
constexpr size_t kHeads = 20, kDim = 28, kHorizon = 57, kStatePosition = 65, kNumbers = 89;

// Of 4 heads of 6: the sums of 6 features times 6 values and 1, for a cosine and a sine.
constexpr size_t kLinearBytes = kNumbers + 4 * 4 * 2 * 6 * 7 + 4;
constexpr size_t kCacheBytes = 4 * kTokens * 2 * kWidth;
// The latest tokens, behind the layers.
constexpr size_t kRecent = kStates + kLinearBytes + kCacheBytes, kRecentBytes = 4 + 4 * kTokens;

Model Hybrid(const LoadOptions& options = {}) {
  return SmallModel({{"attention", {"cosformer", "softmax"}}}, 1, WeightType::kFloat32, options);
}

std::string SavedWith(const Model& model) {
  Session session(model);
  session.Feed(RandomTokens(kTokens, 1));
  std::ostringstream out;
  session.Save(out);
  return out.str();
}

template <class T>
std::string With(std::string bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return bytes;
}

// With 16 letters for a fingerprint.
std::string With(std::string bytes, size_t at, const char* letters) {
  return bytes.replace(at, 16, letters, 16);
}

// The first `size` bytes, as if they were all.
std::string Cut(const std::string& bytes, size_t size) {
  return Vouched(bytes.substr(0, size) + "1234");
}

// With the linear state of the first layer changed, and vouched for.
template <class T>
std::string WithState(const std::string& bytes, size_t at, T value) {
  const std::string state = Vouched(With(bytes.substr(kStates, kLinearBytes), at, value));
  return bytes.substr(0, kStates) + state + bytes.substr(kStates + kLinearBytes);
}

class CorruptSessionsTest : public CorruptFilesTest {
 protected:
  const Model model_ = Hybrid({.endless = false});
  const std::string good_ = SavedWith(model_);
  const Reader load_ = [this](const std::string& path) { Session::Load(model_, path); };
};

TEST_F(CorruptSessionsTest, ThatAreNoneAreRefusedWithAndWithoutTheModel) {
  const Corrupt table[] = {
      {"an empty file", "", "cannot read FILE: the file is empty"},
      {"a text", "This is not the file that you are looking for.\n",
       "this is no session, or it is cut off: it has 47 bytes, and the smallest has 84"},
      {"a long text", std::string(1000, 'a'), "it does not begin with \"CSFSESSN\""},
      {"the magic of a state", "CSFSTATE" + good_.substr(8), "it does not begin with \"CSFSESSN\""},
      {"cut in the header", good_.substr(0, 60), "it has 60 bytes, and the smallest has 84"},
      {"cut in a layer", good_.substr(0, kStates + 500), "its checksum does not fit; copy"},
      {"bytes behind", good_ + "abcd", "its checksum does not fit"},
      {"another checksum", good_.substr(0, good_.size() - 4) + "abcd", "its checksum does not fit"},
      {"a later version", Vouched(With(good_, kVersion, 3)),
       "the session has version 3; this program reads versions up to 2: update cosformer"},
      {"version 0", Vouched(With(good_, kVersion, 0)), "the session has version 0"},
      {"a damaged fingerprint", With(good_, kModel, "0123456789abcdef"), "its checksum does not"},
      {"a fingerprint that is none",
       Vouched(With(good_, kModel,
                    "\xff"
                    "123456789abcdef")),
       "the session's fingerprint of its model is not of 16 hexadecimal digits"},
      {"a tokenizer's that is none", Vouched(With(good_, kTokenizer, "0123456789ABCDEF")),
       "the session's fingerprint of its tokenizer is not of 16 hexadecimal digits"},
      {"a negative position", Vouched(With(good_, kPosition, int64_t{-1})),
       "the session's position is -1"},
      {"tokens without a width", Vouched(With(good_, kWidthField, int64_t{0})),
       "the session's position is 5 and its width 0; one is 0 where the other is"},
      {"a width without tokens", Vouched(With(good_, kPosition, int64_t{0})),
       "the session's position is 0 and its width 24"},
      {"a negative width", Vouched(With(good_, kWidthField, int64_t{-24})), "its width -24"},
  };
  ASSERT_EQ(good_.size(), kRecent + kRecentBytes + 4);
  ASSERT_EQ(WithState(Vouched(good_), kHeads, int64_t{4}), good_);
  ExpectRefused("session", load_, table);
  ExpectRefused("session", ReadSessionInfo, table);
}

TEST_F(CorruptSessionsTest, ThatDoNotFitTheModelAreRefused) {
  const Corrupt table[] = {
      {"another model", Vouched(With(good_, kModel, "0123456789abcdef")),
       "made with another model than this one; give the model that it was made with"},
      {"another tokenizer", Vouched(With(good_, kTokenizer, "0123456789abcdef")),
       "made with another tokenizer than this model's; give the model that it was made with"},
      {"another number of layers", Vouched(With(good_, kLayers, 3)),
       "the session has 3 layers, the model 2"},
      {"2^32 - 1 layers", Vouched(With(good_, kLayers, -1)), "the session has 4294967295 layers"},
      {"another width", Vouched(With(good_, kWidthField, int64_t{25})),
       "the session has the width 25, the model 24"},
      {"a width of 2^60", Vouched(With(good_, kWidthField, int64_t{1} << 60)),
       "the session has the width 1152921504606846976, the model 24"},
      {"a position past the horizon", Vouched(With(good_, kPosition, int64_t{97})),
       "the session has read 97 tokens, and the horizon of its re-weighting is 96; if it went on "
       "past the horizon, load the model in endless mode"},
      {"a position that its layers do not have", Vouched(With(good_, kPosition, int64_t{6})),
       "layer 0: it has seen 5 tokens, the session 6; the file is damaged"},
      {"an endless one", SavedWith(Hybrid()),
       "layer 0: state: the file's state is endless, but one that ends with its horizon is "
       "expected: it is one or the other from its beginning"},
      {"a state of another horizon", Vouched(WithState(good_, kHorizon, int64_t{95})),
       "layer 0: state: the file's state has horizon 95, but 96 is expected"},
  };
  ExpectRefused("session", load_, table);
}

// Which takes those that end as well as those that do not.
TEST_F(CorruptSessionsTest, ThatDoNotFitAnEndlessModelAreRefused) {
  const Model endless = Hybrid();
  const Corrupt table[] = {
      {"a position past the horizon", Vouched(With(good_, kPosition, int64_t{97})),
       "layer 0: it has seen 5 tokens, the session 97; the file is damaged"},
      {"a state of another horizon", Vouched(WithState(good_, kHorizon, int64_t{95})),
       "layer 0: state: the file's state has horizon 95, but 96 is expected"},
      {"a state past its end",
       Vouched(WithState(With(good_, kPosition, int64_t{97}), kStatePosition, int64_t{97})),
       "layer 0: state: the file's position is 97, which is not between 0 and 96"},
  };
  ExpectRefused(
      "session", [&](const std::string& path) { Session::Load(endless, path); }, table);
  const nlohmann::json rotary = {{"positions", "rotary"}};
  const Model turned = SmallModel(rotary);
  const std::string files[] = {
      SavedWith(SmallModel(rotary, 1, WeightType::kFloat32, {.endless = false})),
      SavedWith(turned)};
  // The sums of one, and the normaliser of the other.
  const size_t numbers = kLinearBytes - kNumbers - 4;
  const Corrupt mixed[] = {
      {"sums that end and a normaliser that does not",
       Vouched(files[0].substr(0, kStates + kLinearBytes) +
               files[1].substr(kStates + kLinearBytes + numbers)),
       "layer 0: state: the file's state is endless, but one that ends with its horizon is "
       "expected"},
  };
  ExpectRefused(
      "session", [&](const std::string& path) { Session::Load(turned, path); }, mixed);
}

TEST_F(CorruptSessionsTest, WhoseNumbersAreMissingAreRefused) {
  const std::string text_end = "the session ends within the numbers that the next token";
  const Corrupt table[] = {
      {"the header alone", Cut(good_, kLast), text_end},
      {"cut in what follows the header", Cut(good_, kLast + 50), text_end},
      {"no layers", Cut(good_, kStates), "layer 0: state: the file is truncated: it ends 0 bytes"},
      {"cut in a state's header", Cut(good_, kStates + kHorizon + 3),
       "layer 0: state: the file is truncated: it ends 3 bytes into horizon"},
      {"cut in a state's numbers", Cut(good_, kStates + 500), "bytes into the numbers"},
      {"a state of 2^48 bytes",
       Vouched(WithState(WithState(good_, kHeads, int64_t{1} << 20), kDim, int64_t{1} << 20)),
       "bytes into the numbers"},
      {"a state of 2^60 heads", Vouched(WithState(good_, kHeads, int64_t{1} << 60)),
       "layer 0: state: the file's heads is 1152921504606846976"},
      {"a damaged state that the session vouches for", Vouched(With(good_, kStates + 500, 'x')),
       "layer 0: state: the file is damaged: its checksum is"},
      {"no cache", Cut(good_, kStates + kLinearBytes),
       "layer 1: the file ends within the keys and values of token 0 of 5"},
      {"half a cache", Cut(good_, kStates + kLinearBytes + kCacheBytes / 2),
       "layer 1: the file ends within the keys and values of token 2 of 5"},
      {"a cache without its last number", Cut(good_, kStates + kLinearBytes + kCacheBytes - 4),
       "layer 1: the file ends within the keys and values of token 4 of 5"},
      {"no latest tokens", Cut(good_, kRecent), "the session ends within its latest tokens"},
      {"half of their number", Cut(good_, kRecent + 2),
       "the session ends within its latest tokens"},
      {"a token missing", Cut(good_, good_.size() - 8),
       "the session ends within its latest tokens"},
      {"a number behind", Vouched(good_ + "1234"),
       "the session has bytes behind its end; the file is damaged"},
      {"latest tokens where the version has none", Vouched(With(good_, kVersion, 1)),
       "the session has bytes behind its end; the file is damaged"},
  };
  ExpectRefused("session", load_, table);
}

TEST_F(CorruptSessionsTest, WhoseLatestTokensAreNoneAreRefused) {
  const std::string number = "latest tokens, where 1 to 5 are expected; the file is damaged";
  const Corrupt table[] = {
      {"none of them", Vouched(With(good_, kRecent, 0)), "the session has 0 " + number},
      {"more than the text has", Vouched(With(good_, kRecent, 6)), "the session has 6 " + number},
      {"2^32 - 1", Vouched(With(good_, kRecent, -1)), "the session has 4294967295 " + number},
      {"a negative token", Vouched(With(good_, kRecent + 4, -1)),
       "the session's latest tokens have -1, which is not in the model's vocabulary of 29"},
      {"one past the vocabulary", Vouched(With(good_, kRecent + 20, 29)),
       "the session's latest tokens have 29, which is not in the model's vocabulary of 29"},
  };
  ExpectRefused("session", load_, table);
}

TEST_F(CorruptSessionsTest, WhoseNumbersAreNoneAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = HUGE_VALF;
  const std::string text = "what the session predicts the next token from is infinite or NaN";
  const std::string layer = "it holds numbers that are infinite or NaN; the file is damaged, or";
  const size_t cache = kStates + kLinearBytes;
  const Corrupt table[] = {
      {"NaN in what predicts the next token", Vouched(With(good_, kLast, nan)), text},
      {"infinity at its end", Vouched(With(good_, kStates - 4, infinity)), text},
      {"NaN in a state", Vouched(WithState(good_, kNumbers, nan)), "layer 0: " + layer},
      {"infinity in a state's normaliser", Vouched(WithState(good_, kLinearBytes - 8, -infinity)),
       "layer 0: " + layer},
      {"NaN among keys", Vouched(With(good_, cache, nan)), "layer 1: " + layer},
      {"infinity among values", Vouched(With(good_, cache + kCacheBytes - 4, infinity)),
       "layer 1: " + layer},
  };
  ExpectRefused("session", load_, table);
}

// No horizon bounds what such a session may claim to have read.
TEST_F(CorruptSessionsTest, OfSoftmaxAloneMayNotClaimTokensThatTheFileDoesNotHold) {
  const Model model = SmallModel({{"attention", "softmax"}});
  const std::string good = SavedWith(model);
  const Corrupt table[] = {
      {"a token too many", Vouched(With(good, kPosition, kTokens + 1)),
       // The next layer's are taken for it.
       "layer 1: the file ends within the keys and values of token 4 of 6"},
      {"2^62 tokens", Vouched(With(good, kPosition, int64_t{1} << 62)),
       "layer 0: the file ends within the keys and values of token 10 of 4611686018427387904"},
      {"a token too few", Vouched(With(good, kPosition, kTokens - 1)),
       "latest tokens, where 1 to 4 are expected"},
  };
  ExpectRefused(
      "session", [&](const std::string& path) { Session::Load(model, path); }, table);
}

TEST_F(CorruptSessionsTest, OfTurnedFeaturesHaveTwoStatesALayer) {
  const Model model =
      SmallModel({{"positions", "rotary"}}, 1, WeightType::kFloat32, {.endless = false});
  const std::string good = SavedWith(model);
  const size_t normaliser = kStates + kLinearBytes;
  const size_t size = kNumbers + 4 * 4 * 2 * 6 * 2 + 4;  // values are of one number
  std::string nan = good;
  nan.replace(normaliser, size,
              Vouched(With(good.substr(normaliser, size), kNumbers, std::nanf(""))));
  const Corrupt table[] = {
      {"sums alone", Cut(good, normaliser), "layer 0: state: the file is truncated: it ends 0"},
      {"a normaliser of NaN", Vouched(nan), "layer 0: it holds numbers that are infinite or NaN"},
  };
  ExpectRefused(
      "session", [&](const std::string& path) { Session::Load(model, path); }, table);
}

}  // namespace
}  // namespace cosformer::runtime::testing
