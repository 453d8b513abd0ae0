// Runs cells one after the other, each as processes of its own: whatever becomes of one is a
// result, and never ends the experiment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/clock.h"
#include "report/interrupt.h"
#include "reproduce/experiment.h"
#include "reproduce/results.h"

namespace cosformer::reproduce {

struct RunOptions {
  std::string program;    // the path of `cosformer`
  std::string out;        // the experiment's directory, absolute
  std::string data = {};  // that of the user's sets
  int64_t memory = 0;     // resident bytes that a process may have; 0: any number
  // Seconds for all that is left to do, from then on; 0: as long as it takes.
  double budget = 0;
  report::Clock::time_point begin = report::Clock::now();
  int threads = 0;     // 0: all cores
  bool retry = false;  // run again what failed or was refused
  std::string version = {};
  std::string machine = {};  // a line on it
  std::string command = {};  // of the experiment, as it would be typed
};

// What would be done now, in the order in which it is done.
struct Job {
  const Cell* cell = nullptr;
  double share = 0;         // of the budget, in seconds; 0: none
  int64_t eval_tokens = 0;  // of a split, for which that leaves time; 0: all
  bool changed = false;     // there is a result, but of other settings
  bool resumed = false;     // it was begun before
  bool retried = false;     // it has a result, but failed or was refused
};

// The cells that have no result of these settings. Those that serve others are among them only if
// one of the others is; those that can't be run here are not.
std::vector<Job> JobsOf(const std::vector<Cell>& cells, const Results& results,
                        const RunOptions& options);

struct RunSummary {
  int signal = 0;  // that stopped it; what was running is resumed the next time
  int done = 0;
  int failed = 0;
  int refused = 0;
  int waiting = 0;  // not run: what they need did not come about, or the budget was used up
  double seconds = 0;
};

// Runs the jobs and adds a result of each. Throws Error only for what no cell could do better: a
// full disk, a directory that can't be written.
RunSummary RunJobs(const Experiment& experiment, const std::vector<Cell>& cells,
                   const std::vector<Job>& jobs, const RunOptions& options, Results& results);

// A command of a job as it is run: its placeholders filled, {json} with `json`; a training with its
// part of the share as --minutes, or resumed if it was stopped.
std::vector<std::string> WordsOf(const Command& command, const Job& job, const RunOptions& options,
                                 const std::string& json);

// Of what a command wrote: the last sentence of the program, or else the last line.
std::string LastSentence(const std::string& log);

}  // namespace cosformer::reproduce
