// The experiments of the paper, each in its file.
#pragma once

#include "reproduce/experiment.h"

namespace cosformer::reproduce {

Experiment EfficiencyExperiment();

}  // namespace cosformer::reproduce
