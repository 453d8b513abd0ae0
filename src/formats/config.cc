#include "formats/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "cosformer/error.h"
#include "formats/config_fields.h"
#include "formats/json.h"
#include "formats/option_reader.h"
#include "report/files.h"

namespace cosformer {
namespace {

using nlohmann::json;

constexpr int64_t kConfigFormat = 1;

// In the order of the enums.
constexpr std::string_view kModelKinds[] = {"decoder", "encoder", "two-tower", "encoder-decoder"};
constexpr std::string_view kNormKinds[] = {"layer", "rms"};
constexpr std::string_view kNormPlaces[] = {"pre", "post"};
constexpr std::string_view kActivations[] = {"gelu", "relu", "swiglu"};
constexpr std::string_view kPools[] = {"mean", "first", "last"};
constexpr std::string_view kInputKinds[] = {"tokens", "pixels", "patches"};
constexpr std::string_view kPositionKinds[] = {"none",   "learned",  "sinusoidal",
                                               "rotary", "spe-sine", "spe-conv"};
constexpr std::string_view kLossKinds[] = {"cross-entropy", "one-vs-each"};

template <class Enum>
void ReadChoice(OptionReader& reader, const char* name, std::span<const std::string_view> names,
                Enum& value) {
  const std::string chosen = reader.Choice(name, names[static_cast<size_t>(value)], names);
  value = static_cast<Enum>(std::find(names.begin(), names.end(), chosen) - names.begin());
}

template <class Struct, size_t kCount>
void ReadFields(OptionReader& reader, const Field<Struct, int64_t> (&fields)[kCount],
                Struct& values) {
  for (const auto& field : fields) {
    int64_t& value = values.*field.member;
    value = reader.Integer(field.name, value, field.least, field.most);
  }
}

template <class Struct, size_t kCount>
void ReadFields(OptionReader& reader, const Field<Struct, double> (&fields)[kCount],
                Struct& values) {
  for (const auto& field : fields) {
    double& value = values.*field.member;
    value = reader.Number(field.name, value, field.least, field.most);
  }
}

// A bare name is short for an object that holds nothing else.
json AsObject(const json& value, const char* key, const std::string& where) {
  if (value.is_string()) return json::object({{key, value}});
  if (value.is_object()) {
    if (value.contains(key)) return value;
    throw Error(fmt::format("{} lacks the key \"{}\"", where, key));
  }
  throw Error(fmt::format("{} is {}; expected a name, or an object {{\"{}\": name, ...}}", where,
                          DescribeJson(value), key));
}

SystemConfig ParseSystem(const json& value, const std::string& where) {
  json options = AsObject(value, "system", where);
  OptionReader reader(options, where);
  SystemConfig system{.system = reader.Text("system", "")};
  options.erase("system");
  system.options = std::move(options);
  return system;
}

std::vector<SystemConfig> ParseAttention(const json& value, int64_t layers,
                                         const std::string& where) {
  if (!value.is_array()) return {ParseSystem(value, where)};
  // Here, since a list of one would pass for one that stands for all.
  if (value.size() != static_cast<size_t>(layers)) {
    throw Error(fmt::format(
        "{} is a list of {} but the model has {} layers; give one a layer, or one without a list",
        where, value.size(), layers));
  }
  std::vector<SystemConfig> systems;
  for (const json& element : value) {
    systems.push_back(ParseSystem(element, fmt::format("{}, layer {}", where, systems.size())));
  }
  return systems;
}

PositionConfig ParsePositions(const json& value, const std::string& where) {
  const json object = AsObject(value, "kind", where);
  OptionReader reader(object, where);
  PositionConfig positions;
  ReadChoice(reader, "kind", kPositionKinds, positions.kind);
  for (const char* option : {"base", "sines", "kernel", "realisations", "gated"}) {
    if (reader.Has(option) && !TakesOption(positions.kind, option)) {
      throw Error(fmt::format("{}: \"{}\" does nothing for positions of kind \"{}\"; remove it",
                              where, option, Name(positions.kind)));
    }
  }
  ReadFields(reader, kPositionIntegers, positions);
  ReadFields(reader, kPositionNumbers, positions);
  positions.gated = reader.Flag("gated", positions.gated);
  reader.Done();
  return positions;
}

void ParseInput(const json& value, const std::string& where, ModelConfig& config) {
  const json object = AsObject(value, "kind", where);
  OptionReader reader(object, where);
  ReadChoice(reader, "kind", kInputKinds, config.input);
  ReadFields(reader, kImageIntegers, config.image);
  reader.Done();
}

// What a struct can't tell from its default, a file can: a key that is there has no meaning.
void CheckGivenKeys(const OptionReader& reader, const ModelConfig& config) {
  const auto refuse = [&](const char* key, const char* why) {
    throw Error(fmt::format("{}: \"{}\" is given, but {}; remove it", reader.where(), key, why));
  };
  if (reader.Has("pool") && config.classes == 0) {
    refuse("pool", "there are no \"classes\" to pool for");
  }
  if (reader.Has("cross_attention") && config.kind != ModelKind::kEncoderDecoder) {
    refuse("cross_attention", "only a model of kind \"encoder-decoder\" has one");
  }
  if (reader.Has("tied_embeddings") && config.tied_embeddings) {
    if (config.input != InputKind::kTokens) {
      refuse("tied_embeddings", "the input is an image, which has no embeddings to tie");
    }
    if (config.classes > 0) {
      refuse("tied_embeddings", "a model with \"classes\" has no output layer over the vocabulary");
    }
  }
}

json SystemToJson(const SystemConfig& system) {
  if (system.options.empty()) return system.system;
  json object = system.options;
  object["system"] = system.system;
  return object;
}

json AttentionToJson(const std::vector<SystemConfig>& systems) {
  const auto differs = [&](const SystemConfig& system) { return system != systems.front(); };
  if (std::none_of(systems.begin(), systems.end(), differs)) return SystemToJson(systems.front());
  json list = json::array();
  for (const SystemConfig& system : systems) list.push_back(SystemToJson(system));
  return list;
}

json PositionsToJson(const PositionConfig& positions) {
  json object = json::object({{"kind", Name(positions.kind)}});
  for (const auto& field : kPositionIntegers) {
    if (TakesOption(positions.kind, field.name)) object[field.name] = positions.*field.member;
  }
  for (const auto& field : kPositionNumbers) {
    if (TakesOption(positions.kind, field.name)) object[field.name] = positions.*field.member;
  }
  if (TakesOption(positions.kind, "gated")) object["gated"] = positions.gated;
  return object.size() == 1 ? object["kind"] : object;
}

json InputToJson(const ModelConfig& config) {
  if (config.input == InputKind::kTokens) return Name(config.input);
  json object = json::object({{"kind", Name(config.input)}});
  for (const auto& field : kImageIntegers) object[field.name] = config.image.*field.member;
  return object;
}

}  // namespace

std::string_view Name(ModelKind kind) { return kModelKinds[static_cast<size_t>(kind)]; }
std::string_view Name(NormKind kind) { return kNormKinds[static_cast<size_t>(kind)]; }
std::string_view Name(NormPlace place) { return kNormPlaces[static_cast<size_t>(place)]; }
std::string_view Name(Activation activation) {
  return kActivations[static_cast<size_t>(activation)];
}
std::string_view Name(Pool pool) { return kPools[static_cast<size_t>(pool)]; }
std::string_view Name(InputKind kind) { return kInputKinds[static_cast<size_t>(kind)]; }
std::string_view Name(PositionKind kind) { return kPositionKinds[static_cast<size_t>(kind)]; }
std::string_view Name(LossKind kind) { return kLossKinds[static_cast<size_t>(kind)]; }

ModelConfig ParseConfig(const json& object, std::string where) {
  OptionReader reader(object, where);
  reader.CheckFormat(kConfigFormat);
  ModelConfig config;
  ReadChoice(reader, "model", kModelKinds, config.kind);
  if (const json* input = reader.Find("input")) ParseInput(*input, where + ": input", config);
  ReadFields(reader, kModelIntegers, config);
  ReadFields(reader, kModelNumbers, config);
  if (config.kind == ModelKind::kEncoderDecoder && config.decoder_layers == 0) {
    config.decoder_layers = config.layers;
  }
  if (const json* attention = reader.Find("attention")) {
    config.attention = ParseAttention(*attention, config.AttentionLayers(), where + ": attention");
  }
  if (const json* cross = reader.Find("cross_attention")) {
    config.cross_attention = ParseSystem(*cross, where + ": cross_attention");
  }
  if (const json* positions = reader.Find("positions")) {
    config.positions = ParsePositions(*positions, where + ": positions");
  }
  ReadChoice(reader, "norm", kNormKinds, config.norm);
  ReadChoice(reader, "norm_position", kNormPlaces, config.norm_place);
  ReadChoice(reader, "activation", kActivations, config.activation);
  ReadChoice(reader, "pool", kPools, config.pool);
  ReadChoice(reader, "loss", kLossKinds, config.loss);
  config.bias = reader.Flag("bias", config.bias);
  config.tied_embeddings = reader.Flag("tied_embeddings", config.tied_embeddings);
  config.checkpointing = reader.Flag("checkpointing", config.checkpointing);
  reader.Done();
  CheckGivenKeys(reader, config);
  Validate(config, where);
  return config;
}

ModelConfig ReadConfig(const std::string& path) {
  return ParseConfig(ReadJsonFile(path), fmt::format("\"{}\"", path));
}

json ToJson(const ModelConfig& config) {
  json object{
      {"format", kConfigFormat},
      {"model", Name(config.kind)},
      {"input", InputToJson(config)},
      {"attention", AttentionToJson(config.attention)},
      {"positions", PositionsToJson(config.positions)},
      {"norm", Name(config.norm)},
      {"norm_position", Name(config.norm_place)},
      {"activation", Name(config.activation)},
      {"loss", Name(config.loss)},
      {"bias", config.bias},
      {"tied_embeddings", config.tied_embeddings},
      {"checkpointing", config.checkpointing},
  };
  for (const auto& field : kModelIntegers) {
    // A zero means that the model has no such thing; the file then does not speak of it.
    if (config.*field.member != 0) object[field.name] = config.*field.member;
  }
  for (const auto& field : kModelNumbers) object[field.name] = config.*field.member;
  if (config.kind == ModelKind::kEncoderDecoder) {
    object["cross_attention"] = SystemToJson(config.cross_attention);
  }
  if (config.classes > 0) object["pool"] = Name(config.pool);
  return object;
}

void WriteConfig(const std::string& path, const ModelConfig& config) {
  ModelConfig validated = config;
  Validate(validated);
  const json object = ToJson(validated);
  // Options are any JSON, and not all that a program can put there survives as text: NaN does not,
  // nor a string that is not UTF-8.
  const std::string text = JsonText(object, 2) + "\n";
  if (ParseJson(text, "the config") != object) {
    throw Error(fmt::format(
        "cannot write \"{}\": an attention's options hold a value that JSON has no form for, as "
        "NaN or text that is not UTF-8",
        path));
  }
  report::WriteFile(path, text);
}

}  // namespace cosformer
