#include "data/statistics.h"

#include <algorithm>
#include <cmath>

namespace cosformer::data {

int64_t CountWords(std::string_view text) {
  int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    words += (!blank && !inside) + (c == '\n');
    inside = !blank;
  }
  return words;
}

SetStatistics StatisticsOf(const Dataset& set, int64_t classes) {
  SetStatistics result;
  result.examples = set.examples();
  result.tokens = set.tokens();
  result.bytes = set.info().bytes;
  result.words = set.info().words;
  if (result.examples == 0) return result;
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < set.examples(); ++i) {
    int64_t sum = 0;
    for (int64_t part = 0; part < set.info().parts; ++part) sum += set.Length(i, part);
    lengths.push_back(sum);
  }
  std::sort(lengths.begin(), lengths.end());
  const auto at = [&](double share) {
    return lengths[static_cast<size_t>(share * static_cast<double>(lengths.size() - 1))];
  };
  result.shortest = lengths.front();
  result.median = at(0.5);
  result.most = at(0.95);
  result.longest = lengths.back();
  result.mean = static_cast<double>(result.tokens) / static_cast<double>(result.examples);
  if (!set.info().labelled) return result;
  result.classes.resize(static_cast<size_t>(classes));
  for (int64_t i = 0; i < set.examples(); ++i) {
    ++result.classes.at(static_cast<size_t>(set.Label(i)));
  }
  result.majority =
      static_cast<double>(*std::max_element(result.classes.begin(), result.classes.end())) /
      static_cast<double>(result.examples);
  return result;
}

double UnigramPerplexity(const Dataset& set) {
  constexpr int64_t kChunk = 1 << 20;
  std::vector<int64_t> counts(static_cast<size_t>(set.info().vocabulary));
  std::vector<int64_t> tokens;
  for (int64_t place = 0; place < set.tokens(); place += kChunk) {
    tokens.resize(static_cast<size_t>(std::min(kChunk, set.tokens() - place)));
    set.Copy(place, static_cast<int64_t>(tokens.size()), tokens.data());
    for (const int64_t token : tokens) ++counts.at(static_cast<size_t>(token));
  }
  double entropy = 0;
  for (const int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(set.tokens());
    entropy -= share * std::log(share);
  }
  return std::exp(entropy);
}

}  // namespace cosformer::data
