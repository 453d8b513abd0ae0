// How far a training in another process is, from the files that it writes as it goes.
#pragma once

#include <string>

namespace cosformer::reproduce {

struct RunProgress {
  double part = 0;   // of its steps
  std::string text;  // "step 450 of 1,000, loss 4.32"; empty before the first
};

// Of the run in this directory. Whatever can't be read counts as not there yet.
RunProgress ProgressOf(const std::string& run);

// Whether it has come so far that figures were written.
bool HasMetrics(const std::string& run);

}  // namespace cosformer::reproduce
