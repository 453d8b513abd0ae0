// The runtime against its naive twin: logits and scores of every kind of model, whole, in parts,
// and with weights of every type.
#include "runtime/network.h"

#include <gtest/gtest.h>

#include <limits>

#include "naive_network.h"

namespace cosformer::runtime::testing {
namespace {

using nlohmann::json;

// In a part, and then token by token.
std::vector<float> Streamed(const Model& model, std::span<const int32_t> tokens, size_t part) {
  Session session(model);
  std::vector<float> logits = session.FeedAll(tokens.first(part));
  for (size_t i = part; i < tokens.size(); ++i) {
    const std::vector<float> row = session.FeedAll(tokens.subspan(i, 1));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

std::vector<float> Encoded(const Model& model, std::span<const int32_t> tokens) {
  const std::vector<float> hidden = model.network().Encode(tokens);
  std::vector<float> logits(tokens.size() * static_cast<size_t>(model.vocabulary()));
  model.network().Logits(hidden.data(), static_cast<int64_t>(tokens.size()), logits.data());
  return logits;
}

class EveryNetwork : public ::testing::TestWithParam<json> {};
INSTANTIATE_TEST_SUITE_P(, EveryNetwork, ::testing::ValuesIn(DecoderConfigs()));

TEST_P(EveryNetwork, HasTheLogitsOfItsDefinition) {
  const Model model = SmallModel(GetParam());
  const std::vector<int32_t> tokens = RandomTokens(90, 2);
  const std::vector<float> expected = NaiveNetwork(model).Logits(tokens);
  EXPECT_LE(Difference(Streamed(model, tokens, 61), expected), RoundingOf(GetParam()))
      << GetParam();
  EXPECT_LE(Difference(Encoded(model, tokens), expected), RoundingOf(GetParam())) << GetParam();
}

TEST_P(EveryNetwork, HasThemAsAnEncoderToo) {
  json config = GetParam();
  config["model"] = "encoder";
  if (config.dump().find("-gate") != std::string::npos) {
    const std::string error = ErrorOf([&] { SmallModel(config); });
    EXPECT_NE(error.find("causal"), std::string::npos) << error;
    return;
  }
  const Model model = SmallModel(config);
  const std::vector<int32_t> tokens = RandomTokens(77, 3);
  EXPECT_LE(Difference(Encoded(model, tokens), NaiveNetwork(model).Logits(tokens)),
            RoundingOf(config))
      << config;
}

TEST_P(EveryNetwork, ShowsTheQueriesAndKeysOfItsLayers) {
  const Model model = SmallModel(GetParam());
  const ModelConfig& config = model.network().config();
  const std::vector<int32_t> tokens = RandomTokens(20, 3);
  for (size_t layer = 0; layer < config.attention.size(); ++layer) {
    std::vector<float> q, k;
    for (const NaiveNetwork::Row& row : NaiveNetwork(model).Projected(tokens, layer)) {
      const auto keys = row.begin() + config.heads * config.head_dim;
      q.insert(q.end(), row.begin(), keys);
      k.insert(k.end(), keys, keys + config.kv_heads * config.head_dim);
    }
    const Network::QueriesAndKeys found = model.network().QueriesAndKeysOf(tokens, layer);
    EXPECT_EQ(found.length, 20);
    EXPECT_LE(Difference(found.q, q), RoundingOf(GetParam())) << GetParam() << layer;
    EXPECT_LE(Difference(found.k, k), RoundingOf(GetParam())) << GetParam() << layer;
  }
}

// Rows whose size is a multiple of 2 KiB lie further apart than they are long.
TEST(Networks, OfRowsThatLieApartHaveTheLogitsOfTheirDefinition) {
  const json norm = {{"system", "cosformer"}, {"normaliser", "norm"}};
  for (json config :
       {json{{"attention", "cosformer"}}, json{{"activation", "swiglu"}}, json{{"attention", norm}},
        json{{"positions", "rotary"}}, json{{"attention", "softmax"}, {"norm_position", "post"}},
        json{{"attention", "cosformer-gate"}, {"activation", "relu"}}}) {
    config.update({{"width", 512}, {"hidden", 1024}, {"layers", 1}});
    const Model model = SmallModel(config);
    const std::vector<int32_t> tokens = RandomTokens(40, 2);
    const std::vector<float> expected = NaiveNetwork(model).Logits(tokens);
    EXPECT_LE(Difference(Streamed(model, tokens, 37), expected), RoundingOf(config)) << config;
    EXPECT_LE(Difference(Encoded(model, tokens), expected), RoundingOf(config)) << config;
    Session whole(model), part(model);
    Session* batch[] = {&part, &whole};
    const std::vector<std::span<const int32_t>> texts = {std::span(tokens).first(15), tokens};
    Session::FeedBatch(batch, texts);
    for (size_t i = 0; i < 2; ++i) {
      const auto last = std::span(expected).subspan(texts[i].size() * 29 - 29, 29);
      EXPECT_LE(Difference(batch[i]->Logits(), last), RoundingOf(config)) << config;
    }
  }
}

// Sums of weights of both signs, many of them closer to zero than epsilon lets them be.
TEST(Networks, KeepNormalisersAwayFromZeroOnTheirSideOfIt) {
  for (const char* positions : {"none", "rotary"}) {
    const json config = {
        {"attention", {{"system", "leaky-relu"}, {"slope", 0.9}, {"epsilon", 0.5}}},
        {"positions", positions}};
    const Model model = SmallModel(config);
    const std::vector<int32_t> tokens = RandomTokens(30, 2);
    const std::vector<float> expected = NaiveNetwork(model).Logits(tokens);
    EXPECT_LE(Difference(Streamed(model, tokens, 20), expected), RoundingOf(config)) << positions;
    EXPECT_LE(Difference(Encoded(model, tokens), expected), RoundingOf(config)) << positions;
  }
}

TEST(Networks, GoOnPastTheirHorizonsByTheRuleOfEndlessMode) {
  const json systems[] = {"cosformer",
                          {{"system", "cosformer"}, {"normaliser", "norm"}},
                          {"cosformer", "softmax"},
                          {"linear", "cosformer"}};
  for (const json& system : systems) {
    for (const char* positions : {"none", "rotary", "sinusoidal"}) {
      const json config = {{"max_length", 24}, {"attention", system}, {"positions", positions}};
      const Model model = SmallModel(config);
      const std::vector<int32_t> tokens = RandomTokens(100, 4);
      const std::vector<float> expected = NaiveNetwork(model, true).Logits(tokens);
      for (const size_t part : {size_t{1}, size_t{70}}) {
        EXPECT_LE(Difference(Streamed(model, tokens, part), expected), RoundingOf(config))
            << config;
      }
    }
  }
}

// Texts that are longer than what is computed at once, alone and where one pass ends within the
// second of several.
TEST(Networks, TakeLongTextsInPasses) {
  const json config = {
      {"attention", {"cosformer", "softmax"}}, {"max_length", 600}, {"positions", "sinusoidal"}};
  const Model model = SmallModel(config);
  const size_t pass = Network::kPass;
  const std::vector<int32_t> tokens = RandomTokens(Network::kPass + 70, 5);
  const std::vector<float> expected = NaiveNetwork(model).Logits(tokens);
  const auto last = [&](size_t length) {
    return std::span(expected).subspan(length * 29 - 29, 29);
  };
  // Without checkpoints the whole text goes to the network in one call.
  for (const int checkpoints : {0, 4}) {
    Session session(model, {.checkpoints = checkpoints});
    EXPECT_LE(Difference(session.FeedAll(tokens), expected), RoundingOf(config)) << checkpoints;
    EXPECT_LE(Difference(session.Logits(), last(tokens.size())), RoundingOf(config));
  }
  std::vector<Session> sessions(3, Session(model));
  const std::vector<std::span<const int32_t>> texts = {
      std::span(tokens).first(pass - 110), std::span(tokens), std::span(tokens).first(30)};
  Session* batch[] = {&sessions[0], &sessions[1], &sessions[2]};
  Session::FeedBatch(batch, texts);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LE(Difference(sessions[i].Logits(), last(texts[i].size())), RoundingOf(config)) << i;
  }
}

TEST(Networks, EndWhereTheFirstOfTheirLayersDoes) {
  const auto horizon = [](int64_t tokens) {
    return json{{"system", "cosformer"}, {"horizon", tokens}};
  };
  for (const json& attention : {json{horizon(30), horizon(50)}, json{horizon(50), horizon(30)},
                                json{"softmax", horizon(30)}}) {
    EXPECT_EQ(SmallModel({{"attention", attention}}, 1, WeightType::kFloat32, {.endless = false})
                  .max_tokens(),
              30)
        << attention;
    EXPECT_EQ(SmallModel({{"attention", attention}}).max_tokens(), std::nullopt) << attention;
  }
  // Where positions end no later, they are what has to change.
  const Model learned = SmallModel({{"positions", "learned"}});
  EXPECT_EQ(learned.max_tokens(), 96);
  EXPECT_EQ(learned.network().LimitReason(), std::string("its learned positions end at"));
  const Model shorter = SmallModel({{"positions", "learned"}, {"attention", horizon(95)}});
  EXPECT_EQ(shorter.max_tokens(), 95);
  EXPECT_EQ(shorter.network().LimitReason(), std::string("the horizon of its re-weighting is"));
}

// As a pass leaves them in which memory ran out.
TEST(Networks, RefuseATextOfWhichTheirLayersHaveSeenDifferentParts) {
  const Model model = SmallModel({});
  const Network& network = model.network();
  TextState text = network.NewText();
  const std::vector<int32_t> tokens = RandomTokens(5, 1);
  const Turn turn{&text, tokens};
  network.Advance({&turn, 1});
  text.layers[1] = network.attention()[1].NewState();
  const std::vector<float> last = text.last;
  EXPECT_EQ(ErrorOf([&] {
              network.Advance({&turn, 1});
            }),
            "session: an earlier pass failed half way, and its layers disagree about the text; "
            "begin another session");
  EXPECT_EQ(text.position, 5);
  EXPECT_EQ(text.last, last);
}

TEST(Networks, ClassifyByEveryPool) {
  for (const char* pool : {"mean", "first", "last"}) {
    const Model model = SmallModel({{"model", "encoder"}, {"classes", 3}, {"pool", pool}});
    const NaiveNetwork naive(model);
    const std::vector<int32_t> tokens = RandomTokens(50, 3);
    const Network& network = model.network();
    const std::vector<float> expected = naive.Scores(naive.Hidden(tokens));
    EXPECT_LE(Difference(network.Classify(network.Encode(tokens)), expected), RoundingOf({}))
        << pool;
    // All classes, the likeliest first.
    const std::vector<Prediction> predictions = model.Classify(tokens);
    ASSERT_EQ(predictions.size(), 3u);
    double sum = 0, before = 0;
    for (const Prediction& one : predictions) {
      EXPECT_LE(one.log_probability, before);
      before = one.log_probability;
      sum += std::exp(one.log_probability);
      EXPECT_NEAR(one.log_probability - predictions[0].log_probability,
                  static_cast<double>(expected[static_cast<size_t>(one.token)] -
                                      expected[static_cast<size_t>(predictions[0].token)]),
                  1e-5);
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(Networks, CompareTwoTexts) {
  const Model model = SmallModel({{"model", "two-tower"}, {"classes", 2}});
  const NaiveNetwork naive(model);
  const std::vector<int32_t> first = RandomTokens(50, 3), second = RandomTokens(31, 4);
  const Network& network = model.network();
  EXPECT_LE(Difference(network.Classify(network.Encode(first), network.Encode(second)),
                       naive.Scores(naive.Hidden(first), naive.Hidden(second))),
            RoundingOf({}));
}

TEST(Networks, ClassifyImagesOfPixelsAndPatches) {
  for (const char* kind : {"pixels", "patches"}) {
    for (const char* positions : {"learned", "sinusoidal"}) {
      json input = {{"kind", kind}, {"height", 8}, {"width", 12}, {"channels", 3}};
      if (std::string(kind) == "patches") input["patch"] = 4;
      const ModelConfig config = ParseConfig({{"model", "encoder"},
                                              {"classes", 4},
                                              {"input", input},
                                              {"positions", positions},
                                              {"width", 24},
                                              {"heads", 4},
                                              {"layers", 2},
                                              {"max_length", 96},
                                              {"hidden", 40}},
                                             "test");
      const Model model = ModelBuilder::Build(config, SmallParameters(config, 1));
      const NaiveNetwork naive(model);
      std::vector<uint8_t> pixels;
      for (const int32_t one : RandomTokens(8 * 12 * 3, 6, 256)) {
        pixels.push_back(static_cast<uint8_t>(one));
      }
      EXPECT_LE(Difference(model.network().Classify(model.network().EncodePixels(pixels)),
                           naive.Scores(naive.HiddenOfPixels(pixels))),
                RoundingOf({}))
          << kind << ", " << positions;
    }
  }
}

TEST(Networks, HaveNoBiasInNormsOfRootMeanSquares) {
  const ModelConfig config = SmallConfig({{"norm", "rms"}});
  Parameters parameters;
  size_t biases = 0;
  for (const Slot& slot : SlotsOf(config, parameters)) {
    EXPECT_FALSE(slot.name.ends_with("norm.bias")) << slot.name;
    biases += slot.name.ends_with("_bias") ? 1 : 0;
  }
  EXPECT_EQ(biases, 4u * 2 + 1);
}

class EveryWeightType : public ::testing::TestWithParam<WeightType> {};
INSTANTIATE_TEST_SUITE_P(, EveryWeightType,
                         ::testing::Values(WeightType::kFloat32, WeightType::kBFloat16,
                                           WeightType::kInt8, WeightType::kInt4),
                         [](const auto& type) { return std::string(Name(type.param)); });

// Widths that are no whole groups, and several of them.
constexpr int64_t kWidths[] = {24, 72, 130};

ModelConfig Quantisable(int64_t width) {
  return SmallConfig({{"width", width},
                      {"head_dim", 10},
                      {"hidden", width + 40},
                      {"attention", {"cosformer", "softmax"}},
                      {"positions", "learned"},  // float32, whatever the type
                      {"tied_embeddings", false}});
}

// Kernels use a weight as the file has it: no rounding of inputs, no other scale.
TEST_P(EveryWeightType, GivesTheLogitsOfTheWeightsThatItStandsFor) {
  const std::vector<int32_t> tokens = RandomTokens(40, 7);
  for (const int64_t width : kWidths) {
    const ModelConfig config = Quantisable(width);
    const Model model =
        ModelBuilder::Build(config, Converted(config, SmallParameters(config, 8), GetParam()));
    const std::vector<float> expected = NaiveNetwork(model).Logits(tokens);
    EXPECT_LE(Difference(Streamed(model, tokens, 30), expected), RoundingWith(GetParam())) << width;
  }
}

// A weight moves by at most half a step, and as likely up as down: by step / sqrt(12), as root mean
// square. With weights that are uniform up to the group's largest, of which int8 takes a 127th for
// a step and int4 a 7th, that is so large a part of them, and of a product with them:
//   (step / sqrt(12)) / (largest / sqrt(3)) = step / largest / 2
// A step of bfloat16 is at most 2^-7 of the weight itself. Errors of products that follow on each
// other add up as their squares do.
double ErrorOfAProduct(WeightType type) {
  switch (type) {
    case WeightType::kInt8:
      return 0.5 / 127;
    case WeightType::kInt4:
      return 0.5 / 7;
    case WeightType::kBFloat16:
      return 0x1p-7 / std::sqrt(12.0);
    case WeightType::kFloat32:
      break;
  }
  return 0;
}

TEST_P(EveryWeightType, StaysAsCloseToTheOriginalAsItsStepsAre) {
  const std::vector<int32_t> tokens = RandomTokens(40, 7);
  for (const int64_t width : kWidths) {
    const ModelConfig config = Quantisable(width);
    const Parameters original = SmallParameters(config, 8);
    const Model model = ModelBuilder::Build(config, Converted(config, original, GetParam()));
    const std::vector<float> exact = Encoded(ModelBuilder::Build(config, original), tokens);
    const std::vector<float> found = Encoded(model, tokens);
    double squares = 0, errors = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      squares += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
      const double error = static_cast<double>(found[i]) - static_cast<double>(exact[i]);
      errors += error * error;
    }
    // The embedding; in each layer queries, keys, values, what is made of them, and two products
    // of the feed-forward layer; the output.
    const double products = 1 + 6 * 2 + 1;
    const double expected = ErrorOfAProduct(GetParam()) * std::sqrt(products);
    EXPECT_LE(std::sqrt(errors / squares), expected) << width;
    EXPECT_GE(std::sqrt(errors / squares), expected / 10) << width;
  }
}

}  // namespace
}  // namespace cosformer::runtime::testing
