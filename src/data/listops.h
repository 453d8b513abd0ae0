// ListOps as Long-Range Arena has it: nested operators over lists of digits, and what they come to.
// A node is an operator with a probability while its depth is below the greatest, else a digit; an
// operator has 2 or more arguments, all numbers of them equally likely; trees are drawn until one
// has a length within the bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/generated_set.h"
#include "kernels/random.h"

namespace cosformer::data {

struct ListOpsOptions {
  int64_t train = 96'000, valid = 2'000, test = 2'000;
  int64_t least_length = 500, most_length = 2'000;  // both exclusive
  int depth = 10;                                   // nodes at it are digits; the root's is 1
  int arguments = 10;                               // of an operator, at most
  double operator_probability = 0.25;               // of every node but the root
  uint64_t seed = 1;
  int threads = 0;  // 0: all
};

// MED is the integer part of the median, SM the sum modulo 10.
enum class ListOpsSymbol : uint8_t { kMin = 10, kMax, kMed, kSm };  // 0 .. 9: digits

struct ListOpsNode {
  ListOpsSymbol symbol{};
  uint8_t arguments = 0;  // 0: a digit

  bool operator==(const ListOpsNode&) const = default;
};

// A tree in prefix order: a node stands before its arguments.
using ListOpsTree = std::vector<ListOpsNode>;

// Throws Error when no tree can follow the options.
void CheckListOpsOptions(const ListOpsOptions& options);

// Draws one tree into `tree`. Returns whether its length is within the bounds; if it is not, `tree`
// may be a part of it, since drawing ends once it is sure to be too long.
bool DrawListOps(const ListOpsOptions& options, Random& random, ListOpsTree& tree);

// Example number `index` of the seed. Throws Error when 100,000 trees have had no length within the
// bounds.
ListOpsTree MakeListOps(const ListOpsOptions& options, int64_t index);

// Tokens: a digit is one, an operator two, "[MAX" and "]".
int64_t ListOpsLength(const ListOpsTree& tree);

// 0 .. 9.
int EvaluateListOps(const ListOpsTree& tree);

// As in the published files, whose parentheses readers remove: "( ( ( [MAX 4 ) 7 ) ] )".
std::string ListOpsText(const ListOpsTree& tree);

// Writes basic_train.tsv, basic_val.tsv and basic_test.tsv with the columns Source and Target. No
// example is twice in the set. Throws Error for options that can't be followed and for files that
// can't be written; the directory then has the files that it had before.
void GenerateListOps(const std::string& directory, const ListOpsOptions& options,
                     const GenerationProgress& progress);

}  // namespace cosformer::data
