#include "cosformer/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "kernels/logit_runs.h"
#include "kernels/random.h"

namespace cosformer {

struct SamplingBuffers {
  struct Candidate {
    float logit = 0;
    int32_t token = 0;
    double weight = 0;  // its probability, over that of the likeliest
  };
  std::vector<float> adjusted;
  std::vector<float> run_largest;
  std::vector<float> run_sums;
  std::vector<Candidate> kept;
  std::vector<Candidate> border;
  std::vector<ScoredToken> likeliest;
};

namespace {

using Candidate = SamplingBuffers::Candidate;

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr int64_t kMaxWindow = 1 << 20;

bool Likelier(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

bool Lower(const Candidate& a, const Candidate& b) { return a.token < b.token; }

void CheckRange(std::string_view option, double value, double least, double most,
                std::string_view meaning) {
  if (value >= least && value <= most) return;
  throw Error(fmt::format("{} is {}; expected {} to {}{}", option, value, least, most, meaning));
}

void CheckOptions(const SamplingOptions& options, int64_t vocabulary) {
  if (vocabulary < 1 || vocabulary > std::numeric_limits<int32_t>::max()) {
    throw Error(fmt::format("a vocabulary of {} tokens can't be drawn from; expected 1 to {}",
                            vocabulary, std::numeric_limits<int32_t>::max()));
  }
  if (options.temperature != 0) {
    CheckRange("temperature", options.temperature, 1e-6, 1e6,
               ", or 0 to take the likeliest token always");
  }
  if (options.top_k < 0) {
    throw Error(fmt::format("top_k is {}; expected the number of tokens to draw from, or 0 for all",
                            options.top_k));
  }
  CheckRange("top_p", options.top_p, 0, 1, ", where 1 leaves all tokens");
  CheckRange("min_p", options.min_p, 0, 1, ", where 0 leaves all tokens");
  if (!(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty))) {
    throw Error(
        fmt::format("repetition_penalty is {}; expected a number above 0, where 1 changes nothing",
                    options.repetition_penalty));
  }
  if (options.repetition_window < 0 || options.repetition_window > kMaxWindow) {
    throw Error(
        fmt::format("repetition_window is {}; expected 1 to {} tokens, or 0 for all that "
                    "came before",
                    options.repetition_window, kMaxWindow));
  }
}

// In the order of tokens.
void CheckBiases(std::span<const LogitBias> biases, int64_t vocabulary) {
  for (size_t i = 0; i < biases.size(); ++i) {
    const LogitBias& bias = biases[i];
    if (bias.token < 0 || bias.token >= vocabulary) {
      throw Error(
          fmt::format("logit_bias is given for token {}, and the model's vocabulary has {}, 0 to "
                      "{}; remove it",
                      bias.token, vocabulary, vocabulary - 1));
    }
    if (!std::isfinite(bias.value) && bias.value != kNever) {
      throw Error(
          fmt::format("logit_bias is {} for token {}; expected a number, or -infinity to "
                      "forbid it",
                      bias.value, bias.token));
    }
    if (i > 0 && biases[i - 1].token == bias.token) {
      throw Error(fmt::format("logit_bias has token {} twice; give it once", bias.token));
    }
  }
}

[[noreturn]] void FailOnLogits(std::span<const float> logits) {
  const auto bad = std::find_if(logits.begin(), logits.end(),
                                [](float x) { return std::isnan(x) || x == -kNever; });
  assert(bad != logits.end());
  throw Error(fmt::format(
      "logit {} of {} is {}, where a number is expected; no token can be drawn: are the "
      "model's weights damaged, or did its training diverge?",
      bad - logits.begin(), logits.size(), std::isnan(*bad) ? "NaN" : "infinity"));
}

// To the nearest float that is finite: infinity would mean that a token can't come, or must.
float Rounded(double logit) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(logit, -kMost, kMost));
}

// Logits with what one pass found out about their runs.
struct Row {
  std::span<const float> logits;
  std::span<const float> run_largest;
  std::span<const float> run_sums;  // at `scale`; empty where none were taken
  double scale = 1;                 // 1 / temperature
  float largest = kNever;

  size_t runs() const { return run_largest.size(); }
  size_t RunBegin(size_t run) const { return run * static_cast<size_t>(kLogitRun); }
  size_t RunEnd(size_t run) const { return std::min(RunBegin(run + 1), logits.size()); }
  double Weight(float logit) const {
    return std::exp(scale * (static_cast<double>(logit) - largest));
  }
  double RunWeight(size_t run) const {
    return run_sums[run] == 0 ? 0 : run_sums[run] * Weight(run_largest[run]);
  }
  double Total() const {
    double total = 0;
    for (size_t run = 0; run < runs(); ++run) total += RunWeight(run);
    return total;
  }
};

int32_t LikeliestOf(const Row& row) {
  const auto run =
      static_cast<size_t>(std::find(row.run_largest.begin(), row.run_largest.end(), row.largest) -
                          row.run_largest.begin());
  const auto from = row.logits.begin() + static_cast<ptrdiff_t>(row.RunBegin(run));
  return static_cast<int32_t>(std::find(from, row.logits.end(), row.largest) - row.logits.begin());
}

// The k likeliest, in no order. Twice as many are collected before the lesser half is dropped: each
// logit is looked at once, and moved a constant number of times on average.
void TakeLikeliest(const Row& row, size_t k, std::vector<Candidate>& kept) {
  kept.clear();
  // Later tokens have to exceed this: of equal ones the earlier is the likelier.
  float least = kNever;
  const auto drop = [&] {
    const auto last = kept.begin() + static_cast<ptrdiff_t>(k) - 1;
    std::nth_element(kept.begin(), last, kept.end(), Likelier);
    least = last->logit;
    kept.resize(k);
  };
  for (size_t run = 0; run < row.runs(); ++run) {
    if (row.run_largest[run] <= least) continue;
    for (size_t i = row.RunBegin(run); i < row.RunEnd(run); ++i) {
      if (row.logits[i] <= least) continue;
      kept.push_back({row.logits[i], static_cast<int32_t>(i)});
      if (kept.size() == 2 * k) drop();
    }
  }
  if (kept.size() > k) drop();
}

// Those with a weight of at least exp(log_weight), and perhaps some that have little less; in the
// order of tokens.
void TakeHeavier(const Row& row, double log_weight, std::vector<Candidate>& kept) {
  kept.clear();
  // The slack is more than the roundings of weights and of their sum, the step to the next float
  // more than that of the bound.
  const double bound = row.largest + (log_weight - 1e-3) / row.scale;
  const float least = std::nextafter(Rounded(bound), kNever);
  for (size_t run = 0; run < row.runs(); ++run) {
    if (row.run_largest[run] < least) continue;
    for (size_t i = row.RunBegin(run); i < row.RunEnd(run); ++i) {
      const float logit = row.logits[i];
      if (logit >= least && logit > kNever) kept.push_back({logit, static_cast<int32_t>(i)});
    }
  }
}

// Keeps the fewest likeliest whose weights reach `wanted`, or all, in the order that they have.
// They are counted into classes by their logits first: only the class where the sum gets there has
// to be sorted.
void KeepShare(std::vector<Candidate>& kept, double wanted, std::vector<Candidate>& border) {
  constexpr size_t kClasses = 256;
  const auto [least, most] =
      std::minmax_element(kept.begin(), kept.end(),
                          [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; });
  const double largest = most->logit;
  const double range = largest - least->logit;
  const double classes_per_unit = range > 0 ? kClasses / range : 0;
  const auto class_of = [&](const Candidate& candidate) {
    const double place = (largest - candidate.logit) * classes_per_unit;
    return std::min(static_cast<size_t>(place), kClasses - 1);
  };
  std::array<double, kClasses> weights{};
  for (const Candidate& candidate : kept) weights[class_of(candidate)] += candidate.weight;
  double sum = 0;
  size_t last = 0;
  while (last < kClasses && sum + weights[last] < wanted) sum += weights[last++];
  if (last == kClasses) return;
  border.clear();
  std::copy_if(kept.begin(), kept.end(), std::back_inserter(border),
               [&](const Candidate& candidate) { return class_of(candidate) == last; });
  std::sort(border.begin(), border.end(), Likelier);
  size_t i = 0;
  while (i + 1 < border.size() && sum + border[i].weight < wanted) sum += border[i++].weight;
  const Candidate cut = border[i];
  std::erase_if(kept, [&](const Candidate& candidate) { return Likelier(cut, candidate); });
}

double TotalOf(std::span<const Candidate> kept) {
  double total = 0;
  for (const Candidate& candidate : kept) total += candidate.weight;
  return total;
}

int32_t DrawAmong(std::span<const Candidate> kept, double u) {
  const double target = u * TotalOf(kept);
  double sum = 0;
  for (const Candidate& candidate : kept) {
    sum += candidate.weight;
    if (sum > target) return candidate.token;
  }
  return kept.back().token;
}

// First the run, then the token in it: only there are weights taken one by one.
int32_t DrawAmongAll(const Row& row, double u) {
  double rest = u * row.Total();
  size_t run = 0;
  for (size_t i = 0; i < row.runs(); ++i) {
    const double weight = row.RunWeight(i);
    if (weight == 0) continue;
    run = i;
    if (rest < weight) break;
    rest -= weight;
  }
  int32_t token = -1;
  for (size_t i = row.RunBegin(run); i < row.RunEnd(run); ++i) {
    const double weight = row.Weight(row.logits[i]);
    if (weight == 0) continue;
    token = static_cast<int32_t>(i);
    if (rest < weight) break;
    rest -= weight;
  }
  return token;
}

Row Scan(std::span<const float> logits, double temperature, bool with_sums,
         SamplingBuffers& buffers) {
  const auto n = static_cast<int64_t>(logits.size());
  const auto runs = static_cast<size_t>(RunsOf(n));
  buffers.run_largest.resize(runs);
  buffers.run_sums.resize(runs);
  const double scale = 1 / temperature;
  ScanLogitRuns(logits.data(), n, static_cast<float>(scale), buffers.run_largest.data(),
                with_sums ? buffers.run_sums.data() : nullptr);
  Row row;
  row.logits = logits;
  row.run_largest = buffers.run_largest;
  if (with_sums) row.run_sums = buffers.run_sums;
  row.scale = scale;
  row.largest = *std::max_element(row.run_largest.begin(), row.run_largest.end());
  return row;
}

int32_t Draw(const Row& row, const SamplingOptions& options, double u, SamplingBuffers& buffers) {
  std::vector<Candidate>& kept = buffers.kept;
  const bool few = options.top_k > 0;
  if (!few && options.top_p == 1 && options.min_p == 0) return DrawAmongAll(row, u);
  double total = 0;
  if (few) {
    TakeLikeliest(row, static_cast<size_t>(options.top_k), kept);
  } else {
    double least = std::log(options.min_p);
    if (options.top_p < 1) {
      total = row.Total();
      // All that are below this together have no share of 1 - p: what is above them has p.
      least = std::max(
          least, std::log((1 - options.top_p) * total / static_cast<double>(row.logits.size())));
    }
    TakeHeavier(row, least, kept);
  }
  for (Candidate& candidate : kept) candidate.weight = row.Weight(candidate.logit);
  if (options.top_p < 1) {
    KeepShare(kept, options.top_p * (few ? TotalOf(kept) : total), buffers.border);
  }
  std::erase_if(kept, [&](const Candidate& candidate) { return candidate.weight < options.min_p; });
  if (few) std::sort(kept.begin(), kept.end(), Lower);
  return DrawAmong(kept, u);
}

}  // namespace

SamplingWorkspace::SamplingWorkspace() : buffers_(std::make_unique<SamplingBuffers>()) {}
SamplingWorkspace::~SamplingWorkspace() = default;
SamplingWorkspace::SamplingWorkspace(SamplingWorkspace&&) noexcept = default;
SamplingWorkspace& SamplingWorkspace::operator=(SamplingWorkspace&&) noexcept = default;

Sampler::Sampler(SamplingOptions options, int64_t vocabulary)
    : options_(std::move(options)), vocabulary_(vocabulary) {
  CheckOptions(options_, vocabulary_);
  std::sort(options_.logit_bias.begin(), options_.logit_bias.end(),
            [](const LogitBias& a, const LogitBias& b) { return a.token < b.token; });
  CheckBiases(options_.logit_bias, vocabulary_);
  if (options_.top_k >= vocabulary_) options_.top_k = 0;
}

void Sampler::Observe(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary_) {
      throw Error(
          fmt::format("token {} is outside the vocabulary of {}: were the tokens made with "
                      "another tokenizer?",
                      token, vocabulary_));
    }
  }
  const auto window = static_cast<size_t>(options_.repetition_window);
  if (window > 0 && tokens.size() > window) tokens = tokens.last(window);
  for (const int32_t token : tokens) Remember(token);
}

void Sampler::Remember(int32_t token) {
  if (options_.repetition_penalty == 1) return;
  const auto place = [this](int32_t wanted) {
    return std::lower_bound(recent_.begin(), recent_.end(), wanted,
                            [](const Recent& recent, int32_t t) { return recent.token < t; });
  };
  const auto found = place(token);
  const bool is_new = found == recent_.end() || found->token != token;
  if (is_new) recent_.insert(found, {token, 1});
  const auto window = static_cast<size_t>(options_.repetition_window);
  if (window == 0) return;
  if (!is_new) ++found->count;
  if (window_.size() < window) {
    window_.push_back(token);
    return;
  }
  const auto left = place(std::exchange(window_[oldest_], token));
  if (--left->count == 0) recent_.erase(left);
  oldest_ = (oldest_ + 1) % window;
}

// The logits after bias and penalty: in place where there is neither.
std::span<const float> Sampler::Adjusted(std::span<const float> logits,
                                         SamplingBuffers& buffers) const {
  if (options_.logit_bias.empty() && recent_.empty()) return logits;
  std::vector<float>& adjusted = buffers.adjusted;
  adjusted.assign(logits.begin(), logits.end());
  for (const LogitBias& bias : options_.logit_bias) {
    float& logit = adjusted[static_cast<size_t>(bias.token)];
    const bool never = logit == kNever || bias.value == kNever;
    logit = never ? kNever : Rounded(static_cast<double>(logit) + bias.value);
  }
  const double penalty = options_.repetition_penalty;
  for (const Recent& recent : recent_) {
    float& logit = adjusted[static_cast<size_t>(recent.token)];
    if (logit != kNever) logit = Rounded(logit > 0 ? logit / penalty : logit * penalty);
  }
  return adjusted;
}

SampledToken Sampler::Next(std::span<const float> logits, SamplingWorkspace& workspace,
                           int64_t likeliest) {
  if (static_cast<int64_t>(logits.size()) != vocabulary_) {
    throw Error(fmt::format("{} logits were given for a vocabulary of {} tokens; give one for each",
                            logits.size(), vocabulary_));
  }
  if (likeliest < 0) {
    throw Error(
        fmt::format("{} of the likeliest tokens were asked for; ask for 0 or more", likeliest));
  }
  SamplingBuffers& buffers = *workspace.buffers_;
  Row row = Scan(logits, 1, true, buffers);
  const double total = row.Total();
  if (std::isnan(total) || row.largest == -kNever) FailOnLogits(logits);
  if (row.largest == kNever) {
    throw Error(
        fmt::format("all {} logits are -infinity; one at least must be a number", logits.size()));
  }
  // Large logits leave no digits for the logarithm: the difference comes first.
  const auto scored = [&, largest = static_cast<double>(row.largest),
                       log_total = std::log(total)](int32_t token) {
    return ScoredToken{token, logits[static_cast<size_t>(token)] - largest - log_total};
  };
  buffers.likeliest.clear();
  if (likeliest > 0) {
    TakeLikeliest(row, static_cast<size_t>(std::min(likeliest, vocabulary_)), buffers.kept);
    std::sort(buffers.kept.begin(), buffers.kept.end(), Likelier);
    for (const Candidate& candidate : buffers.kept) {
      buffers.likeliest.push_back(scored(candidate.token));
    }
  }

  const double temperature = options_.temperature;
  const std::span<const float> adjusted = Adjusted(logits, buffers);
  const bool needs_sums =
      temperature > 0 && options_.top_k == 0 && (options_.top_p < 1 || options_.min_p == 0);
  if (adjusted.data() != logits.data() || (needs_sums && temperature != 1)) {
    row = Scan(adjusted, temperature > 0 ? temperature : 1, needs_sums, buffers);
    if (row.largest == kNever) {
      throw Error(
          "logit_bias forbids every token that the model would let come; allow one of them");
    }
  }
  if (temperature > 0) row.scale = 1 / temperature;
  const int32_t token = temperature == 0
                            ? LikeliestOf(row)
                            : Draw(row, options_, Random(options_.seed, draws_).Uniform(), buffers);
  ++draws_;
  Remember(token);
  return {token, scored(token).log_probability, buffers.likeliest};
}

}  // namespace cosformer
