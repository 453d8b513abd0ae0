#include "runs/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "cosformer/error.h"

namespace cosformer {
namespace {

using report::Panel;
using report::Point;
using report::Series;

// More than the pixels of a panel could tell apart.
constexpr size_t kMostPoints = 500;
// The unsmoothed losses of more runs than that cover each other.
constexpr size_t kMostRawRuns = 2;
constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
// As RenderSvg() takes them.
constexpr int kUnbroken = 0;
constexpr int kTrainDash = 2;

bool Finite(const Point& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

// What the x axis counts, in a unit that leaves short numbers on it.
struct Unit {
  double size = 1;
  std::string title;
};

Unit UnitOf(CurveAxis axis, double largest) {
  static constexpr std::array<std::pair<double, const char*>, 4> kTokens = {
      {{1e9, "billions of tokens"},
       {1e6, "millions of tokens"},
       {1e3, "thousands of tokens"},
       {0, "tokens"}}};
  static constexpr std::array<std::pair<double, const char*>, 4> kTime = {
      {{2 * 86400, "days"}, {2 * 3600, "hours"}, {2 * 60, "minutes"}, {0, "seconds"}}};
  if (axis == CurveAxis::kSteps) return {1, "steps"};
  for (const auto& [from, title] : axis == CurveAxis::kTokens ? kTokens : kTime) {
    if (largest < from) continue;
    if (from == 0) return {1, title};
    return {axis == CurveAxis::kTokens ? from : from / 2, title};
  }
  return {1, ""};
}

struct Heights {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  double late_high = -low;  // after the first tenth of each series
  bool enough = true;       // points after it to show a course
};

Heights HeightsOf(const Panel& panel) {
  Heights heights;
  for (const Series& series : panel.series) {
    const double begin = series.points.front().x, end = series.points.back().x;
    int late = 0;
    for (const Point& point : series.points) {
      if (!Finite(point)) continue;
      heights.low = std::min(heights.low, point.y);
      heights.high = std::max(heights.high, point.y);
      if (point.x < begin + 0.1 * (end - begin)) continue;
      heights.late_high = std::max(heights.late_high, point.y);
      ++late;
    }
    heights.enough = heights.enough && late >= 3;
  }
  return heights;
}

class Drawing {
 public:
  Drawing(std::span<const TrainingRun> runs, const CurveOptions& options)
      : runs_(runs), options_(options) {
    double largest = 0;
    for (const TrainingRun& run : runs) {
      for (const TrainMetrics& train : run.history.train) largest = std::max(largest, Raw(train));
      for (const EvalMetrics& eval : run.history.evals) largest = std::max(largest, Raw(eval));
    }
    unit_ = UnitOf(options.x, largest);
  }

  Panel Loss() const {
    Panel panel = Empty("Loss", "loss");
    for (size_t i = 0; i < runs_.size(); ++i) {
      std::vector<Point> raw = OfTraining(i, [](const TrainMetrics& train) { return train.loss; });
      if (options_.smoothing > 0 && runs_.size() <= kMostRawRuns) {
        Add(panel, i,
            {.name = "",
             .points = raw,
             .dash = kUnbroken,
             .markers = false,
             .width = 1,
             .opacity = 0.3});
      }
      // Its dots say what it is, the evaluations beside it whose.
      const bool alone = runs_.size() > 1 && runs_[i].history.evals.empty();
      Add(panel, i,
          {.name = runs_.size() == 1 ? "train"
                   : alone           ? runs_[i].name
                                     : "",
           .points = Smooth(std::move(raw), options_.smoothing),
           .dash = kTrainDash,
           .markers = false});
    }
    AddEvals(panel, [](const EvalMetrics& eval) { return std::optional(eval.loss); });
    FitHeight(panel);
    return panel;
  }

  Panel Perplexity() const {
    Panel panel = Empty("Perplexity", "perplexity");
    AddEvals(panel, [](const EvalMetrics& eval) { return eval.perplexity; });
    FitHeight(panel);
    return panel;
  }

  Panel Accuracy() const {
    Panel panel = Empty("Accuracy", "accuracy (%)");
    AddEvals(panel, [](const EvalMetrics& eval) {
      return eval.accuracy ? std::optional(100 * *eval.accuracy) : std::nullopt;
    });
    return panel;
  }

  Panel LearningRate() const {
    Panel panel = Empty("Learning rate", "learning rate");
    for (size_t i = 0; i < runs_.size(); ++i) {
      Add(panel, i,
          {.name = runs_[i].name,
           .points = OfTraining(i, [](const TrainMetrics& train) { return train.learning_rate; }),
           .dash = static_cast<int>(i),
           .markers = false});
    }
    return panel;
  }

 private:
  // Where on the x axis, before its unit.
  template <class Metrics>
  double Raw(const Metrics& metrics) const {
    switch (options_.x) {
      case CurveAxis::kSteps:
        return static_cast<double>(metrics.step);
      case CurveAxis::kTokens:
        return static_cast<double>(metrics.tokens);
      case CurveAxis::kTime:
        return metrics.seconds;
    }
    return 0;
  }

  Panel Empty(const char* title, const char* y) const {
    return {.title = title,
            .x = {.title = unit_.title, .unit = ""},
            .y = {.title = y, .unit = ""},
            .series = {}};
  }

  // A run is called by its name, what it is mostly evaluated on by none; one run alone the other
  // way round.
  std::string NameOf(size_t run, const std::string& split, bool first) const {
    if (runs_.size() == 1) return split;
    return first ? runs_[run].name : fmt::format("{}, {}", runs_[run].name, split);
  }

  template <class Value>
  std::vector<Point> OfTraining(size_t run, Value value) const {
    std::vector<Point> points;
    for (const TrainMetrics& train : runs_[run].history.train) {
      points.push_back({Raw(train) / unit_.size, value(train)});
    }
    return points;
  }

  // A series for every run and split that has the figure.
  template <class Value>
  void AddEvals(Panel& panel, Value value) const {
    for (size_t i = 0; i < runs_.size(); ++i) {
      std::vector<std::string> splits;
      for (const EvalMetrics& eval : runs_[i].history.evals) {
        if (std::find(splits.begin(), splits.end(), eval.split) == splits.end()) {
          splits.push_back(eval.split);
        }
      }
      for (size_t split = 0; split < splits.size(); ++split) {
        Series series{.name = NameOf(i, splits[split], split == 0), .points = {}};
        for (const EvalMetrics& eval : runs_[i].history.evals) {
          const std::optional<double> y = eval.split == splits[split] ? value(eval) : std::nullopt;
          if (y) series.points.push_back({Raw(eval) / unit_.size, *y});
        }
        // The training's dash is not for a split.
        const int dash = static_cast<int>(split);
        series.dash = dash < kTrainDash ? dash : dash + 1;
        Add(panel, i, std::move(series));
      }
    }
  }

  void Add(Panel& panel, size_t run, Series series) const {
    if (std::none_of(series.points.begin(), series.points.end(), Finite)) return;
    series.hue = static_cast<int>(run);
    series.points = Thin(series.points, kMostPoints);
    panel.series.push_back(std::move(series));
  }

  // Makes the y axis such that the curves can be told apart to their ends: logarithmic, or cut off
  // where only first tenths lie above.
  void FitHeight(Panel& panel) const {
    const Heights heights = HeightsOf(panel);
    if (options_.log || (heights.low > 0 && heights.late_high > 5 * heights.low)) {
      panel.y.scale = report::Scale::kLog10;
      for (Series& series : panel.series) {
        for (Point& point : series.points) {
          if (point.y <= 0) point.y = kGap;
        }
      }
      std::erase_if(panel.series, [](const Series& series) {
        return std::none_of(series.points.begin(), series.points.end(), Finite);
      });
      return;
    }
    const double late = heights.late_high - heights.low;
    if (!heights.enough || late <= 0 || heights.high - heights.low < 2 * late) return;
    for (Series& series : panel.series) series.points = CutAbove(series.points, heights.late_high);
    panel.title += fmt::format(" up to {:.3g}", heights.late_high);
  }

  std::span<const TrainingRun> runs_;
  const CurveOptions& options_;
  Unit unit_;
};

}  // namespace

std::vector<Point> Smooth(std::vector<Point> points, double smoothing) {
  assert(smoothing >= 0 && smoothing < 1);
  double sum = 0, weight = 0;
  for (Point& point : points) {
    if (!std::isfinite(point.y)) continue;
    sum = smoothing * sum + (1 - smoothing) * point.y;
    weight = smoothing * weight + (1 - smoothing);
    point.y = sum / weight;
  }
  return points;
}

std::vector<Point> Thin(std::span<const Point> points, size_t most) {
  assert(most >= 8);
  if (points.size() <= most) return {points.begin(), points.end()};
  // The ends, and three a stretch.
  const size_t stretches = (most - 2) / 3;
  const size_t inner = points.size() - 2;
  std::vector<size_t> kept = {0};
  for (size_t stretch = 0; stretch < stretches; ++stretch) {
    const size_t begin = 1 + inner * stretch / stretches;
    const size_t end = 1 + inner * (stretch + 1) / stretches;
    std::optional<size_t> lowest, highest, gap;
    for (size_t i = begin; i < end; ++i) {
      if (!Finite(points[i])) {
        if (!gap) gap = i;
        continue;
      }
      if (!lowest || points[i].y < points[*lowest].y) lowest = i;
      if (!highest || points[i].y > points[*highest].y) highest = i;
    }
    std::vector<size_t> here;
    for (const std::optional<size_t>& index : {lowest, highest, gap}) {
      if (index) here.push_back(*index);
    }
    std::sort(here.begin(), here.end());
    here.erase(std::unique(here.begin(), here.end()), here.end());
    kept.insert(kept.end(), here.begin(), here.end());
  }
  kept.push_back(points.size() - 1);
  std::vector<Point> thinned;
  for (const size_t index : kept) thinned.push_back(points[index]);
  return thinned;
}

std::vector<Point> CutAbove(std::span<const Point> points, double highest) {
  std::vector<Point> cut;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i > 0 && Finite(points[i - 1]) && Finite(points[i])) {
      const Point &from = points[i - 1], &to = points[i];
      if ((from.y > highest) != (to.y > highest)) {
        const double way = (highest - from.y) / (to.y - from.y);
        cut.push_back({from.x + way * (to.x - from.x), highest, false});
      }
    }
    cut.push_back(points[i].y > highest ? Point{points[i].x, kGap} : points[i]);
  }
  return cut;
}

report::Figure CurvesOf(std::span<const TrainingRun> runs, const CurveOptions& options) {
  const Drawing drawing(runs, options);
  report::Figure figure;
  for (Panel& panel : std::array{drawing.Loss(), drawing.Perplexity(), drawing.Accuracy(),
                                 drawing.LearningRate()}) {
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }
  if (figure.panels.empty()) {
    throw Error("there are no curves to draw: no run has a finite figure in its metrics yet");
  }
  for (const TrainingRun& run : runs) figure.title += (figure.title.empty() ? "" : ", ") + run.name;
  constexpr size_t kLongestTitle = 80;
  if (figure.title.size() > kLongestTitle) figure.title = fmt::format("{} runs", runs.size());
  figure.subtitle = "dotted: training loss";
  if (options.smoothing > 0) {
    figure.subtitle += fmt::format(", moving average ({:g} of it the past)", options.smoothing);
  }
  return figure;
}

}  // namespace cosformer
