// An experiment from beginning to end: what is left to do is done, and the report of all that is
// there is written to its directory.
#pragma once

#include <string>
#include <vector>

#include "reproduce/experiment.h"
#include "reproduce/runner.h"

namespace cosformer::reproduce {

struct Outcome {
  RunSummary run;
  std::string text;  // for a person: the summary, and where the report is
  std::string json;  // for a script: also in report.json
  // Of a run that came to its end: a sentence with the reason, if none of the results that were
  // asked for is there.
  std::string failure = {};
};

// Runs what is left of what the request asks for, and writes report.html, report.md, report.json,
// report.csv, tables.tex and figures/ of that and of whatever else has results: what was asked for
// and not run is shown as not run. `options.out` is made if it is not there. Throws Error if it
// holds another experiment, if another process works in it, or if the program can't train.
Outcome Reproduce(const Experiment& experiment, const Request& request, const RunOptions& options);

// The report alone, from the results that are there, with the command of the last run. Throws Error
// if there are none.
Outcome ReportOnly(const Experiment& experiment, const Request& request, const RunOptions& options);

// What Reproduce would do: how much is left, every cell, whether it is done, and the commands of
// those that are not.
std::string DryRun(const Experiment& experiment, const Request& request, const RunOptions& options);

}  // namespace cosformer::reproduce
