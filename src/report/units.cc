#include "report/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cosformer::report {
namespace {

constexpr std::array<const char*, 9> kSiPrefixes = {"p", "n", "µ", "m", "", "k", "M", "G", "T"};
constexpr int kNoPrefix = 4;

// The power of 1000 whose prefix leaves one to three digits before the point.
int SiPower(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  // Rounding to three digits may carry: 999.9e-6 is 1.00e-3, not 1000e-6.
  const double rounded = std::abs(value) * (1 + 0.5e-3);
  return std::clamp(static_cast<int>(std::floor(std::log10(rounded) / 3)), -kNoPrefix, kNoPrefix);
}

std::string ThreeDigits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

}  // namespace

std::string FormatSeconds(double seconds) {
  const int power = std::min(SiPower(seconds), 0);
  return fmt::format("{} {}s", ThreeDigits(seconds * std::pow(1000.0, -power)),
                     kSiPrefixes[kNoPrefix + power]);
}

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds)) return "? s";
  if (seconds < 0) return fmt::format("-{}", FormatDuration(-seconds));
  // Rounded in the unit that is shown last, so that 59.6 s is a minute and not 60 s.
  const auto whole = [seconds](int64_t unit) {
    return static_cast<int64_t>(std::llround(std::min(seconds, 1e15) / static_cast<double>(unit)));
  };
  constexpr int64_t kMinute = 60, kHour = 60 * kMinute;
  const int64_t in_seconds = whole(1), in_minutes = whole(kMinute), in_hours = whole(kHour);
  if (in_seconds < 60) return fmt::format("{} s", in_seconds);
  if (in_seconds < kHour) return fmt::format("{} min {:02} s", in_seconds / 60, in_seconds % 60);
  if (in_minutes < 24 * 60) return fmt::format("{} h {:02} min", in_minutes / 60, in_minutes % 60);
  return fmt::format("{} d {:02} h", in_hours / 24, in_hours % 24);
}

std::string FormatCount(double count) {
  const int power = std::max(SiPower(count), 0);
  const char* prefix = kSiPrefixes[kNoPrefix + power];
  return fmt::format("{}{}{}", ThreeDigits(count * std::pow(1000.0, -power)), power == 0 ? "" : " ",
                     prefix);
}

std::string FormatBytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1023.5 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.{}f} {}", bytes, bytes < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string FormatRatio(double ratio) { return ThreeDigits(ratio) + " ×"; }

std::string FormatInteger(int64_t value) {
  std::string text = fmt::format("{}", value);
  const int first = value < 0 ? 1 : 0;
  for (int place = static_cast<int>(text.size()) - 3; place > first; place -= 3) {
    text.insert(static_cast<size_t>(place), 1, ',');
  }
  return text;
}

std::string FormatSi(double value, const std::string& unit, int digits) {
  const int power = SiPower(value);
  return fmt::format("{:.{}g} {}{}", value * std::pow(1000.0, -power), digits,
                     kSiPrefixes[kNoPrefix + power], unit);
}

}  // namespace cosformer::report
