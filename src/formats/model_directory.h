// Where a model lies, and what its files are called.
#pragma once

#include <filesystem>
#include <string>

namespace cosformer {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kChecksumsFile = "checksums.json";  // of the weights
inline constexpr const char* kTaskFile = "task.json";

// The directory itself, or that of the model in a run's. Throws Error where there is none, or none
// yet.
std::filesystem::path ModelDirectory(const std::string& given);

}  // namespace cosformer
