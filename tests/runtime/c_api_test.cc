// The C API gives what the C++ API gives, to the bit, into the caller's own arrays.
#include <cstring>

#include "runtime/c_api_support.h"
#include "tests/runtime/c_api.h"

namespace cosformer::runtime::testing {
namespace {

constexpr size_t kBytes = 260;  // tokens of the byte tokenizer

TEST_F(CApi, TellsTheFactsOfAModel) {
  const Model cpp = Cpp();
  cosformer_facts facts;
  std::memset(&facts, 0xFF, sizeof(facts));
  ASSERT_OK(cosformer_model_facts(model_.get(), &facts, sizeof(facts)));
  EXPECT_EQ(facts.use, COSFORMER_LANGUAGE_MODEL);
  EXPECT_EQ(facts.has_tokenizer, 1);
  EXPECT_EQ(facts.end_token, cpp.end_token());
  EXPECT_EQ(facts.vocabulary, static_cast<int64_t>(kBytes));
  EXPECT_EQ(facts.parameters, cpp.parameters());
  EXPECT_EQ(facts.weight_bytes, cpp.weight_bytes());
  EXPECT_EQ(facts.max_tokens, -1);
  EXPECT_EQ(facts.classes, 0);
  EXPECT_STREQ(cosformer_version(), "0.1.0");
}

TEST_F(CApi, LoadsWithOptions) {
  cosformer_load_options options;
  ASSERT_OK(cosformer_load_options_init(&options, sizeof(options)));
  EXPECT_EQ(options.endless, 1);
  EXPECT_EQ(options.threads, 0);
  options.endless = 0;
  options.threads = 1;
  cosformer_model* model = nullptr;
  ASSERT_OK(cosformer_model_load(directory_.c_str(), &options, &model));
  const ModelHandle ending(model);
  cosformer_facts facts;
  ASSERT_OK(cosformer_model_facts(ending.get(), &facts, sizeof(facts)));
  EXPECT_EQ(facts.max_tokens, 96);
  // The logits are the same with any number of threads: only within can it be seen.
  EXPECT_EQ(ending->model.network().threads(), 1);
}

TEST_F(CApi, ASessionKeepsToTheEndThatItWasSavedWith) {
  const auto longest = [](const SessionHandle& session) {
    int64_t most = 0;
    EXPECT_OK(cosformer_session_max_tokens(session.get(), &most));
    return most;
  };
  cosformer_load_options options;
  ASSERT_OK(cosformer_load_options_init(&options, sizeof(options)));
  options.endless = 0;
  cosformer_model* model = nullptr;
  ASSERT_OK(cosformer_model_load(directory_.c_str(), &options, &model));
  const ModelHandle ending(model);
  const SessionHandle saved = Prompted(ending, RandomTokens(40, 1));
  EXPECT_EQ(longest(saved), 96);
  ASSERT_OK(cosformer_session_save(saved.get(), Path("session").c_str()));
  cosformer_session* handle = nullptr;
  ASSERT_OK(cosformer_session_load(model_.get(), Path("session").c_str(), nullptr, &handle));
  const SessionHandle loaded(handle);
  EXPECT_EQ(longest(loaded), 96);
  EXPECT_EQ(LogitsOf(loaded), LogitsOf(saved));
  EXPECT_EQ(longest(Prompted(model_, RandomTokens(200, 1))), -1);
}

TEST_F(CApi, TextsAreUtf8ExceptWhereTokensAreBytes) {
  const std::string text = "two \xff words";
  size_t count = 0;
  EXPECT_OK(cosformer_encode(model_.get(), text.data(), text.size(), nullptr, 0, &count));
  EXPECT_EQ(count, text.size());
  const ModelHandle words =
      Loaded(WriteModel(Path("words"), {}, Tokenizer::Words({"two", "words"})));
  EXPECT_FAILS(cosformer_encode(words.get(), text.data(), text.size(), nullptr, 0, &count),
               COSFORMER_INVALID, "the text is no UTF-8: byte 4 (0xff) begins no whole character");
}

TEST_F(CApi, EncodesAndDecodesIntoTheCallersArrays) {
  const std::string text("caf\xC3\xA9\0!", 7);
  const std::vector<int32_t> expected = Cpp().Encode(text);
  size_t count = 99;
  ASSERT_OK(cosformer_encode(model_.get(), text.data(), text.size(), nullptr, 0, &count));
  ASSERT_EQ(count, expected.size());
  // Room for more: what is behind the result stays as it is.
  std::vector<int32_t> tokens(count + 2, -7);
  count = 99;
  ASSERT_OK(cosformer_encode(model_.get(), text.data(), text.size(), tokens.data(), tokens.size(),
                             &count));
  ASSERT_EQ(count, expected.size());
  EXPECT_EQ(std::vector<int32_t>(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count)),
            expected);
  EXPECT_EQ(tokens[count], -7);

  size_t size = 0;
  ASSERT_OK(cosformer_decode(model_.get(), tokens.data(), count, nullptr, 0, &size));
  ASSERT_EQ(size, text.size());
  std::string decoded(size, '?');  // exactly as large as it must be
  ASSERT_OK(cosformer_decode(model_.get(), tokens.data(), count, decoded.data(), size, &size));
  EXPECT_EQ(decoded, text);

  std::string small(size - 1, '?');
  EXPECT_FAILS(
      cosformer_decode(model_.get(), tokens.data(), count, small.data(), small.size(), &size),
      COSFORMER_BUFFER_TOO_SMALL, "cosformer_decode: the result has 7 elements");
  EXPECT_EQ(size, text.size());
  EXPECT_EQ(small, std::string(size - 1, '?'));
}

TEST_F(CApi, OfNothingGivesNothing) {
  size_t count = 99;
  EXPECT_OK(cosformer_encode(model_.get(), nullptr, 0, nullptr, 0, &count));
  EXPECT_EQ(count, 0u);
  count = 99;
  EXPECT_OK(cosformer_decode(model_.get(), nullptr, 0, nullptr, 0, &count));
  EXPECT_EQ(count, 0u);
  const SessionHandle session = NewSession(model_);
  EXPECT_OK(cosformer_session_feed(session.get(), nullptr, 0));
  count = 99;
  EXPECT_OK(cosformer_session_feed_all(session.get(), nullptr, 0, nullptr, 0, &count));
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(PositionOf(session), 0);
  EXPECT_OK(cosformer_feed_batch(nullptr, 0, nullptr, nullptr));
  count = 99;
  EXPECT_OK(cosformer_logits_batch(nullptr, 0, nullptr, 0, &count));
  EXPECT_EQ(count, 0u);
  cosformer_model_free(nullptr);
  cosformer_session_free(nullptr);
  cosformer_sampler_free(nullptr);
}

TEST_F(CApi, GivesTheLogitsOfTheCppApi) {
  const std::vector<int32_t> tokens = RandomTokens(40, 1, kBytes);
  Session cpp(Cpp());
  const std::vector<float> expected = cpp.FeedAll(tokens);

  const SessionHandle session = NewSession(model_);
  size_t count = 0;
  ASSERT_OK(
      cosformer_session_feed_all(session.get(), tokens.data(), tokens.size(), nullptr, 0, &count));
  ASSERT_EQ(count, tokens.size() * kBytes);
  EXPECT_EQ(PositionOf(session), 0) << "a question feeds nothing";
  std::vector<float> logits(count, NAN);
  EXPECT_FAILS(cosformer_session_feed_all(session.get(), tokens.data(), tokens.size(),
                                          logits.data(), count - 1, &count),
               COSFORMER_BUFFER_TOO_SMALL, "give a larger one");
  EXPECT_EQ(PositionOf(session), 0) << "nor does one that fails";
  ASSERT_OK(cosformer_session_feed_all(session.get(), tokens.data(), tokens.size(), logits.data(),
                                       logits.size(), &count));
  EXPECT_EQ(logits, expected);
  EXPECT_EQ(PositionOf(session), 40);
  EXPECT_EQ(LogitsOf(session), cpp.Logits());

  const SessionHandle again = Prompted(model_, tokens);
  EXPECT_EQ(LogitsOf(again), cpp.Logits());
  size_t bytes = 0;
  ASSERT_OK(cosformer_session_bytes(again.get(), &bytes));
  EXPECT_EQ(bytes, cpp.bytes());
}

TEST_F(CApi, FeedsBatchesAsSessionsAlone) {
  std::vector<SessionHandle> sessions;
  std::vector<std::vector<int32_t>> texts;
  std::vector<cosformer_session*> handles;
  std::vector<const int32_t*> tokens;
  std::vector<size_t> counts;
  std::vector<float> expected;
  const Model cpp = Cpp();
  for (size_t i = 0; i < 5; ++i) {
    texts.push_back(RandomTokens(static_cast<int64_t>(i * i + 1), i, kBytes));
    sessions.push_back(NewSession(model_));
    handles.push_back(sessions.back().get());
    tokens.push_back(texts.back().data());
    counts.push_back(texts.back().size());
    Session alone(cpp);
    alone.Feed(texts.back());
    const std::vector<float> logits = alone.Logits();
    expected.insert(expected.end(), logits.begin(), logits.end());
  }
  size_t count = 0;
  ASSERT_OK(cosformer_logits_batch(handles.data(), handles.size(), nullptr, 0, &count));
  EXPECT_EQ(count, expected.size()) << "known before anything is fed";
  ASSERT_OK(cosformer_feed_batch(handles.data(), handles.size(), tokens.data(), counts.data()));
  count = 0;
  ASSERT_OK(cosformer_logits_batch(handles.data(), handles.size(), nullptr, 0, &count));
  ASSERT_EQ(count, expected.size());
  std::vector<float> logits(count, NAN);
  ASSERT_OK(
      cosformer_logits_batch(handles.data(), handles.size(), logits.data(), logits.size(), &count));
  EXPECT_EQ(logits, expected);
  EXPECT_FAILS(
      cosformer_logits_batch(handles.data(), handles.size(), logits.data(), count - 1, &count),
      COSFORMER_BUFFER_TOO_SMALL, "cosformer_logits_batch: the result has 1300 elements");
}

TEST_F(CApi, ForksGoTheirOwnWays) {
  const std::vector<int32_t> shared = RandomTokens(10, 1, kBytes), own = RandomTokens(5, 2, kBytes);
  const SessionHandle session = Prompted(model_, shared);
  const std::vector<float> before = LogitsOf(session);
  cosformer_session* handle = nullptr;
  ASSERT_OK(cosformer_session_fork(session.get(), &handle));
  SessionHandle fork(handle);
  EXPECT_EQ(LogitsOf(fork), before);
  ASSERT_OK(cosformer_session_feed(fork.get(), own.data(), own.size()));
  EXPECT_EQ(PositionOf(fork), 15);
  EXPECT_EQ(PositionOf(session), 10);
  EXPECT_EQ(LogitsOf(session), before);
  Session cpp(Cpp());
  cpp.Feed(shared);
  cpp.Feed(own);
  EXPECT_EQ(LogitsOf(fork), cpp.Logits());
  fork.reset();
  EXPECT_EQ(LogitsOf(session), before);
}

TEST_F(CApi, SessionsOutliveTheHandleOfTheirModel) {
  const std::vector<int32_t> tokens = RandomTokens(10, 1, kBytes);
  const SessionHandle session = Prompted(model_, tokens);
  cosformer_sampler* handle = nullptr;
  ASSERT_OK(cosformer_sampler_new(model_.get(), nullptr, &handle));
  const SamplerHandle sampler(handle);
  const std::vector<float> before = LogitsOf(session);
  model_.reset();
  EXPECT_EQ(LogitsOf(session), before);
  ASSERT_OK(cosformer_session_feed(session.get(), tokens.data(), tokens.size()));
  EXPECT_EQ(PositionOf(session), 20);
  cosformer_prediction chosen;
  EXPECT_OK(cosformer_sampler_next(sampler.get(), before.data(), before.size(), &chosen));
}

TEST_F(CApi, EditsAndResetsSessions) {
  const std::string directory = WriteModel(Path("long"), {{"max_length", 1000}});
  const ModelHandle model = Loaded(directory);
  cosformer_session_options options;
  ASSERT_OK(cosformer_session_options_init(&options, sizeof(options)));
  EXPECT_EQ(options.checkpoints, SessionOptions().checkpoints);
  std::vector<int32_t> tokens = RandomTokens(600, 1, kBytes);
  std::vector<int32_t> edited = tokens;
  edited[590] = (edited[590] + 1) % 256;
  for (const int checkpoints : {0, 8}) {
    options.checkpoints = checkpoints;
    cosformer_session* handle = nullptr;
    ASSERT_OK(cosformer_session_new(model.get(), &options, &handle));
    const SessionHandle session(handle);
    Session cpp(Model::Load(directory), {.checkpoints = checkpoints});
    int64_t fed = -1;
    ASSERT_OK(cosformer_session_edit(session.get(), tokens.data(), tokens.size(), &fed));
    EXPECT_EQ(fed, cpp.Edit(tokens));
    ASSERT_OK(cosformer_session_edit(session.get(), edited.data(), edited.size(), &fed));
    EXPECT_EQ(fed, cpp.Edit(edited));
    EXPECT_EQ(fed<600, checkpoints> 0) << fed;
    EXPECT_EQ(LogitsOf(session), cpp.Logits());
    // Who does not ask is not told.
    ASSERT_OK(cosformer_session_edit(session.get(), tokens.data(), 3, nullptr));
    EXPECT_EQ(PositionOf(session), 3);
    ASSERT_OK(cosformer_session_reset(session.get()));
    EXPECT_EQ(PositionOf(session), 0);
  }
}

TEST_F(CApi, SavesAndLoadsSessions) {
  const SessionHandle session = Prompted(model_, RandomTokens(20, 1, kBytes));
  const std::string path = Path("session");
  ASSERT_OK(cosformer_session_save(session.get(), path.c_str()));
  cosformer_session* handle = nullptr;
  ASSERT_OK(cosformer_session_load(model_.get(), path.c_str(), nullptr, &handle));
  const SessionHandle loaded(handle);
  EXPECT_EQ(PositionOf(loaded), 20);
  EXPECT_EQ(LogitsOf(loaded), LogitsOf(session));
}

std::vector<cosformer_prediction> AsC(const std::vector<Prediction>& predictions) {
  std::vector<cosformer_prediction> out;
  for (const Prediction& one : predictions) out.push_back({one.token, one.log_probability});
  return out;
}

void ExpectEqual(const std::vector<cosformer_prediction>& given,
                 const std::vector<cosformer_prediction>& expected) {
  ASSERT_EQ(given.size(), expected.size());
  for (size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(given[i].token, expected[i].token) << i;
    EXPECT_EQ(given[i].log_probability, expected[i].log_probability) << i;
  }
}

// Asks for the size, then for what there is.
template <class Function>
std::vector<cosformer_prediction> Asked(const Function& function) {
  size_t count = 0;
  EXPECT_OK(function(nullptr, 0, &count));
  std::vector<cosformer_prediction> predictions(count);
  if (count > 1) {
    EXPECT_FAILS(function(predictions.data(), count - 1, &count), COSFORMER_BUFFER_TOO_SMALL,
                 "give a larger one");
  }
  EXPECT_OK(function(predictions.data(), predictions.size(), &count));
  EXPECT_EQ(count, predictions.size());
  return predictions;
}

TEST_F(CApi, ClassifiesTextsPairsAndTokens) {
  const std::string directory =
      WriteModel(Path("classifier"), {{"model", "encoder"}, {"classes", 3}}, Tokenizer::Bytes(),
                 {"bad", "so-so", "good"});
  const ModelHandle model = Loaded(directory);
  const Model cpp = Model::Load(directory);
  const std::string first = "a text", second = "and another";
  const std::vector<int32_t> tokens = RandomTokens(12, 1, kBytes);
  ExpectEqual(Asked([&](auto... rest) {
                return cosformer_classify(model.get(), first.data(), first.size(), rest...);
              }),
              AsC(cpp.Classify(first)));
  WriteTaskCard(directory, {"test", {"bad", "so-so", "good"}, true});
  const ModelHandle pairs = Loaded(directory);
  ExpectEqual(Asked([&](auto... rest) {
                return cosformer_classify_pair(pairs.get(), first.data(), first.size(),
                                               second.data(), second.size(), rest...);
              }),
              AsC(Model::Load(directory).Classify(first, second)));
  ExpectEqual(Asked([&](auto... rest) {
                return cosformer_classify_tokens(model.get(), tokens.data(), tokens.size(),
                                                 rest...);
              }),
              AsC(cpp.Classify(tokens)));
  const char* label = nullptr;
  ASSERT_OK(cosformer_model_label(model.get(), 2, &label));
  EXPECT_STREQ(label, "good");
  cosformer_facts facts;
  ASSERT_OK(cosformer_model_facts(model.get(), &facts, sizeof(facts)));
  EXPECT_EQ(facts.use, COSFORMER_CLASSIFIER);
  EXPECT_EQ(facts.classes, 3);
}

TEST_F(CApi, ClassifiesImages) {
  const std::string directory =
      WriteModel(Path("image"),
                 {{"model", "encoder"},
                  {"classes", 4},
                  {"vocabulary", 0},
                  {"max_length", 20},
                  {"input", {{"kind", "pixels"}, {"height", 4}, {"width", 5}}}},
                 std::nullopt);
  const ModelHandle model = Loaded(directory);
  std::vector<uint8_t> pixels(20);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 12);
  ExpectEqual(Asked([&](auto... rest) {
                return cosformer_classify_image(model.get(), pixels.data(), pixels.size(), rest...);
              }),
              AsC(Model::Load(directory).ClassifyImage(pixels)));
  const char* label = nullptr;
  ASSERT_OK(cosformer_model_label(model.get(), 0, &label));
  EXPECT_STREQ(label, "") << "classes without names";
  cosformer_facts facts;
  ASSERT_OK(cosformer_model_facts(model.get(), &facts, sizeof(facts)));
  EXPECT_EQ(facts.has_tokenizer, 0);
  EXPECT_EQ(facts.end_token, -1);
}

TEST_F(CApi, ComparesTwoTexts) {
  const std::string directory =
      WriteModel(Path("retrieval"), {{"model", "two-tower"}, {"classes", 2}});
  const ModelHandle model = Loaded(directory);
  const std::string first = "a text", second = "and another";
  ExpectEqual(Asked([&](auto... rest) {
                return cosformer_classify_pair(model.get(), first.data(), first.size(),
                                               second.data(), second.size(), rest...);
              }),
              AsC(Model::Load(directory).Classify(first, second)));
  cosformer_facts facts;
  ASSERT_OK(cosformer_model_facts(model.get(), &facts, sizeof(facts)));
  EXPECT_EQ(facts.use, COSFORMER_RETRIEVAL);
}

TEST_F(CApi, FillsBlanks) {
  const std::string directory = WriteModel(Path("masked"), {{"model", "encoder"}});
  const ModelHandle model = Loaded(directory);
  const std::string text = "a <mask> in <mask> text";
  std::vector<cosformer_prediction> expected;
  for (const auto& blank : Model::Load(directory).Fill(text, 3)) {
    for (const cosformer_prediction& one : AsC(blank)) expected.push_back(one);
  }
  ASSERT_EQ(expected.size(), 6u);
  ExpectEqual(Asked([&](auto... rest) {
                return cosformer_fill(model.get(), text.data(), text.size(), 3, rest...);
              }),
              expected);
  cosformer_facts facts;
  ASSERT_OK(cosformer_model_facts(model.get(), &facts, sizeof(facts)));
  EXPECT_EQ(facts.use, COSFORMER_MASKED_MODEL);
}

}  // namespace
}  // namespace cosformer::runtime::testing
