// What a summary may conclude from figures: the one rule that all experiments go by.
#pragma once

#include <limits>
#include <span>
#include <string>

#include "reproduce/experiment.h"

namespace cosformer::reproduce {

// A figure, and how far it can be trusted.
struct Estimate {
  double value = std::numeric_limits<double>::quiet_NaN();  // NaN: there is none
  double low = value;                                       // the ends of its interval
  double high = value;
  std::string unfit = {};  // why nothing follows from it; empty: something does

  bool Known() const;
};

// Of a figure that has no interval of its own: so large a part of it to either side.
Estimate Around(double value, double part, std::string unfit = "");

// Which of two figures is the larger.
struct Order {
  int sign = 0;          // of the first less the second; 0: nothing follows
  std::string why = {};  // then, as the end of "ours are ...": "hardly trained, so nothing follows"
};

// Nothing follows from a figure that is unfit, nor from two whose intervals have a point in common.
// Both are known.
Order OrderOf(const Estimate& one, const Estimate& other);

// How a sentence ends that has set two figures of ours beside two of the paper: ", in the same
// order" or ", in the other order", or "; ours are ... so nothing follows".
std::string BesideThePaper(const Order& ours, double paper_one, double paper_other);

// Why nothing follows from the result of a training, or of what was made from one; empty: something
// does. It was hardly trained if it made less than a tenth of its recipe's steps, if its perplexity
// per token is more than half of what the frequencies of the tokens give, or if the interval of its
// accuracy reaches down to what always the same class has.
std::string HardlyTrained(const Findings& findings, const Finding& finding);

// The rule as a report has it.
std::string ConclusionRule();

}  // namespace cosformer::reproduce
