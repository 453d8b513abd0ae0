// Whether a result is right, asked before it is timed. Each check runs the operator into poisoned
// outputs, compares with the double-precision reference, and throws Error, naming the element, if
// they differ by more than rounding can explain.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/attention_problem.h"

namespace cosformer::bench {

// Runs the forward pass. Compares rows of q in full (the first, the last, and random ones, each in
// a random batch entry and head) and asks every output to be finite. Returns how far the call
// raised the process's memory.
std::optional<int64_t> CheckForward(AttentionProblem& problem, System system, bool causal,
                                    int threads);

// Runs forward and backward with a d_o that is zero but for the first, the last and a random row of
// two heads. The reference can afford that at any length, and it reaches every key: compares dq, dk
// and dv of those heads at every position, and asks all others to be exactly zero. d_o is random
// again afterwards. Returns the memory as above.
std::optional<int64_t> CheckForwardBackward(AttentionProblem& problem, System system, bool causal,
                                            int threads);

// What the check above leaves out, at a length where the reference can do it in full: every element
// of dq, dk and dv for a d_o without zeros. `shape` is taken with one batch entry and at most two
// key/value heads, but the same number of query heads for each.
void CheckShortGradients(const AttentionShape& shape, int64_t longest, System system, bool causal,
                         int threads);

// Takes the step and compares its outputs, at every head of the first and the last batch entry,
// with the last row of the whole sequence.
void CheckStep(const AttentionProblem& problem, Decoder& decoder, int threads);

}  // namespace cosformer::bench
