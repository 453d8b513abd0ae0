#include "reproduce/conclusion.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "report/units.h"

namespace cosformer::reproduce {
namespace {

constexpr double kLeastSteps = 0.1;      // of the recipe's
constexpr double kMostPerplexity = 0.5;  // of that of the tokens' frequencies

// Of this result alone; empty: it was trained.
std::string Lack(const Finding& finding) {
  const double steps = finding.Value("steps");
  const auto recipe = static_cast<double>(finding.cell->steps);
  if (steps < kLeastSteps * recipe) {
    return fmt::format("{} of the {} steps of its recipe",
                       report::FormatInteger(std::llround(steps)),
                       report::FormatInteger(finding.cell->steps));
  }
  const double perplexity = finding.Value("token_perplexity");
  const double unigram = finding.Value("unigram_perplexity");
  if (perplexity > kMostPerplexity * unigram) {
    return fmt::format(
        "a perplexity per token of {:.4g}, where the frequencies of tokens give {:.4g}", perplexity,
        unigram);
  }
  if (finding.Value("low") <= finding.Value("majority")) {
    return "an accuracy that is not above always the same class";
  }
  return "";
}

}  // namespace

bool Estimate::Known() const { return std::isfinite(value); }

Estimate Around(double value, double part, std::string unfit) {
  return {value, value * (1 - part), value * (1 + part), std::move(unfit)};
}

Order OrderOf(const Estimate& one, const Estimate& other) {
  for (const Estimate* estimate : {&one, &other}) {
    if (!estimate->unfit.empty()) return {0, estimate->unfit};
  }
  if (one.low > other.high) return {1};
  if (one.high < other.low) return {-1};
  return {0, "not apart by more than their intervals, so nothing follows"};
}

std::string BesideThePaper(const Order& ours, double paper_one, double paper_other) {
  if (ours.sign == 0) return "; ours are " + ours.why;
  return (ours.sign > 0) == (paper_one > paper_other) ? ", in the same order"
                                                      : ", in the other order";
}

std::string HardlyTrained(const Findings& findings, const Finding& finding) {
  if (finding.cell == nullptr) return "";
  for (const std::string& id : finding.cell->needs) {
    std::string why = HardlyTrained(findings, findings.At(id));
    if (!why.empty()) return why;
  }
  const std::string lack = Lack(finding);
  if (lack.empty()) return "";
  return fmt::format("hardly trained, so nothing follows ({}: {})", finding.cell->label, lack);
}

std::string ConclusionRule() {
  return "What is concluded: two figures have an order if their intervals have no point in common. "
         "The interval of an accuracy of one seed is its 95 % interval, of a perplexity 2 % to "
         "either side, of a speed 10 %; of several seeds it is what their intervals cover, of "
         "perplexities their range. "
         "Nothing is concluded from what was hardly trained: for less than a tenth of its recipe's "
         "steps, to a perplexity per token above half of what the frequencies of tokens give, or "
         "to "
         "an accuracy whose interval reaches down to always the same class.";
}

}  // namespace cosformer::reproduce
