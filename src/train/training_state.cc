#include "train/training_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "cosformer/error.h"
#include "formats/json.h"
#include "formats/option_reader.h"
#include "formats/safetensors.h"
#include "model/model_files.h"

namespace cosformer {
namespace {

using nlohmann::json;
using torch::Tensor;

constexpr int64_t kFormat = 1;
constexpr const char* kStateKey = "training";
constexpr const char* kConfigKey = "config";
constexpr const char* kChecksumKey = "checksum";

// All tensors of a run under one module, so that they are saved and loaded as a model is.
struct AllTensors : torch::nn::Module {
  AllTensors(const Model& model, const AdamW& optimiser, Tensor random) {
    register_module("model", model.ptr());
    const std::vector<AdamW::Moments> all = optimiser.moments();
    // A parameter that never had a gradient has no moments: zeros are the same.
    size_t index = 0;
    for (const ParameterGroup& group : GroupsOf(*model)) {
      for (const Tensor& parameter : group.parameters) {
        const AdamW::Moments& own = all.at(index);
        const auto or_zeros = [&](const Tensor& moment) {
          return moment.defined()
                     ? moment
                     : torch::zeros_like(parameter, torch::MemoryFormat::Contiguous).detach();
        };
        moments.push_back({register_buffer(fmt::format("mean_{}", index), or_zeros(own.mean)),
                           register_buffer(fmt::format("square_{}", index), or_zeros(own.square))});
        ++index;
      }
    }
    this->random = register_buffer("random", std::move(random));
  }

  std::vector<AdamW::Moments> moments;
  Tensor random;
};

// All bytes of a checkpoint that count, by name.
using Contents = std::map<std::string, std::string_view, std::less<>>;

std::string_view TextOf(const void* data, size_t bytes) {
  return {static_cast<const char*>(data), bytes};
}

// A bit that a disk has lost would otherwise go on into every later step unseen.
std::string ChecksumOf(const Contents& contents) {
  uLong sum = 0;
  for (const auto& [name, bytes] : contents) {
    for (const std::string_view part : {std::string_view(name), bytes}) {
      // Without data, as in an empty tensor, zlib would begin anew.
      if (part.empty()) continue;
      sum = crc32_z(sum, reinterpret_cast<const Bytef*>(part.data()), part.size());
    }
  }
  return fmt::format("{:08x}", sum);
}

SafetensorsFile OpenCheckpoint(const std::string& path) {
  try {
    return SafetensorsFile::Open(path);
  } catch (const Error& error) {
    if (access(path.c_str(), R_OK) != 0) throw;
    throw DamagedCheckpoint(error.what());
  }
}

// The first keys in which two configs differ, for a person.
std::string Difference(const json& saved, const json& own) {
  std::string text;
  for (const auto& [key, value] : own.items()) {
    const json other = saved.value(key, json());
    if (other == value) continue;
    text += fmt::format("{}{} is {} there and {} here", text.empty() ? "" : ", ", key,
                        DescribeJson(other), DescribeJson(value));
  }
  return text.empty() ? "some keys are missing here" : text;
}

}  // namespace

Tensor TorchRandomState() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void SetTorchRandomState(const Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

void SaveTrainingState(const std::string& path, const Model& model, const AdamW& optimiser,
                       const TrainingState& state) {
  json object{
      {"format", kFormat},
      {"step", state.step},
      {"steps", state.steps},
      {"epoch", state.place.epoch},
      {"batch", state.place.batch},
      {"tokens", state.tokens},
      {"seconds", state.seconds},
      {"best_step", state.best_step},
      {"stale", state.stale},
      {"data", state.data},
      {"optimiser_steps", optimiser.steps()},
  };
  if (state.best) object["best"] = *state.best;
  AllTensors all(model, optimiser, TorchRandomState());
  std::map<std::string, std::string> metadata = {{kStateKey, object.dump()},
                                                 {kConfigKey, ToJson(model->config()).dump()}};
  Contents contents(metadata.begin(), metadata.end());
  std::vector<Tensor> dense;  // what the contents point into
  const auto add = [&](const auto& tensors) {
    for (const auto& item : tensors) {
      dense.push_back(item.value().detach().contiguous());
      contents[item.key()] = TextOf(dense.back().data_ptr(), dense.back().nbytes());
    }
  };
  add(all.named_parameters());
  add(all.named_buffers());
  metadata[kChecksumKey] = ChecksumOf(contents);
  SaveWeights(all, path, std::move(metadata));
}

TrainingState LoadTrainingState(const std::string& path, const Model& model, AdamW& optimiser,
                                const std::string& data) {
  TrainingState state;
  int64_t optimiser_steps = 0;
  {
    const SafetensorsFile file = OpenCheckpoint(path);
    const auto text = file.metadata().find(kStateKey);
    const auto config = file.metadata().find(kConfigKey);
    const auto checksum = file.metadata().find(kChecksumKey);
    if (text == file.metadata().end() || config == file.metadata().end() ||
        checksum == file.metadata().end()) {
      throw Error(
          fmt::format("\"{}\" is no checkpoint of a training run: it says nothing about "
                      "one; give the run's directory",
                      path));
    }
    const json object = ParseJson(text->second, fmt::format("the state in \"{}\"", path));
    OptionReader reader(object, fmt::format("\"{}\"", path));
    reader.CheckFormat(kFormat);
    Contents contents = {{kStateKey, text->second}, {kConfigKey, config->second}};
    for (const TensorEntry& tensor : file.tensors()) {
      contents[tensor.name] = TextOf(tensor.data.data(), tensor.data.size());
    }
    if (ChecksumOf(contents) != checksum->second) {
      throw DamagedCheckpoint(
          fmt::format("\"{}\" is damaged: its checksum is not that of its contents", path));
    }
    state.step = reader.Integer("step", 0, 0, INT64_MAX);
    state.steps = reader.Integer("steps", 0, 0, INT64_MAX);
    state.place.epoch = reader.Integer("epoch", 0, 0, INT64_MAX);
    state.place.batch = reader.Integer("batch", 0, 0, INT64_MAX);
    state.tokens = reader.Integer("tokens", 0, 0, INT64_MAX);
    state.seconds = reader.Number("seconds", 0, 0, 1e18);
    if (reader.Has("best")) state.best = reader.Number("best", 0, -1e300, 1e300);
    state.best_step = reader.Integer("best_step", 0, 0, INT64_MAX);
    state.stale = reader.Integer("stale", 0, 0, INT64_MAX);
    state.data = reader.Text("data", "");
    optimiser_steps = reader.Integer("optimiser_steps", 0, 0, INT64_MAX);
    reader.Done();

    const json own = ToJson(model->config());
    const json saved = ParseJson(config->second, fmt::format("the config in \"{}\"", path));
    if (saved != own) {
      throw Error(
          fmt::format("\"{}\" is a checkpoint of another model: {}; give the options that "
                      "the run began with, or another --out",
                      path, Difference(saved, own)));
    }
    if (state.data != data) {
      throw Error(
          fmt::format("\"{}\" was trained on other data than these: they, or the tokenizer, "
                      "have changed since; put them back, or begin a new run with --from",
                      path));
    }
  }
  AllTensors all(model, optimiser, TorchRandomState());
  LoadWeights(all, path);
  optimiser.Restore(optimiser_steps, all.moments);
  SetTorchRandomState(all.random);
  return state;
}

}  // namespace cosformer
