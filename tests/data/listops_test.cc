// Expressions follow the rules, and a reader who knows the text alone comes to the same value.
#include "data/listops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "formats/folder.h"
#include "report/contains.h"

namespace cosformer::data {
namespace {

using cosformer::testing::Contains;
using cosformer::testing::MessageOf;

constexpr ListOpsNode Digit(int value) { return {static_cast<ListOpsSymbol>(value), 0}; }

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> SymbolsOf(const std::string& text) {
  std::vector<std::string> tokens = Words(text);
  std::erase_if(tokens, [](const std::string& word) { return word == "(" || word == ")"; });
  return tokens;
}

// What the tokens come to, by the definition of the operators.
int Value(const std::vector<std::string>& tokens, size_t& at) {
  const std::string word = tokens.at(at++);
  if (word.size() == 1 && word[0] >= '0' && word[0] <= '9') return word[0] - '0';
  std::vector<int> arguments;
  while (tokens.at(at) != "]") arguments.push_back(Value(tokens, at));
  ++at;
  std::sort(arguments.begin(), arguments.end());
  const size_t n = arguments.size();
  if (word == "[MIN") return arguments.front();
  if (word == "[MAX") return arguments.back();
  if (word == "[MED") {
    if (n % 2 == 1) return arguments[n / 2];
    return static_cast<int>((arguments[n / 2 - 1] + arguments[n / 2]) / 2.0);
  }
  EXPECT_EQ(word, "[SM");
  int sum = 0;
  for (const int argument : arguments) sum += argument;
  return sum % 10;
}

// Whether the text is a tree of pairs, "( one other )", as the published ones are.
bool IsPairs(const std::vector<std::string>& words, size_t& at) {
  if (words.at(at) == ")") return false;
  if (words.at(at++) != "(") return true;
  return IsPairs(words, at) && IsPairs(words, at) && words.at(at++) == ")";
}

std::vector<int> Depths(const ListOpsTree& tree) {
  std::vector<int> depths;
  std::vector<int> open;
  for (const ListOpsNode& node : tree) {
    depths.push_back(static_cast<int>(open.size()) + 1);
    if (node.arguments > 0) {
      open.push_back(node.arguments);
    } else {
      while (!open.empty() && --open.back() == 0) open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
  return depths;
}

ListOpsOptions Unbounded(int depth) {
  ListOpsOptions options;
  options.depth = depth;
  options.least_length = 0;
  options.most_length = 1'000'000'000;
  return options;
}

TEST(ListOps, TheTextIsThatOfThePublishedFiles) {
  const ListOpsTree tree{
      {ListOpsSymbol::kMax, 2}, Digit(4), {ListOpsSymbol::kMin, 3}, Digit(2), Digit(7), Digit(9)};
  EXPECT_EQ(ListOpsText(tree), "( ( ( [MAX 4 ) ( ( ( ( [MIN 2 ) 7 ) 9 ) ] ) ) ] )");
  EXPECT_EQ(ListOpsLength(tree), 8);
  EXPECT_EQ(EvaluateListOps(tree), 4);
}

TEST(ListOps, OperatorsDoWhatTheirNamesSay) {
  const auto value = [](ListOpsSymbol symbol, std::vector<int> digits) {
    ListOpsTree tree{{symbol, static_cast<uint8_t>(digits.size())}};
    for (const int digit : digits) tree.push_back(Digit(digit));
    return EvaluateListOps(tree);
  };
  EXPECT_EQ(value(ListOpsSymbol::kMin, {5, 3, 9}), 3);
  EXPECT_EQ(value(ListOpsSymbol::kMax, {5, 3, 9}), 9);
  EXPECT_EQ(value(ListOpsSymbol::kMed, {5, 3, 9}), 5);
  EXPECT_EQ(value(ListOpsSymbol::kMed, {5, 8}), 6);
  EXPECT_EQ(value(ListOpsSymbol::kMed, {0, 9, 9, 9}), 9);
  EXPECT_EQ(value(ListOpsSymbol::kSm, {5, 3, 9}), 7);
}

TEST(ListOps, AReaderOfTheTextComesToTheSameValue) {
  ListOpsOptions options;
  options.least_length = 20;
  options.most_length = 400;
  for (int64_t index = 0; index < 500; ++index) {
    const ListOpsTree tree = MakeListOps(options, index);
    const std::string text = ListOpsText(tree);
    const std::vector<std::string> tokens = SymbolsOf(text);
    EXPECT_EQ(static_cast<int64_t>(tokens.size()), ListOpsLength(tree));
    size_t at = 0;
    EXPECT_EQ(Value(tokens, at), EvaluateListOps(tree)) << text;
    EXPECT_EQ(at, tokens.size());
    const std::vector<std::string> words = Words(text);
    at = 0;
    EXPECT_TRUE(IsPairs(words, at)) << text;
    EXPECT_EQ(at, words.size());
  }
}

TEST(ListOps, NodesFollowTheProbabilities) {
  const ListOpsOptions options = Unbounded(5);
  Random random(1);
  ListOpsTree tree;
  double inner = 0, operators = 0;
  std::array<int, 14> symbols{};
  std::array<int, 11> arguments{};
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(DrawListOps(options, random, tree));
    const std::vector<int> depths = Depths(tree);
    ASSERT_GT(tree[0].arguments, 0) << "the root is an operator";
    for (size_t n = 0; n < tree.size(); ++n) {
      const bool is_operator = tree[n].arguments > 0;
      ASSERT_LE(depths[n], options.depth);
      ASSERT_FALSE(is_operator && depths[n] == options.depth);
      if (depths[n] > 1 && depths[n] < options.depth) {
        ++inner;
        operators += is_operator;
      }
      ++symbols.at(static_cast<size_t>(tree[n].symbol));
      ASSERT_EQ(static_cast<int>(tree[n].symbol) >= 10, is_operator);
      if (is_operator) ++arguments.at(tree[n].arguments);
    }
  }
  EXPECT_NEAR(operators / inner, 0.25, 5 * std::sqrt(0.25 * 0.75 / inner));
  const auto expect_even = [](auto begin, auto end) {
    double sum = 0;
    for (auto i = begin; i != end; ++i) sum += *i;
    const double p = 1.0 / static_cast<double>(end - begin);
    for (auto i = begin; i != end; ++i) EXPECT_NEAR(*i, sum * p, 5 * std::sqrt(sum * p * (1 - p)));
  };
  expect_even(symbols.begin(), symbols.begin() + 10);
  expect_even(symbols.begin() + 10, symbols.end());
  EXPECT_EQ(arguments[0] + arguments[1], 0);
  expect_even(arguments.begin() + 2, arguments.end());
}

// Drawing ends early for trees that get too long, and that must not favour any other.
TEST(ListOps, BoundsSelectAmongTreesAndChangeNothingElse) {
  const ListOpsOptions unbounded = Unbounded(4);
  ListOpsOptions bounded = unbounded;
  bounded.least_length = 20;
  bounded.most_length = 60;
  constexpr int kDraws = 30000;
  constexpr int kBuckets = 8;
  std::array<double, kBuckets> direct{}, selected{};
  double direct_sum = 0, selected_sum = 0;
  Random first(1), second(2);
  ListOpsTree tree;
  for (int i = 0; i < kDraws; ++i) {
    if (DrawListOps(bounded, first, tree)) {
      const int64_t length = ListOpsLength(tree);
      ASSERT_GT(length, 20);
      ASSERT_LT(length, 60);
      ++direct.at(static_cast<size_t>((length - 20) / 5));
      ++direct_sum;
    }
    DrawListOps(unbounded, second, tree);
    const int64_t length = ListOpsLength(tree);
    if (length > 20 && length < 60) {
      ++selected.at(static_cast<size_t>((length - 20) / 5));
      ++selected_sum;
    }
  }
  EXPECT_NEAR(direct_sum, selected_sum, 5 * std::sqrt(2 * selected_sum));
  for (size_t i = 0; i < kBuckets; ++i) {
    EXPECT_NEAR(direct[i], selected[i], 5 * std::sqrt(2 * selected[i]));
  }
}

TEST(ListOps, BothBoundsAreExclusive) {
  ListOpsOptions options;
  options.depth = 3;
  options.least_length = 9;
  options.most_length = 12;
  std::set<int64_t> lengths;
  for (int64_t i = 0; i < 200; ++i) lengths.insert(ListOpsLength(MakeListOps(options, i)));
  EXPECT_EQ(lengths, (std::set<int64_t>{10, 11}));
}

// 0 and 9 are 17 % each of the published set.
TEST(ListOps, LabelsAndLengthsAreThoseOfLongRangeArena) {
  constexpr int kExamples = 2000;
  std::array<int, 10> labels{};
  double length_sum = 0;
  for (int64_t index = 0; index < kExamples; ++index) {
    const ListOpsTree tree = MakeListOps({}, index);
    const int64_t length = ListOpsLength(tree);
    ASSERT_GT(length, 500);
    ASSERT_LT(length, 2000);
    length_sum += static_cast<double>(length);
    ++labels.at(static_cast<size_t>(EvaluateListOps(tree)));
  }
  EXPECT_NEAR(labels[0], 0.17 * kExamples, 0.035 * kExamples);
  EXPECT_NEAR(labels[9], 0.17 * kExamples, 0.035 * kExamples);
  EXPECT_GT(*std::min_element(labels.begin(), labels.end()), 0.05 * kExamples);
  EXPECT_NEAR(length_sum / kExamples, 1000, 50);
}

class ListOpsFilesTest : public cosformer::testing::FolderTest {
 protected:
  static ListOpsOptions Small() {
    ListOpsOptions options;
    options.train = 30;
    options.valid = 4;
    options.test = 5;
    options.least_length = 10;
    options.most_length = 50;
    return options;
  }
  std::string All(const std::string& folder) const {
    return Read(Path(folder + "/basic_train.tsv")) + Read(Path(folder + "/basic_val.tsv")) +
           Read(Path(folder + "/basic_test.tsv"));
  }
};

TEST_F(ListOpsFilesTest, EveryLineIsASourceAndItsValue) {
  GenerateListOps(folder_.string(), Small(), {});
  EXPECT_EQ(FilesInFolder(), 3);
  const std::map<std::string, int> files{
      {"basic_train.tsv", 30}, {"basic_val.tsv", 4}, {"basic_test.tsv", 5}};
  std::set<std::string> sources;
  for (const auto& [file, examples] : files) {
    std::istringstream lines(Read(Path(file)));
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line, "Source\tTarget");
    int count = 0;
    for (; std::getline(lines, line); ++count) {
      const size_t tab = line.find('\t');
      ASSERT_EQ(line.size(), tab + 2);
      size_t at = 0;
      EXPECT_EQ(Value(SymbolsOf(line.substr(0, tab)), at), line[tab + 1] - '0');
      sources.insert(line.substr(0, tab));
    }
    EXPECT_EQ(count, examples);
  }
  EXPECT_EQ(sources.size(), 39u);
}

TEST_F(ListOpsFilesTest, ASeedMakesOneSetWhateverTheNumberOfThreads) {
  ListOpsOptions options = Small();
  options.threads = 1;
  GenerateListOps(Path("one"), options, {});
  options.threads = 3;
  GenerateListOps(Path("three"), options, {});
  EXPECT_EQ(All("one"), All("three"));
  options.seed = 2;
  GenerateListOps(Path("other"), options, {});
  EXPECT_NE(All("one"), All("other"));
}

// There are 4 operators over 10 x 10 digits.
TEST_F(ListOpsFilesTest, NoExpressionIsTwiceInTheSet) {
  ListOpsOptions options = Small();
  options.least_length = 3;
  options.most_length = 5;
  options.train = 300;
  GenerateListOps(Path("most"), options, {});
  std::set<std::string> lines;
  std::istringstream all(All("most"));
  int count = 0;
  for (std::string line; std::getline(all, line); ++count) lines.insert(line);
  EXPECT_EQ(count, 312);
  EXPECT_EQ(lines.size(), 310u);  // the header is there three times
  options.train = 400;
  EXPECT_TRUE(Contains(MessageOf([&] { GenerateListOps(Path("more"), options, {}); }),
                       "after 400 different examples"));
}

TEST_F(ListOpsFilesTest, NothingIsMadeForOptionsThatCannotBeFollowed) {
  ListOpsOptions options = Small();
  options.depth = 1;
  EXPECT_TRUE(Contains(MessageOf([&] { GenerateListOps(Path("new"), options, {}); }), "depth"));
  EXPECT_EQ(FilesInFolder(), 0);
}

TEST(ListOps, OptionsThatCannotBeFollowedAreRefused) {
  const auto refusal = [](auto change) {
    ListOpsOptions options;
    change(options);
    return MessageOf([&] { CheckListOpsOptions(options); });
  };
  EXPECT_EQ(refusal([](ListOpsOptions&) {}), "");
  EXPECT_TRUE(Contains(refusal([](auto& o) { o.depth = 1; }), "depth is 1"));
  EXPECT_TRUE(Contains(refusal([](auto& o) { o.depth = 1001; }), "depth is 1001"));
  EXPECT_TRUE(Contains(refusal([](auto& o) { o.arguments = 1; }), "at most 1 arguments"));
  EXPECT_TRUE(Contains(refusal([](auto& o) { o.arguments = 256; }), "at most 256 arguments"));
  EXPECT_TRUE(Contains(refusal([](auto& o) { o.operator_probability = 1.5; }),
                       "probability of an operator is 1.5"));
  EXPECT_TRUE(Contains(refusal([](auto& o) { o.operator_probability = NAN; }), "nan"));
  EXPECT_TRUE(Contains(refusal([](auto& o) { o.most_length = 501; }), "above 500 and below 501"));
  EXPECT_TRUE(Contains(refusal([](auto& o) { o.least_length = -1; }), "above -1"));
  EXPECT_TRUE(Contains(refusal([](auto& o) { o.depth = 3; }), "a length of 4 to 122"));
  EXPECT_TRUE(Contains(refusal([](auto& o) { o.least_length = 0, o.most_length = 4; }), "4 to"));
  EXPECT_EQ(refusal([](auto& o) { o.depth = 1000; }), "");
}

TEST(ListOps, LengthsThatHardlyEverComeAreGivenUp) {
  ListOpsOptions options;
  options.operator_probability = 0;
  EXPECT_TRUE(Contains(MessageOf([&] { MakeListOps(options, 0); }), "none had a length above 500"));
}

}  // namespace
}  // namespace cosformer::data
