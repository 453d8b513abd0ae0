#include "data/listops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <limits>

#include "cosformer/error.h"
#include "report/units.h"

namespace cosformer::data {
namespace {

constexpr int64_t kDigits = 10;
constexpr int64_t kOperators = 4;
// Of one example, half a second's work. With the published options 1 tree of 3 has a length within
// the bounds.
constexpr int64_t kMostDraws = 100'000;
// What recursion over a tree bears, and more than any length needs.
constexpr int kMostDepth = 1'000;

bool IsOperator(ListOpsNode node) { return node.arguments > 0; }

// The length of the largest tree, or the largest number.
int64_t MostPossibleLength(const ListOpsOptions& options) {
  int64_t length = 1;
  for (int depth = options.depth; depth > 1; --depth) {
    if (length > std::numeric_limits<int64_t>::max() / 2 / options.arguments) {
      return std::numeric_limits<int64_t>::max();
    }
    length = 2 + options.arguments * length;
  }
  return length;
}

int Apply(ListOpsSymbol symbol, const std::array<int, kDigits>& counts, int arguments) {
  // The value at a place of the sorted arguments.
  const auto at = [&](int place) {
    int value = 0;
    for (int below = counts[0]; below <= place; below += counts[static_cast<size_t>(value)]) {
      ++value;
    }
    return value;
  };
  switch (symbol) {
    case ListOpsSymbol::kMin:
      return at(0);
    case ListOpsSymbol::kMax:
      return at(arguments - 1);
    case ListOpsSymbol::kMed:
      // The same place twice where their number is odd.
      return (at((arguments - 1) / 2) + at(arguments / 2)) / 2;
    case ListOpsSymbol::kSm:
      break;
  }
  int sum = 0;
  for (int value = 0; value < kDigits; ++value) sum += value * counts[static_cast<size_t>(value)];
  return sum % static_cast<int>(kDigits);
}

// `node` moves behind the subtree.
int Evaluate(ListOpsTree::const_iterator& node) {
  const auto [symbol, arguments] = *node++;
  if (arguments == 0) return static_cast<int>(symbol);
  std::array<int, kDigits> counts{};
  for (int i = 0; i < arguments; ++i) ++counts[static_cast<size_t>(Evaluate(node))];
  return Apply(symbol, counts, arguments);
}

void AppendText(ListOpsTree::const_iterator& node, std::string& text) {
  constexpr const char* kNames[kOperators] = {"[MIN", "[MAX", "[MED", "[SM"};
  const auto [symbol, arguments] = *node++;
  if (arguments == 0) {
    text += static_cast<char>('0' + static_cast<int>(symbol));
    return;
  }
  // Pairs of what is so far and what comes next: one for each argument and one for the close.
  for (int i = 0; i <= arguments; ++i) text += "( ";
  text += kNames[static_cast<int>(symbol) - static_cast<int>(ListOpsSymbol::kMin)];
  for (int i = 0; i < arguments; ++i) {
    text += ' ';
    AppendText(node, text);
    text += " )";
  }
  text += " ] )";
}

}  // namespace

void CheckListOpsOptions(const ListOpsOptions& options) {
  const auto fail = [](const std::string& sentence) { throw Error("ListOps: " + sentence); };
  if (options.depth < 2 || options.depth > kMostDepth) {
    fail(fmt::format("the depth is {}, and can be 2 to {}", options.depth, kMostDepth));
  }
  if (options.arguments < 2 || options.arguments > std::numeric_limits<uint8_t>::max()) {
    fail(fmt::format("an operator has at most {} arguments, and this can be 2 to {}",
                     options.arguments, std::numeric_limits<uint8_t>::max()));
  }
  if (!(options.operator_probability >= 0 && options.operator_probability <= 1)) {
    fail(fmt::format("the probability of an operator is {}, and can be 0 to 1",
                     options.operator_probability));
  }
  if (options.least_length < 0 || options.most_length - options.least_length < 2) {
    fail(
        fmt::format("no length is above {} and below {}; give bounds of 0 or more with a number "
                    "between them",
                    options.least_length, options.most_length));
  }
  const int64_t possible = MostPossibleLength(options);
  // The shortest tree is an operator with two digits.
  if (possible <= options.least_length || options.most_length <= 4) {
    fail(
        fmt::format("a tree of depth {} and at most {} arguments has a length of 4 to {}, none of "
                    "which is above {} and below {}; give other bounds or a greater depth",
                    options.depth, options.arguments, report::FormatInteger(possible),
                    options.least_length, options.most_length));
  }
}

bool DrawListOps(const ListOpsOptions& options, Random& random, ListOpsTree& tree) {
  tree.clear();
  // Of each operator that is open: the arguments still to come.
  std::array<int, kMostDepth> open;
  int depth = 1;
  // Tokens that are there, and those that are sure to come: closes and one for each argument.
  int64_t length = 1;
  while (true) {
    const bool is_operator =
        depth < options.depth && (depth == 1 || random.Uniform() < options.operator_probability);
    if (is_operator) {
      const auto symbol = static_cast<ListOpsSymbol>(kDigits + random.Below(kOperators));
      const int arguments = 2 + static_cast<int>(random.Below(options.arguments - 1));
      tree.push_back({symbol, static_cast<uint8_t>(arguments)});
      length += 1 + arguments;
      if (length >= options.most_length) return false;
      open[static_cast<size_t>(depth++ - 1)] = arguments;
      continue;
    }
    tree.push_back({static_cast<ListOpsSymbol>(random.Below(kDigits)), 0});
    while (--open[static_cast<size_t>(depth - 2)] == 0) {
      if (--depth == 1) return length > options.least_length;
    }
  }
}

ListOpsTree MakeListOps(const ListOpsOptions& options, int64_t index) {
  Random random(options.seed, static_cast<uint64_t>(index));
  ListOpsTree tree;
  for (int64_t draw = 0; draw < kMostDraws; ++draw) {
    if (DrawListOps(options, random, tree)) return tree;
  }
  throw Error(fmt::format(
      "ListOps: of {} trees none had a length above {} and below {}; give other bounds, another "
      "probability of operators or another depth",
      report::FormatInteger(kMostDraws), options.least_length, options.most_length));
}

int64_t ListOpsLength(const ListOpsTree& tree) {
  return static_cast<int64_t>(tree.size()) + std::ranges::count_if(tree, IsOperator);
}

int EvaluateListOps(const ListOpsTree& tree) {
  auto node = tree.begin();
  const int value = Evaluate(node);
  assert(node == tree.end());
  return value;
}

std::string ListOpsText(const ListOpsTree& tree) {
  std::string text;
  auto node = tree.begin();
  AppendText(node, text);
  assert(node == tree.end());
  return text;
}

void GenerateListOps(const std::string& directory, const ListOpsOptions& options,
                     const GenerationProgress& progress) {
  CheckListOpsOptions(options);
  MakeListOps(options,
              0);  // throws, before there is a file, where hardly any tree has such a length
  const GeneratedSet set{.directory = directory,
                         .parts = {{"basic_train.tsv", options.train},
                                   {"basic_val.tsv", options.valid},
                                   {"basic_test.tsv", options.test}},
                         .header = "Source\tTarget\n",
                         .threads = options.threads};
  WriteGeneratedSet(
      set,
      [&](int64_t index) {
        const ListOpsTree tree = MakeListOps(options, index);
        return fmt::format("{}\t{}\n", ListOpsText(tree), EvaluateListOps(tree));
      },
      progress);
}

}  // namespace cosformer::data
