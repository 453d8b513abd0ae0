#include "model/model_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "formats/model_weights.h"

namespace cosformer {
namespace {

using torch::Tensor;

std::string PathOf(const std::string& directory, const char* file) {
  return (std::filesystem::path(directory) / file).string();
}

TensorType TypeOf(const Tensor& tensor, const std::string& name) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return TensorType::kF32;
    case torch::kFloat64:
      return TensorType::kF64;
    case torch::kBFloat16:
      return TensorType::kBF16;
    case torch::kFloat16:
      return TensorType::kF16;
    case torch::kInt64:
      return TensorType::kI64;
    case torch::kInt32:
      return TensorType::kI32;
    case torch::kUInt8:
      return TensorType::kU8;
    case torch::kBool:
      return TensorType::kBool;
    default:
      throw Error(fmt::format("model: tensor \"{}\" is of type {}, which cannot be saved", name,
                              torch::toString(tensor.scalar_type())));
  }
}

// Parameters and buffers by name.
std::map<std::string, Tensor> TensorsOf(const torch::nn::Module& module) {
  std::map<std::string, Tensor> tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

std::string Describe(TensorType type, const std::vector<int64_t>& shape) {
  return fmt::format("{} [{}]", Name(type), fmt::join(shape, ", "));
}

// Whether `cosformer quantize` wrote it.
bool IsQuantized(const SafetensorsFile& file) {
  return std::any_of(file.tensors().begin(), file.tensors().end(), [](const TensorEntry& tensor) {
    return tensor.type == TensorType::kBF16 || tensor.name.ends_with(".scales");
  });
}

LoadReport Match(torch::nn::Module& module, const SafetensorsFile& file) {
  LoadReport report;
  const std::map<std::string, Tensor> own = TensorsOf(module);
  for (const TensorEntry& entry : file.tensors()) {
    if (!own.contains(entry.name)) report.unused.push_back(entry.name);
  }
  for (const auto& [name, tensor] : own) {
    const TensorEntry* entry = file.Find(name);
    if (entry == nullptr) {
      report.kept.push_back(name);
      continue;
    }
    const TensorType type = TypeOf(tensor, name);
    if (entry->type != type || entry->shape != tensor.sizes().vec()) {
      report.differ.push_back(fmt::format("{} is {} in the file and {} in the model", name,
                                          Describe(entry->type, entry->shape),
                                          Describe(type, tensor.sizes().vec())));
      continue;
    }
    report.loaded.push_back(name);
  }
  return report;
}

void Copy(torch::nn::Module& module, const ModelWeights& weights,
          const std::vector<std::string>& names) {
  torch::NoGradGuard no_grad;
  std::map<std::string, Tensor> own = TensorsOf(module);
  for (const std::string& name : names) {
    Tensor& tensor = own[name];
    const TensorEntry& entry = *weights.file.Find(name);
    if (weights.checksums) weights.checksums->Check(entry, weights.path);
    if (!tensor.is_contiguous()) {
      throw Error(fmt::format("model: tensor \"{}\" is not contiguous", name));
    }
    std::memcpy(tensor.data_ptr(), entry.data.data(), entry.data.size());
    // What was computed from it, and kept, must be seen to be of an older one.
    tensor.unsafeGetTensorImpl()->bump_version();
  }
}

// Hands over the tensors of a file with these weights.
template <class Write>
void WithTensors(torch::nn::Module& module, const Write& write) {
  std::vector<TensorEntry> entries;
  std::vector<Tensor> kept;  // what the entries point into
  for (const auto& [name, tensor] : TensorsOf(module)) {
    kept.push_back(tensor.detach().contiguous());
    const Tensor& dense = kept.back();
    entries.push_back({name,
                       TypeOf(dense, name),
                       dense.sizes().vec(),
                       {static_cast<const std::byte*>(dense.data_ptr()), dense.nbytes()}});
  }
  write(entries);
}

// The key that the ecosystem's readers look for.
constexpr std::pair<const char*, const char*> kFormat = {"format", "pt"};

void LoadAll(torch::nn::Module& module, const ModelWeights& weights) {
  const std::string& path = weights.path;
  const LoadReport report = Match(module, weights.file);
  std::vector<std::string> complaints;
  for (const std::string& name : report.kept) complaints.push_back(name + " is missing");
  for (const std::string& name : report.unused) complaints.push_back(name + " is unknown");
  for (const std::string& sentence : report.differ) complaints.push_back(sentence);
  if (!complaints.empty() && IsQuantized(weights.file)) {
    throw Error(
        fmt::format("\"{}\" was made by cosformer quantize: cosformer generate and score take it, "
                    "training and evaluation the model that it was made from",
                    path));
  }
  if (!complaints.empty()) {
    throw Error(fmt::format("{}: {} of its tensors do not fit the model: {}", path,
                            complaints.size(), fmt::join(complaints, "; ")));
  }
  Copy(module, weights, report.loaded);
}

}  // namespace

void SaveWeights(torch::nn::Module& module, const std::string& path,
                 std::map<std::string, std::string> metadata) {
  metadata.insert(kFormat);
  WithTensors(module, [&](const auto& tensors) { WriteSafetensors(path, tensors, metadata); });
}

void LoadWeights(torch::nn::Module& module, const std::string& path) {
  LoadAll(module, {.file = SafetensorsFile::Open(path), .path = path, .checksums = {}});
}

void LoadModelWeights(ModelImpl& model, const std::string& directory) {
  LoadAll(model, OpenModelWeights(directory));
}

void SaveModel(ModelImpl& model, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Error(fmt::format("{}: cannot be made: {}", directory, error.message()));
  // What can't be written at all must not cost the model that was there.
  ToJson(model.config()).dump();
  WithTensors(model,
              [&](const auto& tensors) { WriteModelWeights(directory, tensors, {kFormat}); });
  WriteConfig(PathOf(directory, kConfigFile), model.config());
}

Model LoadModel(const std::string& directory) {
  Model model(ReadConfig(PathOf(directory, kConfigFile)));
  LoadModelWeights(*model, directory);
  return model;
}

LoadReport LoadMatching(ModelImpl& model, const std::string& directory) {
  const ModelWeights weights = OpenModelWeights(directory);
  LoadReport report = Match(model, weights.file);
  if (report.loaded.empty()) {
    throw Error(fmt::format("{}: none of its {} tensors has a name, shape and type of this model",
                            weights.path, weights.file.tensors().size()));
  }
  Copy(model, weights, report.loaded);
  return report;
}

}  // namespace cosformer
