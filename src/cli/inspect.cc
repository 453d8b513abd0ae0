// `cosformer inspect`: what a model, a saved session or a safetensors file is, from its files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/model_facts.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cosformer/error.h"
#include "cosformer/runtime.h"
#include "formats/json.h"
#include "formats/model_directory.h"
#include "formats/model_weights.h"
#include "formats/safetensors_types.h"
#include "report/units.h"
#include "runtime/session_file.h"

namespace cosformer::cli {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;
using report::FormatBytes;
using report::FormatInteger;

constexpr const char* kInspectDescription =
    R"(Tells what a model, a saved session or a safetensors file is.

A model (or a run, whose model is meant): its layers, sizes, parameters, and what a session of it
takes in memory; its weights are not read through, but with --check. Models that only training runs
are described too, with the reason why the runtime does not run them.)";

constexpr const char* kInspectFooter = R"(
Examples
  cosformer inspect runs/lm-cosformer
  cosformer inspect runs/*/model --json models.json
  cosformer inspect runs/lm-cosformer --check
  cosformer inspect chat.session --model runs/lm-cosformer
  cosformer inspect runs/lm-cosformer/model/model.safetensors --tensors)";

struct InspectArguments {
  std::vector<std::string> paths;
  std::string model;
  bool tensors = false;
  bool check = false;
  int threads = 0;
  std::string json;
};

// For people and for programs.
struct Description {
  std::string text;
  json object;
};

class Lines {
 public:
  explicit Lines(std::string title) : text_(std::move(title) + "\n") {}

  void Add(const char* name, const std::string& value) { text_ += Line(name, value); }
  static std::string Line(const char* name, const std::string& value) {
    return fmt::format("  {:<14}{}\n", name, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string Bytes(int64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

// ---- models

// "horizon 1024, normaliser \"norm\"", as the config has them.
std::string OptionsText(const LayerRun& run) {
  std::vector<std::string> options;
  for (const auto& [name, value] : run.attention.options.items()) {
    options.push_back(fmt::format("{} {}", name, value.dump()));
  }
  if (run.horizon && !run.attention.options.contains("horizon")) {
    options.push_back(fmt::format("horizon {}", *run.horizon));
  }
  return options.empty() ? "" : fmt::format(" ({})", fmt::join(options, ", "));
}

std::string LayerNumbers(const LayerRun& run) {
  return run.first == run.last ? fmt::format("{}", run.first)
                               : fmt::format("{} to {}", run.first, run.last);
}

std::string LayersText(const ModelFacts& facts) {
  std::vector<std::string> parts;
  for (const LayerRun& run : facts.layers) {
    parts.push_back(fmt::format("{}{}{} {}{}", run.stack, *run.stack == '\0' ? "" : " ",
                                LayerNumbers(run), run.attention.system, OptionsText(run)));
  }
  if (facts.config.kind == ModelKind::kEncoderDecoder) {
    parts.push_back("from decoder to encoder " + facts.config.cross_attention.system);
  }
  return fmt::format("{}: {}", facts.config.AttentionLayers(), fmt::join(parts, "; "));
}

std::string PositionsText(const ModelConfig& config) {
  const std::string kind(Name(config.positions.kind));
  return config.positions.kind == PositionKind::kRotary
             ? fmt::format("{} (base {})", kind, config.positions.rotary_base)
             : kind;
}

std::string InputText(const ModelConfig& config) {
  const ImageConfig& image = config.image;
  const std::string size = fmt::format("{} x {}, {} channel{}", image.height, image.width,
                                       image.channels, image.channels == 1 ? "" : "s");
  return config.input == InputKind::kPixels
             ? fmt::format("pixels of an image, {}", size)
             : fmt::format("patches of {0} x {0} pixels of an image, {1}", image.patch, size);
}

std::string SharesText(const ModelFacts& facts) {
  std::vector<std::string> shares;
  for (const ModelPart part : kModelParts) {
    const int64_t count = facts.part_parameters[static_cast<size_t>(part)];
    if (count == 0) continue;
    shares.push_back(
        fmt::format("{} {:.1f} %", Name(part),
                    100 * static_cast<double>(count) / static_cast<double>(facts.parameters)));
  }
  return fmt::format("{}", fmt::join(shares, ", "));
}

// How far back a token of a long text attends, layer by layer where they differ.
std::string AttendedText(const ModelFacts& facts) {
  std::vector<std::pair<LayerRun, std::string>> parts;
  for (const LayerRun& run : facts.layers) {
    const auto [least, most] = run.attends_to.value_or(AttendedTokens{});
    std::string text = run.attends_to ? fmt::format("the last {} to {} tokens",
                                                    FormatInteger(least), FormatInteger(most))
                                      : "all tokens before it";
    if (run.gate) text += ", as far as its gate keeps them";
    if (!parts.empty() && parts.back().second == text) {
      parts.back().first.last = run.last;
    } else {
      parts.emplace_back(run, std::move(text));
    }
  }
  if (parts.size() == 1) return parts[0].second;
  std::vector<std::string> texts;
  for (const auto& [run, text] : parts) {
    texts.push_back(fmt::format("{}: {}", LayerNumbers(run), text));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string EndlessText(const SessionFacts& session) {
  if (session.limit) return "no";
  if (!session.limit_no_endless) return "yes: nothing in it ends with a text's length";
  return fmt::format("yes; with --no-endless a text has {} tokens at most",
                     FormatInteger(*session.limit_no_endless));
}

std::string MemoryText(const SessionFacts& session) {
  const std::string constant = Bytes(session.constant_bytes);
  return session.token_bytes == 0
             ? constant + ", however long the text"
             : fmt::format("{} and {} a token", constant, Bytes(session.token_bytes));
}

std::string RunsText(const ModelFacts& facts) {
  if (!facts.why_not.empty()) {
    return "not with cosformer generate or score: " + facts.why_not;
  }
  if (facts.images) return "from C++: it reads images, not text";
  if (facts.tokenizer.empty()) return "from C++: it has no tokenizer, and reads tokens";
  if (facts.session) return "cosformer generate, cosformer score";
  return "cosformer score; cosformer generate will not run it, it does not go on with a text";
}

std::vector<int64_t> Horizons(const ModelFacts& facts) {
  std::vector<int64_t> horizons;
  for (const LayerRun& run : facts.layers) {
    if (!run.horizon) continue;
    if (std::find(horizons.begin(), horizons.end(), *run.horizon) == horizons.end()) {
      horizons.push_back(*run.horizon);
    }
  }
  return horizons;
}

std::string TextOf(const ModelFacts& facts) {
  const ModelConfig& config = facts.config;
  Lines lines(fmt::format("{}: {}", facts.directory.string(), facts.use));
  lines.Add("kind", std::string(Name(config.kind)) +
                        (facts.task.empty() ? "" : ", trained for the task " + facts.task));
  lines.Add("layers", LayersText(facts));
  lines.Add("width", fmt::format("{}: {} heads of {}{}", FormatInteger(config.width), config.heads,
                                 config.head_dim,
                                 config.kv_heads == config.heads
                                     ? ""
                                     : fmt::format(", {} of keys and values", config.kv_heads)));
  lines.Add("hidden", fmt::format("{}, {}", FormatInteger(config.hidden), Name(config.activation)));
  lines.Add("norm", fmt::format("{}, {}", Name(config.norm), Name(config.norm_place)));
  lines.Add("positions", PositionsText(config));
  if (config.input == InputKind::kTokens) {
    lines.Add("vocabulary",
              fmt::format("{} ({})", FormatInteger(config.vocabulary),
                          facts.tokenizer.empty() ? "no tokenizer" : facts.tokenizer));
  } else {
    lines.Add("input", InputText(config));
  }
  if (config.classes > 0) {
    lines.Add("classes", fmt::format("{}{}{}", config.classes, facts.labels.empty() ? "" : ": ",
                                     fmt::join(facts.labels, ", ")));
  }
  lines.Add("parameters",
            fmt::format("{} ({})", FormatInteger(facts.parameters), SharesText(facts)));
  lines.Add("weights", fmt::format("{}; {} on disk, {} in memory", facts.weight_type,
                                   Bytes(facts.disk_bytes), Bytes(facts.memory_bytes)));
  const std::vector<int64_t> horizons = Horizons(facts);
  if (!horizons.empty()) lines.Add("horizon", fmt::format("{} tokens", fmt::join(horizons, ", ")));
  if (const auto& session = facts.session) {
    lines.Add("longest text",
              session->limit ? fmt::format("{0} tokens: {1} {0}", FormatInteger(*session->limit),
                                           session->limit_reason)
                             : "any");
    lines.Add("attends to", AttendedText(facts));
    lines.Add("session", MemoryText(*session));
    lines.Add("endless", EndlessText(*session));
  } else {
    lines.Add("longest text", fmt::format("{} tokens", FormatInteger(config.max_length)));
  }
  if (!facts.fingerprint.empty()) lines.Add("fingerprint", facts.fingerprint);
  lines.Add("runs with", RunsText(facts));
  return lines.text();
}

json JsonOf(const ModelFacts& facts) {
  const ModelConfig& config = facts.config;
  json object{{"path", facts.directory.string()},
              {"type", "model"},
              {"use", facts.use},
              {"kind", Name(config.kind)},
              {"task", facts.task.empty() ? json() : json(facts.task)},
              {"layers", json::array()},
              {"width", config.width},
              {"heads", config.heads},
              {"kv_heads", config.kv_heads},
              {"head_dim", config.head_dim},
              {"hidden", config.hidden},
              {"activation", Name(config.activation)},
              {"norm", Name(config.norm)},
              {"norm_position", Name(config.norm_place)},
              {"positions", Name(config.positions.kind)},
              {"max_length", config.max_length},
              {"vocabulary", config.vocabulary},
              {"tokenizer", facts.tokenizer.empty() ? json() : json(facts.tokenizer)},
              {"classes", config.classes},
              {"labels", facts.labels},
              {"parameters", facts.parameters},
              {"parts", json::object()},
              {"weights", facts.weight_type},
              {"disk_bytes", facts.disk_bytes},
              {"memory_bytes", facts.memory_bytes},
              {"horizons", Horizons(facts)},
              {"fingerprint", facts.fingerprint.empty() ? json() : json(facts.fingerprint)},
              {"runs", facts.why_not.empty()},
              {"why_not", facts.why_not.empty() ? json() : json(facts.why_not)},
              {"session", nullptr}};
  for (const LayerRun& run : facts.layers) {
    json layer{{"first", run.first}, {"last", run.last}, {"attention", run.attention.system}};
    if (*run.stack != '\0') layer["stack"] = run.stack;
    layer["options"] = run.attention.options;
    layer["horizon"] = run.horizon ? json(*run.horizon) : json();
    layer["state_grows"] = run.grows ? json(*run.grows) : json();
    // Past the horizon; null: all of the text.
    layer["attends_to"] =
        run.attends_to ? json({run.attends_to->least, run.attends_to->most}) : json();
    object["layers"].push_back(std::move(layer));
  }
  if (config.kind == ModelKind::kEncoderDecoder) {
    object["cross_attention"] = config.cross_attention.system;
  }
  for (const ModelPart part : kModelParts) {
    object["parts"][std::string(Name(part))] = facts.part_parameters[static_cast<size_t>(part)];
  }
  if (const auto& session = facts.session) {
    object["session"] = {{"constant_bytes", session->constant_bytes},
                         {"token_bytes", session->token_bytes},
                         {"longest_text", session->limit ? json(*session->limit) : json()},
                         {"longest_text_no_endless",
                          session->limit_no_endless ? json(*session->limit_no_endless) : json()},
                         {"endless", !session->limit}};
  }
  return object;
}

// ---- tensors

void AddTensors(const SafetensorsFile& file, Description& to) {
  std::vector<std::vector<std::string>> rows = {{"  tensor", "type", "shape", "bytes"}};
  json list = json::array();
  for (const TensorEntry& tensor : file.tensors()) {
    rows.push_back({"  " + tensor.name, std::string(Name(tensor.type)), ShapeText(tensor.shape),
                    FormatInteger(static_cast<int64_t>(tensor.data.size()))});
    list.push_back({{"name", tensor.name},
                    {"type", Name(tensor.type)},
                    {"shape", tensor.shape},
                    {"bytes", tensor.data.size()}});
  }
  to.text += "\n" + TableText(rows, "lllr");
  to.object["tensors"] = std::move(list);
}

// Holds the weights against the checksums beside them. Throws Error where they are not the same.
void AddCheck(const ModelFacts& facts, Description& to) {
  const ModelWeights weights = OpenModelWeights(facts.directory.string());
  if (weights.checksums) weights.checksums->CheckAll(weights.file, weights.path);
  const auto count = static_cast<int64_t>(weights.file.tensors().size());
  to.text += Lines::Line(
      "checksums", weights.checksums
                       ? fmt::format("all {} tensors are as they were saved", FormatInteger(count))
                       : fmt::format("not checked: there is no {}, which models have that were "
                                     "saved by later versions",
                                     kChecksumsFile));
  to.object["checked"] = weights.checksums ? json(count) : json();
}

Description OfModel(const std::string& path, const InspectArguments& arguments) {
  const ModelFacts facts = ReadModelFacts(path);
  Description description{TextOf(facts), JsonOf(facts)};
  if (arguments.check) AddCheck(facts, description);
  if (arguments.tensors) AddTensors(facts.weights, description);
  return description;
}

// Whether the file is too short for the header that it claims to have, as any text is.
bool IsShorterThanItsHeader(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  uint64_t header = 0;
  std::error_code none;
  const auto bytes = fs::file_size(path, none);
  if (!file || none) return false;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return true;
  return header > bytes - sizeof(header);
}

SafetensorsFile OpenTensors(const std::string& path) {
  try {
    return SafetensorsFile::Open(path);
  } catch (const Error& error) {
    if (!IsShorterThanItsHeader(path)) throw;
    throw Error(
        fmt::format("\"{}\" is neither a model's directory, nor a session, nor a safetensors file: "
                    "{}",
                    path, error.what()));
  }
}

Description OfTensorFile(const std::string& path, const InspectArguments& arguments) {
  const SafetensorsFile file = OpenTensors(path);
  int64_t bytes = 0;
  for (const TensorEntry& tensor : file.tensors()) {
    bytes += static_cast<int64_t>(tensor.data.size());
  }
  Lines lines(fmt::format("{}: safetensors", path));
  const auto count = static_cast<int64_t>(file.tensors().size());
  lines.Add("tensors", fmt::format("{}, {}", FormatInteger(count), Bytes(bytes)));
  for (const auto& [key, value] : file.metadata()) {
    constexpr size_t kShown = 200;  // a checkpoint's hold a whole config
    lines.Add(
        "metadata",
        fmt::format("{}: {}", key,
                    value.size() <= kShown ? value : fmt::format("{} characters", value.size())));
  }
  Description description{lines.text(), json{{"path", path},
                                             {"type", "safetensors"},
                                             {"count", count},
                                             {"bytes", bytes},
                                             {"metadata", file.metadata()}}};
  if (arguments.tensors) AddTensors(file, description);
  return description;
}

// ---- sessions

Description OfSession(const std::string& path, const InspectArguments& arguments) {
  const runtime::SessionInfo info = runtime::ReadSessionInfo(path);
  Lines lines(fmt::format("{}: session", path));
  lines.Add("position", FormatInteger(info.position) + " tokens read");
  lines.Add("layers", fmt::format("{}", info.layers));
  if (!info.horizons.empty()) {
    lines.Add("horizon",
              fmt::format("{} tokens; {}", fmt::join(info.horizons, ", "),
                          info.endless ? "endless: past it, it forgets" : "it ends there"));
  }
  lines.Add("size", Bytes(info.bytes));
  lines.Add("model", "fingerprint " + info.model);
  lines.Add("tokenizer", info.tokenizer.empty() ? "none" : "fingerprint " + info.tokenizer);
  json object{{"path", path},
              {"type", "session"},
              {"version", info.version},
              {"position", info.position},
              {"layers", info.layers},
              {"width", info.width},
              {"bytes", info.bytes},
              {"model", info.model},
              {"tokenizer", info.tokenizer.empty() ? json() : json(info.tokenizer)},
              {"horizons", info.horizons},
              {"endless", info.endless},
              {"fits", nullptr}};
  if (!arguments.model.empty()) {
    const auto model = runtime::Model::Load(arguments.model, {.threads = arguments.threads});
    const auto session = runtime::Session::Load(model, path, {.checkpoints = 0});
    const std::optional<int64_t> most = session.max_tokens();
    lines.Add("fits", arguments.model);
    lines.Add("longest text", most ? FormatInteger(*most) + " tokens" : "any");
    object["fits"] = true;
    object["longest_text"] = most ? json(*most) : json();
    object["endless"] = !most;
    return {lines.text(), std::move(object)};
  }
  lines.Add("fits", "not checked; --model DIRECTORY does");
  return {lines.text(), std::move(object)};
}

Description DescriptionOf(const std::string& path, const InspectArguments& arguments) {
  if (!fs::exists(path)) {
    throw Error(
        fmt::format("\"{}\" does not exist; give a model's directory, a run's, a session or a "
                    "safetensors file",
                    path));
  }
  if (fs::is_directory(path)) return OfModel(path, arguments);
  if (runtime::IsSessionFile(path)) return OfSession(path, arguments);
  return OfTensorFile(path, arguments);
}

void RunInspect(const InspectArguments& arguments) {
  CheckJsonOutput(arguments.json);
  UseThreads(arguments.threads);
  std::string text;
  json all = json::array();
  bool session = false, model = false;
  for (const std::string& path : arguments.paths) {
    Description description = DescriptionOf(path, arguments);
    session |= description.object["type"] == "session";
    model |= description.object["type"] == "model";
    text += (text.empty() ? "" : "\n") + description.text;
    all.push_back(std::move(description.object));
  }
  if (!arguments.model.empty() && !session) {
    throw Error("--model says which model a session is held against, and no session was given");
  }
  if (arguments.check && !model) {
    throw Error("--check holds a model's weights against its checksums, and no model was given");
  }
  PrintResults(text, JsonText(all, 2) + "\n", arguments.json);
}

}  // namespace

void AddInspect(CLI::App& app) {
  CLI::App* inspect = app.add_subcommand("inspect", kInspectDescription);
  inspect->footer(kInspectFooter);
  inspect->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<InspectArguments>();
  inspect
      ->add_option("PATH", arguments->paths,
                   "Directories of models or runs, saved sessions, safetensors files")
      ->required()
      ->type_name("")
      ->default_str("");
  inspect->add_option("--model", arguments->model,
                      "Sessions: the model that they are to go on with; checks that they do");
  inspect->add_flag("--tensors", arguments->tensors, "Also list every tensor: type, shape, bytes");
  inspect->add_flag("--check", arguments->check,
                    "Models: read the weights through, and hold them against their checksums");
  AddThreadsOption(*inspect, arguments->threads);
  AddJsonOption(*inspect, arguments->json);
  inspect->callback([arguments] { RunInspect(*arguments); });
}

}  // namespace cosformer::cli
