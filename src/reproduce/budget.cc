#include "reproduce/budget.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <numeric>

#include "cosformer/error.h"

namespace cosformer::reproduce {

double ParseDuration(const std::string& text, const char* option) {
  const Error bad(
      fmt::format("{} is \"{}\"; it takes a time with its unit, as 2h, 90m, 7200s or "
                  "1h30m",
                  option, text));
  double seconds = 0;
  const char* at = text.data();
  const char* end = at + text.size();
  double last = INFINITY;  // units come from large to small, each once
  while (at != end) {
    double number = 0;
    const auto [next, error] = std::from_chars(at, end, number, std::chars_format::fixed);
    if (error != std::errc() || next == end || !(number >= 0)) throw bad;
    const double unit = *next == 'h' ? 3600 : *next == 'm' ? 60 : *next == 's' ? 1 : 0;
    if (unit == 0 || unit >= last) throw bad;
    last = unit;
    seconds += number * unit;
    at = next + 1;
  }
  if (!(seconds > 0) || !std::isfinite(seconds)) throw bad;
  return seconds;
}

int64_t ParseBytes(const std::string& text, const char* option) {
  const Error bad(
      fmt::format("{} is \"{}\"; it takes an amount of memory, as 8G or 512M", option, text));
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc()) throw bad;
  double unit = 1;
  if (next != end) {
    if (next + 1 != end) throw bad;
    switch (*next) {
      case 'K':
        unit = 0x1p10;
        break;
      case 'M':
        unit = 0x1p20;
        break;
      case 'G':
        unit = 0x1p30;
        break;
      case 'T':
        unit = 0x1p40;
        break;
      default:
        throw bad;
    }
  }
  const double bytes = number * unit;
  if (!(bytes >= 1 && bytes < 0x1p62)) throw bad;
  return static_cast<int64_t>(bytes);
}

std::vector<double> Shares(double budget, std::span<const double> weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> shares;
  for (const double weight : weights) shares.push_back(all > 0 ? budget * weight / all : 0);
  return shares;
}

}  // namespace cosformer::reproduce
