#include "cli/model_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "cosformer/error.h"
#include "formats/default_positions.h"
#include "formats/json.h"
#include "formats/model_directory.h"
#include "train/objective.h"
#include "zoo/abilities.h"
#include "zoo/system.h"

namespace cosformer::cli {
namespace {

using nlohmann::json;

// A name, names with commas (one a layer), or JSON as config.json has it.
json ParseNames(const std::string& text, const char* option) {
  if (text.starts_with('{') || text.starts_with('[')) return ParseJson(text, option);
  if (text.find(',') == std::string::npos) return text;
  json list = json::array();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    list.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

// The systems of the layers, by their names; empty ones for what names none.
std::vector<std::string> SystemsIn(const json& attention) {
  std::vector<std::string> systems;
  for (const json& layer : attention.is_array() ? attention : json::array({attention})) {
    const json name = layer.is_object() ? layer.value("system", json()) : layer;
    systems.push_back(name.is_string() ? name.get<std::string>() : "");
  }
  return systems;
}

// Of a model whose positions nobody chose.
std::string_view DefaultPositionsOf(const json& model, data::Objective objective) {
  const int64_t heads = model.value("heads", int64_t{1});
  const int64_t head_dim =
      model.value("head_dim", heads > 0 ? model.value("width", int64_t{0}) / heads : 0);
  return Name(DefaultPositions(objective == data::Objective::kCausal,
                               SystemsIn(model.at("attention")), head_dim, zoo::TakesRotary));
}

}  // namespace

template <class T>
void ModelOptions::Add(const char* option, const char* key, T& value, const char* help) {
  CLI::Option* added = app_.add_option(option, value, help)->group("Model");
  keys_.push_back({key, added, [&value, option]() -> json {
                     if constexpr (std::is_same_v<T, std::string>) {
                       return ParseNames(value, option);
                     } else {
                       return value;
                     }
                   }});
}

ModelOptions::ModelOptions(CLI::App& app, ModelArguments& arguments)
    : app_(app), arguments_(arguments) {
  app.add_option(
         "--from", arguments.from,
         "A trained model (or run) to begin with: its shape, its tokenizer, and the weights "
         "that fit")
      ->group("Model");
  app.add_option("--config", arguments.config, "A config.json to begin with")->group("Model");
  Add("--attention", "attention", arguments.attention,
      "A system, one a layer with commas between, or JSON with options; see below");
  Add("--layers", "layers", arguments.layers, "Layers");
  Add("--width", "width", arguments.width, "Width");
  Add("--heads", "heads", arguments.heads, "Heads");
  Add("--kv-heads", "kv_heads", arguments.kv_heads, "Heads of keys and values; 0: as --heads");
  Add("--head-dim", "head_dim", arguments.head_dim, "Dimension of a head; 0: width / heads");
  Add("--hidden", "hidden", arguments.hidden, "Of the feed-forward network; 0: 4 times the width");
  Add("--decoder-layers", "decoder_layers", arguments.decoder_layers,
      "Encoder-decoder: layers of the decoder; 0: as --layers");
  Add("--cross-attention", "cross_attention", arguments.cross_attention,
      "Encoder-decoder: as --attention, from decoder to encoder");
  Add("--positions", "positions", arguments.positions,
      "none, learned, sinusoidal, rotary, spe-sine, spe-conv, or JSON with options; otherwise "
      "rotary for a language model whose systems take them (none if all have a gate), and learned "
      "elsewhere");
  Add("--norm", "norm", arguments.norm, "layer, rms");
  Add("--norm-position", "norm_position", arguments.norm_position, "pre, post");
  Add("--activation", "activation", arguments.activation, "gelu, relu, swiglu");
  Add("--dropout", "dropout", arguments.dropout, "While training");
  Add("--pool", "pool", arguments.pool, "Classes: mean, first, last");
  Add("--loss", "loss", arguments.loss,
      "Of tokens: cross-entropy, or one-vs-each (sampled, for large vocabularies)");
  Add("--negatives", "negatives", arguments.negatives, "one-vs-each: sampled tokens; 0: 1024");
  Add("--bias", "bias", arguments.bias, "true, false: biases in all layers");
  Add("--tied-embeddings", "tied_embeddings", arguments.tied,
      "true, false: the output layer has the weights of the embedding");
  Add("--checkpointing", "checkpointing", arguments.checkpointing,
      "true, false: compute activations again in the backward pass; less memory, more work");
  Add("--input", "input", arguments.input,
      "Images: tokens (an embedding a grey value), pixels or patches (linear)");
  patch_ = app.add_option("--patch", arguments.patch, "Images as patches: the side of one")
               ->group("Model");
}

void ModelOptions::Check() const {
  const auto at_least = [](int64_t least, const char* option, int64_t value) {
    if (value < least) {
      throw Error(fmt::format("{} is {}; it must be at least {}", option, value, least));
    }
  };
  at_least(1, "--layers", arguments_.layers);
  at_least(1, "--width", arguments_.width);
  at_least(1, "--heads", arguments_.heads);
  at_least(1, "--patch", arguments_.patch);
  at_least(0, "--kv-heads", arguments_.kv_heads);
  at_least(0, "--head-dim", arguments_.head_dim);
  at_least(0, "--hidden", arguments_.hidden);
  at_least(0, "--decoder-layers", arguments_.decoder_layers);
  at_least(0, "--negatives", arguments_.negatives);
  const auto one_of = [](const char* option, const std::string& value,
                         std::initializer_list<std::string_view> names) {
    if (std::find(names.begin(), names.end(), value) != names.end()) return;
    throw Error(fmt::format("{} is \"{}\"; it takes {}", option, value, fmt::join(names, ", ")));
  };
  one_of("--pool", arguments_.pool, {Name(Pool::kMean), Name(Pool::kFirst), Name(Pool::kLast)});
  one_of("--loss", arguments_.loss, {Name(LossKind::kCrossEntropy), Name(LossKind::kOneVsEach)});
  for (const std::string& system :
       SystemsIn(ParseNames(arguments_.cross_attention, "--cross-attention"))) {
    if (!system.empty()) zoo::FindEntry(system);  // throws
  }
}

std::vector<std::string> ModelOptions::InheritShape(const std::vector<std::string>& typed) const {
  // What a fine-tuning may well have of its own.
  constexpr std::array<std::string_view, 6> kOwn = {
      "dropout", "pool", "loss", "negatives", "tied_embeddings", "checkpointing"};
  std::vector<std::string> left_out;
  for (const Key& key : keys_) {
    const std::string name = key.option->get_name();
    if (key.option->count() == 0 || std::count(typed.begin(), typed.end(), name) > 0 ||
        std::count(kOwn.begin(), kOwn.end(), key.name) > 0) {
      continue;
    }
    key.option->clear();
    left_out.push_back(name);
  }
  return left_out;
}

void ModelOptions::LeaveInheritedOut() const {
  if (arguments_.from.empty() && arguments_.config.empty()) return;
  for (const Key& key : keys_) {
    if (key.option->count() == 0) key.option->configurable(false);
  }
  if (patch_->count() == 0) patch_->configurable(false);
}

ModelConfig ModelOptions::Config(const data::Task& task, const data::TaskData& data,
                                 int64_t length) const {
  const data::TaskDescription& description = task.description();
  json object = json::object();
  if (!arguments_.from.empty()) {
    object = ToJson(ReadConfig((ModelDirectory(arguments_.from) / kConfigFile).string()));
  } else if (!arguments_.config.empty()) {
    object = ReadJsonFile(arguments_.config);
    if (!object.is_object()) {
      throw Error(fmt::format("--config \"{}\" is {}; expected an object", arguments_.config,
                              object.type_name()));
    }
  }
  const bool based = !object.empty();
  for (const Key& key : keys_) {
    // Nothing and zero of a count stand for what follows from the rest.
    const json value = key.value();
    const bool open = value == json("") || (value.is_number_integer() && value == json(0));
    if ((based && key.option->count() == 0) || open) continue;
    object[key.name] = value;
  }
  if (!based && !object.contains("positions")) {
    object["positions"] = DefaultPositionsOf(object, description.objective);
  }
  const bool image = description.image.height > 0;
  const json input = object.value("input", json("tokens"));
  const json input_kind = input.is_object() ? input.value("kind", json()) : input;
  object["model"] = Name(KindFor(description.objective));
  if (image && input_kind != "tokens") {
    object["input"] = {{"kind", input_kind},
                       {"height", description.image.height},
                       {"width", description.image.width}};
    if (input_kind == "patches") {
      const bool inherited = patch_->count() == 0 && input.is_object() && input.contains("patch");
      object["input"]["patch"] = inherited ? input["patch"] : json(arguments_.patch);
    }
    object.erase("vocabulary");
  } else {
    if (input_kind != "tokens") {
      throw Error(fmt::format("--input is {}, but the task {} has no images", input_kind.dump(),
                              description.name));
    }
    object["vocabulary"] = data.tokenizer.size();
  }
  const int64_t before = based && object.value("max_length", json(0)).is_number_integer()
                             ? object.value("max_length", int64_t{0})
                             : 0;
  object["max_length"] = std::max(before, length);
  // What other kinds of model have.
  if (data.labels.empty()) {
    for (const char* key : {"classes", "pool"}) object.erase(key);
  } else {
    object["classes"] = data.labels.size();
    for (const char* key : {"loss", "negatives", "tied_embeddings"}) object.erase(key);
  }
  if (object.value("loss", json("cross-entropy")) == "cross-entropy") object.erase("negatives");
  if (description.objective != data::Objective::kTranslate) {
    for (const char* key : {"decoder_layers", "cross_attention"}) object.erase(key);
  }
  return ParseConfig(object, "the model");
}

}  // namespace cosformer::cli
