// Text through the C API: the tokens, numbers and ends of the C++ API, through callbacks.
#include <new>

#include "cosformer/generate.h"
#include "tests/runtime/c_api.h"

namespace cosformer::runtime::testing {
namespace {

struct Seen {
  std::vector<int32_t> tokens;
  std::vector<double> log_probabilities;
  std::vector<cosformer_prediction> likeliest;
  std::string text;
  size_t most = 1000;  // tokens before it has enough
};

int Take(const cosformer_token* token, void* user) {
  auto& seen = *static_cast<Seen*>(user);
  seen.tokens.push_back(token->token);
  seen.log_probabilities.push_back(token->log_probability);
  seen.likeliest.insert(seen.likeliest.end(), token->likeliest,
                        token->likeliest + token->likeliest_count);
  EXPECT_EQ(token->text[token->text_size], '\0');
  seen.text.append(token->text, token->text_size);
  return seen.tokens.size() == seen.most ? 1 : 0;
}

class CApiText : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    ASSERT_OK(cosformer_sampling_init(&sampling_, sizeof(sampling_)));
    ASSERT_OK(cosformer_generate_options_init(&options_, sizeof(options_)));
    options_.sampling = &sampling_;
    session_ = Prompted(model_, prompt_);
  }

  Session CppSession() const {
    Session session(Cpp());
    session.Feed(prompt_);
    return session;
  }

  const std::vector<int32_t> prompt_ = {'A', ' ', 'p', 'r', 'o', 'm', 'p', 't'};
  SessionHandle session_;
  cosformer_sampling sampling_;
  cosformer_generate_options options_;
};

TEST_F(CApiText, DefaultsAreThoseOfTheCppApi) {
  const GenerateOptions cpp;
  EXPECT_EQ(sampling_.temperature, cpp.sampling.temperature);
  EXPECT_EQ(sampling_.top_k, cpp.sampling.top_k);
  EXPECT_EQ(sampling_.top_p, cpp.sampling.top_p);
  EXPECT_EQ(sampling_.min_p, cpp.sampling.min_p);
  EXPECT_EQ(sampling_.repetition_penalty, cpp.sampling.repetition_penalty);
  EXPECT_EQ(sampling_.repetition_window, cpp.sampling.repetition_window);
  EXPECT_EQ(sampling_.logit_bias_count, 0u);
  EXPECT_EQ(sampling_.seed, cpp.sampling.seed);
  EXPECT_EQ(options_.max_tokens, cpp.max_tokens);
  EXPECT_EQ(options_.stop_count, 0u);
  EXPECT_EQ(options_.stop_at_end, 1);
  EXPECT_EQ(options_.likeliest, cpp.likeliest);
  EXPECT_EQ(options_.before_count, 0u);
  cosformer_beam_options beams;
  ASSERT_OK(cosformer_beam_options_init(&beams, sizeof(beams)));
  EXPECT_EQ(beams.beams, BeamOptions().beams);
  EXPECT_EQ(beams.max_tokens, BeamOptions().max_tokens);
  EXPECT_EQ(beams.length_penalty, BeamOptions().length_penalty);
  EXPECT_EQ(beams.stop_at_end, 1);

  // And so they are where none are given.
  Seen seen, without;
  const SessionHandle other = Prompted(model_, prompt_);
  ASSERT_OK(cosformer_generate(session_.get(), &options_, Take, &seen, nullptr));
  ASSERT_OK(cosformer_generate(other.get(), nullptr, Take, &without, nullptr));
  EXPECT_EQ(seen.tokens, without.tokens);
}

// One option after the other, each of which makes another text.
TEST_F(CApiText, EveryOptionDoesWhatItDoesInCpp) {
  const cosformer_logit_bias biases[] = {{'e', 3.0f}, {'x', 5.5f}};
  const char* const stops[] = {"never", "ee"};
  GenerateOptions cpp;
  cpp.max_tokens = options_.max_tokens = 40;
  cpp.stop_at_end = false;
  options_.stop_at_end = 0;
  std::vector<std::vector<int32_t>> texts;
  const auto expect_another = [&](const char* option) {
    Session session = CppSession();
    std::vector<double> likeliest;
    const Generated expected = Generate(session, cpp, [&](const GeneratedToken& token) {
      for (const auto& one : token.likeliest) likeliest.push_back(one.log_probability);
      return true;
    });
    const SessionHandle handle = Prompted(model_, prompt_);
    Seen seen;
    cosformer_stop_reason reason = -1;
    ASSERT_OK(cosformer_generate(handle.get(), &options_, Take, &seen, &reason)) << option;
    EXPECT_EQ(seen.tokens, expected.tokens) << option;
    EXPECT_EQ(seen.log_probabilities, expected.log_probabilities) << option;
    EXPECT_EQ(seen.text, expected.text) << option;
    EXPECT_EQ(reason, static_cast<int32_t>(expected.reason)) << option;
    EXPECT_EQ(PositionOf(handle), session.position()) << option;
    ASSERT_EQ(seen.likeliest.size(), likeliest.size()) << option;
    for (size_t i = 0; i < likeliest.size(); ++i) {
      EXPECT_EQ(seen.likeliest[i].log_probability, likeliest[i]) << option;
    }
    for (const auto& text : texts) EXPECT_NE(text, seen.tokens) << option << " changed nothing";
    texts.push_back(seen.tokens);
  };
  expect_another("none");
  cpp.sampling.seed = sampling_.seed = 77;
  expect_another("seed");
  cpp.sampling.top_k = sampling_.top_k = 30;
  expect_another("top_k");
  cpp.sampling.top_p = sampling_.top_p = 0.7;
  expect_another("top_p");
  cpp.sampling.min_p = sampling_.min_p = 0.9;
  expect_another("min_p");
  cpp.sampling.temperature = sampling_.temperature = 0;
  expect_another("temperature");
  cpp.sampling.repetition_penalty = sampling_.repetition_penalty = 1.8;
  expect_another("repetition_penalty");
  cpp.sampling.repetition_window = sampling_.repetition_window = 3;
  expect_another("repetition_window");
  cpp.max_tokens = options_.max_tokens = 20;
  expect_another("max_tokens");
  cpp.sampling.logit_bias = {{'e', 3.0f}, {'x', 5.5f}};
  sampling_.logit_bias = biases;
  sampling_.logit_bias_count = 2;
  expect_another("logit_bias");
  texts.clear();
  cpp.likeliest = options_.likeliest = 4;
  expect_another("likeliest");
  const std::vector<int32_t> before = {'x', 'x', 'x'};
  cpp.before = before;
  options_.before = before.data();
  options_.before_count = before.size();
  expect_another("before");
  cpp.sampling.logit_bias = {{'e', 1e9f}};
  const cosformer_logit_bias only[] = {{'e', 1e9f}};
  sampling_.logit_bias = only;
  sampling_.logit_bias_count = 1;
  cpp.sampling.repetition_penalty = sampling_.repetition_penalty = 1;
  expect_another("another bias");
  cpp.stop = {"never", "ee"};
  options_.stop = stops;
  options_.stop_count = 2;
  expect_another("stop");
}

TEST_F(CApiText, EndsForTheReasonsThatThereAre) {
  const auto reason_of = [&] {
    const SessionHandle session = Prompted(model_, prompt_);
    Seen seen;
    cosformer_stop_reason reason = -1;
    EXPECT_OK(cosformer_generate(session.get(), &options_, Take, &seen, &reason));
    return reason;
  };
  const cosformer_logit_bias end[] = {{Cpp().end_token(), 1e9f}};
  sampling_.logit_bias = end;
  sampling_.logit_bias_count = 1;
  EXPECT_EQ(reason_of(), COSFORMER_STOP_END);
  options_.stop_at_end = 0;
  options_.max_tokens = 7;
  EXPECT_EQ(reason_of(), COSFORMER_STOP_LENGTH);
  const cosformer_logit_bias x[] = {{'x', 1e9f}};
  const char* const stop[] = {"xx"};
  sampling_.logit_bias = x;
  options_.stop = stop;
  options_.stop_count = 1;
  EXPECT_EQ(reason_of(), COSFORMER_STOP_STRING);
  options_.max_tokens = 0;
  EXPECT_EQ(reason_of(), COSFORMER_STOP_STRING);
  sampling_.logit_bias_count = 0;
  options_.stop_count = 0;
  EXPECT_EQ(reason_of(), COSFORMER_STOP_CANCELLED) << "it has no end of its own";

  cosformer_load_options load;
  ASSERT_OK(cosformer_load_options_init(&load, sizeof(load)));
  load.endless = 0;
  cosformer_model* ending = nullptr;
  ASSERT_OK(cosformer_model_load(directory_.c_str(), &load, &ending));
  model_.reset(ending);
  EXPECT_EQ(reason_of(), COSFORMER_STOP_LIMIT);
}

TEST_F(CApiText, StopsWhenTheCallbackHasEnough) {
  Seen seen;
  seen.most = 3;
  options_.stop_at_end = 0;
  cosformer_stop_reason reason = -1;
  ASSERT_OK(cosformer_generate(session_.get(), &options_, Take, &seen, &reason));
  EXPECT_EQ(reason, COSFORMER_STOP_CANCELLED);
  EXPECT_EQ(seen.tokens.size(), 3u);
  EXPECT_EQ(PositionOf(session_), static_cast<int64_t>(prompt_.size()) + 2);
}

TEST_F(CApiText, NothingThatACallbackThrowsComesOut) {
  options_.stop_at_end = 0;
  const auto throwing = [](const cosformer_token*, void*) -> int { throw 1; };
  EXPECT_FAILS(cosformer_generate(session_.get(), &options_, throwing, nullptr, nullptr),
               COSFORMER_FAILED, "no std::exception");
  const auto failing = [](const cosformer_token*, void*) -> int { throw std::bad_alloc(); };
  EXPECT_FAILS(cosformer_generate(session_.get(), &options_, failing, nullptr, nullptr),
               COSFORMER_OUT_OF_MEMORY, "not enough memory");
  const auto standard = [](const cosformer_token*, void*) -> int {
    throw std::runtime_error("of the standard");
  };
  EXPECT_FAILS(cosformer_generate(session_.get(), &options_, standard, nullptr, nullptr),
               COSFORMER_FAILED, "of the standard");
}

TEST_F(CApiText, OptionsOutOfRangeAreRefusedBeforeTheFirstToken) {
  Seen seen;
  const auto refused = [&](const char* part) {
    EXPECT_FAILS(cosformer_generate(session_.get(), &options_, Take, &seen, nullptr),
                 COSFORMER_INVALID, part);
    sampling_.temperature = 1;
    options_.max_tokens = 5;
    options_.stop_count = 0;
    sampling_.logit_bias_count = 0;
    options_.before_count = 0;
  };
  sampling_.temperature = -1;
  refused("temperature");
  options_.max_tokens = -1;
  refused("max_tokens is -1");
  options_.stop = nullptr;
  options_.stop_count = 2;
  refused("stop is NULL, and there are to be 2 of them");
  const char* const stops[] = {"a", nullptr};
  options_.stop = stops;
  options_.stop_count = 2;
  refused("stop[1] is NULL");
  sampling_.logit_bias_count = 3;
  refused("logit_bias is NULL, and there are to be 3");
  options_.before_count = 1;
  refused("before is NULL, and there are to be 1");
  const cosformer_logit_bias outside[] = {{260, 1.0f}};
  sampling_.logit_bias = outside;
  sampling_.logit_bias_count = 1;
  refused("260");
  EXPECT_TRUE(seen.tokens.empty());
  EXPECT_EQ(PositionOf(session_), static_cast<int64_t>(prompt_.size()));
  const SessionHandle nothing = NewSession(model_);
  EXPECT_FAILS(cosformer_generate(nothing.get(), &options_, Take, &seen, nullptr),
               COSFORMER_INVALID, "nothing was fed");
}

struct SeenBeams {
  std::vector<Beam> beams;
  size_t most = 1000;
};

int TakeBeam(const cosformer_beam* beam, void* user) {
  auto& seen = *static_cast<SeenBeams*>(user);
  EXPECT_EQ(beam->text[beam->text_size], '\0');
  seen.beams.push_back({{beam->tokens, beam->tokens + beam->token_count},
                        beam->log_probability,
                        beam->score,
                        beam->ended != 0,
                        std::string(beam->text, beam->text_size)});
  return seen.beams.size() == seen.most ? 1 : 0;
}

TEST_F(CApiText, FindsTheBeamsOfTheCppApi) {
  BeamOptions cpp;
  cosformer_beam_options options;
  ASSERT_OK(cosformer_beam_options_init(&options, sizeof(options)));
  const auto expect_equal = [&] {
    const std::vector<Beam> expected = BeamSearch(CppSession(), cpp);
    SeenBeams seen;
    ASSERT_OK(cosformer_beam_search(session_.get(), &options, TakeBeam, &seen));
    ASSERT_EQ(seen.beams.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(seen.beams[i].tokens, expected[i].tokens);
      EXPECT_EQ(seen.beams[i].log_probability, expected[i].log_probability);
      EXPECT_EQ(seen.beams[i].score, expected[i].score);
      EXPECT_EQ(seen.beams[i].ended, expected[i].ended);
      EXPECT_EQ(seen.beams[i].text, expected[i].text);
    }
  };
  expect_equal();
  cpp.beams = options.beams = 300;  // wider than the vocabulary: some of them end
  cpp.max_tokens = options.max_tokens = 2;
  expect_equal();
  cpp.length_penalty = options.length_penalty = 0;
  expect_equal();
  options.stop_at_end = 0;
  cpp.stop_at_end = false;
  expect_equal();
  EXPECT_EQ(PositionOf(session_), static_cast<int64_t>(prompt_.size()));

  SeenBeams two;
  two.most = 2;
  ASSERT_OK(cosformer_beam_search(session_.get(), nullptr, TakeBeam, &two));
  EXPECT_EQ(two.beams.size(), 2u);
  options.beams = 0;
  EXPECT_FAILS(cosformer_beam_search(session_.get(), &options, TakeBeam, &two), COSFORMER_INVALID,
               "beams is 0");
}

TEST_F(CApiText, ASamplerChoosesWhatGenerateChooses) {
  sampling_.repetition_penalty = 1.5;
  sampling_.seed = 5;
  options_.max_tokens = 20;
  options_.stop_at_end = 0;
  options_.before = prompt_.data();
  options_.before_count = prompt_.size();
  cosformer_sampler* handle = nullptr;
  ASSERT_OK(cosformer_sampler_new(model_.get(), &sampling_, &handle));
  const SamplerHandle sampler(handle);
  ASSERT_OK(cosformer_sampler_observe(sampler.get(), prompt_.data(), prompt_.size()));
  const SessionHandle other = Prompted(model_, prompt_);
  Seen expected, seen;
  ASSERT_OK(cosformer_generate(session_.get(), &options_, Take, &expected, nullptr));
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> logits = LogitsOf(other);
    cosformer_prediction chosen;
    ASSERT_OK(cosformer_sampler_next(sampler.get(), logits.data(), logits.size(), &chosen));
    seen.tokens.push_back(chosen.token);
    seen.log_probabilities.push_back(chosen.log_probability);
    ASSERT_OK(cosformer_session_feed(other.get(), &chosen.token, 1));
  }
  EXPECT_EQ(seen.tokens, expected.tokens);
  EXPECT_EQ(seen.log_probabilities, expected.log_probabilities);
}

}  // namespace
}  // namespace cosformer::runtime::testing
