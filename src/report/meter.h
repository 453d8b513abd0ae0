// How far a long run is, on stderr: a bar with figures that renews itself on a terminal, a plain
// line now and then in a log. Standard output is never touched.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "report/terminal.h"

namespace cosformer::report {

// The line for such a screen: "▕████▌    ▏ 45 %  step 450 of 1,000  loss 4.321", one column short
// of the screen's width. Where there is little room the bar gets shorter, then goes, then what is
// last in the text, between two blanks and two blanks, then the text is cut; `left`, which follows
// the text, stays longest. On no terminal it is "45 %  step ..." whole. `fraction` is held to [0,
// 1].
std::string RenderMeter(double fraction, std::string text, const Screen& screen,
                        const std::string& left = "");

class Meter {
 public:
  using Clock = std::chrono::steady_clock;

  Meter() = default;
  // A log gets a line at most that often.
  explicit Meter(std::chrono::seconds log_interval) : log_interval_(log_interval) {}
  // Elsewhere than on stderr, for tests.
  Meter(std::FILE* stream, const Screen& screen, Clock::time_point start)
      : line_(stream, screen), last_log_(start) {}

  // Draws the line, ten times a second at most. The time that is left, judged by the fractions
  // shown so far, follows the text as "2 min 10 s left".
  void Show(double fraction, const std::string& text, Clock::time_point now = Clock::now());

  // Prints a full line, always; the live one goes on below it.
  void Line(const std::string& line);

  // Removes the live line, so that something else can be printed.
  void Clear();

 private:
  // Fast enough for the eye, too slow to cost anything.
  static constexpr std::chrono::milliseconds kRedrawInterval{100};

  struct Moment {
    double fraction;
    Clock::time_point time;
  };

  LiveLine line_;
  std::chrono::seconds log_interval_{20};
  Clock::time_point last_log_ = Clock::now();
  std::optional<Clock::time_point> last_draw_;
  std::optional<Moment> first_;  // a resumed run does not begin at 0
  std::string drawn_;            // empty where nothing is
};

}  // namespace cosformer::report
