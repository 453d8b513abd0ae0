// The experiments of the paper, each in its file.
#pragma once

#include "reproduce/experiment.h"

namespace cosformer::reproduce {

Experiment EfficiencyExperiment();
Experiment LongRangeArenaExperiment();
Experiment LanguageModelExperiment();
Experiment FinetuneExperiment();
Experiment AblationExperiment();
Experiment LocalityExperiment();

}  // namespace cosformer::reproduce
