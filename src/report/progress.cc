#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace cosformer::report {
namespace {

// A line wider than the terminal would wrap, and then only its last part be renewed.
std::string FitTerminal(std::string line) {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 &&
      line.size() >= size.ws_col) {
    line.resize(size.ws_col - 1u);
  }
  return line;
}

}  // namespace

Progress::Progress()
    : terminal_(isatty(STDERR_FILENO) == 1), last_log_(std::chrono::steady_clock::now()) {}

void Progress::Next(const std::string& what) {
  ++step_;
  Show(what);
}

void Progress::Show(const std::string& what) {
  const std::string line = step_ == 0 ? what : fmt::format("[{} of {}] {}", step_, total_, what);
  if (terminal_) {
    fmt::print(stderr, "\r\x1b[K{}", FitTerminal(line));
    std::fflush(stderr);
    shown_ = true;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - last_log_ < kLogInterval) return;
  last_log_ = now;
  fmt::print(stderr, "{}\n", line);
}

void Progress::Clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace cosformer::report
