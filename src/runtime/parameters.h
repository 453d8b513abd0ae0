// The numbers of a trained model as the runtime holds them: matrices in any type of weight, vectors
// in float32, all in one piece of memory on large pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cosformer/attention.h"
#include "formats/config.h"
#include "formats/feature_systems.h"
#include "formats/model_weights.h"
#include "formats/safetensors.h"
#include "kernels/weights.h"

namespace cosformer::runtime {

// Memory for weights. Aligned to 2 MiB and asked to be on pages of that size: with pages of 4 KiB a
// step through the weights waits for the page tables.
class WeightMemory {
 public:
  explicit WeightMemory(size_t bytes);
  ~WeightMemory();
  WeightMemory(const WeightMemory&) = delete;
  WeightMemory& operator=(const WeightMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// An empty vector or matrix is one that the model does not have.
using Vector = std::vector<float, CacheAligned<float>>;

struct NormParameters {
  Vector weight;  // [width]
  Vector bias;    // [width], or empty
};

struct LayerParameters {
  NormParameters attention_norm;
  Weights in;      // [(heads + 2 kv_heads) * head_dim, width]: queries, keys, values
  Vector in_bias;  // or empty, as all that follow
  Vector gain;     // [heads, head_dim], with "normaliser": "norm"
  Weights gate;    // [kv_heads, width], float32, where the system has a gate
  Vector gate_bias;
  Weights out;  // [width, heads * head_dim]
  Vector out_bias;
  NormParameters feed_forward_norm;
  Weights hidden;  // [PreWidth(hidden), width]
  Vector hidden_bias;
  Weights back;  // [width, hidden]
  Vector back_bias;
};

struct Parameters {
  std::shared_ptr<const WeightMemory> memory;  // of all matrices

  Weights tokens;     // [vocabulary, width]
  Weights positions;  // [max_length, width], float32, where they are learned
  Weights pixels;     // [width, channels * patch^2], float32, for images
  Vector pixel_bias;
  std::vector<LayerParameters> layers;
  NormParameters norm;  // of the last sum, with pre-norm
  Weights output;       // [vocabulary, width]; not there if the embedding's weights serve
  Vector output_bias;
  Weights mix;  // [width, 4 width], two-tower
  Vector mix_bias;
  Weights classes;  // [classes, width]
  Vector classes_bias;

  int64_t count = 0;        // of numbers
  int64_t bytes = 0;        // that they take
  std::string fingerprint;  // equal for models that are equal, as far as a sample of them tells
};

// One of the model's tensors, and where it goes.
struct Slot {
  std::string name;           // in model.safetensors
  Weights* matrix = nullptr;  // either
  Vector* vector = nullptr;   // or
  int64_t rows = 0;           // 1 for a vector
  int64_t columns = 0;
  bool convertible = false;  // may be of any type of weight; others are float32
};

// All that the model of a config consists of: the one list of it. Resizes parameters.layers; the
// slots point into `parameters`.
std::vector<Slot> SlotsOf(const ModelConfig& config, Parameters& parameters);

// Reads model.safetensors: float32, bfloat16, or what `cosformer quantize` wrote. Throws Error that
// names the file and the tensor for what is missing, unknown, of another shape or type, not what
// was saved by the checksums, if there are any, or not finite.
Parameters ReadParameters(const ModelConfig& config, const SafetensorsFile& file,
                          const std::string& where, const Checksums* checksums = nullptr);

// What ReadParameters() would give of the file, told by its header and a sample of its numbers: the
// same Errors, but that numbers are not looked at.
struct ParametersInfo {
  int64_t count = 0;
  int64_t bytes = 0;
  WeightType type = WeightType::kFloat32;
  std::string fingerprint;
};
ParametersInfo DescribeParameters(const ModelConfig& config, const SafetensorsFile& file,
                                  const std::string& where);

// Weights as they are before training, for benchmarks: matrices in `type`.
Parameters RandomParameters(const ModelConfig& config, WeightType type, uint64_t seed);

// The same numbers with the matrices of the layers and of the vocabulary in another type.
Parameters Converted(const ModelConfig& config, const Parameters& from, WeightType type);

// The weights of a model's directory, with their checksums.
void SaveParameters(const ModelConfig& config, const Parameters& parameters,
                    const std::string& directory);
// The file alone, whole or not at all.
void WriteParameters(const ModelConfig& config, const Parameters& parameters,
                     const std::string& path);

// As options and files spell them: "float32", "bfloat16", "int8", "int4".
std::string_view Name(WeightType type);
// Of the matrices of the layers.
WeightType TypeOf(const Parameters& parameters);

}  // namespace cosformer::runtime
