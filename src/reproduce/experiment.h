// What an experiment is: the cells it consists of, what is read from each, and the report of them
// all. One file an experiment; experiment.cc lists them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reproduce/cell.h"
#include "reproduce/document.h"
#include "reproduce/published.h"
#include "reproduce/results.h"

namespace cosformer::reproduce {

// What a user asks for. Lists that are empty stand for all that the experiment has.
struct Request {
  std::string data;  // the directory of the user's sets; empty: there is none
  std::vector<std::string> systems = {};
  std::vector<std::string> tasks = {};
  std::vector<int64_t> seeds = {};
  std::vector<int64_t> lengths = {};
  std::string scale = {};
  int64_t memory = 0;       // bytes a process; 0: the machine's
  int threads = 0;          // 0: all cores
  int64_t eval_tokens = 0;  // of a split that trainings evaluate at most; 0: all of it
  bool by_time = false;     // trainings take their share of a budget instead of their steps
};

// What is known of a cell.
struct Finding {
  const Cell* cell = nullptr;
  const Result* result = nullptr;  // none: it was not run
  bool other_settings = false;     // the result is of other settings than the cell's
  bool asked = true;               // otherwise it counts only if it has a result
  std::string blocked = {};        // why it can't be run: what became of a cell that it needs

  bool Done() const { return result != nullptr && result->state == State::kDone; }
  // A figure of a result; NaN where there is none.
  double Value(const std::string& name) const;
  bool Counts() const { return asked || result != nullptr; }
};

class Findings {
 public:
  // Both must outlive it. A cell without a result of its own settings has the latest of others.
  Findings(const std::vector<Cell>& cells, const Results& results);
  // Of the cells, these were asked for.
  Findings(const std::vector<Cell>& cells, const Results& results, const std::vector<Cell>& asked);

  const std::vector<Finding>& all() const { return findings_; }
  // A finding without a cell, if there is none of that id.
  const Finding& At(const std::string& id) const;

 private:
  std::string Blocked(const Cell& cell) const;

  std::vector<Finding> findings_;
  Finding none_;
};

struct Experiment {
  std::string name;
  std::string title;
  std::string summary;  // for --list: one line
  std::string needs;    // what is looked for under --data, and under which names; empty: nothing
  std::vector<std::string> systems;  // in the order of its tables
  std::vector<std::string> tasks;    // empty: there is nothing to choose
  std::vector<std::string> scales;   // the first is the default; empty: there is one
  std::vector<int64_t> lengths;      // empty: there is nothing to choose
  bool seeded = true;                // results depend on a seed
  std::vector<std::string> limits;   // what its report doesn't show: sentences
  // Roughly how long results take that need no training; empty: not worth a word.
  std::string pace = {};
  std::vector<PublishedTable> published = {};

  // All lists of the request are filled.
  std::function<std::vector<Cell>(const Request&)> cells;
  // What the commands of a cell left in its directory, as values of its result. A value "failure"
  // makes the result a failure with that reason.
  std::function<nlohmann::json(const Cell&, const std::string& directory)> collect;
  // A result in a few words: "perplexity 75.2".
  std::function<std::string(const Result&)> figure;
  // Sentences for the reader of one minute.
  std::function<std::vector<std::string>(const Findings&, const Request&)> summarise;
  // Tables and pictures. `out` is the experiment's directory.
  std::function<std::vector<Block>(const Findings&, const Request&, const std::string& out)> report;
};

const std::vector<Experiment>& Experiments();

// Throws Error, listing them, if there is none of this name.
const Experiment& FindExperiment(const std::string& name);

// The request with its empty lists filled. Throws Error for what the experiment does not have: a
// system, a task, a scale, or a choice that it does not offer.
Request Complete(const Experiment& experiment, Request request);

// What a table shows of a finding: `value` if it is done; otherwise its sign or "not run", with a
// note that gives the reason; nothing of what was not asked for.
std::string Shown(const Finding& finding, const std::string& value, Table& table);

}  // namespace cosformer::reproduce
