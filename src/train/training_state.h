// All that a run needs to go on as if it had never stopped, in one file: weights, what the
// optimiser remembers, the state of the random numbers, and where the run is.
#pragma once

#include <optional>
#include <string>

#include "cosformer/error.h"
#include "data/loader.h"
#include "model/model.h"
#include "train/adamw.h"

namespace cosformer {

struct TrainingState {
  int64_t step = 0;            // done
  int64_t steps = 0;           // in all, as settled at the beginning
  data::Place place;           // in the data
  int64_t tokens = 0;          // trained on
  double seconds = 0;          // spent, evaluations included
  std::optional<double> best;  // of the figure that decides: the lower the better
  int64_t best_step = 0;
  int64_t stale = 0;  // evaluations since then
  std::string data;   // says whether these are the data that the run began with
};

// The state of torch's random numbers.
torch::Tensor TorchRandomState();
void SetTorchRandomState(const torch::Tensor& state);

// Whole or not at all.
void SaveTrainingState(const std::string& path, const Model& model, const AdamW& optimiser,
                       const TrainingState& state);

// What a disk or a power cut has made of a file.
class DamagedCheckpoint : public Error {
 public:
  using Error::Error;
};

// Puts model, optimiser and torch's random numbers into the state of the file. Throws Error, and
// changes nothing, when the file is of another model, or was made from other data than `data`;
// DamagedCheckpoint when it is not as it was written.
TrainingState LoadTrainingState(const std::string& path, const Model& model, AdamW& optimiser,
                                const std::string& data);

}  // namespace cosformer
