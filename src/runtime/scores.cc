#include "runtime/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/parallel.h"
#include "runtime/log_softmax.h"
#include "runtime/network.h"

namespace cosformer::runtime {
namespace {

// 16 MiB of logits: enough rows for the products, little beside the weights.
constexpr int64_t kLogits = int64_t{1} << 22;

// For rows of logits; an exponential takes as long as some 10 flops.
Team TeamOver(int64_t rows, const Model& model) {
  return Team(model.network().threads(), rows,
              {.flops = 20.0 * static_cast<double>(rows * model.vocabulary())});
}

TokenScore ScoreOf(std::span<const float> logits, int32_t token, int64_t likeliest) {
  const double log_sum = LogSum(logits);
  TokenScore score{
      .token = token,
      .log_probability = static_cast<double>(logits[static_cast<size_t>(token)]) - log_sum,
      .rank = 1,
      .likeliest = Likeliest(logits, log_sum, likeliest)};
  for (size_t i = 0; i < logits.size(); ++i) {
    score.rank += Likelier(logits, static_cast<int32_t>(i), token);
  }
  return score;
}

struct RowComparison {
  double log_probability[2];
  double divergence;
  bool agreed;
};

RowComparison CompareRow(std::span<const float> first, std::span<const float> second,
                         int32_t token) {
  const double sums[2] = {LogSum(first), LogSum(second)};
  const auto at = static_cast<size_t>(token);
  RowComparison row{.log_probability = {static_cast<double>(first[at]) - sums[0],
                                        static_cast<double>(second[at]) - sums[1]},
                    .divergence = 0,
                    .agreed = std::max_element(first.begin(), first.end()) - first.begin() ==
                              std::max_element(second.begin(), second.end()) - second.begin()};
  for (size_t i = 0; i < first.size(); ++i) {
    const double p = static_cast<double>(first[i]) - sums[0];
    const double q = static_cast<double>(second[i]) - sums[1];
    row.divergence += std::exp(p) * (p - q);
  }
  return row;
}

void CheckFinite(double value, int64_t place) {
  if (std::isfinite(value)) return;
  throw Error(
      fmt::format("the model's prediction of token {} is no number; its weights are damaged, or "
                  "its training had diverged",
                  place));
}

std::span<const float> Row(std::span<const float> logits, int64_t row, int64_t vocabulary) {
  return logits.subspan(static_cast<size_t>(row * vocabulary), static_cast<size_t>(vocabulary));
}

}  // namespace

Windows WindowsFor(const Model& model, int64_t tokens, int64_t length, int64_t stride) {
  if (model.use() != Use::kLanguageModel) {
    throw Error("this model is no language model: it does not predict the next token");
  }
  if (tokens < 2) {
    throw Error(
        fmt::format("the text has {} token{}, and the first is not predicted: give a text of two "
                    "at least",
                    tokens, tokens == 1 ? "" : "s"));
  }
  const std::optional<int64_t> limit = model.max_tokens();
  if (length < 0 || length == 1 || (limit && length > *limit)) {
    throw Error(fmt::format(
        "windows of {} tokens are not possible: {}", length,
        limit ? fmt::format("this model reads 2 to {}", *limit) : "they need two at least"));
  }
  if (limit && *limit < 2) {
    throw Error("the model's longest text is one token: there is nothing that it could predict");
  }
  if (length == 0) length = limit.value_or(tokens);
  if (stride < 0)
    throw Error(fmt::format("windows can't be {} tokens apart: give 1 or more", stride));
  if (stride == 0) stride = std::max<int64_t>(1, length / 2);
  if (tokens <= length) return {tokens, stride, 1};
  if (stride >= length) {
    throw Error(
        fmt::format("windows of {} tokens can't be {} apart: 1 to {} are possible, so that every "
                    "token has one before it",
                    length, stride, length - 1));
  }
  return {length, stride, 1 + (tokens - length + stride - 1) / stride};
}

WindowedLogits::WindowedLogits(const Model& model, std::span<const int32_t> tokens,
                               const Windows& windows)
    : model_(model),
      tokens_(tokens),
      windows_(windows),
      most_rows_(std::clamp<int64_t>(kLogits / model.vocabulary(), 1, Network::kPass)),
      session_(model, {.checkpoints = 0}) {}

bool WindowedLogits::Next() {
  place_ += rows_;
  if (window_ < 0) place_ = 1;
  const auto size = static_cast<int64_t>(tokens_.size());
  if (place_ >= size) return false;
  if (place_ >= end_) {
    ++window_;
    const int64_t begin = window_ * windows_.stride;
    end_ = std::min(size, begin + windows_.length);
    session_.Reset();
    session_.Feed(
        tokens_.subspan(static_cast<size_t>(begin), static_cast<size_t>(place_ - 1 - begin)));
  }
  rows_ = std::min(end_ - place_, most_rows_);
  logits_ = session_.FeedAll(
      tokens_.subspan(static_cast<size_t>(place_ - 1), static_cast<size_t>(rows_)));
  return true;
}

std::vector<TokenScore> ScoreTokens(const Model& model, std::span<const int32_t> tokens,
                                    const Windows& windows, int64_t likeliest,
                                    const ScoreProgress& progress) {
  std::vector<TokenScore> scores(tokens.size() - 1);
  WindowedLogits logits(model, tokens, windows);
  while (logits.Next()) {
    TeamOver(logits.rows(), model).RunEvenly(logits.rows(), [&](int64_t row, int) {
      const auto place = static_cast<size_t>(logits.place() + row);
      scores[place - 1] =
          ScoreOf(Row(logits.logits(), row, model.vocabulary()), tokens[place], likeliest);
    });
    for (int64_t row = 0; row < logits.rows(); ++row) {
      const int64_t place = logits.place() + row;
      CheckFinite(scores[static_cast<size_t>(place - 1)].log_probability, place);
    }
    if (progress) {
      progress(static_cast<double>(logits.place() + logits.rows()) /
               static_cast<double>(tokens.size()));
    }
  }
  return scores;
}

Comparison Compare(const Model& first, const Model& second, std::span<const int32_t> tokens,
                   const Windows& windows, const ScoreProgress& progress) {
  WindowedLogits ours(first, tokens, windows), theirs(second, tokens, windows);
  Comparison result;
  std::vector<RowComparison> compared;
  while (ours.Next() && theirs.Next()) {
    compared.resize(static_cast<size_t>(ours.rows()));
    TeamOver(ours.rows(), first).RunEvenly(ours.rows(), [&](int64_t row, int) {
      compared[static_cast<size_t>(row)] =
          CompareRow(Row(ours.logits(), row, first.vocabulary()),
                     Row(theirs.logits(), row, second.vocabulary()),
                     tokens[static_cast<size_t>(ours.place() + row)]);
    });
    // In their order, so that the sums do not depend on the threads.
    for (const RowComparison& row : compared) {
      ++result.predictions;
      CheckFinite(row.log_probability[0] + row.log_probability[1] + row.divergence,
                  result.predictions);
      result.log_probability[0] += row.log_probability[0];
      result.log_probability[1] += row.log_probability[1];
      result.divergence += row.divergence;
      result.agreed += row.agreed;
    }
    if (progress) {
      progress(static_cast<double>(result.predictions) / static_cast<double>(tokens.size() - 1));
    }
  }
  return result;
}

}  // namespace cosformer::runtime
