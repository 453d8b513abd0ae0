// `cosformer attention`: what a trained model's heads attend to, as pictures and numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/text_input.h"
#include "cosformer/error.h"
#include "cosformer/runtime.h"
#include "formats/json.h"
#include "formats/tokenizer.h"
#include "report/distance.h"
#include "report/files.h"
#include "report/heatmap.h"
#include "report/plot.h"
#include "runtime/attention_map.h"

namespace cosformer::cli {
namespace {

constexpr const char* kAttentionDescription =
    R"(Draws the attention map of a layer's head for a text: how much each token attends to each other.

Several models are drawn side by side, as the paper compares cosFormer with softmax.)";

constexpr const char* kAttentionFooter = R"(
The picture is SVG with tokens and axes, or PNG, the maps alone, by the ending of --out. In a causal
map the first tokens have few others to attend to, so that their weights are large: --saturated
lets some cells lie above the range of colours, for the others to be seen.

A token's weights sum to 1, but not in linear attention with rotary positions: its normaliser leaves
the positions out, so that rows have other sums, and weights may be negative.
In the text of a model of masked tokens, <mask> is the token that hides another.

Examples
  cosformer attention runs/lm-cosformer --prompt "Attention is all you need" --layer 2 --head 1
  cosformer attention runs/cosformer runs/softmax --file page.txt --tokens 256 --distance reach.svg)";

struct AttentionArguments {
  std::vector<std::string> models;
  std::optional<std::string> prompt;
  std::string file;
  int64_t tokens = 0;
  int64_t layer = 0;
  std::string head = "mean";
  std::string out = "attention.svg";
  std::string distance;
  bool logarithmic = false;
  bool common = false;
  double saturated = 0.01;
  int threads = 0;
  std::string json;
};

std::string TextToMap(const AttentionArguments& arguments) {
  if (arguments.prompt.has_value() == !arguments.file.empty()) {
    throw Error("give a text: either --prompt TEXT or --file FILE");
  }
  return arguments.prompt ? *arguments.prompt : ReadText(arguments.file);
}

int64_t HeadOf(const std::string& head) {
  if (head == "mean") return -1;
  size_t used = 0;
  int64_t number = -1;
  try {
    number = std::stoll(head, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != head.size() || number < 0) {
    throw Error(fmt::format("--head takes a number from 0 on, or mean, not \"{}\"", head));
  }
  return number;
}

// The library's own Errors know nothing of --tokens.
void CheckLength(const runtime::Network& network, int64_t length) {
  int64_t most = runtime::kMostMapTokens;
  const char* reason = "an attention map has at most";
  if (network.Limit() && *network.Limit() < most) {
    most = *network.Limit();
    reason = network.LimitReason();
  }
  if (length <= most) return;
  throw Error(fmt::format("the text has {} tokens, and {} {}; give --tokens {} to draw the first",
                          length, reason, most, most));
}

std::vector<int32_t> TokensOf(const runtime::Model& model, const std::string& text, int64_t most) {
  CheckText(model, text, "the text");
  const bool masked = model.use() == runtime::Use::kMaskedModel;
  std::vector<int32_t> tokens = masked ? model.EncodeMasked(text) : model.Encode(text);
  if (most > 0) tokens.resize(std::min(tokens.size(), static_cast<size_t>(most)));
  CheckLength(model.network(), static_cast<int64_t>(tokens.size()));
  return tokens;
}

std::string NameOf(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  const std::string name =
      (normal.has_filename() ? normal : normal.parent_path()).filename().string();
  return name.empty() ? path : name;
}

void RunAttention(const AttentionArguments& arguments) {
  const std::string text = TextToMap(arguments);
  const int64_t head = HeadOf(arguments.head);
  const bool png = arguments.out.ends_with(".png");
  if (!png && !arguments.out.ends_with(".svg")) {
    throw Error(fmt::format("--out is \"{}\"; it must end in .svg or .png", arguments.out));
  }
  if (arguments.tokens < 0) {
    throw Error(fmt::format("--tokens is {}; give 0 or more", arguments.tokens));
  }
  CheckJsonOutput(arguments.json);
  report::CheckWritable(arguments.out);
  if (!arguments.distance.empty()) report::CheckWritable(arguments.distance);

  report::HeatmapFigure figure;
  figure.logarithmic = arguments.logarithmic;
  figure.common_range = arguments.common;
  figure.saturated = arguments.saturated;
  report::Panel panel;
  panel.x = {"distance in tokens", report::Scale::kLinear, ""};
  panel.y = {"mean weight", report::Scale::kLinear, ""};
  nlohmann::json json = {{"layer", arguments.layer}, {"head", arguments.head}, {"maps", {}}};
  json["maps"] = nlohmann::json::array();
  const std::string what = fmt::format("layer {}, {}", arguments.layer,
                                       head < 0 ? "mean of the heads" : "head " + arguments.head);
  for (const std::string& path : arguments.models) {
    runtime::LoadOptions options;
    CheckThreads(arguments.threads);
    options.threads = arguments.threads;
    options.endless = false;  // a map is of a whole text
    const runtime::Model model = runtime::Model::Load(path, options);
    const std::vector<int32_t> tokens = TokensOf(model, text, arguments.tokens);
    report::Heatmap map;
    map.values = AttentionMap(model.network(), tokens, arguments.layer, head);
    map.rows = map.columns = static_cast<int64_t>(tokens.size());
    map.title = fmt::format(
        "{} ({})", NameOf(path),
        model.network().config().attention[static_cast<size_t>(arguments.layer)].system);
    for (const int32_t token : tokens) map.row_labels.push_back(model.tokenizer()->Piece(token));
    map.column_labels = map.row_labels;
    const std::vector<double> mass = report::MassByDistance(map.values, map.rows, map.columns);
    report::Series series;
    series.name = map.title;
    series.markers = false;
    for (size_t i = 0; i < mass.size(); ++i) {
      series.points.push_back({static_cast<double>(i), mass[i]});
    }
    panel.series.push_back(std::move(series));
    nlohmann::json weights = nlohmann::json::array();
    for (int64_t i = 0; !arguments.json.empty() && i < map.rows; ++i) {
      nlohmann::json row = nlohmann::json::array();
      for (int64_t j = 0; j < map.columns; ++j) {
        const float x = map.values[static_cast<size_t>(i * map.columns + j)];
        row.push_back(std::isnan(x) ? nlohmann::json() : nlohmann::json(x));
      }
      weights.push_back(std::move(row));
    }
    nlohmann::json distances = nlohmann::json::array();
    for (const double x : mass) {
      distances.push_back(std::isnan(x) ? nlohmann::json() : nlohmann::json(x));
    }
    json["maps"].push_back({{"model", path},
                            {"tokens", tokens},
                            {"texts", map.row_labels},
                            {"weights", std::move(weights)},
                            {"mean_weight_by_distance", std::move(distances)}});
    figure.maps.push_back(std::move(map));
  }
  figure.title = "Attention, " + what;
  report::WriteFile(arguments.out, png ? HeatmapPng(figure) : HeatmapSvg(figure));
  std::string said = fmt::format("{}: {} of {} tokens\n", arguments.out, what, figure.maps[0].rows);
  if (!arguments.distance.empty()) {
    report::Figure curves;
    curves.title = "Attention by distance, " + what;
    curves.panels.push_back(std::move(panel));
    report::WriteFile(arguments.distance, RenderSvg(curves));
    said += fmt::format("{}: the mean weight against the distance\n", arguments.distance);
  }
  PrintResults(said, arguments.json.empty() ? "" : JsonText(json) + "\n", arguments.json);
}

}  // namespace

void AddAttentionMap(CLI::App& app) {
  CLI::App* command = app.add_subcommand("attention", kAttentionDescription);
  command->footer(kAttentionFooter);
  command->get_formatter()->column_width(36);
  command->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<AttentionArguments>();
  command->add_option("MODEL", arguments->models, "Models' directories, or runs'")
      ->required()
      ->default_str("");
  command->add_option("--prompt", arguments->prompt, "The text");
  command->add_option("--file", arguments->file, "The same from a file")->default_str("");
  command->add_option("--tokens", arguments->tokens, "Of the text, the first so many; 0: all");
  command->add_option("--layer", arguments->layer, "Which layer, from 0 on");
  command->add_option("--head", arguments->head, "Which head, from 0 on; mean: of all");
  command->add_option("--out", arguments->out, "The picture: *.svg, or *.png");
  command
      ->add_option("--distance", arguments->distance,
                   "Also draw the mean weight against the distance to this SVG file")
      ->default_str("");
  command->add_flag("--log", arguments->logarithmic, "Colours on a logarithmic scale");
  command->add_flag("--common", arguments->common, "One range of colours for all models");
  command->add_option("--saturated", arguments->saturated,
                      "The part of cells that may lie above the range of colours");
  command->add_option("--threads", arguments->threads, "Threads; 0: all cores");
  AddJsonOption(*command, arguments->json);
  command->callback([arguments] { RunAttention(*arguments); });
}

}  // namespace cosformer::cli
