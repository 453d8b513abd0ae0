// Sessions: however a text is cut, batched, forked, saved or edited, the logits are those of the
// whole text.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "support.h"

namespace cosformer::runtime::testing {
namespace {

using nlohmann::json;

// All logits of a text, computed as a whole: the parallel form of every layer.
std::vector<float> Whole(const Model& model, std::span<const int32_t> tokens) {
  const Network& network = model.network();
  const std::vector<float> hidden = network.Encode(tokens);
  std::vector<float> logits(tokens.size() * static_cast<size_t>(model.vocabulary()));
  network.Logits(hidden.data(), static_cast<int64_t>(tokens.size()), logits.data());
  return logits;
}

std::span<const float> Row(const std::vector<float>& logits, size_t row, size_t vocabulary = 29) {
  return std::span(logits).subspan(row * vocabulary, vocabulary);
}

class EveryDecoder : public ::testing::TestWithParam<nlohmann::json> {};
INSTANTIATE_TEST_SUITE_P(, EveryDecoder, ::testing::ValuesIn(DecoderConfigs()));

TEST_P(EveryDecoder, GivesTheSameLogitsInAnyChunks) {
  const Model model = SmallModel(GetParam());
  const std::vector<int32_t> tokens = RandomTokens(90, 2);
  const std::vector<float> expected = Whole(model, tokens);
  std::mt19937_64 random(3);
  for (int round = 0; round < 5; ++round) {
    Session session(model);
    size_t at = 0;
    while (at < tokens.size()) {
      const size_t most = round == 0 ? 1 : round == 1 ? tokens.size() : random() % 40 + 1;
      const size_t count = std::min(most, tokens.size() - at);
      const std::vector<float> logits = session.FeedAll(std::span(tokens).subspan(at, count));
      ASSERT_LE(Difference(logits, std::span(expected).subspan(at * 29, count * 29)),
                RoundingOf(GetParam()))
          << GetParam() << ", " << count << " tokens at " << at;
      at += count;
      ASSERT_EQ(session.position(), static_cast<int64_t>(at));
      ASSERT_LE(Difference(session.Logits(), Row(expected, at - 1)), RoundingOf(GetParam()));
    }
  }
}

TEST_P(EveryDecoder, GivesTheSameBitsInABatchAsAlone) {
  const Model model = SmallModel(GetParam());
  constexpr size_t kSessions = 7;
  std::vector<Session> alone(kSessions, Session(model)), together = alone;
  std::mt19937_64 random(4);
  for (int step = 0; step < 12; ++step) {
    // Some sessions sit a step out; others bring several tokens.
    std::vector<Session*> batch;
    std::vector<std::vector<int32_t>> texts;
    for (size_t s = 0; s < kSessions; ++s) {
      if (random() % 3 == 0) continue;
      texts.push_back(RandomTokens(random() % 4 == 0 ? 5 : 1, random()));
      alone[s].Feed(texts.back());
      batch.push_back(&together[s]);
    }
    const std::vector<std::span<const int32_t>> parts(texts.begin(), texts.end());
    Session::FeedBatch(batch, parts);
    if (batch.empty()) continue;
    const std::vector<float> logits = Session::LogitsBatch(batch);
    for (size_t b = 0; b < batch.size(); ++b) {
      const auto s = static_cast<size_t>(batch[b] - together.data());
      const std::span<const float> row = Row(logits, b);
      ASSERT_EQ(std::vector<float>(row.begin(), row.end()), alone[s].Logits()) << GetParam();
    }
  }
}

// A pass ends in the midst of them; where a text is cut must not depend on the others.
TEST_P(EveryDecoder, GivesTheSameBitsInALongBatchAsAlone) {
  nlohmann::json config = GetParam();
  config["max_length"] = 2000;
  const Model model = SmallModel(config);
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{100, 100, 100}, {30, 700, 1, 300}, {Network::kPass, 1, 255}}) {
    std::vector<Session> alone(lengths.size(), Session(model)), together = alone;
    std::vector<Session*> batch;
    std::vector<std::vector<int32_t>> texts;
    for (size_t s = 0; s < lengths.size(); ++s) {
      texts.push_back(RandomTokens(lengths[s], s));
      alone[s].Feed(texts[s]);
      batch.push_back(&together[s]);
    }
    Session::FeedBatch(batch, std::vector<std::span<const int32_t>>(texts.begin(), texts.end()));
    for (size_t s = 0; s < lengths.size(); ++s) {
      ASSERT_EQ(together[s].position(), lengths[s]);
      ASSERT_EQ(together[s].Logits(), alone[s].Logits()) << GetParam() << ", text " << s;
    }
  }
}

TEST_P(EveryDecoder, GoesOnAsItWasAfterSavingAndForking) {
  const Model model = SmallModel(GetParam());
  const std::vector<int32_t> tokens = RandomTokens(70, 5);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{33}, size_t{64}}) {
    Session session(model);
    session.Feed(std::span(tokens).first(cut));
    std::stringstream file;
    session.Save(file);
    Session loaded = Session::Load(model, file);
    Session fork = session;
    EXPECT_EQ(loaded.position(), session.position());
    if (cut > 0) {
      EXPECT_EQ(loaded.Logits(), session.Logits());
    }
    const auto rest = std::span(tokens).subspan(cut);
    const std::vector<float> expected = session.FeedAll(rest);
    EXPECT_EQ(loaded.FeedAll(rest), expected) << GetParam();
    EXPECT_EQ(fork.FeedAll(rest), expected);
    // The same bytes again.
    std::stringstream again, first;
    loaded.Save(again);
    session.Save(first);
    EXPECT_EQ(again.str(), first.str());
  }
}

TEST_P(EveryDecoder, DoesNotDependOnTheNumberOfThreads) {
  nlohmann::json config = GetParam();
  config["max_length"] = 700;
  const std::vector<int32_t> tokens = RandomTokens(600, 6);
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    LoadOptions options;
    options.threads = threads;
    Session session(SmallModel(config, 1, WeightType::kFloat32, options));
    session.Feed(std::span(tokens).first(590));
    for (size_t i = 590; i < 600; ++i) session.Feed(tokens[i]);
    if (threads == 1) first = session.Logits();
    EXPECT_EQ(session.Logits(), first) << GetParam() << ", " << threads << " threads";
  }
}

TEST_P(EveryDecoder, ReturnsToTheLastSharedPrefixOfAnEditedText) {
  nlohmann::json config = GetParam();
  config["max_length"] = 2000;
  const Model model = SmallModel(config);
  std::vector<int32_t> tokens = RandomTokens(1800, 7);
  SessionOptions options;
  options.checkpoints = 6;
  Session session(model, options);
  session.Feed(tokens);
  std::mt19937_64 random(8);
  for (int round = 0; round < 6; ++round) {
    const size_t change = round == 0 ? 1799 : random() % tokens.size();
    tokens[change] = (tokens[change] + 1) % 29;
    tokens.resize(std::max<size_t>(change + 1, tokens.size() - random() % 100));
    const int64_t fed = session.Edit(tokens);
    ASSERT_EQ(session.position(), static_cast<int64_t>(tokens.size()));
    ASSERT_GE(fed, static_cast<int64_t>(tokens.size() - change));
    Session fresh(model);
    fresh.Feed(tokens);
    ASSERT_LE(Difference(session.Logits(), fresh.Logits()), RoundingOf(GetParam())) << GetParam();
    // What it now has read is this text.
    ASSERT_EQ(session.Edit(tokens), 0);
  }
}

TEST(SessionEdits, FeedOnlyWhatIsNew) {
  const Model model = SmallModel({{"max_length", 100000}, {"attention", "linear"}});
  std::vector<int32_t> tokens = RandomTokens(50000, 1);
  SessionOptions options;
  options.checkpoints = 8;
  Session session(model, options);
  EXPECT_EQ(session.Edit(tokens), 50000);
  // Nothing changed; something was added.
  EXPECT_EQ(session.Edit(tokens), 0);
  tokens.push_back(3);
  EXPECT_EQ(session.Edit(tokens), 1);
  // A late change costs little, an early one costs what it must.
  std::vector<int32_t> late = tokens;
  late[49000] = (late[49000] + 1) % 29;
  EXPECT_LT(session.Edit(late), 10000);
  late[10] = (late[10] + 1) % 29;
  EXPECT_EQ(session.Edit(late), 50001);
}

TEST(SessionEdits, ToACheckpointFeedNothing) {
  for (const char* attention : {"cosformer", "softmax"}) {
    const Model model = SmallModel({{"max_length", 1000}, {"attention", attention}});
    const std::vector<int32_t> tokens = RandomTokens(Network::kPass + 100, 1);
    const auto prefix = std::span(tokens).first(Network::kPass);
    Session session(model), fresh(model);
    session.Feed(tokens);
    fresh.Feed(prefix);
    EXPECT_EQ(session.Edit(prefix), 0);
    EXPECT_EQ(session.position(), Network::kPass);
    EXPECT_EQ(session.Logits(), fresh.Logits());
    // And from there on as if nothing else had been read.
    EXPECT_EQ(session.Edit(tokens), 100);
    fresh.Feed(std::span(tokens).subspan(Network::kPass));
    EXPECT_EQ(session.Logits(), fresh.Logits());
    // What was reset has no past.
    session.Reset();
    EXPECT_EQ(session.Edit(prefix), Network::kPass);
    EXPECT_EQ(session.Edit(prefix), 0);
  }
}

// The checkpoints of a text that was given up are given up: a cache has the other's keys by then.
TEST(SessionEdits, BackToAFormerTextReadItAgain) {
  const Model model = SmallModel({{"max_length", 1000}, {"attention", {"cosformer", "softmax"}}});
  const std::vector<int32_t> first = RandomTokens(700, 1);
  Session expected(model);
  expected.Feed(first);
  for (const size_t shared : {size_t{0}, size_t{600}}) {
    // Past the last checkpoint of the first text, which lies at its end.
    std::vector<int32_t> second = RandomTokens(900, 2);
    std::copy_n(first.begin(), shared, second.begin());
    const int64_t kept = static_cast<int64_t>(shared) / Network::kPass * Network::kPass;
    for (const bool reset : {false, true}) {
      Session session(model);
      session.Feed(first);
      if (reset) session.Reset();
      EXPECT_EQ(session.Edit(second), reset ? 900 : 900 - kept);
      EXPECT_EQ(session.Edit(first), 700 - kept);
      EXPECT_LE(Difference(session.Logits(), expected.Logits()), RoundingOf({})) << shared;
    }
  }
}

TEST(SessionEdits, KnowWhatWasFedInABatch) {
  const Model model = SmallModel({{"max_length", 1000}});
  Session one(model), other(model);
  Session* both[] = {&one, &other};
  std::vector<int32_t> tokens = RandomTokens(200, 1);
  for (const int32_t token : tokens) Session::FeedBatch(both, std::vector<int32_t>{token, 5});
  EXPECT_EQ(one.Edit(tokens), 0);
  tokens.back() = (tokens.back() + 1) % 29;
  EXPECT_LE(one.Edit(tokens), 64);
  EXPECT_EQ(other.Edit(std::vector<int32_t>(200, 5)), 0);
}

TEST(SessionEdits, GoBackAsFarAfterABatchAsAfterATextAlone) {
  const Model model = SmallModel({{"max_length", 30000}, {"attention", "linear"}});
  const std::vector<int32_t> tokens = RandomTokens(20000, 1), few = RandomTokens(70, 2);
  for (const double part : {0.5, 0.75, 0.9, 0.999}) {
    Session alone(model), one(model), other(model);
    Session* both[] = {&other, &one};
    alone.Feed(tokens);
    const std::span<const int32_t> parts[] = {few, tokens};
    Session::FeedBatch(both, parts);
    std::vector<int32_t> edited = tokens;
    edited[static_cast<size_t>(20000 * part)] ^= 1;
    const int64_t fed = one.Edit(edited);
    EXPECT_EQ(fed, alone.Edit(edited)) << part;
    // With as many checkpoints as a session has unless told, not from the beginning.
    if (part >= 0.75) {
      EXPECT_LT(fed, 20000) << part;
    }
  }
}

TEST(SessionEdits, ThatCannotBeReadLoseNothing) {
  const Model model =
      SmallModel({{"max_length", 300}}, 1, WeightType::kFloat32, {.endless = false});
  Session session(model);
  session.Feed(RandomTokens(200, 1));
  const std::vector<float> before = session.Logits();
  EXPECT_NE(ErrorOf([&] { session.Edit(RandomTokens(301, 2)); }), "");
  EXPECT_NE(ErrorOf([&] { session.Edit(std::vector<int32_t>{1, 29}); }), "");
  EXPECT_EQ(session.position(), 200);
  EXPECT_EQ(session.Logits(), before);
}

TEST(Sessions, OfLinearLayersDoNotGrow) {
  for (const char* attention : {"cosformer", "linear", "relu"}) {
    const Model model = SmallModel({{"max_length", 30000}, {"attention", attention}});
    Session session(model, {.checkpoints = 0});
    session.Feed(RandomTokens(Session::kRecentTokens, 1));
    const size_t bytes = session.bytes();
    std::ostringstream small, large;
    session.Save(small);
    session.Feed(RandomTokens(28000, 2));
    session.Save(large);
    EXPECT_EQ(session.bytes(), bytes);
    EXPECT_EQ(small.str().size(), large.str().size());
  }
}

TEST(Sessions, KeepAsManyCheckpointsAsTheyMay) {
  for (const int checkpoints : {0, 1, 3}) {
    Session session(SmallModel({{"max_length", 10000}}), {.checkpoints = checkpoints});
    for (int i = 0; i < 50; ++i) session.Feed(RandomTokens(100, 1));
    EXPECT_EQ(session.bytes(), static_cast<size_t>(1 + checkpoints) * session.state_bytes());
  }
  for (const int checkpoints : {-1, 1025}) {
    EXPECT_EQ(ErrorOf([&] { Session(SmallModel({}), {.checkpoints = checkpoints}); }),
              "session: checkpoints is " + std::to_string(checkpoints) + "; give 0 to 1024");
  }
}

constexpr LoadOptions kEnding = {.endless = false, .threads = 0};

TEST(Sessions, GoOnPastTheHorizonUnlessLoadedToEndThere) {
  Session session(SmallModel({{"max_length", 64}}));
  session.Feed(RandomTokens(1000, 1));
  for (const float logit : session.Logits()) EXPECT_TRUE(std::isfinite(logit));
  EXPECT_FALSE(session.model().max_tokens().has_value());
  EXPECT_FALSE(session.max_tokens().has_value());

  Session ending(SmallModel({{"max_length", 64}}, 1, WeightType::kFloat32, kEnding));
  ending.Feed(RandomTokens(64, 1));
  EXPECT_EQ(ending.max_tokens(), 64);
  const std::string error = ErrorOf([&] { ending.Feed(1); });
  EXPECT_NE(error.find("the horizon of its re-weighting is 64"), std::string::npos) << error;
  EXPECT_NE(error.find("endless"), std::string::npos) << error;
  EXPECT_EQ(ending.position(), 64);
}

// And hold no more than they would without.
TEST(Sessions, EndWithLearnedPositions) {
  const json learned = {{"positions", "learned"}};
  Session session(SmallModel(learned));
  session.Feed(RandomTokens(96, 1));
  const std::string error = ErrorOf([&] { session.Feed(1); });
  EXPECT_NE(error.find("its learned positions end at 96"), std::string::npos) << error;
  EXPECT_EQ(session.state_bytes(), [&] {
    Session ending(SmallModel(learned, 1, WeightType::kFloat32, kEnding));
    ending.Feed(RandomTokens(96, 1));
    return ending.state_bytes();
  }());
}

std::string Saved(const Session& session) {
  std::ostringstream out;
  session.Save(out);
  return out.str();
}

Session Loaded(const Model& model, const std::string& bytes) {
  std::istringstream in(bytes);
  return Session::Load(model, in);
}

// As programs saved them that ended texts unless told otherwise.
TEST(Sessions, SavedToEndWithTheHorizonDoSoWithAnEndlessModel) {
  for (const json& changes :
       {json::object(), json{{"positions", "rotary"}, {"head_dim", 8}},
        json{{"attention", {"softmax", "cosformer"}}}, json{{"attention", "cosformer-gate"}}}) {
    SCOPED_TRACE(changes);
    json config = {{"max_length", 64}};
    config.update(changes);
    const Model endless = SmallModel(config);
    Session ending(SmallModel(config, 1, WeightType::kFloat32, kEnding));
    const std::vector<int32_t> tokens = RandomTokens(64, 1);
    ending.Feed(std::span(tokens).first(50));
    const std::string file = Saved(ending);

    Session loaded = Loaded(endless, file);
    EXPECT_EQ(loaded.max_tokens(), 64);
    EXPECT_EQ(loaded.Logits(), ending.Logits());
    EXPECT_EQ(Saved(loaded), file);
    // Also beside one that goes on.
    Session other(endless);
    Session* batch[] = {&other, &loaded};
    const std::vector<int32_t> many = RandomTokens(200, 2);
    const std::span<const int32_t> parts[] = {many, std::span(tokens).last(14)};
    Session::FeedBatch(batch, parts);
    ending.Feed(std::span(tokens).last(14));
    EXPECT_EQ(loaded.Logits(), ending.Logits());
    const std::string error = ErrorOf([&] { loaded.Feed(1); });
    EXPECT_NE(error.find("was begun to end with the horizon, 64; begin another session"),
              std::string::npos)
        << error;
    EXPECT_EQ(loaded.position(), 64);
    // Another text is one that begins now.
    Session fork = loaded;
    EXPECT_NE(ErrorOf([&] { fork.Feed(1); }), "");
    fork.Edit(many);
    EXPECT_EQ(fork.position(), 200);
    loaded.Reset();
    EXPECT_FALSE(loaded.max_tokens().has_value());
    EXPECT_EQ(Saved(loaded), Saved(Session(endless)));
  }
}

TEST(Sessions, ThatWentOnPastTheHorizonNeedAnEndlessModel) {
  const json config = {{"max_length", 64}};
  Session session(SmallModel(config));
  const Model ending = SmallModel(config, 1, WeightType::kFloat32, kEnding);
  for (const auto& [tokens, sentence] :
       {std::pair{10,
                  "the file's state is endless, but one that ends with its horizon is "
                  "expected: it is one or the other from its beginning (endless, --no-endless)"},
        std::pair{90,
                  "the session has read 100 tokens, and the horizon of its re-weighting is 64; "
                  "if it went on past the horizon, load the model in endless mode"}}) {
    session.Feed(RandomTokens(tokens, 1));
    const std::string file = Saved(session);
    const std::string error = ErrorOf([&] { Loaded(ending, file); });
    EXPECT_NE(error.find(sentence), std::string::npos) << error;
    EXPECT_EQ(Loaded(session.model(), file).Logits(), session.Logits());
  }
}

TEST(Sessions, RefuseWhatMakesNoSense) {
  const Model model = SmallModel({});
  Session session(model), other(SmallModel({}, 2));
  EXPECT_NE(ErrorOf([&] { session.Feed(29); }).find("token 29 is not in the model's vocabulary"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { session.Feed(-1); }).find("token -1"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { session.Logits(); }).find("nothing was fed"), std::string::npos);
  Session* twice[] = {&session, &session};
  const int32_t tokens[] = {1, 2};
  EXPECT_NE(ErrorOf([&] { Session::FeedBatch(twice, tokens); }).find("twice"), std::string::npos);
  Session* mixed[] = {&session, &other};
  EXPECT_NE(ErrorOf([&] { Session::FeedBatch(mixed, tokens); }).find("one model"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] {
              Session::FeedBatch(twice, std::span(tokens).first(1));
            }).find("a batch of 2 sessions was given tokens for 1"),
            std::string::npos);
  // The second of them: the first has read nothing.
  Session third(model);
  Session* second_wrong[] = {&session, &third};
  const int32_t wrong[] = {1, 29};
  EXPECT_NE(ErrorOf([&] { Session::FeedBatch(second_wrong, wrong); }).find("token 29"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] {
              Session(SmallModel({{"model", "encoder"}}));
            }).find("whole texts"),
            std::string::npos);
  EXPECT_EQ(session.position(), 0);
  session.Feed(1);
  other.Feed(1);
  EXPECT_NE(ErrorOf([&] { Session::LogitsBatch(mixed); }).find("one model"), std::string::npos);
}

TEST(Sessions, OfSeveralThreadsDoNotMeet) {
  const Model model = SmallModel({{"max_length", 1000}});
  constexpr size_t kThreads = 4;
  std::vector<std::vector<float>> logits(kThreads), expected;
  const auto run = [&](size_t i) {
    Session session(model);
    for (size_t step = 0; step < 20; ++step) {
      session.Feed(RandomTokens((i + step) % 3 == 0 ? 40 : 1 + i, i * 100 + step));
      logits[i] = session.Logits();
    }
  };
  for (size_t i = 0; i < kThreads; ++i) run(i);
  expected = logits;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back(run, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(logits, expected);
}

TEST(Sessions, ReadNothingOfATextThatTheyCannotReadToItsEnd) {
  Session session(SmallModel({{"max_length", 1000}}));
  std::vector<int32_t> tokens = RandomTokens(2 * Network::kPass - 100, 1);
  tokens.back() = 29;
  EXPECT_NE(ErrorOf([&] { session.Feed(tokens); }), "");
  EXPECT_EQ(session.position(), 0);
}

TEST(Sessions, OfAnotherModelAreRefused) {
  Session session(SmallModel({}));
  session.Feed(RandomTokens(5, 1));
  std::stringstream file;
  session.Save(file);
  EXPECT_NE(ErrorOf([&] { Session::Load(SmallModel({}, 2), file); }).find("another model"),
            std::string::npos);
}

TEST(SessionFiles, ThatAreCutOrAlteredAreRefused) {
  for (const char* attention : {"cosformer", "softmax"}) {
    const Model model = SmallModel({{"attention", attention}});
    Session session(model);
    session.Feed(RandomTokens(5, 1));
    std::ostringstream out;
    session.Save(out);
    const std::string whole = out.str();
    const auto load = [&](const std::string& bytes) {
      return ErrorOf([&] {
        std::istringstream in(bytes);
        Session::Load(model, in);
      });
    };
    EXPECT_EQ(load(whole), "");
    for (size_t size = 0; size < whole.size(); size += size < 200 ? 1 : 97) {
      EXPECT_NE(load(whole.substr(0, size)), "") << size;
    }
    for (size_t at = 0; at < whole.size(); at += at < 200 ? 1 : 53) {
      std::string altered = whole;
      altered[at] = static_cast<char>(altered[at] ^ 0x10);
      EXPECT_NE(load(altered), "") << at;
    }
    EXPECT_NE(load(whole + "x"), "");
  }
}

// Whatever a text went through, its latest tokens are known.
TEST(Sessions, RememberTheirLatestTokens) {
  const Model model = SmallModel({{"max_length", 4096}});
  constexpr auto kMost = static_cast<int64_t>(Session::kRecentTokens);
  const std::vector<int32_t> tokens = RandomTokens(kMost + 500, 9);
  const auto expect_latest = [&](const Session& session, size_t end) {
    const auto text = std::span(tokens).first(end);
    const auto latest = text.last(std::min(end, Session::kRecentTokens));
    EXPECT_TRUE(std::ranges::equal(session.recent(), latest)) << end;
  };
  Session session(model);
  expect_latest(session, 0);
  size_t at = 0;
  for (const size_t part : {1, 2, 397, 600, 24, 1, 475}) {
    session.Feed(std::span(tokens).subspan(at, part));
    at += part;
    expect_latest(session, at);
    std::stringstream file;
    session.Save(file);
    expect_latest(Session::Load(model, file), at);
    expect_latest(Session(session), at);
  }
  Session at_once(model);
  at_once.Feed(tokens);
  expect_latest(at_once, tokens.size());
  for (const size_t kept : {tokens.size() - 3, size_t{700}, size_t{2}}) {
    at_once.Edit(std::span(tokens).first(kept));
    expect_latest(at_once, kept);
  }
  // What is refused leaves them; what they are may be fed again.
  const std::vector<int32_t> before = at_once.recent();
  EXPECT_NE(ErrorOf([&] { at_once.Feed(29); }), "");
  EXPECT_NE(ErrorOf([&] { at_once.Edit(std::vector<int32_t>{1, 29}); }), "");
  EXPECT_EQ(at_once.recent(), before);
  at_once.Feed(at_once.recent());
  EXPECT_EQ(at_once.recent(), (std::vector{tokens[0], tokens[1], tokens[0], tokens[1]}));
  at_once.Reset();
  expect_latest(at_once, 0);
  at_once.FeedAll(std::span(tokens).first(600));
  expect_latest(at_once, 600);
  Session other(model);
  Session* both[] = {&at_once, &other};
  const std::span<const int32_t> parts[] = {std::span(tokens).subspan(600, 700),
                                            std::span(tokens).first(3)};
  Session::FeedBatch(both, parts);
  expect_latest(at_once, 1300);
  expect_latest(other, 3);
}

}  // namespace
}  // namespace cosformer::runtime::testing
