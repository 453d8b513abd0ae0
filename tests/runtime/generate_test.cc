// Generation: the same text whatever the batch, ends where it must, and a beam search that finds
// what going through all texts finds.
#include "cosformer/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "support.h"

namespace cosformer::runtime::testing {
namespace {

// A model of bytes, so that there is text.
Model ByteModel(const nlohmann::json& changes = nlohmann::json::object(), uint64_t seed = 1,
                const LoadOptions& options = {}) {
  nlohmann::json config = {{"vocabulary", Tokenizer::Bytes().size()}};
  if (!changes.empty()) config.update(changes);
  const ModelConfig parsed = SmallConfig(config);
  return ModelBuilder::Build(parsed, SmallParameters(parsed, seed),
                             std::make_shared<Tokenizer>(Tokenizer::Bytes()), {}, options);
}

Session Prompted(const Model& model, const std::string& prompt) {
  Session session(model);
  session.Feed(model.Encode(prompt));
  return session;
}

TEST(Generate, GivesTheSameTextAloneAndInABatch) {
  const Model model = ByteModel();
  std::vector<GenerateOptions> options(6);
  std::vector<Session> sessions;
  for (size_t i = 0; i < options.size(); ++i) {
    options[i].sampling.seed = i;
    options[i].sampling.temperature = i == 0 ? 0 : 0.7;
    options[i].sampling.top_k = i % 2 == 0 ? 20 : 0;
    options[i].sampling.repetition_penalty = i < 3 ? 1.7 : 1;  // for the prompt, too
    options[i].max_tokens = 5 + static_cast<int64_t>(i) * 7;
    options[i].stop_at_end = false;
    sessions.push_back(Prompted(model, "prompt " + std::to_string(i)));
  }
  std::vector<Generated> alone;
  for (size_t i = 0; i < options.size(); ++i) {
    Session session = sessions[i];
    alone.push_back(Generate(session, options[i]));
    EXPECT_EQ(alone.back().reason, StopReason::kLength);
    EXPECT_EQ(static_cast<int64_t>(alone.back().tokens.size()), options[i].max_tokens);
    EXPECT_EQ(session.position(), sessions[i].position() + options[i].max_tokens - 1);
  }
  std::vector<Session*> batch;
  for (Session& session : sessions) batch.push_back(&session);
  const std::vector<Generated> together = GenerateBatch(batch, options);
  for (size_t i = 0; i < options.size(); ++i) {
    EXPECT_EQ(together[i].tokens, alone[i].tokens) << i;
    Session told = Prompted(model, "prompt " + std::to_string(i));
    options[i].before = told.recent();
    EXPECT_EQ(Generate(told, options[i]).tokens, alone[i].tokens) << i;
    EXPECT_EQ(together[i].text, alone[i].text);
    EXPECT_EQ(together[i].log_probabilities, alone[i].log_probabilities);
  }
}

// Words have blanks between them, also between what is generated and what it goes on after.
TEST(Generate, BeginsWithABlankWithinALine) {
  auto words = std::make_shared<Tokenizer>(Tokenizer::Words({"the", "cat", "sees", "moon"}));
  const ModelConfig config = SmallConfig({{"vocabulary", words->size()}});
  const Model model = ModelBuilder::Build(config, SmallParameters(config, 1), words);
  const int32_t end = words->special().end;
  GenerateOptions options;
  options.max_tokens = 1;
  const int32_t moon = words->Encode("moon")[0];
  options.sampling.logit_bias = {{moon, 1000.0f}};
  BeamOptions beams;
  beams.beams = words->size();  // every token
  beams.max_tokens = 1;
  for (const bool new_line : {false, true}) {
    std::vector<int32_t> tokens = words->Encode("the cat");
    if (new_line) tokens.push_back(end);
    for (const bool told : {false, true}) {
      options.before = beams.before = told ? tokens : std::vector<int32_t>();
      Session session(model);
      session.Feed(tokens);
      for (const Beam& beam : BeamSearch(session, beams)) {
        if (beam.tokens == std::vector<int32_t>{moon}) {
          EXPECT_EQ(beam.text, new_line ? "moon" : " moon");
        }
      }
      EXPECT_EQ(Generate(session, options).text, new_line ? "moon" : " moon");
    }
  }
}

// The penalty is for tokens that only the session knows: of a prompt, and of what was written
// before.
TEST(Generate, GoesOnInASavedSessionAsIfItHadNeverStopped) {
  const Model model = ByteModel();
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.sampling.repetition_penalty = 1.7;
  options.stop_at_end = false;
  options.max_tokens = 40;
  Session whole = Prompted(model, "once upon a time");
  const std::vector<int32_t> expected = Generate(whole, options).tokens;

  Session session = Prompted(model, "once upon a time");
  std::vector<int32_t> found;
  for (const int64_t part : {1, 14, 25}) {
    options.max_tokens = part;
    const Generated some = Generate(session, options);
    found.insert(found.end(), some.tokens.begin(), some.tokens.end());
    session.Feed(found.back());
    std::stringstream file;
    session.Save(file);
    session = Session::Load(model, file);
  }
  EXPECT_EQ(found, expected);
  options.sampling.repetition_penalty = 1;
  options.max_tokens = 40;
  Session unpunished = Prompted(model, "once upon a time");
  EXPECT_NE(Generate(unpunished, options).tokens, expected) << "the penalty changes nothing here";
}

TEST(Generate, ShowsAllOfItsTextPieceByPiece) {
  const Model model = ByteModel();
  Session session = Prompted(model, "a");
  GenerateOptions options;
  options.max_tokens = 60;
  options.likeliest = 3;
  std::string shown;
  size_t count = 0;
  const Generated result = Generate(session, options, [&](const GeneratedToken& token) {
    shown += token.text;
    ++count;
    EXPECT_EQ(token.likeliest.size(), 3u);
    EXPECT_GE(token.likeliest[0].log_probability, token.log_probability);
    return true;
  });
  EXPECT_EQ(shown, result.text);
  EXPECT_EQ(count, result.tokens.size());
}

TEST(Generate, ShowsWhatItHeldBackWhenTheModelsLongestTextEndsIt) {
  const Model model = ByteModel({{"max_length", 8}}, 1, {.endless = false});
  Session session = Prompted(model, "a");
  GenerateOptions options;
  options.sampling.logit_bias = {{'x', 1e9f}};
  options.stop = {std::string(20, 'x')};  // it might yet come: nothing can be shown
  std::string shown;
  const Generated result = Generate(session, options, [&](const GeneratedToken& token) {
    shown += token.text;
    return true;
  });
  EXPECT_EQ(result.reason, StopReason::kLimit);
  EXPECT_EQ(result.text, "xxxxxxxx");
  EXPECT_EQ(shown, result.text);
}

TEST(Generate, EndsAtTheEndTokenAtStopStringsAtTheLimitAndWhenTold) {
  const Model model = ByteModel();
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = 40;
  options.stop_at_end = false;

  Session session = Prompted(model, "a");
  const Generated free = Generate(session, options);
  ASSERT_FALSE(free.tokens.empty());

  // The end token, forced by a bias.
  GenerateOptions ending = options;
  ending.stop_at_end = true;
  ending.sampling.logit_bias = {{model.end_token(), 1000.0f}};
  session = Prompted(model, "a");
  const Generated ended = Generate(session, ending);
  EXPECT_EQ(ended.reason, StopReason::kEnd);
  EXPECT_EQ(ended.tokens, std::vector<int32_t>{model.end_token()});
  EXPECT_EQ(ended.text, "");

  // A text of one letter, forced likewise.
  GenerateOptions letter = options;
  letter.sampling.logit_bias = {{'x', 1000.0f}};
  letter.stop = {"xxxx"};
  session = Prompted(model, "a");
  const Generated stopped = Generate(session, letter);
  EXPECT_EQ(stopped.reason, StopReason::kStopString);
  EXPECT_EQ(stopped.tokens.size(), 4u);
  EXPECT_EQ(stopped.text, "");

  // The horizon.
  options.max_tokens = 1000;
  session = Prompted(ByteModel({}, 1, {.endless = false}), "a");
  const Generated limited = Generate(session, options);
  EXPECT_EQ(limited.reason, StopReason::kLimit);
  EXPECT_EQ(session.position(), 96);
  EXPECT_EQ(limited.tokens.size(), 96u);  // the last one is said, and not read

  session = Prompted(model, "a");
  int seen = 0;
  const Generated cancelled =
      Generate(session, options, [&](const GeneratedToken&) { return ++seen < 3; });
  EXPECT_EQ(cancelled.reason, StopReason::kCancelled);
  EXPECT_EQ(cancelled.tokens.size(), 3u);
}

TEST(Generate, RefusesOptionsThatMakeNoSense) {
  const Model model = ByteModel();
  const auto error = [&](const std::function<void(GenerateOptions&)>& change) {
    GenerateOptions options;
    change(options);
    return ErrorOf([&] { Generation(model, options); });
  };
  EXPECT_NE(error([](auto& o) { o.max_tokens = -1; }).find("max_tokens is -1"), std::string::npos);
  EXPECT_NE(error([](auto& o) { o.likeliest = -1; }).find("likeliest is -1"), std::string::npos);
  EXPECT_NE(error([](auto& o) { o.stop = {""}; }), "");
  EXPECT_NE(error([](auto& o) { o.sampling.top_p = 2; }), "");
  GenerateOptions options;
  options.stop = {"x"};
  EXPECT_NE(ErrorOf([&] { Generation(SmallModel({}), options); }).find("without a tokenizer"),
            std::string::npos);
}

TEST(Generate, WritesUntilItIsStoppedWithoutANumberOfTokens) {
  GenerateOptions options;
  options.max_tokens = 0;
  options.stop_at_end = false;
  const Model model = ByteModel(), ending = ByteModel({}, 1, {.endless = false});
  Session session = Prompted(model, "a");
  const std::string refused = "max_tokens is 0, and nothing else would end the text";
  EXPECT_NE(ErrorOf([&] { Generate(session, options); }).find(refused), std::string::npos);
  Session* batch[] = {&session};
  EXPECT_NE(ErrorOf([&] { GenerateBatch(batch, std::span(&options, 1)); }).find(refused),
            std::string::npos);
  EXPECT_EQ(session.position(), 1);

  // By who has seen enough, past the default and the horizon.
  int seen = 0;
  Generated text = Generate(session, options, [&](const GeneratedToken&) { return ++seen < 600; });
  EXPECT_EQ(text.reason, StopReason::kCancelled);
  EXPECT_EQ(text.tokens.size(), 600u);
  // By the end of what can be read.
  session = Prompted(ending, "a");
  EXPECT_EQ(Generate(session, options).reason, StopReason::kLimit);
  // By a stop string, and by the token that ends a text.
  options.sampling.logit_bias = {{'x', 1000.0f}};
  options.stop = {"xxxx"};
  session = Prompted(model, "a");
  EXPECT_EQ(Generate(session, options).reason, StopReason::kStopString);
  options.stop.clear();
  options.sampling.logit_bias = {{model.end_token(), 1000.0f}};
  options.stop_at_end = true;
  session = Prompted(model, "a");
  EXPECT_EQ(Generate(session, options).reason, StopReason::kEnd);
}

TEST(Generate, TellsOfEveryTokenInABatchAndStopsOneText) {
  const Model model = ByteModel();
  std::vector<GenerateOptions> options(3);
  std::vector<Session> sessions;
  std::vector<Session*> batch;
  for (size_t i = 0; i < options.size(); ++i) {
    options[i].sampling.seed = i;
    options[i].max_tokens = i == 1 ? 0 : 30;
    options[i].stop_at_end = false;
    options[i].stop = {"never"};
    sessions.push_back(Prompted(model, "prompt"));
  }
  for (Session& session : sessions) batch.push_back(&session);
  std::vector<int> seen(3);
  std::vector<std::string> shown(3);
  const std::vector<Generated> together =
      GenerateBatch(batch, options, [&](size_t i, const GeneratedToken& token) {
        shown[i] += token.text;
        return ++seen[i] < 40;
      });
  EXPECT_EQ(seen, (std::vector{30, 40, 30}));
  EXPECT_EQ(together[1].reason, StopReason::kCancelled);
  EXPECT_EQ(together[2].reason, StopReason::kLength);
  EXPECT_EQ(shown[2], together[2].text);
  EXPECT_TRUE(together[1].text.starts_with(shown[1]));
}

// All texts of three tokens, by brute force.
std::vector<Beam> AllTexts(const Session& session, int64_t vocabulary) {
  std::vector<Beam> beams;
  const auto log_probabilities = [&](const Session& at) {
    const std::vector<float> logits = at.Logits();
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    std::vector<double> result;
    for (const float x : logits) result.push_back(static_cast<double>(x) - std::log(sum));
    return result;
  };
  const std::vector<double> first = log_probabilities(session);
  for (int32_t a = 0; a < vocabulary; ++a) {
    Session second_session = session;
    second_session.Feed(a);
    const std::vector<double> second = log_probabilities(second_session);
    for (int32_t b = 0; b < vocabulary; ++b) {
      Session third_session = second_session;
      third_session.Feed(b);
      const std::vector<double> third = log_probabilities(third_session);
      for (int32_t c = 0; c < vocabulary; ++c) {
        Beam beam;
        beam.tokens = {a, b, c};
        beam.log_probability = first[static_cast<size_t>(a)] + second[static_cast<size_t>(b)] +
                               third[static_cast<size_t>(c)];
        beams.push_back(beam);
      }
    }
  }
  std::sort(beams.begin(), beams.end(),
            [](const Beam& a, const Beam& b) { return a.log_probability > b.log_probability; });
  return beams;
}

TEST(BeamSearch, WithAsManyBeamsAsTextsFindsTheBestOfAll) {
  const Model model = SmallModel({{"vocabulary", 5}});
  Session session(model);
  session.Feed(RandomTokens(4, 1, 5));
  const std::vector<Beam> all = AllTexts(session, 5);
  BeamOptions options;
  options.beams = 25;
  options.max_tokens = 3;
  const std::vector<Beam> found = BeamSearch(session, options);
  ASSERT_EQ(found.size(), 25u);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tokens, all[i].tokens) << i;
    EXPECT_NEAR(found[i].log_probability, all[i].log_probability, 1e-4);
    EXPECT_NEAR(found[i].score, found[i].log_probability / 3, 1e-9);
  }
  EXPECT_EQ(session.position(), 4);
}

TEST(BeamSearch, WithOneBeamIsGreedy) {
  const Model model = ByteModel();
  Session session = Prompted(model, "abc");
  BeamOptions beams;
  beams.beams = 1;
  beams.max_tokens = 20;
  beams.stop_at_end = false;
  GenerateOptions greedy;
  greedy.sampling.temperature = 0;
  greedy.max_tokens = 20;
  greedy.stop_at_end = false;
  const std::vector<Beam> found = BeamSearch(session, beams);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tokens, Generate(session, greedy).tokens);
}

TEST(BeamSearch, EndsAtTheLimitAndRefusesNonsense) {
  const Model model = ByteModel({}, 1, {.endless = false});
  Session session = Prompted(model, std::string(94, 'a'));
  BeamOptions options;
  options.stop_at_end = false;
  for (const Beam& beam : BeamSearch(session, options)) EXPECT_EQ(beam.tokens.size(), 3u);
  options.beams = 0;
  EXPECT_NE(ErrorOf([&] { BeamSearch(session, options); }).find("beams is 0"), std::string::npos);
  options.beams = 2;
  options.max_tokens = 0;
  EXPECT_NE(ErrorOf([&] { BeamSearch(session, options); }).find("max_tokens"), std::string::npos);
}

}  // namespace
}  // namespace cosformer::runtime::testing
