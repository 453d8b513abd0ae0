// The curves of training runs as a figure: loss, the validation's perplexity or accuracy, and the
// learning rate. One hue a run; the training loss is dotted, evaluations have markers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "report/plot.h"
#include "runs/metrics.h"

namespace cosformer {

struct TrainingRun {
  std::string name;
  History history;
};

enum class CurveAxis { kSteps, kTokens, kTime };

struct CurveOptions {
  CurveAxis x = CurveAxis::kSteps;
  // The share of the past in the moving average of the training loss, in [0, 1); 0 for none.
  double smoothing = 0.9;
  // Loss and perplexity on logarithmic axes; values that are not positive are left out. Otherwise
  // the first tenth of a curve is cut off above where it would press the rest onto the axis.
  bool log = false;
};

// Throws Error if no run has anything to draw.
report::Figure CurvesOf(std::span<const TrainingRun> runs, const CurveOptions& options);

// The exponential moving average of y, weighted so that it does not lean towards 0 at the
// beginning. What is not finite stays as it is and does not count.
std::vector<report::Point> Smooth(std::vector<report::Point> points, double smoothing);

// At most `most` of the points (at least 8), in their order: the first, the last, and of every
// stretch between its lowest, its highest and, where there is one, a gap.
std::vector<report::Point> Thin(std::span<const report::Point> points, size_t most);

// What lies above `highest` becomes a gap; lines that cross it end there, without a marker.
std::vector<report::Point> CutAbove(std::span<const report::Point> points, double highest);

}  // namespace cosformer
