#include "data/ngrams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "cosformer/error.h"
#include "report/units.h"

namespace cosformer::data {
namespace {

constexpr int kTokenBits = 21;  // three in a key
constexpr uint64_t kTokenMask = (uint64_t{1} << kTokenBits) - 1;
// Grams that wait to be sorted: 128 MB, sorted in about a second.
constexpr size_t kMaxPending = size_t{1} << 24;

uint64_t KeyMask(int order) { return (uint64_t{1} << (kTokenBits * order)) - 1; }

// Merges runs of equal keys, which ascend.
void CountRuns(std::span<const uint64_t> sorted, std::vector<uint64_t>& keys,
               std::vector<uint32_t>& counts) {
  for (size_t i = 0; i < sorted.size();) {
    size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[i]) ++end;
    keys.push_back(sorted[i]);
    counts.push_back(static_cast<uint32_t>(end - i));
    i = end;
  }
}

// From how many grams were seen once, twice, three and four times. Texts too small, or made up, for
// these to fall off as in a language get what is usual.
std::array<double, 4> Discounts(std::span<const uint32_t> counts) {
  std::array<double, 5> seen = {};
  for (const uint32_t count : counts) {
    if (count < seen.size()) ++seen[count];
  }
  const std::array<double, 4> usual = {0, 0.5, 1, 1.5};
  if (std::any_of(seen.begin() + 1, seen.end(), [](double times) { return times == 0; })) {
    return usual;
  }
  const double once = seen[1] / (seen[1] + 2 * seen[2]);
  std::array<double, 4> discounts = {};
  for (size_t count = 1; count < discounts.size(); ++count) {
    const auto number = static_cast<double>(count);
    discounts[count] = number - (number + 1) * once * seen[count + 1] / seen[count];
    if (discounts[count] <= 0) return usual;
  }
  return discounts;
}

}  // namespace

NGramModel::Level::Level(std::span<const uint64_t> keys, std::span<const uint32_t> counts,
                         double added)
    : discounts_(added > 0 ? std::array<double, 4>{} : Discounts(counts)),
      counts_(counts.begin(), counts.end()) {
  tokens_.reserve(keys.size());
  for (size_t i = 0; i < keys.size();) {
    const uint64_t context = keys[i] >> kTokenBits;
    double total = added, discounted = added;
    contexts_.push_back(context);
    begins_.push_back(i);
    for (; i < keys.size() && keys[i] >> kTokenBits == context; ++i) {
      tokens_.push_back(static_cast<uint32_t>(keys[i] & kTokenMask));
      total += counts[i];
      discounted += discounts_[std::min<size_t>(counts[i], 3)];
    }
    totals_.push_back(total);
    backoff_.push_back(discounted / total);
  }
  begins_.push_back(keys.size());
}

double NGramModel::Level::Probability(uint64_t context, uint64_t token, double below) const {
  const auto found = std::lower_bound(contexts_.begin(), contexts_.end(), context);
  if (found == contexts_.end() || *found != context) return below;
  const auto index = static_cast<size_t>(found - contexts_.begin());
  double probability = backoff_[index] * below;
  const auto end = tokens_.begin() + static_cast<ptrdiff_t>(begins_[index + 1]);
  const auto place =
      std::lower_bound(tokens_.begin() + static_cast<ptrdiff_t>(begins_[index]), end, token);
  if (place != end && *place == token) {
    const uint32_t count = counts_[static_cast<size_t>(place - tokens_.begin())];
    probability += (count - discounts_[std::min<size_t>(count, 3)]) / totals_[index];
  }
  return probability;
}

NGramModel::NGramModel(int64_t vocabulary, int order) : vocabulary_(vocabulary), order_(order) {
  if (order < 1 || order > 3) {
    throw Error(fmt::format("n-grams of {} tokens are not supported; ask for 1, 2 or 3", order));
  }
  // One more stands for what is before a text.
  const auto most = static_cast<int64_t>(kTokenMask);
  if (vocabulary < 1 || vocabulary > most) {
    throw Error(
        fmt::format("n-grams over a vocabulary of {} tokens are not supported; expected 1 "
                    "to {}",
                    report::FormatInteger(vocabulary), report::FormatInteger(most)));
  }
}

void NGramModel::CheckTokens(std::span<const int32_t> text) const {
  for (const int32_t token : text) {
    if (token < 0 || token >= vocabulary_) {
      throw Error(fmt::format("token {} is outside the n-grams' vocabulary of {}", token,
                              report::FormatInteger(vocabulary_)));
    }
  }
}

uint64_t NGramModel::Beginning() const {
  const auto nothing = static_cast<uint64_t>(vocabulary_);
  return ((nothing << kTokenBits | nothing) << kTokenBits | nothing) & KeyMask(order_);
}

uint64_t NGramModel::Append(uint64_t key, int32_t token) const {
  return (key << kTokenBits | static_cast<uint64_t>(token)) & KeyMask(order_);
}

void NGramModel::Count(std::span<const int32_t> text) {
  CheckTokens(text);
  uint64_t key = Beginning();
  for (const int32_t token : text) {
    key = Append(key, token);
    pending_.push_back(key);
    if (pending_.size() == kMaxPending) Compact();
  }
}

void NGramModel::Compact() {
  std::sort(pending_.begin(), pending_.end());
  std::vector<uint64_t> new_keys;
  std::vector<uint32_t> new_counts;
  CountRuns(pending_, new_keys, new_counts);
  pending_.clear();
  if (keys_.empty()) {
    keys_ = std::move(new_keys);
    counts_ = std::move(new_counts);
    return;
  }
  std::vector<uint64_t> keys;
  std::vector<uint32_t> counts;
  keys.reserve(keys_.size() + new_keys.size());
  counts.reserve(keys_.size() + new_keys.size());
  for (size_t i = 0, j = 0; i < keys_.size() || j < new_keys.size();) {
    const bool take_old = j == new_keys.size() || (i < keys_.size() && keys_[i] <= new_keys[j]);
    const bool take_new = i == keys_.size() || (j < new_keys.size() && new_keys[j] <= keys_[i]);
    keys.push_back(take_old ? keys_[i] : new_keys[j]);
    counts.push_back((take_old ? counts_[i] : 0) + (take_new ? new_counts[j] : 0));
    i += take_old;
    j += take_new;
  }
  keys_ = std::move(keys);
  counts_ = std::move(counts);
}

void NGramModel::Finish() {
  Compact();
  pending_ = {};
  levels_.emplace_back(keys_, counts_, order_ == 1 ? static_cast<double>(vocabulary_) : 0);
  // Below, a token counts by how many different ones precede it: "Francisco" follows one word only,
  // and is unlikely after others however frequent it is.
  for (int order = order_ - 1; order >= 1; --order) {
    std::vector<uint64_t> tails = std::move(keys_);
    for (uint64_t& key : tails) key &= KeyMask(order);
    std::sort(tails.begin(), tails.end());
    keys_.clear();
    counts_.clear();
    CountRuns(tails, keys_, counts_);
    levels_.emplace_back(keys_, counts_, 0);
  }
  std::reverse(levels_.begin(), levels_.end());
  keys_ = {};
  counts_ = {};
}

double NGramModel::Probability(uint64_t key) const {
  double probability = 1 / static_cast<double>(vocabulary_);
  for (int order = 1; order <= order_; ++order) {
    const uint64_t tail = key & KeyMask(order);
    probability = levels_[static_cast<size_t>(order - 1)].Probability(
        tail >> kTokenBits, tail & kTokenMask, probability);
  }
  return probability;
}

double NGramModel::LogProbability(std::span<const int32_t> before, int32_t token) const {
  before = before.last(std::min(before.size(), static_cast<size_t>(order_ - 1)));
  CheckTokens(before);
  CheckTokens(std::span(&token, 1));
  uint64_t key = Beginning();
  for (const int32_t earlier : before) key = Append(key, earlier);
  return std::log(Probability(Append(key, token)));
}

double NGramModel::NegativeLogLikelihood(std::span<const int32_t> text, size_t known) const {
  CheckTokens(text);
  double sum = 0;
  uint64_t key = Beginning();
  for (size_t i = 0; i < text.size(); ++i) {
    key = Append(key, text[i]);
    if (i >= known) sum -= std::log(Probability(key));
  }
  return sum;
}

}  // namespace cosformer::data
