// Files that were written once, tests/runtime/golden: whatever changes, they load, and give the
// numbers that they gave then. make_golden.cc made them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "support.h"

namespace cosformer::runtime::testing {
namespace {

using nlohmann::json;

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  std::string Path(const std::string& file = "") const {
    return std::string(COSFORMER_GOLDEN) + "/" + GetParam() + (file.empty() ? "" : "/" + file);
  }
  json Expected() const { return json::parse(Bytes(Path("expected.json"))); }

  // The weights are the file's own, so that what remains is the rounding of products and sums.
  void ExpectSame(std::span<const float> logits, const json& expected) const {
    const double rounding = RoundingWith(Model::Load(Path()).network().parameters().tokens.type);
    EXPECT_LE(Difference(logits, expected.get<std::vector<float>>()), rounding);
  }
};

class GoldenDecoder : public Golden {};
INSTANTIATE_TEST_SUITE_P(, GoldenDecoder, ::testing::Values("float32", "int8", "int4", "gate"));

TEST_P(GoldenDecoder, GivesItsLogits) {
  const Model model = Model::Load(Path());
  const json expected = Expected();
  const std::vector<int32_t> tokens = model.Encode(expected["prompt"].get<std::string>());
  EXPECT_EQ(json(tokens), expected["prompt_tokens"]);
  Session session(model);
  session.Feed(tokens);
  ExpectSame(session.Logits(), expected["prompt_logits"]);
}

// Of both versions.
TEST_P(GoldenDecoder, GoesOnWithItsSessions) {
  const json expected = Expected();
  for (const char* file : {"text.session", "latest.session"}) {
    SCOPED_TRACE(file);
    Session session = Session::Load(Model::Load(Path()), Path(file));
    EXPECT_EQ(json(session.position()), expected["position"]);
    ExpectSame(session.Logits(), expected["logits"]);
    session.Feed(expected["further_tokens"].get<std::vector<int32_t>>());
    ExpectSame(session.Logits(), expected["further_logits"]);
  }
}

TEST_P(GoldenDecoder, HasItsLatestTokensFromVersion2On) {
  const Model model = Model::Load(Path());
  EXPECT_TRUE(Session::Load(model, Path("text.session")).recent().empty());
  const Session session = Session::Load(model, Path("latest.session"));
  const std::vector<int32_t> tokens = TokensByRule(session.position(), 7, model.vocabulary());
  const size_t count = std::min(tokens.size(), Session::kRecentTokens);
  EXPECT_TRUE(std::ranges::equal(session.recent(), std::span(tokens).last(count)));
}

// Version 2 has what came since, until it is told the whole text.
TEST_P(GoldenDecoder, LearnsItsLatestTokensWhereTheFileHasNone) {
  const Model model = Model::Load(Path());
  Session session = Session::Load(model, Path("text.session"));
  std::vector<int32_t> tokens = TokensByRule(session.position(), 7, model.vocabulary());
  const std::vector<int32_t> further = {3, 1};
  session.Feed(further);
  std::stringstream saved;
  session.Save(saved);
  session = Session::Load(model, saved);
  EXPECT_EQ(session.recent(), further);
  tokens.insert(tokens.end(), further.begin(), further.end());
  EXPECT_EQ(session.Edit(tokens), 0);
  const size_t count = std::min(tokens.size(), Session::kRecentTokens);
  EXPECT_TRUE(std::ranges::equal(session.recent(), std::span(tokens).last(count)));
}

TEST_P(GoldenDecoder, IsDescribedAsItIsLoaded) {
  const Model model = Model::Load(Path());
  const ParametersInfo info =
      DescribeParameters(model.network().config(), SafetensorsFile::Open(Path("model.safetensors")),
                         "model.safetensors");
  EXPECT_EQ(Name(info.type), GetParam() == std::string("gate") ? "float32" : GetParam());
  EXPECT_EQ(info.count, model.parameters());
  EXPECT_EQ(info.bytes, model.weight_bytes());
  EXPECT_EQ(info.fingerprint, model.network().parameters().fingerprint);
}

// By the hash in the file.
TEST_P(GoldenDecoder, KnowsTheTextOfItsSession) {
  const Model model = Model::Load(Path());
  Session session = Session::Load(model, Path("text.session"));
  std::vector<int32_t> tokens = TokensByRule(session.position(), 7, model.vocabulary());
  EXPECT_EQ(session.Edit(tokens), 0);
  tokens.push_back(1);
  EXPECT_EQ(session.Edit(tokens), 1);
  tokens.resize(5);
  EXPECT_EQ(session.Edit(tokens), 5);
}

// What is written now is what was written then. A form that is changed needs a later version, and a
// golden session of it beside these, which stay.
TEST_P(GoldenDecoder, IsSavedToTheBytesOfItsSessions) {
  const std::pair<const char*, uint32_t> files[] = {{"text.session", 1}, {"latest.session", 2}};
  for (const auto& [name, expected] : files) {
    SCOPED_TRACE(name);
    const std::string file = Bytes(Path(name));
    uint32_t version = 0;
    ASSERT_GE(file.size(), 12u);
    std::memcpy(&version, file.data() + 8, sizeof(version));
    EXPECT_EQ(version, expected);
    std::ostringstream saved;
    Session::Load(Model::Load(Path()), Path(name)).Save(saved);
    EXPECT_TRUE(saved.str() == file);
  }
}

class GoldenClassifier : public Golden {};
INSTANTIATE_TEST_SUITE_P(, GoldenClassifier, ::testing::Values("bfloat16"));

TEST_P(GoldenClassifier, GivesItsProbabilities) {
  const Model model = Model::Load(Path());
  const json expected = Expected();
  const std::string text = expected["prompt"];
  EXPECT_EQ(json(model.Encode(text)), expected["prompt_tokens"]);
  EXPECT_EQ(model.labels(), (std::vector<std::string>{"bad", "fair", "good"}));
  std::vector<float> found(3);
  for (const Prediction& one : model.Classify(text)) {
    found[static_cast<size_t>(one.token)] = static_cast<float>(one.log_probability);
  }
  ExpectSame(found, expected["log_probabilities"]);
}

}  // namespace
}  // namespace cosformer::runtime::testing
