#include "report/meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "report/units.h"

namespace cosformer::report {
namespace {

constexpr int kLongestBar = 30;  // columns between its ends
constexpr int kShortestBar = 8;
constexpr int kBarEnds = 2;

std::string Repeat(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string Bar(double fraction, int columns, const Screen& screen) {
  constexpr const char* kColour = "\x1b[36m";
  constexpr const char* kPlain = "\x1b[0m";
  // Eighths of a column.
  constexpr std::array<const char*, 8> kPart = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  // Rounded down, so that only what is finished looks so.
  const int eighths = static_cast<int>(std::floor(fraction * columns * 8));
  const int full = eighths / 8;
  const int part = screen.utf8 ? eighths % 8 : 0;
  const std::string filled =
      Repeat(screen.utf8 ? "█" : "#", full) + kPart[static_cast<size_t>(part)];
  const std::string rest(static_cast<size_t>(columns - full - (part > 0 ? 1 : 0)), ' ');
  return fmt::format("{}{}{}{}{}{}", screen.utf8 ? "▕" : "[", screen.colour ? kColour : "", filled,
                     screen.colour ? kPlain : "", rest, screen.utf8 ? "▏" : "]");
}

}  // namespace

std::string RenderMeter(double fraction, std::string text, const Screen& screen,
                        const std::string& left) {
  const double share = std::isnan(fraction) ? 0 : std::clamp(fraction, 0.0, 1.0);
  const int percent = static_cast<int>(std::floor(100 * share));
  constexpr std::string_view kGap = "  ";
  const auto line = [&](int width) {
    return fmt::format("{:{}} %{}{}{}{}", percent, width, kGap, text, left.empty() ? "" : kGap,
                       left);
  };
  if (!screen.terminal) return line(1);
  // The last column stays free: some terminals wrap as soon as it is written. Where the width is
  // unknown, that of the oldest terminals.
  const int width = (screen.columns > 0 ? screen.columns : 80) - 1;
  std::string figures = line(3);
  const int bar = std::min(width - kBarEnds - ColumnsOf(figures), kLongestBar);
  if (bar >= kShortestBar) return Bar(share, bar, screen) + FitColumns(figures, width, screen.utf8);
  for (size_t gap; ColumnsOf(figures) > width && (gap = text.rfind(kGap)) != std::string::npos;) {
    text.resize(gap);
    figures = line(3);
  }
  return FitColumns(figures, width, screen.utf8);
}

void Meter::Show(double fraction, const std::string& text, Clock::time_point now) {
  const Screen screen = line_.screen();
  if (!first_) first_ = {fraction, now};
  if (screen.terminal) {
    if (last_draw_ && now - *last_draw_ < kRedrawInterval) return;
    last_draw_ = now;
  } else {
    if (now - last_log_ < log_interval_) return;
    last_log_ = now;
  }
  const double elapsed = std::chrono::duration<double>(now - first_->time).count();
  const double done = fraction - first_->fraction;
  // In its first second a run is still warming up, and any guess would be far off.
  const bool known = elapsed >= 1 && done > 0 && fraction < 1;
  const std::string line = RenderMeter(
      fraction, text, screen,
      known ? fmt::format("{} left", FormatDuration(elapsed / done * (1 - fraction))) : "");
  if (screen.terminal) {
    line_.Show(line);
    drawn_ = line;
  } else {
    line_.Print(line);
  }
}

void Meter::Line(const std::string& line) {
  line_.Print(line);
  if (!drawn_.empty()) line_.Show(drawn_);
}

void Meter::Clear() {
  line_.Clear();
  drawn_.clear();
  last_draw_.reset();
}

}  // namespace cosformer::report
