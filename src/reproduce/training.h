// What the experiments that train have in common: a cell that trains and evaluates, what is read
// from it, and how seeds are put together.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reproduce/conclusion.h"
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

// A cell of a training: `what` is a system, or a task and a system.
std::string TrainingId(const std::string& what, int64_t seed);
std::string TaskAndSystem(const std::string& task, const std::string& system);

// ", seed 2" where the request has several; nothing where it has one.
std::string SeedLabel(const Request& request, int64_t seed);

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
// accuracy, low, high, majority (shares of 1) and examples; of these splits evaluated_part was
// looked at. A text's unigram_perplexity is what the frequencies of its tokens give.
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

// The findings of a training, one for each seed of the request; `what` as in TrainingId().
std::vector<const Finding*> RepeatsOf(const Findings& findings, const Request& request,
                                      const std::string& what);
// The mean over them; NaN where none is done.
double MeanOf(const Findings& findings, const Request& request, const std::string& what,
              const std::string& value);

// The mean over them as an estimate of "accuracy" or "perplexity", which nothing follows from if
// one of them was hardly trained.
Estimate EstimateOf(const Findings& findings, const Request& request, const std::string& what,
                    const std::string& value);

// "61.20" of one seed, "61.20 (60.10–62.00)" of several; what Shown() gives if none is done.
// `scale` multiplies, as 100 makes percents; `after` stands behind the figure, before its marks.
std::string SpreadText(std::span<const Finding* const> findings, const std::string& value,
                       double scale, int digits, Table& table, const std::string& after = "");

// In percent, with half the width of its interval where there is one seed: "61.20 ± 1.4".
std::string AccuracyText(std::span<const Finding* const> findings, Table& table);
// In percent, what always the same class has on a task; "" where no system was run.
std::string MajorityText(const Findings& findings, const Request& request, const std::string& task);
// "61.20"; "" where there is none.
std::string PercentText(double percent);

// "91.5", "3.82e+06": the perplexities of what was hardly trained are astronomic.
std::string PerplexityText(double perplexity);

// A sentence: a task's accuracies, cosFormer's and softmax's, beside the majority and the published
// ones, and what follows; empty where cosFormer was not run.
std::string AccuracySentence(const Findings& findings, const Request& request,
                             const std::string& task, const std::string& title,
                             const PublishedTable& published);

// The paper's accuracies of the request's tasks and systems, with its average first; `title` names
// a task.
Table PublishedAccuracies(const PublishedTable& published, const Request& request,
                          std::string (*title)(const std::string& task));

// The loss and evaluations of the cells that were run, as curves; nothing if there are none.
std::optional<Picture> CurvesPicture(std::span<const Finding* const> findings,
                                     const std::string& out, const std::string& run = "run");

}  // namespace cosformer::reproduce
