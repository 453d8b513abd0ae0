// What the C API does with what makes no sense: a status, a sentence, and nothing changed.
#include <thread>

#include "runtime/c_api_support.h"
#include "tests/runtime/c_api.h"

namespace cosformer::runtime::testing {
namespace {

int Ignore(const cosformer_token*, void*) { return 0; }
int IgnoreBeam(const cosformer_beam*, void*) { return 0; }

class CApiErrors : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    const int32_t tokens[] = {1, 2, 3};
    session_ = NewSession(model_);
    ASSERT_OK(cosformer_session_feed(session_.get(), tokens, 3));
    cosformer_sampler* handle = nullptr;
    ASSERT_OK(cosformer_sampler_new(model_.get(), nullptr, &handle));
    sampler_.reset(handle);
  }

  SessionHandle session_;
  SamplerHandle sampler_;
};

TEST_F(CApiErrors, EveryNullThatIsNotAllowedIsNamed) {
  cosformer_model* model = model_.get();
  cosformer_session* session = session_.get();
  cosformer_sampler* sampler = sampler_.get();
  cosformer_model* new_model = nullptr;
  cosformer_session* new_session = nullptr;
  cosformer_sampler* new_sampler = nullptr;
  cosformer_facts facts;
  cosformer_prediction prediction;
  const char* label = nullptr;
  int32_t tokens[4] = {1, 2, 3, 4};
  char text[4] = {'a', 'b', 'c', 'd'};
  uint8_t pixels[4] = {};
  std::vector<float> logits(260);
  size_t count = 0;
  int64_t number = 0;
  cosformer_session* batch[] = {session};
  cosformer_session* hole[] = {session, nullptr};
  const int32_t* parts[] = {tokens, tokens};
  const int32_t* missing[] = {nullptr};
  const size_t counts[] = {1, 1};
  const struct {
    cosformer_status status;
    std::string sentence, part;
  } cases[] = {
#define CASE(part, call) {call, cosformer_last_error(), part}
      CASE("load_options_init: options", cosformer_load_options_init(nullptr, 16)),
      CASE("session_options_init: options", cosformer_session_options_init(nullptr, 16)),
      CASE("sampling_init: options", cosformer_sampling_init(nullptr, sizeof(cosformer_sampling))),
      CASE("generate_options_init: options",
           cosformer_generate_options_init(nullptr, sizeof(cosformer_generate_options))),
      CASE("beam_options_init: options",
           cosformer_beam_options_init(nullptr, sizeof(cosformer_beam_options))),
      CASE("model_load: path", cosformer_model_load(nullptr, nullptr, &new_model)),
      CASE("model_load: model", cosformer_model_load("x", nullptr, nullptr)),
      CASE("model_facts: model", cosformer_model_facts(nullptr, &facts, sizeof(facts))),
      CASE("model_facts: facts", cosformer_model_facts(model, nullptr, sizeof(facts))),
      CASE("model_label: model", cosformer_model_label(nullptr, 0, &label)),
      CASE("model_label: label", cosformer_model_label(model, 0, nullptr)),
      CASE("encode: model", cosformer_encode(nullptr, text, 4, tokens, 4, &count)),
      CASE("encode: text", cosformer_encode(model, nullptr, 4, tokens, 4, &count)),
      CASE("encode: the array", cosformer_encode(model, text, 4, nullptr, 4, &count)),
      CASE("encode: count", cosformer_encode(model, text, 4, tokens, 4, nullptr)),
      CASE("encode: count", cosformer_encode(model, text, 4, nullptr, 0, nullptr)),
      CASE("decode: model", cosformer_decode(nullptr, tokens, 4, text, 4, &count)),
      CASE("decode: tokens", cosformer_decode(model, nullptr, 4, text, 4, &count)),
      CASE("decode: the array", cosformer_decode(model, tokens, 4, nullptr, 4, &count)),
      CASE("decode: count", cosformer_decode(model, tokens, 4, text, 4, nullptr)),
      CASE("classify: model", cosformer_classify(nullptr, text, 4, &prediction, 1, &count)),
      CASE("classify: text", cosformer_classify(model, nullptr, 4, &prediction, 1, &count)),
      CASE("classify_pair: model",
           cosformer_classify_pair(nullptr, text, 4, text, 4, &prediction, 1, &count)),
      CASE("classify_pair: first",
           cosformer_classify_pair(model, nullptr, 4, text, 4, &prediction, 1, &count)),
      CASE("classify_pair: second",
           cosformer_classify_pair(model, text, 4, nullptr, 4, &prediction, 1, &count)),
      CASE("classify_tokens: model",
           cosformer_classify_tokens(nullptr, tokens, 4, &prediction, 1, &count)),
      CASE("classify_tokens: tokens",
           cosformer_classify_tokens(model, nullptr, 4, &prediction, 1, &count)),
      CASE("classify_image: model",
           cosformer_classify_image(nullptr, pixels, 4, &prediction, 1, &count)),
      CASE("classify_image: pixels",
           cosformer_classify_image(model, nullptr, 4, &prediction, 1, &count)),
      CASE("fill: model", cosformer_fill(nullptr, text, 4, 1, &prediction, 1, &count)),
      CASE("fill: text", cosformer_fill(model, nullptr, 4, 1, &prediction, 1, &count)),
      CASE("session_new: model", cosformer_session_new(nullptr, nullptr, &new_session)),
      CASE("session_new: session", cosformer_session_new(model, nullptr, nullptr)),
      CASE("session_fork: session", cosformer_session_fork(nullptr, &new_session)),
      CASE("session_fork: fork", cosformer_session_fork(session, nullptr)),
      CASE("session_feed: session", cosformer_session_feed(nullptr, tokens, 4)),
      CASE("session_feed: tokens", cosformer_session_feed(session, nullptr, 4)),
      CASE("session_feed_all: session",
           cosformer_session_feed_all(nullptr, tokens, 1, logits.data(), 260, &count)),
      CASE("session_feed_all: tokens",
           cosformer_session_feed_all(session, nullptr, 1, logits.data(), 260, &count)),
      CASE("session_feed_all: the array",
           cosformer_session_feed_all(session, tokens, 1, nullptr, 260, &count)),
      CASE("session_feed_all: count",
           cosformer_session_feed_all(session, tokens, 1, logits.data(), 260, nullptr)),
      CASE("session_logits: session",
           cosformer_session_logits(nullptr, logits.data(), 260, &count)),
      CASE("session_logits: the array", cosformer_session_logits(session, nullptr, 260, &count)),
      CASE("session_logits: count", cosformer_session_logits(session, logits.data(), 260, nullptr)),
      CASE("session_position: session", cosformer_session_position(nullptr, &number)),
      CASE("session_position: position", cosformer_session_position(session, nullptr)),
      CASE("session_max_tokens: session", cosformer_session_max_tokens(nullptr, &number)),
      CASE("session_max_tokens: max_tokens", cosformer_session_max_tokens(session, nullptr)),
      CASE("session_bytes: session", cosformer_session_bytes(nullptr, &count)),
      CASE("session_bytes: bytes", cosformer_session_bytes(session, nullptr)),
      CASE("session_edit: session", cosformer_session_edit(nullptr, tokens, 4, &number)),
      CASE("session_edit: tokens", cosformer_session_edit(session, nullptr, 4, &number)),
      CASE("session_reset: session", cosformer_session_reset(nullptr)),
      CASE("session_save: session", cosformer_session_save(nullptr, "x")),
      CASE("session_save: path", cosformer_session_save(session, nullptr)),
      CASE("session_load: model", cosformer_session_load(nullptr, "x", nullptr, &new_session)),
      CASE("session_load: path", cosformer_session_load(model, nullptr, nullptr, &new_session)),
      CASE("session_load: session", cosformer_session_load(model, "x", nullptr, nullptr)),
      CASE("feed_batch: sessions is NULL", cosformer_feed_batch(nullptr, 1, parts, counts)),
      CASE("feed_batch: sessions[1]", cosformer_feed_batch(hole, 2, parts, counts)),
      CASE("feed_batch: tokens is NULL", cosformer_feed_batch(batch, 1, nullptr, counts)),
      CASE("feed_batch: tokens[0]", cosformer_feed_batch(batch, 1, missing, counts)),
      CASE("feed_batch: token_counts", cosformer_feed_batch(batch, 1, parts, nullptr)),
      CASE("logits_batch: sessions is NULL",
           cosformer_logits_batch(nullptr, 1, logits.data(), 260, &count)),
      CASE("logits_batch: sessions[1]",
           cosformer_logits_batch(hole, 2, logits.data(), 260, &count)),
      CASE("logits_batch: the array", cosformer_logits_batch(batch, 1, nullptr, 260, &count)),
      CASE("logits_batch: count", cosformer_logits_batch(batch, 1, logits.data(), 260, nullptr)),
      CASE("generate: session", cosformer_generate(nullptr, nullptr, Ignore, nullptr, nullptr)),
      CASE("generate: each", cosformer_generate(session, nullptr, nullptr, nullptr, nullptr)),
      CASE("beam_search: session", cosformer_beam_search(nullptr, nullptr, IgnoreBeam, nullptr)),
      CASE("beam_search: each", cosformer_beam_search(session, nullptr, nullptr, nullptr)),
      CASE("sampler_new: model", cosformer_sampler_new(nullptr, nullptr, &new_sampler)),
      CASE("sampler_new: sampler", cosformer_sampler_new(model, nullptr, nullptr)),
      CASE("sampler_observe: sampler", cosformer_sampler_observe(nullptr, tokens, 4)),
      CASE("sampler_observe: tokens", cosformer_sampler_observe(sampler, nullptr, 4)),
      CASE("sampler_next: sampler",
           cosformer_sampler_next(nullptr, logits.data(), 260, &prediction)),
      CASE("sampler_next: logits", cosformer_sampler_next(sampler, nullptr, 260, &prediction)),
      CASE("sampler_next: chosen", cosformer_sampler_next(sampler, logits.data(), 260, nullptr)),
#undef CASE
  };
  for (const auto& [status, sentence, part] : cases) {
    EXPECT_EQ(status, COSFORMER_INVALID) << part;
    EXPECT_EQ(sentence.find("cosformer_" + std::string(part)), 0u) << sentence << " | " << part;
    EXPECT_NE(sentence.find("NULL"), std::string::npos) << sentence;
  }
  EXPECT_EQ(count, 0u) << "a call that fails writes nothing";
  EXPECT_EQ(PositionOf(session_), 3);
}

TEST_F(CApiErrors, AHandleIsNullWhereThereIsNone) {
  const auto wrong = reinterpret_cast<cosformer_session*>(0x10);
  cosformer_model* model = reinterpret_cast<cosformer_model*>(0x10);
  EXPECT_FAILS(cosformer_model_load(Path("nothing").c_str(), nullptr, &model), COSFORMER_INVALID,
               "does not exist; give a model's directory, or a run's");
  EXPECT_EQ(model, nullptr);
  cosformer_session* session = wrong;
  EXPECT_FAILS(cosformer_session_load(model_.get(), Path("nothing").c_str(), nullptr, &session),
               COSFORMER_INVALID, "nothing");
  EXPECT_EQ(session, nullptr);
  session = wrong;
  EXPECT_FAILS(cosformer_session_fork(nullptr, &session), COSFORMER_INVALID, "NULL");
  EXPECT_EQ(session, nullptr);
  cosformer_session_options options = {sizeof(options), 1025};
  for (const int64_t checkpoints : {int64_t{1025}, int64_t{-1}, int64_t{1} << 40}) {
    session = wrong;
    options.checkpoints = checkpoints;
    EXPECT_FAILS(cosformer_session_new(model_.get(), &options, &session), COSFORMER_INVALID,
                 "give 0 to 1024");
    EXPECT_EQ(session, nullptr);
  }
  cosformer_load_options load = {sizeof(load), 0, -1};
  EXPECT_FAILS(cosformer_model_load(directory_.c_str(), &load, &model), COSFORMER_INVALID,
               "threads is -1; give 1 to 1024");
  load.threads = 1000000;  // which would end the program
  EXPECT_FAILS(cosformer_model_load(directory_.c_str(), &load, &model), COSFORMER_INVALID,
               "threads is 1000000");
  cosformer_sampling sampling;
  ASSERT_OK(cosformer_sampling_init(&sampling, sizeof(sampling)));
  sampling.top_p = 2;
  auto* sampler = reinterpret_cast<cosformer_sampler*>(0x10);
  EXPECT_FAILS(cosformer_sampler_new(model_.get(), &sampling, &sampler), COSFORMER_INVALID,
               "top_p");
  EXPECT_EQ(sampler, nullptr);
}

TEST_F(CApiErrors, WhatCannotBeReadChangesNothing) {
  const std::vector<float> before = LogitsOf(session_);
  const int32_t outside[] = {1, 260};
  size_t count = 0;
  EXPECT_FAILS(cosformer_session_feed(session_.get(), outside, 2), COSFORMER_INVALID, "token 260");
  EXPECT_FAILS(cosformer_session_edit(session_.get(), outside, 2, nullptr), COSFORMER_INVALID,
               "token 260");
  const SessionHandle other = NewSession(model_);
  cosformer_session* batch[] = {other.get(), session_.get()};
  const int32_t* parts[] = {outside, outside};
  const size_t counts[] = {1, 2};
  EXPECT_FAILS(cosformer_feed_batch(batch, 2, parts, counts), COSFORMER_INVALID, "token 260");
  EXPECT_EQ(PositionOf(other), 0);
  cosformer_session* twice[] = {session_.get(), session_.get()};
  const size_t ones[] = {1, 1};
  EXPECT_FAILS(cosformer_feed_batch(twice, 2, parts, ones), COSFORMER_INVALID, "twice");
  std::vector<float> logits(2 * 260);
  EXPECT_FAILS(
      cosformer_session_feed_all(session_.get(), outside, 2, logits.data(), logits.size(), &count),
      COSFORMER_INVALID, "token 260");
  EXPECT_FAILS(cosformer_logits_batch(batch, 2, logits.data(), logits.size(), &count),
               COSFORMER_INVALID, "nothing was fed");
  EXPECT_FAILS(cosformer_session_logits(other.get(), logits.data(), logits.size(), &count),
               COSFORMER_INVALID, "nothing was fed");
  EXPECT_FAILS(cosformer_sampler_next(sampler_.get(), logits.data(), 259, nullptr),
               COSFORMER_INVALID, "chosen");
  cosformer_prediction chosen = {-5, 0};
  EXPECT_FAILS(cosformer_sampler_next(sampler_.get(), logits.data(), 259, &chosen),
               COSFORMER_INVALID, "259");
  EXPECT_EQ(chosen.token, -5);
  EXPECT_FAILS(cosformer_sampler_observe(sampler_.get(), outside, 2), COSFORMER_INVALID, "260");
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(PositionOf(session_), 3);
  EXPECT_EQ(LogitsOf(session_), before);
}

TEST_F(CApiErrors, NumbersThatNoMemoryHasAreRefused) {
  const int32_t token = 1;
  float logit = 0;
  size_t count = 0;
  // The array is not looked at: it would be there, if this were true.
  EXPECT_FAILS(cosformer_session_feed_all(session_.get(), &token, SIZE_MAX / 4, &logit, 1, &count),
               COSFORMER_INVALID, "more than there can be");
}

TEST_F(CApiErrors, AModelForSomethingElseSaysSo) {
  const ModelHandle encoder = Loaded(WriteModel(Path("masked"), {{"model", "encoder"}}));
  const ModelHandle plain = Loaded(WriteModel(Path("plain"), {}, std::nullopt));
  const ModelHandle classifier =
      Loaded(WriteModel(Path("classifier"), {{"model", "encoder"}, {"classes", 3}}));
  cosformer_session* session = nullptr;
  cosformer_prediction predictions[8];
  size_t count = 0;
  EXPECT_FAILS(cosformer_session_new(encoder.get(), nullptr, &session), COSFORMER_INVALID,
               "whole texts");
  EXPECT_FAILS(cosformer_classify(model_.get(), "a", 1, predictions, 8, &count), COSFORMER_INVALID,
               "does not classify");
  EXPECT_FAILS(cosformer_classify(model_.get(), "a", 1, nullptr, 0, &count), COSFORMER_INVALID,
               "does not classify");
  EXPECT_FAILS(cosformer_classify_pair(model_.get(), "a", 1, "b", 1, predictions, 8, &count),
               COSFORMER_INVALID, "does not compare");
  const uint8_t pixel = 1;
  EXPECT_FAILS(cosformer_classify_image(model_.get(), &pixel, 1, predictions, 8, &count),
               COSFORMER_INVALID, "does not classify");
  EXPECT_FAILS(cosformer_fill(model_.get(), "<mask>", 6, 1, predictions, 8, &count),
               COSFORMER_INVALID, "does not fill in blanks");
  EXPECT_FAILS(cosformer_fill(encoder.get(), "text", 4, 1, predictions, 8, &count),
               COSFORMER_INVALID, "write <mask>");
  EXPECT_FAILS(cosformer_fill(encoder.get(), "<mask>", 6, 0, predictions, 8, &count),
               COSFORMER_INVALID, "each is 0; give 1 or more");
  EXPECT_FAILS(cosformer_encode(plain.get(), "a", 1, nullptr, 0, &count), COSFORMER_INVALID,
               "no tokenizer");
  const int32_t token = 1;
  EXPECT_FAILS(cosformer_decode(plain.get(), &token, 1, nullptr, 0, &count), COSFORMER_INVALID,
               "no tokenizer");
  const char* label = nullptr;
  EXPECT_FAILS(cosformer_model_label(model_.get(), 0, &label), COSFORMER_INVALID, "no classes");
  EXPECT_FAILS(cosformer_model_label(classifier.get(), 3, &label), COSFORMER_INVALID,
               "class 3 is asked for; the model has 0 to 2");
  EXPECT_FAILS(cosformer_model_label(classifier.get(), -1, &label), COSFORMER_INVALID, "class -1");
  EXPECT_EQ(label, nullptr);
  EXPECT_EQ(count, 0u);
}

TEST_F(CApiErrors, SizesOfOtherVersionsAreRefused) {
  cosformer_sampling sampling;
  EXPECT_FAILS(cosformer_sampling_init(&sampling, sizeof(sampling) + 8), COSFORMER_INVALID,
               "install the library of the header");
  EXPECT_FAILS(cosformer_sampling_init(&sampling, 8), COSFORMER_INVALID, "given sizeof");
  cosformer_facts facts;
  EXPECT_FAILS(cosformer_model_facts(model_.get(), &facts, 8), COSFORMER_INVALID, "size of facts");
  // Without _init.
  cosformer_load_options load = {};
  cosformer_model* model = nullptr;
  EXPECT_FAILS(cosformer_model_load(directory_.c_str(), &load, &model), COSFORMER_INVALID,
               "fill it with its _init function");
  cosformer_generate_options generate = {};
  EXPECT_FAILS(cosformer_generate(session_.get(), &generate, Ignore, nullptr, nullptr),
               COSFORMER_INVALID, "size of options is 0");
  ASSERT_OK(cosformer_generate_options_init(&generate, sizeof(generate)));
  sampling = {};
  generate.sampling = &sampling;
  EXPECT_FAILS(cosformer_generate(session_.get(), &generate, Ignore, nullptr, nullptr),
               COSFORMER_INVALID, "size of sampling is 0");
}

// Options as they may be one day: with a number more at the end.
TEST(CApiOptions, OfAnOlderProgramHaveTheDefaultsOfWhatItDoesNotKnow) {
  struct Grown {
    size_t size;
    int64_t old;
    int64_t young;
  };
  constexpr size_t kFirst = offsetof(Grown, young);
  const Grown defaults = {sizeof(Grown), 1, 2};
  const capi::Call call("test");
  Grown options = {99, 98, 97};
  ASSERT_OK(call.Init(&options, kFirst, defaults, kFirst));
  EXPECT_EQ(options.size, kFirst);
  EXPECT_EQ(options.old, 1);
  EXPECT_EQ(options.young, 97) << "this lies behind the older program's struct";
  options.old = 5;
  const Grown read = call.Options(&options, defaults, kFirst, "options");
  EXPECT_EQ(read.old, 5);
  EXPECT_EQ(read.young, 2);
}

TEST(CApiThreads, HaveErrorsOfTheirOwn) {
  cosformer_model* model = nullptr;
  EXPECT_FAILS(cosformer_model_load("/nowhere/first", nullptr, &model), COSFORMER_INVALID, "first");
  std::string before, after;
  std::thread other([&] {
    before = cosformer_last_error();
    cosformer_model_load("/nowhere/second", nullptr, nullptr);
    cosformer_model* mine = nullptr;
    cosformer_model_load("/nowhere/second", nullptr, &mine);
    after = cosformer_last_error();
  });
  other.join();
  EXPECT_EQ(before, "");
  EXPECT_NE(after.find("second"), std::string::npos) << after;
  EXPECT_NE(std::string(cosformer_last_error()).find("first"), std::string::npos);
}

TEST_F(CApiErrors, TheSentenceStaysThroughCallsThatSucceed) {
  EXPECT_FAILS(cosformer_session_feed(session_.get(), nullptr, 1), COSFORMER_INVALID, "NULL");
  const std::string sentence = cosformer_last_error();
  EXPECT_EQ(PositionOf(session_), 3);
  EXPECT_EQ(cosformer_last_error(), sentence);
}

}  // namespace
}  // namespace cosformer::runtime::testing
