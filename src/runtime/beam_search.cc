// Beam search: at every step the best continuations of all texts found so far, each a fork.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "cosformer/generate.h"
#include "formats/tokenizer.h"
#include "runtime/log_softmax.h"
#include "runtime/text_stream.h"

namespace cosformer::runtime {
namespace {

struct Open {
  Session session;
  Beam beam;
};

struct Candidate {
  size_t from = 0;  // beam
  int32_t token = 0;
  double log_probability = 0;  // with the token
};

// Ties go to the earlier beam, then to the lower token.
bool Better(const Candidate& a, const Candidate& b) {
  if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
  return a.from != b.from ? a.from < b.from : a.token < b.token;
}

void Rank(Beam& beam, double length_penalty, size_t length) {
  beam.score = beam.log_probability /
               std::pow(static_cast<double>(std::max<size_t>(length, 1)), length_penalty);
}

}  // namespace

std::vector<Beam> BeamSearch(const Session& session, const BeamOptions& options) {
  if (options.beams < 1 || options.beams > 1024) {
    throw Error(fmt::format("beam search: beams is {}; give 1 to 1024", options.beams));
  }
  if (options.max_tokens < 1) {
    throw Error(fmt::format("beam search: max_tokens is {}; give 1 or more", options.max_tokens));
  }
  if (!std::isfinite(options.length_penalty)) {
    throw Error("beam search: the length penalty must be a number");
  }
  const Model& model = session.model();
  const auto vocabulary = static_cast<size_t>(model.vocabulary());
  const auto beams = static_cast<size_t>(options.beams);
  const int32_t end = options.stop_at_end ? model.end_token() : -1;
  const std::optional<int64_t> limit = session.max_tokens();
  const auto better = [](const Beam& a, const Beam& b) { return a.score > b.score; };

  std::vector<Open> open;
  open.push_back({session, {}});
  std::vector<Beam> done;
  for (int64_t step = 0; step < options.max_tokens && !open.empty(); ++step) {
    std::vector<Session*> batch;
    for (Open& one : open) batch.push_back(&one.session);
    const std::vector<float> logits = Session::LogitsBatch(batch);
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < open.size(); ++i) {
      const auto row = std::span(logits).subspan(i * vocabulary, vocabulary);
      const double log_sum = LogSum(row);
      if (!std::isfinite(log_sum)) {
        throw Error(
            "beam search: the model's prediction is no number; its weights are damaged, or its "
            "training had diverged");
      }
      std::vector<Candidate> own;
      for (size_t t = 0; t < vocabulary; ++t) {
        own.push_back({i, static_cast<int32_t>(t),
                       open[i].beam.log_probability + static_cast<double>(row[t]) - log_sum});
      }
      // One more than there are beams: the one that ends may be among them.
      const auto keep = static_cast<ptrdiff_t>(std::min(beams + 1, own.size()));
      std::partial_sort(own.begin(), own.begin() + keep, own.end(), Better);
      candidates.insert(candidates.end(), own.begin(), own.begin() + keep);
    }
    std::sort(candidates.begin(), candidates.end(), Better);

    std::vector<Open> next;
    std::vector<int32_t> tokens;
    for (const Candidate& candidate : candidates) {
      if (next.size() == beams) break;
      Beam beam = open[candidate.from].beam;
      beam.log_probability = candidate.log_probability;
      if (candidate.token == end) {
        beam.ended = true;
        Rank(beam, options.length_penalty, beam.tokens.size() + 1);
        done.push_back(std::move(beam));
        continue;
      }
      beam.tokens.push_back(candidate.token);
      Rank(beam, options.length_penalty, beam.tokens.size());
      next.push_back({open[candidate.from].session, std::move(beam)});
      tokens.push_back(candidate.token);
    }
    open = std::move(next);
    std::stable_sort(done.begin(), done.end(), better);
    if (done.size() > beams) done.resize(beams);
    // Probabilities only fall, so that with no penalty for length nothing open can catch up.
    if (options.length_penalty == 0 && done.size() == beams && !open.empty() &&
        done.back().score >= open.front().beam.score) {
      open.clear();
    }
    if (open.empty() || step + 1 == options.max_tokens ||
        (limit && open.front().session.position() >= *limit)) {
      break;
    }
    batch.clear();
    for (Open& one : open) batch.push_back(&one.session);
    Session::FeedBatch(batch, tokens);
  }
  for (Open& one : open) done.push_back(std::move(one.beam));
  std::stable_sort(done.begin(), done.end(), better);
  if (done.size() > beams) done.resize(beams);
  const std::vector<int32_t> before = options.before.empty() ? session.recent() : options.before;
  for (Beam& beam : done) {
    if (model.tokenizer() == nullptr) break;
    TextStream text(*model.tokenizer(), {}, before, /*within_line=*/true);
    for (const int32_t token : beam.tokens) beam.text += text.Add(token);
    beam.text += text.Finish();
  }
  return done;
}

}  // namespace cosformer::runtime
