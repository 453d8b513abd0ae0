// What the experiments that train have in common: a cell that trains and evaluates, what is read
// from it, and how seeds are put together.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reproduce/experiment.h"
#include "reproduce/sets.h"
#include "reproduce/settings.h"

namespace cosformer::reproduce {

// How a trained model is judged.
enum class Judged {
  kPerplexity,  // on the validation and the test split, as the training itself reports them
  kValidation,  // accuracy on the validation split, where the test split has no classes
  kTest,        // accuracy on the test split, as the training itself reports it
  kNot,         // it serves others
};

struct Training {
  std::string id;
  std::string label;
  std::string system;
  std::string task = {};
  int64_t seed = 1;
  Settings settings;
  Set set;
  Judged judged = Judged::kPerplexity;
  std::string from = {};    // the run to fine-tune, with {out}; empty: from scratch
  std::string run = "run";  // the name of its directory
};

// Without steps and epochs where the request gives trainings their share of a budget.
Cell TrainingCell(const Request& request, const Training& training);

// The run of such a cell, with {out}.
std::string RunOf(const Cell& cell, const std::string& run = "run");

// Of a cell as above: parameters, steps, tokens, training_seconds, tokens_per_second, and then
// perplexity (of the test split, a word), token_perplexity and their like with valid_ in front, or
// accuracy, low, high, majority and examples (shares of 1).
nlohmann::json CollectTraining(const std::string& directory);

// "test perplexity 75.2" or "accuracy 61.20 %".
std::string TrainingFigure(const Result& result);

// The mean of a value over the seeds that are done, and its range.
struct Spread {
  int count = 0;
  double mean = 0;
  double low = 0;
  double high = 0;
};
std::optional<Spread> SpreadOf(std::span<const Finding* const> findings, const std::string& value);

// "61.20" of one seed, "61.20 (60.10–62.00)" of several; what Shown() gives if none is done.
// `scale` multiplies, as 100 makes percents.
std::string SpreadText(std::span<const Finding* const> findings, const std::string& value,
                       double scale, int digits, Table& table);

// The loss and evaluations of the cells that were run, as curves; nothing if there are none.
std::optional<Picture> CurvesPicture(std::span<const Finding* const> findings,
                                     const std::string& out, const std::string& run = "run");

}  // namespace cosformer::reproduce
