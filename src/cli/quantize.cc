// `cosformer quantize`: a model with its matrices in fewer bits, and what that costs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "cli/model_facts.h"
#include "cli/model_parts.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/text_input.h"
#include "cosformer/error.h"
#include "cosformer/runtime.h"
#include "data/statistics.h"
#include "formats/json.h"
#include "formats/model_directory.h"
#include "report/meter.h"
#include "report/units.h"
#include "runtime/network.h"
#include "runtime/scores.h"

namespace cosformer::cli {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;
using report::FormatInteger;
using runtime::Model;
using runtime::Parameters;

constexpr const char* kQuantizeDescription =
    R"(Writes a model again with its matrices in bfloat16, int8 or int4, and says what that costs.

The matrices of the layers and of the vocabulary are converted; norms, biases, learned positions and
what makes classes stay in float32. Integers share a scale among 64 neighbours (int8) or 32 (int4).
With --text, both models read that text: take one that the model was not trained on.)";

constexpr const char* kQuantizeFooter = R"(
Examples
  cosformer quantize runs/lm-cosformer lm-int8 --weights int8 --text held-out.txt
  cosformer quantize runs/lm-cosformer lm-int4 --weights int4 --text held-out.txt --tokens 20000
  cosformer quantize runs/classify-cosformer small --weights bfloat16 --force)";

struct QuantizeArguments {
  std::string model, out, weights, text;
  int64_t length = 0, tokens = 0;
  bool force = false;
  int threads = 0;
  std::string json;
};

WeightType TypeNamed(const std::string& name) {
  for (const WeightType type : {WeightType::kBFloat16, WeightType::kInt8, WeightType::kInt4}) {
    if (runtime::Name(type) == name) return type;
  }
  throw Error(fmt::format("--weights is \"{}\"; it takes bfloat16, int8, int4", name));
}

// ---- the new directory

// What stands where the model shall go. Nothing, or with --force a model and nothing else.
void CheckPlace(const fs::path& out, const fs::path& model, bool force) {
  if (!fs::exists(fs::symlink_status(out))) return;
  if (!force) {
    throw Error(
        fmt::format("\"{}\" exists: give another place, or --force to replace it", out.string()));
  }
  if (!fs::is_directory(out)) {
    throw Error(
        fmt::format("\"{}\" is a file: give a directory that is not there yet", out.string()));
  }
  if (fs::equivalent(out, model)) {
    throw Error(fmt::format("\"{}\" is the model itself: give another place", out.string()));
  }
  const std::vector<fs::path> files = ModelFiles(out);
  for (const auto& entry : fs::directory_iterator(out)) {
    if (std::find(files.begin(), files.end(), entry.path()) != files.end()) continue;
    throw Error(fmt::format(
        "\"{}\" holds \"{}\", which is no part of a model: --force replaces models alone",
        out.string(), entry.path().filename().string()));
  }
}

// A directory that is filled beside its place: it takes the place with Commit(), and leaves nothing
// behind without it.
class NewDirectory {
 public:
  explicit NewDirectory(fs::path place)
      : place_(std::move(place)), beside_(place_.string() + ".partial") {
    std::error_code error;
    if (fs::create_directory(beside_, error)) return;
    throw Error(error ? fmt::format("cannot make the directory \"{}\": {}", place_.string(),
                                    error.message())
                      : fmt::format("\"{}\" exists: a conversion is going on there, or was stopped "
                                    "half way; remove it, or give another place",
                                    beside_.string()));
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;
  ~NewDirectory() {
    std::error_code ignored;
    if (!committed_) fs::remove_all(beside_, ignored);
  }

  const fs::path& path() const { return beside_; }

  // A directory can't be renamed over one that has files: what was there goes aside first.
  void Commit() {
    std::error_code error;
    const fs::path old = place_.string() + ".replaced";
    const bool replaces = fs::exists(place_);
    if (replaces) fs::rename(place_, old, error);
    if (!error) fs::rename(beside_, place_, error);
    if (error) {
      std::error_code ignored;
      if (replaces && !fs::exists(place_, ignored)) fs::rename(old, place_, ignored);
      throw Error(fmt::format(
          "cannot put the model at \"{}\", with what is there moved to \"{}\" meanwhile: {}",
          place_.string(), old.string(), error.message()));
    }
    committed_ = true;
    if (replaces) fs::remove_all(old, error);
  }

 private:
  fs::path place_, beside_;
  bool committed_ = false;
};

// All files of the model but its weights and their checksums.
void CopyRest(const fs::path& from, const fs::path& to) {
  for (const fs::path& file : ModelFiles(from)) {
    if (file.filename() == kWeightsFile || file.filename() == kChecksumsFile) continue;
    std::error_code error;
    fs::copy_file(file, to / file.filename(), error);
    if (error) {
      throw Error(fmt::format("cannot copy \"{}\": {}", file.string(), error.message()));
    }
  }
}

// ---- what it costs

// Relative root mean square of what the conversion changed: by part, and over all parts last. A
// part without converted matrices has none.
using WeightErrors = std::array<std::optional<double>, kModelParts.size() + 1>;

WeightErrors ErrorsOf(const ModelConfig& config, Parameters before, Parameters after) {
  const std::vector<runtime::Slot> was = SlotsOf(config, before), is = SlotsOf(config, after);
  std::array<double, kModelParts.size() + 1> squares = {}, changes = {};
  std::vector<float> x, y;
  for (size_t i = 0; i < was.size(); ++i) {
    if (!was[i].convertible) continue;
    x.resize(static_cast<size_t>(was[i].columns));
    y.resize(x.size());
    double square = 0, change = 0;
    for (int64_t row = 0; row < was[i].rows; ++row) {
      ReadWeights(*was[i].matrix, row, x.data());
      ReadWeights(*is[i].matrix, row, y.data());
      for (size_t c = 0; c < x.size(); ++c) {
        const double d = static_cast<double>(y[c]) - static_cast<double>(x[c]);
        square += static_cast<double>(x[c]) * static_cast<double>(x[c]);
        change += d * d;
      }
    }
    for (const size_t at : {static_cast<size_t>(PartOf(was[i].name)), kModelParts.size()}) {
      squares[at] += square;
      changes[at] += change;
    }
  }
  WeightErrors errors;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (squares[i] > 0) errors[i] = std::sqrt(changes[i] / squares[i]);
  }
  return errors;
}

struct TextCost {
  int64_t tokens = 0;  // read
  runtime::Windows windows;
  runtime::Comparison comparison;
  double words = 0, bytes = 0;  // that the predicted tokens stand for
};

struct TextToRead {
  std::string text;
  std::vector<int32_t> tokens;
  double share = 1;  // of the text that they are
  runtime::Windows windows;
};

// Whatever can be wrong with it is found before anything is converted.
TextToRead TextFor(const Model& model, const QuantizeArguments& arguments) {
  if (model.use() != runtime::Use::kLanguageModel) {
    throw Error(
        "--text measures language models, and this is none: leave it out, and compare what "
        "cosformer score says of your examples with both models");
  }
  TextToRead to_read;
  to_read.text = ReadText(arguments.text);
  CheckText(model, to_read.text, fmt::format("\"{}\"", arguments.text));
  to_read.tokens = model.Encode(to_read.text);
  const auto all = static_cast<double>(to_read.tokens.size());
  if (arguments.tokens > 0 && static_cast<size_t>(arguments.tokens) < to_read.tokens.size()) {
    to_read.tokens.resize(static_cast<size_t>(arguments.tokens));
  }
  to_read.windows = WindowsFor(model, static_cast<int64_t>(to_read.tokens.size()), arguments.length,
                               /*stride=*/0);
  to_read.share = static_cast<double>(to_read.tokens.size() - 1) / all;
  return to_read;
}

TextCost CostOn(const TextToRead& to_read, const Model& before, const Model& after) {
  report::Meter meter;
  TextCost cost{.tokens = static_cast<int64_t>(to_read.tokens.size()),
                .windows = to_read.windows,
                .comparison = Compare(before, after, to_read.tokens, to_read.windows,
                                      [&](double done) { meter.Show(done, "reading the text"); }),
                .words = to_read.share * static_cast<double>(data::CountWords(to_read.text)),
                .bytes = to_read.share * static_cast<double>(to_read.text.size())};
  meter.Clear();
  return cost;
}

// ---- the report

std::string RoundedText(double value) {
  return value < 1e6 ? fmt::format("{:.4f}", value) : fmt::format("{:.4g}", value);
}

void AddCost(const TextCost& cost, const QuantizeArguments& arguments,
             const std::array<std::string, 2>& types, std::string& text, json& object) {
  const runtime::Comparison& both = cost.comparison;
  const auto predictions = static_cast<double>(both.predictions);
  text += fmt::format(
      "\nOn {} of {}{}:\n", FormatInteger(both.predictions) + " predictions", arguments.text,
      cost.windows.count > 1
          ? fmt::format(", read in {} windows of {} tokens that overlap by half",
                        FormatInteger(cost.windows.count), FormatInteger(cost.windows.length))
          : "");
  json& on = object["text"] = {{"path", arguments.text},
                               {"tokens", cost.tokens},
                               {"predictions", both.predictions},
                               {"windows", cost.windows.count},
                               {"window_length", cost.windows.length},
                               {"divergence", both.divergence / predictions},
                               {"agreement", static_cast<double>(both.agreed) / predictions},
                               {"before", json::object()},
                               {"after", json::object()}};
  std::vector<std::vector<std::string>> rows = {{"", types[0], types[1], "change"}};
  const std::pair<const char*, double> units[] = {
      {"token", predictions}, {"word", cost.words}, {"byte", cost.bytes}};
  for (const auto& [unit, count] : units) {
    if (!(count > 0)) continue;
    const double before = std::exp(-both.log_probability[0] / count);
    const double after = std::exp(-both.log_probability[1] / count);
    on["before"][fmt::format("perplexity_{}", unit)] = before;
    on["after"][fmt::format("perplexity_{}", unit)] = after;
    rows.push_back({fmt::format("perplexity a {}", unit), RoundedText(before), RoundedText(after),
                    fmt::format("{:+.3f} %", 100 * (after / before - 1))});
  }
  text += TableText(rows, "lrrr");
  text += fmt::format(
      "KL divergence a token {:.3g} nats; the likeliest token is the same {:.2f} % "
      "of the time\n",
      both.divergence / predictions, 100 * static_cast<double>(both.agreed) / predictions);
}

void AddSizes(const ModelFacts& before, const ModelFacts& after, std::string& text, json& object) {
  const auto bytes = [](int64_t count) { return report::FormatBytes(static_cast<double>(count)); };
  const auto ratio = [](int64_t was, int64_t is) {
    return report::FormatRatio(static_cast<double>(was) / static_cast<double>(is));
  };
  text += TableText({{"", "before", "after", "smaller"},
                     {"weights", before.weight_type, after.weight_type, ""},
                     {"on disk", bytes(before.disk_bytes), bytes(after.disk_bytes),
                      ratio(before.disk_bytes, after.disk_bytes)},
                     {"in memory", bytes(before.memory_bytes), bytes(after.memory_bytes),
                      ratio(before.memory_bytes, after.memory_bytes)}},
                    "lrrr");
  const auto facts_of = [](const ModelFacts& facts) {
    return json{{"path", facts.directory.string()},
                {"weights", facts.weight_type},
                {"disk_bytes", facts.disk_bytes},
                {"memory_bytes", facts.memory_bytes}};
  };
  object["before"] = facts_of(before);
  object["after"] = facts_of(after);
}

void AddErrors(const WeightErrors& errors, std::string& text, json& object) {
  std::vector<std::string> shares;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (!errors[i]) continue;
    const std::string name(i < kModelParts.size() ? Name(kModelParts[i]) : "all");
    shares.push_back(fmt::format("{} {:.3g} %", name, 100 * *errors[i]));
    object["weight_error"][name] = *errors[i];
  }
  text += fmt::format("\nError of the weights (relative root mean square): {}\n",
                      fmt::join(shares, ", "));
}

// "out/" and "out" are one place, and the directory beside it must not lie within it.
fs::path ModelPlace(const std::string& given) {
  fs::path place = fs::path(given).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  if (place.empty() || !place.has_filename() || place.filename() == "." ||
      place.filename() == "..") {
    throw Error(fmt::format("\"{}\" is no place for a model: give a new directory", given));
  }
  return place;
}

void RunQuantize(const QuantizeArguments& arguments) {
  const WeightType type = TypeNamed(arguments.weights);
  if (arguments.text.empty() && (arguments.length != 0 || arguments.tokens != 0)) {
    throw Error("--length and --tokens say how --text is read, and there is none: give one");
  }
  if (arguments.tokens < 0) {
    throw Error(fmt::format("--tokens is {}; give 0 or more", arguments.tokens));
  }
  CheckJsonOutput(arguments.json);
  UseThreads(arguments.threads);
  const fs::path source = ModelDirectory(arguments.model);
  const fs::path place = ModelPlace(arguments.out);
  CheckPlace(place, source, arguments.force);
  const Model before = Model::Load(arguments.model, {.threads = arguments.threads});
  const ModelConfig& config = before.network().config();
  const Parameters& parameters = before.network().parameters();
  if (WeightRowBytes(type, 64) >= WeightRowBytes(TypeOf(parameters), 64)) {
    throw Error(fmt::format("the model's weights are {} already: {} would not make them smaller",
                            runtime::Name(TypeOf(parameters)), arguments.weights));
  }
  std::optional<TextToRead> to_read;
  if (!arguments.text.empty()) to_read = TextFor(before, arguments);

  NewDirectory directory(place);
  WeightErrors errors;
  {
    const Parameters converted = Converted(config, parameters, type);
    errors = ErrorsOf(config, parameters, converted);
    SaveParameters(config, converted, directory.path().string());
  }
  CopyRest(source, directory.path());
  directory.Commit();

  std::string text;
  json object = json::object();
  const ModelFacts facts[2] = {ReadModelFacts(source.string()), ReadModelFacts(place.string())};
  AddSizes(facts[0], facts[1], text, object);
  AddErrors(errors, text, object);
  object["text"] = nullptr;
  if (to_read) {
    // As it was written: what is measured is what will run.
    const Model after = Model::Load(place.string(), {.threads = arguments.threads});
    AddCost(CostOn(*to_read, before, after), arguments,
            {facts[0].weight_type, facts[1].weight_type}, text, object);
  } else if (before.use() == runtime::Use::kLanguageModel) {
    text += "What it costs in perplexity was not measured: --text FILE does.\n";
  } else {
    text +=
        "What it costs was not measured: compare what cosformer score says of your examples with "
        "both models.\n";
  }
  text += fmt::format("The model is in {}\n", place.string());
  PrintResults(text, JsonText(object, 2) + "\n", arguments.json);
}

}  // namespace

void AddQuantize(CLI::App& app) {
  CLI::App* quantize = app.add_subcommand("quantize", kQuantizeDescription);
  quantize->footer(kQuantizeFooter);
  quantize->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<QuantizeArguments>();
  quantize->add_option("MODEL", arguments->model, "A model's directory, or a run's")
      ->required()
      ->type_name("");
  quantize->add_option("OUT", arguments->out, "The directory to write")->required()->type_name("");
  quantize->add_option("--weights", arguments->weights, "bfloat16, int8 or int4")->required();
  quantize->add_option("--text", arguments->text,
                       "Language models: a file, on which both models are compared");
  quantize->add_option("--length", arguments->length,
                       "--text: tokens of a window; 0: the model's longest text, or all");
  quantize->add_option("--tokens", arguments->tokens, "--text: of its tokens at most; 0: all");
  quantize->add_flag("--force", arguments->force, "Replace the model that is in OUT");
  AddThreadsOption(*quantize, arguments->threads);
  AddJsonOption(*quantize, arguments->json);
  quantize->callback([arguments] { RunQuantize(*arguments); });
}

}  // namespace cosformer::cli
