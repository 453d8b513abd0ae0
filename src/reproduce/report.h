// The report of an experiment: what a reader can conclude in a minute, the tables and pictures, and
// how they came about.
#pragma once

#include <string>
#include <vector>

#include "reproduce/document.h"
#include "reproduce/experiment.h"

namespace cosformer::reproduce {

struct Report {
  std::vector<std::string> summary;
  Document document;
  std::string json;
  std::string csv;  // a line a cell, as in the JSON
};

// `out` is the experiment's directory, `command` how it was called.
Report ReportOf(const Experiment& experiment, const Request& request, const Findings& findings,
                const std::string& out, const std::string& command);

}  // namespace cosformer::reproduce
