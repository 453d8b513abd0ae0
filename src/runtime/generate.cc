#include "cosformer/generate.h"

#include <fmt/format.h>

#include <optional>

#include "formats/tokenizer.h"
#include "runtime/text_stream.h"

namespace cosformer::runtime {

const char* Name(StopReason reason) {
  switch (reason) {
    case StopReason::kNone:
      return "none";
    case StopReason::kLength:
      return "length";
    case StopReason::kEnd:
      return "end";
    case StopReason::kStopString:
      return "stop";
    case StopReason::kLimit:
      return "limit";
    case StopReason::kCancelled:
      return "cancelled";
  }
  return "";
}

struct Generation::Impl {
  Impl(const Model& model, GenerateOptions given)
      : options(std::move(given)),
        end(options.stop_at_end ? model.end_token() : -1),
        sampler(options.sampling, model.vocabulary()) {
    if (options.max_tokens < 0) {
      throw Error(
          fmt::format("generate: max_tokens is {}; give 1 or more, or 0 for a text that goes on "
                      "until it is stopped",
                      options.max_tokens));
    }
    if (options.likeliest < 0) {
      throw Error(fmt::format("generate: likeliest is {}; give 0 or more", options.likeliest));
    }
    sampler.Observe(options.before);
    if (model.tokenizer() != nullptr) {
      text.emplace(*model.tokenizer(), options.stop, options.before, /*within_line=*/true);
    } else if (!options.stop.empty()) {
      throw Error("generate: without a tokenizer there is no text that a stop string could end");
    }
  }

  GenerateOptions options;
  int32_t end;
  Sampler sampler;
  std::optional<TextStream> text;
};

Generation::Generation(const Model& model, GenerateOptions options)
    : impl_(std::make_unique<Impl>(model, std::move(options))) {}
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&&) noexcept = default;
Generation::~Generation() = default;

GeneratedToken Generation::Next(std::span<const float> logits, SamplingWorkspace& workspace) {
  const SampledToken chosen = impl_->sampler.Next(logits, workspace, impl_->options.likeliest);
  GeneratedToken token;
  token.token = chosen.token;
  token.log_probability = chosen.log_probability;
  token.likeliest.assign(chosen.likeliest.begin(), chosen.likeliest.end());
  result_.tokens.push_back(token.token);
  result_.log_probabilities.push_back(token.log_probability);
  const size_t shown = result_.text.size();
  if (token.token == impl_->end) {
    Stop(StopReason::kEnd);
  } else {
    if (impl_->text) result_.text += impl_->text->Add(token.token);
    if (impl_->text && impl_->text->stopped()) {
      Stop(StopReason::kStopString);
    } else if (static_cast<int64_t>(result_.tokens.size()) == impl_->options.max_tokens) {
      Stop(StopReason::kLength);
    }
  }
  token.text = result_.text.substr(shown);
  return token;
}

void Generation::Stop(StopReason reason) {
  if (result_.reason != StopReason::kNone) return;
  result_.reason = reason;
  if (impl_->text) result_.text += impl_->text->Finish();
}

// With what the session remembers where the caller tells nothing.
static GenerateOptions After(const Session& session, GenerateOptions options) {
  if (options.before.empty()) options.before = session.recent();
  return options;
}

// What nothing would end is not begun.
static void CheckEnds(const Session& session, const GenerateOptions& options, bool cancellable) {
  const bool ends = options.stop_at_end && session.model().end_token() >= 0;
  if (options.max_tokens > 0 || ends || !options.stop.empty() || cancellable ||
      session.max_tokens()) {
    return;
  }
  throw Error(
      "generate: max_tokens is 0, and nothing else would end the text; give a number of tokens, a "
      "stop string, or a function that stops it");
}

// The next token of a text, and its end where the session can be fed no more.
static GeneratedToken NextOf(const Session& session, std::span<const float> logits,
                             Generation& generation, SamplingWorkspace& workspace) {
  GeneratedToken token = generation.Next(logits, workspace);
  const std::optional<int64_t> limit = session.max_tokens();
  if (generation.reason() == StopReason::kNone && limit && session.position() >= *limit) {
    const size_t shown = generation.result().text.size();
    generation.Stop(StopReason::kLimit);
    token.text += generation.result().text.substr(shown);  // what was held back
  }
  return token;
}

Generated Generate(Session& session, const GenerateOptions& options,
                   const std::function<bool(const GeneratedToken&)>& each) {
  CheckEnds(session, options, static_cast<bool>(each));
  Generation generation(session.model(), After(session, options));
  SamplingWorkspace workspace;
  for (;;) {
    const GeneratedToken token = NextOf(session, session.Logits(), generation, workspace);
    if (each && !each(token)) generation.Stop(StopReason::kCancelled);
    if (generation.reason() != StopReason::kNone) return generation.result();
    session.Feed(token.token);
  }
}

std::vector<Generated> GenerateBatch(
    std::span<Session* const> sessions, std::span<const GenerateOptions> options,
    const std::function<bool(size_t, const GeneratedToken&)>& each) {
  if (sessions.size() != options.size()) {
    throw Error(fmt::format("generate: a batch of {} sessions was given options for {}",
                            sessions.size(), options.size()));
  }
  std::vector<Generation> generations;
  std::vector<size_t> active;
  for (size_t i = 0; i < sessions.size(); ++i) {
    CheckEnds(*sessions[i], options[i], static_cast<bool>(each));
    generations.emplace_back(sessions[i]->model(), After(*sessions[i], options[i]));
    active.push_back(i);
  }
  SamplingWorkspace workspace;
  while (!active.empty()) {
    std::vector<Session*> batch;
    for (const size_t i : active) batch.push_back(sessions[i]);
    const std::vector<float> logits = Session::LogitsBatch(batch);
    const auto vocabulary = static_cast<size_t>(batch[0]->model().vocabulary());
    std::vector<size_t> next;
    std::vector<int32_t> tokens;
    batch.clear();
    for (size_t b = 0; b < active.size(); ++b) {
      const size_t i = active[b];
      const GeneratedToken token =
          NextOf(*sessions[i], std::span(logits).subspan(b * vocabulary, vocabulary),
                 generations[i], workspace);
      if (each && !each(i, token)) generations[i].Stop(StopReason::kCancelled);
      if (generations[i].reason() != StopReason::kNone) continue;
      next.push_back(i);
      batch.push_back(sessions[i]);
      tokens.push_back(token.token);
    }
    Session::FeedBatch(batch, tokens);
    active = std::move(next);
  }
  std::vector<Generated> results;
  for (const Generation& generation : generations) results.push_back(generation.result());
  return results;
}

}  // namespace cosformer::runtime
