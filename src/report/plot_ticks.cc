// Where the ticks of an axis are, and what they say.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "report/plot.h"
#include "report/units.h"

namespace cosformer::report {
namespace {

struct ByteUnit {
  double size = 1;
  const char* name = "B";
};

// The largest of which there is at least one.
ByteUnit ByteUnitOf(double bytes) {
  ByteUnit unit;
  for (const char* name : {"KiB", "MiB", "GiB", "TiB"}) {
    if (std::abs(bytes) < 1024 * unit.size) break;
    unit = {1024 * unit.size, name};
  }
  return unit;
}

bool InBytes(const Axis& axis) { return axis.unit == "B"; }

// Of a power of the base, or a small multiple.
std::string LogLabel(const Axis& axis, double value) {
  if (InBytes(axis)) {
    const ByteUnit unit = ByteUnitOf(value);
    return fmt::format("{:.4g} {}", value / unit.size, unit.name);
  }
  if (!axis.unit.empty()) return FormatSi(value, axis.unit);
  if (value == std::round(value) && value < 1e7) return FormatInteger(std::llround(value));
  return fmt::format("{:.6g}", value);
}

std::vector<Tick> LinearTicks(const Axis& axis, double low, double high) {
  constexpr int kAbout = 6;
  // Numbers that are round in MiB are not so in bytes.
  const ByteUnit bytes = InBytes(axis) ? ByteUnitOf(std::max(std::abs(low), high)) : ByteUnit{};
  low /= bytes.size;
  high /= bytes.size;
  const double raw = (high - low) / kAbout;
  const double magnitude = std::pow(10.0, std::floor(std::log10(raw)));
  double step = magnitude;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * magnitude;
    if (step >= raw * (1 - 1e-9)) break;
  }
  // Digits that tell neighbours apart: 1000001 and 1000002 need seven.
  const double largest = std::max(std::abs(low), std::abs(high));
  const int digits = std::clamp(static_cast<int>(std::ceil(std::log10(largest / step))) + 1, 4, 17);
  const auto label = [&](double value) {
    if (InBytes(axis)) return fmt::format("{:.{}g} {}", value, digits, bytes.name);
    if (!axis.unit.empty()) return FormatSi(value, axis.unit, digits);
    const bool integers = largest < 1e7 && step == std::round(step);
    return integers ? FormatInteger(std::llround(value)) : fmt::format("{:.{}g}", value, digits);
  };
  std::vector<Tick> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i <= 2 * kAbout; ++i) {
    const double value = (first + i) * step;
    if (value > high + 1e-9 * step) break;
    ticks.push_back({value * bytes.size, label(value)});
  }
  return ticks;
}

std::vector<Tick> Log10Ticks(const Axis& axis, double low, double high) {
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::floor(std::log10(high) + 1e-9));
  const int decades = last - static_cast<int>(std::ceil(std::log10(low) - 1e-9)) + 1;
  if (decades < 2) {
    std::vector<Tick> ticks;
    for (int e = first; e <= last; ++e) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double value = digit * std::pow(10.0, e);
        if (value >= low && value <= high) ticks.push_back({value, LogLabel(axis, value)});
      }
    }
    return ticks.size() >= 2 ? ticks : LinearTicks(axis, low, high);
  }
  constexpr int kMost = 8;
  const int stride = (decades + kMost - 1) / kMost;
  std::vector<Tick> ticks;
  for (int e = first; e <= last; ++e) {
    for (int digit = 1; digit <= (stride == 1 ? 9 : 1); ++digit) {
      const double value = digit * std::pow(10.0, e);
      if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
      const bool labelled = digit == 1 && (last - e) % stride == 0;
      ticks.push_back({value, labelled ? LogLabel(axis, value) : ""});
    }
  }
  return ticks;
}

std::vector<Tick> Log2Ticks(const Axis& axis, double low, double high) {
  const int first = static_cast<int>(std::ceil(std::log2(low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log2(high) + 1e-9));
  if (last - first < 1) return LinearTicks(axis, low, high);
  const int most = high < 1e6 ? 8 : 6;  // labels of seven digits need more room
  const int stride = (last - first + most) / most;
  std::vector<Tick> ticks;
  for (int e = first; e <= last; ++e) {
    const double value = std::exp2(e);
    ticks.push_back({value, (e - first) % stride == 0 ? LogLabel(axis, value) : ""});
  }
  return ticks;
}

}  // namespace

std::vector<Tick> ChooseTicks(const Axis& axis, double low, double high) {
  switch (axis.scale) {
    case Scale::kLinear:
      return LinearTicks(axis, low, high);
    case Scale::kLog10:
      return Log10Ticks(axis, low, high);
    case Scale::kLog2:
      return Log2Ticks(axis, low, high);
  }
  return {};
}

}  // namespace cosformer::report
