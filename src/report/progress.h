// What a long run is doing now, on stderr: one line that renews itself on a terminal, a line now
// and then in a log. Standard output is never touched.
#pragma once

#include <chrono>
#include <string>

#include "report/terminal.h"

namespace cosformer::report {

class Progress {
 public:
  // How many steps the run has.
  void SetTotal(int total) { total_ = total; }

  // Begins the next step.
  void Next(const std::string& what);

  // Says something about the current step, or about what comes before the first.
  void Show(const std::string& what);

  // Removes the line, so that something else can be printed.
  void Clear() { line_.Clear(); }

 private:
  // Often enough to see that a run is alive, seldom enough not to fill a log.
  static constexpr std::chrono::seconds kLogInterval{20};

  LiveLine line_;
  int step_ = 0;
  int total_ = 0;
  std::chrono::steady_clock::time_point last_log_ = std::chrono::steady_clock::now();
};

}  // namespace cosformer::report
