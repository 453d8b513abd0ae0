#include "cli/model_facts.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "cosformer/error.h"
#include "data/task.h"
#include "formats/model_directory.h"
#include "formats/task_card.h"
#include "formats/tokenizer.h"
#include "runtime/network.h"

namespace cosformer::cli {
namespace {

namespace fs = std::filesystem;

const char* UseOf(const ModelConfig& config) {
  switch (config.kind) {
    case ModelKind::kDecoder:
      return "language model";
    case ModelKind::kTwoTower:
      return "retrieval";
    case ModelKind::kEncoderDecoder:
      return "sequence to sequence";
    case ModelKind::kEncoder:
      break;
  }
  return config.classes > 0 ? "classifier" : "masked model";
}

// What the runtime knows of the layer's attention; nothing of one that it does not have.
std::optional<runtime::LayerAttention> KnownAttention(const ModelConfig& config, size_t layer) {
  try {
    return runtime::AttentionOf(config, layer, /*endless=*/true);
  } catch (const Error&) {
    return {};
  }
}

std::vector<LayerRun> LayersOf(const ModelConfig& config) {
  const bool two = config.kind == ModelKind::kEncoderDecoder;
  std::vector<LayerRun> runs;
  for (size_t i = 0; i < config.attention.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    const bool decoder = layer >= config.layers;
    const char* stack = !two ? "" : decoder ? "decoder" : "encoder";
    if (!runs.empty() && runs.back().attention == config.attention[i] &&
        layer != config.layers) {  // where the decoder begins
      ++runs.back().last;
      continue;
    }
    const int64_t number = decoder ? layer - config.layers : layer;
    LayerRun run{.stack = stack,
                 .first = number,
                 .last = number,
                 .attention = config.attention[i],
                 .horizon = {},
                 .grows = {},
                 .attends_to = {},
                 .gate = false};
    if (const auto known = KnownAttention(config, i)) {
      if (!known->softmax && known->options.kernel.reweighting == Reweighting::kCos) {
        run.horizon = known->options.kernel.horizon;
      }
      run.grows = known->softmax;
      if (!known->softmax && known->options.endless) {
        // The last whole half of the horizon, and what has been read of the next (LinearState).
        const int64_t half = known->options.kernel.horizon / 2;
        run.attends_to = AttendedTokens{.least = half, .most = 2 * half};
      }
      run.gate = known->options.gate;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

SessionFacts SessionOf(const ModelConfig& config) {
  // What a session is follows from the config alone.
  const runtime::Network network(config, {}, /*endless=*/true, /*threads=*/1);
  const runtime::Network no_endless(config, {}, /*endless=*/false, /*threads=*/1);
  SessionFacts facts;
  facts.limit = network.Limit();
  facts.limit_reason = network.LimitReason();
  facts.limit_no_endless = no_endless.Limit();
  facts.constant_bytes = config.width * static_cast<int64_t>(sizeof(float));
  for (const runtime::LayerAttention& attention : network.attention()) {
    if (attention.softmax) {
      facts.token_bytes +=
          2 * attention.kv_heads * attention.dim * static_cast<int64_t>(sizeof(float));
    } else {
      facts.constant_bytes += static_cast<int64_t>(runtime::BytesOf(attention.NewState()));
    }
  }
  return facts;
}

int64_t ElementsOf(const TensorEntry& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

// By the header, of whatever model: what is no number of some precision is no parameter but state.
void CountTensors(ModelFacts& facts) {
  for (const TensorEntry& tensor : facts.weights.tensors()) {
    facts.memory_bytes += static_cast<int64_t>(tensor.data.size());
    const bool number = tensor.type == TensorType::kF32 || tensor.type == TensorType::kBF16 ||
                        tensor.type == TensorType::kF16 || tensor.type == TensorType::kF64;
    if (!number) continue;
    facts.parameters += ElementsOf(tensor);
    facts.part_parameters[static_cast<size_t>(PartOf(tensor.name))] += ElementsOf(tensor);
    if (tensor.name.ends_with("in_weight")) facts.weight_type = cosformer::Name(tensor.type);
  }
}

// The same for a model that the runtime has a list of: quantised matrices count by their numbers.
void CountParameters(ModelFacts& facts, const std::string& where) {
  const runtime::ParametersInfo info =
      runtime::DescribeParameters(facts.config, facts.weights, where);
  facts.parameters = info.count;
  facts.memory_bytes = info.bytes;
  facts.weight_type = runtime::Name(info.type);
  facts.fingerprint = info.fingerprint;
  runtime::Parameters parameters;
  for (const runtime::Slot& slot : runtime::SlotsOf(facts.config, parameters)) {
    facts.part_parameters[static_cast<size_t>(PartOf(slot.name))] += slot.rows * slot.columns;
  }
}

// That the files beside the config are of the same model.
void CheckTogether(const ModelFacts& facts, const TaskCard& card,
                   const std::optional<Tokenizer>& tokenizer) {
  const ModelConfig& config = facts.config;
  if (tokenizer && config.input == InputKind::kTokens && tokenizer->size() != config.vocabulary) {
    throw Error(fmt::format("its tokenizer has {} tokens, its config a vocabulary of {}",
                            tokenizer->size(), config.vocabulary));
  }
  if (tokenizer) CheckTrainedWith(card, tokenizer->Fingerprint(), facts.directory.string());
  if (!facts.labels.empty() && static_cast<int64_t>(facts.labels.size()) != facts.config.classes) {
    throw Error(fmt::format("its task.json names {} classes, its config has {}",
                            facts.labels.size(), facts.config.classes));
  }
}

}  // namespace

std::vector<fs::path> ModelFiles(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const char* name : {kConfigFile, kWeightsFile, kChecksumsFile, "tokenizer.model",
                           "tokenizer.json", kTaskFile}) {
    if (fs::exists(directory / name)) files.push_back(directory / name);
  }
  return files;
}

void RequireKnownTask(const std::string& given) {
  const fs::path directory = ModelDirectory(given);
  if (!fs::exists(directory / kTaskFile)) return;
  data::FindTask(ReadTaskCard(directory.string()).task, (directory / kTaskFile).string());
}

ModelFacts ReadModelFacts(const std::string& given) {
  RequireKnownTask(given);
  const fs::path directory = ModelDirectory(given);
  const std::string path = (directory / kWeightsFile).string();
  ModelFacts facts{.directory = directory,
                   .config = ReadConfig((directory / kConfigFile).string()),
                   .use = {},
                   .task = {},
                   .labels = {},
                   .tokenizer = {},
                   .images = false,
                   .layers = {},
                   .weights = SafetensorsFile::Open(path),
                   .weight_type = {},
                   .fingerprint = {},
                   .why_not = {},
                   .session = {}};
  facts.use = UseOf(facts.config);
  facts.layers = LayersOf(facts.config);
  TaskCard card;
  if (fs::exists(directory / kTaskFile)) {
    card = ReadTaskCard(directory.string());
    facts.task = card.task;
    facts.labels = card.labels;
  }
  facts.images = card.images() || facts.config.input != InputKind::kTokens;
  std::optional<Tokenizer> tokenizer;
  if (Tokenizer::IsIn(directory.string())) {
    tokenizer = Tokenizer::Load(directory.string());
    facts.tokenizer = Name(tokenizer->kind());
  }
  for (const fs::path& file : ModelFiles(directory)) {
    facts.disk_bytes += static_cast<int64_t>(fs::file_size(file));
  }
  try {
    CheckTogether(facts, card, tokenizer);
    runtime::Network::CheckSupported(facts.config);
    CountParameters(facts, path);
    if (facts.config.kind == ModelKind::kDecoder) facts.session = SessionOf(facts.config);
  } catch (const Error& error) {
    facts.why_not = error.what();
    CountTensors(facts);
  }
  return facts;
}

}  // namespace cosformer::cli
