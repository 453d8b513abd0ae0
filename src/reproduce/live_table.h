// The table that fills while an experiment runs: a row as each cell ends, the running one below
// them with its progress. On stderr; plain lines in a log.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/clock.h"
#include "report/meter.h"
#include "reproduce/cell.h"
#include "reproduce/results.h"

namespace cosformer::reproduce {

class LiveTable {
 public:
  // `cells` are those that will be run. With a budget of so many seconds since then, how far it is
  // spent is what is shown as done.
  LiveTable(const std::vector<const Cell*>& cells, double budget, report::Clock::time_point begin);

  // `part` of the running cell is done, from 0 to 1; `text` says what it is at.
  void Show(const Cell& cell, double part, const std::string& text);
  // `figure` is what came out, as "perplexity 75.2"; of a failure it is the reason.
  void End(const Cell& cell, const std::string& sign, const std::string& figure, double seconds);
  void Clear() { meter_.Clear(); }

 private:
  report::Meter meter_;
  int label_columns_ = 0;
  size_t total_ = 0;
  size_t ended_ = 0;
  double budget_ = 0;
  report::Clock::time_point begin_;
};

}  // namespace cosformer::reproduce
