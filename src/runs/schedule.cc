#include "runs/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "cosformer/error.h"

namespace cosformer {
namespace {

constexpr std::array<std::pair<ScheduleKind, const char*>, 4> kNames = {
    {{ScheduleKind::kConstant, "constant"},
     {ScheduleKind::kInverseSquareRoot, "inverse-sqrt"},
     {ScheduleKind::kCosine, "cosine"},
     {ScheduleKind::kPolynomial, "polynomial"}}};

}  // namespace

ScheduleKind ScheduleKindOf(const std::string& name) {
  std::string known;
  for (const auto& [kind, its_name] : kNames) {
    if (name == its_name) return kind;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", its_name);
  }
  throw Error(fmt::format("no learning rate schedule is called \"{}\": there are {}", name, known));
}

std::string NameOf(ScheduleKind kind) {
  for (const auto& [its_kind, name] : kNames) {
    if (kind == its_kind) return name;
  }
  return "";
}

void Schedule::Check() const {
  if (!(peak > 0) || !std::isfinite(peak)) {
    throw Error(fmt::format("the peak learning rate is {}: it must be positive", peak));
  }
  if (warmup < 0) throw Error(fmt::format("the warm-up is {} steps: it must be 0 or more", warmup));
  if (steps < 1) throw Error(fmt::format("a schedule of {} steps: it needs at least one", steps));
  if (!(final_share >= 0 && final_share <= 1)) {
    throw Error(fmt::format("the final learning rate is {} of the peak: it must be from 0 to 1",
                            final_share));
  }
  if (!(power > 0) || !std::isfinite(power)) {
    throw Error(fmt::format("the power of the schedule is {}: it must be positive", power));
  }
}

double Schedule::LearningRate(int64_t step) const {
  // The step that has the peak.
  const int64_t top = std::max<int64_t>(warmup, 1);
  if (step < top) return peak * static_cast<double>(step) / static_cast<double>(top);
  // From 0 at the top to 1 at the end.
  const double way = step >= steps
                         ? (step == top ? 0.0 : 1.0)
                         : static_cast<double>(step - top) / static_cast<double>(steps - top);
  const auto between = [&](double share) {
    return peak * (final_share + (1 - final_share) * share);
  };
  switch (kind) {
    case ScheduleKind::kConstant:
      return peak;
    case ScheduleKind::kInverseSquareRoot:
      return peak * std::sqrt(static_cast<double>(top) / static_cast<double>(step));
    case ScheduleKind::kCosine:
      return between(0.5 * (1 + std::cos(std::numbers::pi * way)));
    case ScheduleKind::kPolynomial:
      return between(std::pow(1 - way, power));
  }
  return peak;
}

}  // namespace cosformer
