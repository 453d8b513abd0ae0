// The C API of generated text: token by token, by beam search, or from logits.
#include <string>
#include <vector>

#include "cosformer/cosformer.h"
#include "runtime/c_api_support.h"

namespace cosformer::capi {
namespace {

using runtime::BeamOptions;
using runtime::GenerateOptions;
using runtime::StopReason;

constexpr size_t kFirstSampling = 80, kFirstGenerateOptions = 72, kFirstBeamOptions = 40;
static_assert(sizeof(cosformer_sampling) >= kFirstSampling);
static_assert(sizeof(cosformer_generate_options) >= kFirstGenerateOptions);
static_assert(sizeof(cosformer_beam_options) >= kFirstBeamOptions);

cosformer_sampling DefaultSampling() {
  const SamplingOptions from;
  cosformer_sampling to = {};
  to.size = sizeof(to);
  to.temperature = from.temperature;
  to.top_k = from.top_k;
  to.top_p = from.top_p;
  to.min_p = from.min_p;
  to.repetition_penalty = from.repetition_penalty;
  to.repetition_window = from.repetition_window;
  to.seed = from.seed;
  return to;
}

SamplingOptions SamplingOf(const Call& call, const cosformer_sampling* options) {
  const auto from = call.Options(options, DefaultSampling(), kFirstSampling, "sampling");
  SamplingOptions to;
  to.temperature = from.temperature;
  to.top_k = from.top_k;
  to.top_p = from.top_p;
  to.min_p = from.min_p;
  to.repetition_penalty = from.repetition_penalty;
  to.repetition_window = from.repetition_window;
  to.seed = from.seed;
  for (const auto& bias : call.Array(from.logit_bias, from.logit_bias_count, "logit_bias")) {
    to.logit_bias.push_back({bias.token, bias.value});
  }
  return to;
}

cosformer_generate_options DefaultGenerateOptions() {
  const GenerateOptions from;
  cosformer_generate_options to = {};
  to.size = sizeof(to);
  to.max_tokens = from.max_tokens;
  to.stop_at_end = from.stop_at_end;
  to.likeliest = from.likeliest;
  return to;
}

GenerateOptions GenerateOptionsOf(const Call& call, const cosformer_generate_options* options) {
  const auto from =
      call.Options(options, DefaultGenerateOptions(), kFirstGenerateOptions, "options");
  GenerateOptions to;
  to.sampling = SamplingOf(call, from.sampling);
  to.max_tokens = from.max_tokens;
  to.stop_at_end = from.stop_at_end != 0;
  to.likeliest = from.likeliest;
  const auto stop = call.Array(from.stop, from.stop_count, "stop");
  for (size_t i = 0; i < stop.size(); ++i) {
    call.Need(stop[i], fmt::format("stop[{}]", i).c_str());
    to.stop.emplace_back(stop[i]);
  }
  const auto before = call.Array(from.before, from.before_count, "before");
  to.before.assign(before.begin(), before.end());
  return to;
}

cosformer_beam_options DefaultBeamOptions() {
  const BeamOptions from;
  cosformer_beam_options to = {};
  to.size = sizeof(to);
  to.beams = from.beams;
  to.stop_at_end = from.stop_at_end;
  to.max_tokens = from.max_tokens;
  to.length_penalty = from.length_penalty;
  return to;
}

cosformer_stop_reason ReasonOf(StopReason reason) {
  switch (reason) {
    case StopReason::kLength:
      return COSFORMER_STOP_LENGTH;
    case StopReason::kEnd:
      return COSFORMER_STOP_END;
    case StopReason::kStopString:
      return COSFORMER_STOP_STRING;
    case StopReason::kLimit:
      return COSFORMER_STOP_LIMIT;
    case StopReason::kCancelled:
      return COSFORMER_STOP_CANCELLED;
    case StopReason::kNone:
      break;
  }
  return 0;
}

}  // namespace
}  // namespace cosformer::capi

using cosformer::capi::Call;

cosformer_status cosformer_sampling_init(cosformer_sampling* options, size_t size) {
  return Call(__func__).Init(options, size, cosformer::capi::DefaultSampling(),
                             cosformer::capi::kFirstSampling);
}

cosformer_status cosformer_generate_options_init(cosformer_generate_options* options, size_t size) {
  return Call(__func__).Init(options, size, cosformer::capi::DefaultGenerateOptions(),
                             cosformer::capi::kFirstGenerateOptions);
}

cosformer_status cosformer_beam_options_init(cosformer_beam_options* options, size_t size) {
  return Call(__func__).Init(options, size, cosformer::capi::DefaultBeamOptions(),
                             cosformer::capi::kFirstBeamOptions);
}

cosformer_status cosformer_generate(cosformer_session* session,
                                    const cosformer_generate_options* options,
                                    cosformer_on_token each, void* user,
                                    cosformer_stop_reason* reason) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    call.Need(reinterpret_cast<const void*>(each), "each");
    std::vector<cosformer_prediction> likeliest;
    const auto result = cosformer::runtime::Generate(
        session->session, cosformer::capi::GenerateOptionsOf(call, options),
        [&](const cosformer::runtime::GeneratedToken& from) {
          likeliest.clear();
          for (const auto& one : from.likeliest) {
            likeliest.push_back({one.token, one.log_probability});
          }
          const cosformer_token token = {from.token,       from.log_probability, from.text.data(),
                                         from.text.size(), likeliest.data(),     likeliest.size()};
          return each(&token, user) == 0;
        });
    if (reason != nullptr) *reason = cosformer::capi::ReasonOf(result.reason);
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_beam_search(const cosformer_session* session,
                                       const cosformer_beam_options* options,
                                       cosformer_on_beam each, void* user) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    call.Need(reinterpret_cast<const void*>(each), "each");
    const auto given = call.Options(options, cosformer::capi::DefaultBeamOptions(),
                                    cosformer::capi::kFirstBeamOptions, "options");
    cosformer::runtime::BeamOptions search;
    search.beams = given.beams;
    search.max_tokens = given.max_tokens;
    search.length_penalty = given.length_penalty;
    search.stop_at_end = given.stop_at_end != 0;
    const auto before = call.Array(given.before, given.before_count, "before");
    search.before.assign(before.begin(), before.end());
    for (const auto& from : cosformer::runtime::BeamSearch(session->session, search)) {
      const cosformer_beam beam = {from.tokens.data(), from.tokens.size(), from.log_probability,
                                   from.score,         from.ended,         from.text.data(),
                                   from.text.size()};
      if (each(&beam, user) != 0) break;
    }
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_sampler_new(const cosformer_model* model,
                                       const cosformer_sampling* options,
                                       cosformer_sampler** sampler) {
  const Call call(__func__);
  return call.New(sampler, "sampler", [&] {
    call.Need(model, "model");
    return cosformer::Sampler(cosformer::capi::SamplingOf(call, options),
                              model->model.vocabulary());
  });
}

void cosformer_sampler_free(cosformer_sampler* sampler) { delete sampler; }

cosformer_status cosformer_sampler_observe(cosformer_sampler* sampler, const int32_t* tokens,
                                           size_t token_count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(sampler, "sampler");
    sampler->sampler.Observe(call.Array(tokens, token_count, "tokens"));
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_sampler_next(cosformer_sampler* sampler, const float* logits,
                                        size_t logit_count, cosformer_prediction* chosen) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(sampler, "sampler");
    call.Need(chosen, "chosen");
    const auto next =
        sampler->sampler.Next(call.Array(logits, logit_count, "logits"), sampler->workspace);
    *chosen = {next.token, next.log_probability};
    return COSFORMER_OK;
  });
}
