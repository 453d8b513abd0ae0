#include "report/progress.h"

#include <fmt/format.h>

namespace cosformer::report {

void Progress::Next(const std::string& what) {
  ++step_;
  Show(what);
}

void Progress::Show(const std::string& what) {
  const std::string line = step_ == 0 ? what : fmt::format("[{} of {}] {}", step_, total_, what);
  const Screen screen = line_.screen();
  if (screen.terminal) {
    line_.Show(screen.columns > 1 ? FitColumns(line, screen.columns - 1, screen.utf8) : line);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - last_log_ < kLogInterval) return;
  last_log_ = now;
  line_.Print(line);
}

}  // namespace cosformer::report
