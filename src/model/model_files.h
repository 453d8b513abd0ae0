// A model as a directory: config.json, and model.safetensors with checksums.json beside it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/model_directory.h"
#include "model/model.h"

namespace cosformer {

// Each file is written beside its place and renamed; the directory is made if it is missing.
void SaveModel(ModelImpl& model, const std::string& directory);

// The model as it was saved, to the bit. Throws Error that lists every tensor that is missing,
// unknown, or of another shape or type, or names one that is not what was saved.
Model LoadModel(const std::string& directory);
// The same for a model of another config, which has the same tensors.
void LoadModelWeights(ModelImpl& model, const std::string& directory);

// What a partial match left over.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> kept;    // in the model, not in the file: as they were initialised
  std::vector<std::string> unused;  // in the file, not in the model
  std::vector<std::string> differ;  // in both, of another shape or type: kept as well, with both
};

// Takes from the file what the model has under the same name, shape and type: to fine-tune a
// pre-trained model with another head. Throws Error when nothing matches.
LoadReport LoadMatching(ModelImpl& model, const std::string& directory);

// A file with weights alone, as a checkpoint is; the metadata are texts that go with them.
void SaveWeights(torch::nn::Module& module, const std::string& path,
                 std::map<std::string, std::string> metadata = {});
void LoadWeights(torch::nn::Module& module, const std::string& path);

}  // namespace cosformer
