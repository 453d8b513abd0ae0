// What a set of examples is like: lengths, classes, and what guessing gives.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace cosformer::data {

// What lies between blanks, and the ends of lines: as WikiText's perplexities count them.
int64_t CountWords(std::string_view text);

struct SetStatistics {
  int64_t examples = 0, tokens = 0, bytes = 0, words = 0;
  // Of an example, in tokens of all its texts.
  int64_t shortest = 0, median = 0, most = 0 /* 95 % are no longer */, longest = 0;
  double mean = 0;
  std::vector<int64_t> classes;  // examples of each
  double majority = 0;           // share of the most frequent class; 0 without classes
};

SetStatistics StatisticsOf(const Dataset& set, int64_t classes);

// The perplexity of guessing every token by how often it occurs in the set, without its context.
double UnigramPerplexity(const Dataset& set);

}  // namespace cosformer::data
