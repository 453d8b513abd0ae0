// What a model's directory says of it, without reading its weights through: also of models that
// only training runs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_parts.h"
#include "formats/config.h"
#include "formats/safetensors.h"

namespace cosformer::cli {

// How many of the latest tokens one past the horizon attends to.
struct AttendedTokens {
  int64_t least = 0, most = 0;
};

// Neighbouring layers with the same attention.
struct LayerRun {
  const char* stack = "";  // "encoder", "decoder"; empty where there is one stack only
  int64_t first = 0, last = 0;
  SystemConfig attention;
  std::optional<int64_t> horizon;  // of a re-weighting; none: the attention has none
  std::optional<bool> grows;       // whether what it remembers grows with the text; none: not known
  std::optional<AttendedTokens> attends_to;  // none: all of the text
  bool gate = false;                         // of that, what gates have kept
};

// What a session holds; of decoders that the runtime executes.
struct SessionFacts {
  int64_t constant_bytes = 0;  // of linear layers
  int64_t token_bytes = 0;     // a token, of softmax layers
  std::optional<int64_t> limit;
  std::string limit_reason;  // as Network has it
  // The same when it is loaded to end with its horizon.
  std::optional<int64_t> limit_no_endless;
};

struct ModelFacts {
  std::filesystem::path directory;
  ModelConfig config;
  std::string use;
  std::string task;                 // empty: it has no task.json
  std::vector<std::string> labels;  // of classes
  std::string tokenizer;            // its kind; empty: none
  bool images = false;              // it reads them, not text
  std::vector<LayerRun> layers;

  SafetensorsFile weights;
  std::string weight_type;
  int64_t parameters = 0;
  std::array<int64_t, kModelParts.size()> part_parameters = {};
  int64_t disk_bytes = 0;    // of all files of the model
  int64_t memory_bytes = 0;  // of the weights
  std::string fingerprint;   // of the weights; empty where the runtime does not run it

  std::string why_not;  // the runtime does not run it; empty: it does
  std::optional<SessionFacts> session;
};

// Throws Error for a model whose task.json names a task that there is not.
void RequireKnownTask(const std::string& given);

// Throws Error for a directory without a model, and for files that are broken.
ModelFacts ReadModelFacts(const std::string& given);

// Files of a model that are there, of all that there may be.
std::vector<std::filesystem::path> ModelFiles(const std::filesystem::path& directory);

}  // namespace cosformer::cli
