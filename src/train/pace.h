// How fast a model trains here, measured by a few passes that leave no trace.
#pragma once

#include "data/batches.h"
#include "model/model.h"

namespace cosformer {

struct Pace {
  double pass_seconds = 0;        // of a forward and backward pass over a batch
  double update_seconds = 0;      // of the weights
  double evaluation_seconds = 0;  // of a token
};

// Measures for some `seconds`, or for a pass and an evaluation where they take longer. The model's
// buffers and torch's random numbers are put back; its gradients are gone.
Pace MeasurePace(ModelImpl& model, const data::Batches& batches, data::Objective objective,
                 double seconds);

// One thread, where torch's threads are slower than that: as with small models, and where other
// processes keep the cores busy. Otherwise as many as torch has. Torch then has so many. Leaves as
// little trace.
int FasterThreads(ModelImpl& model, const data::Batches& batches, data::Objective objective);

}  // namespace cosformer
