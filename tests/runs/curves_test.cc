// Curves: which panels and series there are, and what smoothing, thinning and cutting leave.
#include "runs/curves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "contains.h"

namespace cosformer {
namespace {

using report::Figure;
using report::Panel;
using report::Point;
using report::Series;
using testing::Contains;
using testing::MessageOf;
using Texts = std::vector<std::string>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A loss that falls slowly in `steps` steps of 1000 tokens and 2 seconds, evaluated in five places.
TrainingRun RunOf(const std::string& name, int64_t steps) {
  TrainingRun run{name, {}};
  for (int64_t step = 1; step <= steps; ++step) {
    run.history.train.push_back({.step = step,
                                 .loss = 5 - static_cast<double>(step) / static_cast<double>(steps),
                                 .learning_rate = 0.1,
                                 .gradient = 1,
                                 .tokens = 1000 * step,
                                 .seconds = 2.0 * static_cast<double>(step),
                                 .tokens_per_second = 500});
    if (step % (steps / 5) != 0) continue;
    const double loss = run.history.train.back().loss;
    run.history.evals.push_back({.step = step,
                                 .split = "valid",
                                 .loss = loss,
                                 .perplexity = std::exp(loss),
                                 .accuracy = std::nullopt,
                                 .tokens = 1000 * step,
                                 .seconds = 2.0 * static_cast<double>(step)});
  }
  return run;
}

Figure FigureOf(const std::vector<TrainingRun>& runs, const CurveOptions& options = {}) {
  const Figure figure = CurvesOf(runs, options);
  EXPECT_TRUE(Contains(report::RenderSvg(figure), "</svg>"));
  return figure;
}

Texts Titles(const Figure& figure) {
  Texts titles;
  for (const Panel& panel : figure.panels) titles.push_back(panel.title);
  return titles;
}

Texts Names(const Panel& panel) {
  Texts names;
  for (const Series& series : panel.series) names.push_back(series.name);
  return names;
}

TEST(CurvesTest, ThereIsAPanelForEveryFigureThatARunHas) {
  TrainingRun run = RunOf("a", 100);
  EXPECT_EQ(Titles(FigureOf({run})), (Texts{"Loss", "Perplexity", "Learning rate"}));
  for (EvalMetrics& eval : run.history.evals) {
    eval.perplexity.reset();
    eval.accuracy = 0.25;
  }
  const Figure figure = FigureOf({run});
  EXPECT_EQ(Titles(figure), (Texts{"Loss", "Accuracy", "Learning rate"}));
  EXPECT_EQ(figure.panels[1].series[0].points[0].y, 25);
  run.history.train.clear();
  EXPECT_EQ(Titles(FigureOf({run})), (Texts{"Loss", "Accuracy"}));
}

TEST(CurvesTest, OneRunShowsItsRawLossFaintlyAndNamesTheSplits) {
  const Figure figure = FigureOf({RunOf("a", 100)});
  EXPECT_EQ(figure.title, "a");
  const Panel& loss = figure.panels[0];
  ASSERT_EQ(Names(loss), (Texts{"", "train", "valid"}));
  EXPECT_LT(loss.series[0].opacity, 1);
  EXPECT_FALSE(loss.series[1].markers);
  EXPECT_TRUE(loss.series[2].markers);
  EXPECT_NE(loss.series[1].dash, loss.series[2].dash);
  EXPECT_EQ(loss.series[2].points.size(), 5u);
  EXPECT_EQ(loss.series[2].points[4].y, 4);
  EXPECT_EQ(Names(figure.panels[2]), (Texts{"a"}));
}

TEST(CurvesTest, ManyRunsHaveAHueEachAndANameOnce) {
  std::vector<TrainingRun> runs = {RunOf("a", 100), RunOf("b", 50), RunOf("c", 80)};
  runs[2].history.evals.clear();
  const Figure figure = FigureOf(runs);
  EXPECT_EQ(figure.title, "a, b, c");
  const Panel& loss = figure.panels[0];
  ASSERT_EQ(Names(loss), (Texts{"", "", "c", "a", "b"}));
  const int hues[] = {0, 1, 2, 0, 1};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(loss.series[i].hue, hues[i]);
  EXPECT_EQ(loss.series[0].dash, loss.series[1].dash);
  EXPECT_EQ(loss.series[3].dash, loss.series[4].dash);
  EXPECT_NE(loss.series[0].dash, loss.series[3].dash);
  EXPECT_EQ(Names(figure.panels[1]), (Texts{"a", "b"}));
}

TEST(CurvesTest, SplitsOfARunDifferInDash) {
  std::vector<TrainingRun> runs = {RunOf("a", 100), RunOf("b", 100)};
  for (const char* split : {"test", "other"}) {
    EvalMetrics eval = runs[0].history.evals[0];
    eval.split = split;
    runs[0].history.evals.push_back(eval);
  }
  const Panel panel = FigureOf(runs).panels[1];
  ASSERT_EQ(Names(panel), (Texts{"a", "a, test", "a, other", "b"}));
  EXPECT_EQ(panel.series[0].dash, 0);
  EXPECT_EQ(panel.series[1].dash, 1);
  EXPECT_EQ(panel.series[2].dash, 3);
  EXPECT_EQ(panel.series[1].points.size(), 1u);
}

TEST(CurvesTest, TheAxisCountsStepsTokensOrTimeInAFittingUnit) {
  const auto last = [](int64_t steps, CurveAxis axis) {
    const Figure figure = FigureOf({RunOf("a", steps)}, {.x = axis});
    const Panel& loss = figure.panels[0];
    EXPECT_EQ(loss.series[1].points.back().x, loss.series[2].points.back().x);
    return std::pair(loss.x.title, loss.series[1].points.back().x);
  };
  using Place = std::pair<std::string, double>;
  EXPECT_EQ(last(100, CurveAxis::kSteps), Place("steps", 100));
  EXPECT_EQ(last(100, CurveAxis::kTokens), Place("thousands of tokens", 100));
  EXPECT_EQ(last(5000, CurveAxis::kTokens), Place("millions of tokens", 5));
  EXPECT_EQ(last(50, CurveAxis::kTime), Place("seconds", 100));
  EXPECT_EQ(last(90, CurveAxis::kTime), Place("minutes", 3));
  EXPECT_EQ(last(4500, CurveAxis::kTime), Place("hours", 2.5));
  EXPECT_EQ(last(86400, CurveAxis::kTime), Place("days", 2));
}

TEST(CurvesTest, ABeginningThatPressesTheRestOntoTheAxisIsCutOff) {
  TrainingRun run = RunOf("a", 100);
  EXPECT_EQ(FigureOf({run}).panels[0].title, "Loss");
  run.history.train[0].loss = 50;
  Panel loss = FigureOf({run}, {.smoothing = 0}).panels[0];
  EXPECT_EQ(loss.title, "Loss up to 4.89");
  for (const Series& series : loss.series) {
    for (const Point& point : series.points) EXPECT_FALSE(point.y > 4.89);
  }
  EXPECT_EQ(FigureOf({run}, {.log = true}).panels[0].title, "Loss");
  // Later it is news.
  std::swap(run.history.train[0].loss, run.history.train[50].loss);
  EXPECT_EQ(FigureOf({run}).panels[0].title, "Loss");
  // A run with few points would lose what it has.
  run = RunOf("a", 100);
  run.history.evals.resize(3);
  run.history.evals[0].perplexity = 500;
  EXPECT_EQ(FigureOf({run}).panels[1].title, "Perplexity");
}

TEST(CurvesTest, LogarithmicAxesLeaveOutWhatHasNoLogarithm) {
  TrainingRun run = RunOf("a", 100);
  run.history.train[20].loss = 0;
  run.history.train[21].loss = -1;
  const Figure figure = FigureOf({run}, {.smoothing = 0, .log = true});
  EXPECT_EQ(figure.panels[0].y.scale, report::Scale::kLog10);
  EXPECT_EQ(figure.panels[1].y.scale, report::Scale::kLog10);
  EXPECT_EQ(figure.panels[2].y.scale, report::Scale::kLinear);
  EXPECT_TRUE(std::isnan(figure.panels[0].series[0].points[20].y));
  EXPECT_TRUE(std::isnan(figure.panels[0].series[0].points[21].y));
}

TEST(CurvesTest, LossesThatAreAllZeroLeaveNoPanelOnALogarithmicAxis) {
  TrainingRun run = RunOf("a", 100);
  for (TrainMetrics& train : run.history.train) train.loss = 0;
  for (EvalMetrics& eval : run.history.evals) eval.loss = 0;
  EXPECT_EQ(Titles(FigureOf({run}, {.log = true})), (Texts{"Perplexity", "Learning rate"}));
}

TEST(CurvesTest, AFigureThatFallsTenfoldToTheEndTakesALogarithmicAxis) {
  TrainingRun run = RunOf("a", 100);
  for (size_t i = 0; i < 5; ++i) run.history.evals[i].perplexity = std::pow(10, 5 - i);
  EXPECT_EQ(FigureOf({run}).panels[1].y.scale, report::Scale::kLog10);
  EXPECT_EQ(FigureOf({run}).panels[1].series[0].points.size(), 5u);
}

TEST(CurvesTest, NothingToDrawIsASentence) {
  EXPECT_TRUE(Contains(MessageOf([] {
                         CurvesOf(std::vector<TrainingRun>{{"a", {}}}, {});
                       }),
                       "no curves"));
  TrainingRun run{"a", {}};
  run.history.train.push_back({.step = 1, .loss = kNan, .learning_rate = kNan});
  EXPECT_TRUE(
      Contains(MessageOf([&] { CurvesOf(std::vector<TrainingRun>{run}, {}); }), "no curves"));
}

TEST(CurvesTest, SmoothingIsTheMeanWithFadingWeights) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(3, 1);
  std::vector<Point> points;
  for (int i = 0; i < 60; ++i) points.push_back({static_cast<double>(i), noise(random)});
  points[7].y = kNan;
  points[30].y = std::numeric_limits<double>::infinity();
  for (const double smoothing : {0.0, 0.5, 0.9, 0.999}) {
    const std::vector<Point> smooth = Smooth(points, smoothing);
    ASSERT_EQ(smooth.size(), points.size());
    for (size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(smooth[i].x, points[i].x);
      if (!std::isfinite(points[i].y)) {
        EXPECT_FALSE(std::isfinite(smooth[i].y));
        continue;
      }
      double sum = 0, weights = 0, weight = 1;
      for (size_t j = i + 1; j-- > 0;) {
        if (!std::isfinite(points[j].y)) continue;
        sum += weight * points[j].y;
        weights += weight;
        weight *= smoothing;
      }
      EXPECT_NEAR(smooth[i].y, sum / weights, 1e-9);
    }
  }
}

TEST(CurvesTest, ThinningKeepsEndsExtremesAndGaps) {
  std::mt19937 random(4);
  for (int i = 0; i < 300; ++i) {
    const size_t size = random() % 3000, most = 8 + random() % 600;
    std::vector<Point> points;
    for (size_t j = 0; j < size; ++j) {
      // Every other curve is flat, so that one point is lowest and highest.
      points.push_back({static_cast<double>(j), random() % 50 == 0 ? kNan
                                                : i % 2 == 0       ? random() / 1e9
                                                                   : 1.0});
    }
    const std::vector<Point> thin = Thin(points, most);
    EXPECT_LE(thin.size(), most);
    if (size <= most) {
      EXPECT_EQ(thin.size(), size);
      continue;
    }
    EXPECT_EQ(thin.front().x, 0);
    EXPECT_EQ(thin.back().x, static_cast<double>(size - 1));
    double low = HUGE_VAL, high = -HUGE_VAL, thin_low = HUGE_VAL, thin_high = -HUGE_VAL;
    for (const Point& point : points) {
      low = std::fmin(low, point.y);
      high = std::fmax(high, point.y);
    }
    bool gap = false;
    for (size_t j = 0; j < thin.size(); ++j) {
      if (j > 0) {
        EXPECT_GT(thin[j].x, thin[j - 1].x);
      }
      const double original = points[static_cast<size_t>(thin[j].x)].y;
      EXPECT_TRUE(thin[j].y == original || (std::isnan(thin[j].y) && std::isnan(original)));
      thin_low = std::fmin(thin_low, thin[j].y);
      thin_high = std::fmax(thin_high, thin[j].y);
      gap = gap || std::isnan(thin[j].y);
    }
    EXPECT_EQ(low, thin_low);
    EXPECT_EQ(high, thin_high);
    EXPECT_EQ(gap, std::any_of(points.begin(), points.end(),
                               [](const Point& point) { return std::isnan(point.y); }));
  }
}

TEST(CurvesTest, ALongRunIsThinned) {
  const Figure figure = FigureOf({RunOf("a", 20'000)});
  for (const Panel& panel : figure.panels) {
    for (const Series& series : panel.series) EXPECT_LE(series.points.size(), 500u);
  }
  EXPECT_LT(report::RenderSvg(figure).size(), 100'000u);
}

TEST(CurvesTest, CutLinesEndAtTheEdgeWithoutAMarker) {
  const std::vector<Point> cut =
      CutAbove(std::vector<Point>{{0, 8}, {1, 4}, {2, 2}, {3, 6}, {4, kNan}, {5, 9}, {6, 5}}, 5);
  const std::vector<Point> expected = {
      {0, kNan}, {0.75, 5, false}, {1, 4},    {2, 2},        {2.75, 5, false},
      {3, kNan}, {4, kNan},        {5, kNan}, {6, 5, false}, {6, 5}};
  ASSERT_EQ(cut.size(), expected.size());
  for (size_t i = 0; i < cut.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(cut[i].x, expected[i].x);
    EXPECT_EQ(std::isnan(cut[i].y), std::isnan(expected[i].y));
    if (std::isnan(cut[i].y)) continue;
    EXPECT_EQ(cut[i].y, expected[i].y);
    EXPECT_EQ(cut[i].marker, expected[i].marker);
  }
}

}  // namespace
}  // namespace cosformer
