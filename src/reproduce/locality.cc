// Where trained models look: attention maps of cosFormer and softmax side by side, and the weight
// against the distance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "cosformer/error.h"
#include "formats/json.h"
#include "formats/read_file.h"
#include "report/plot.h"
#include "report/statistics.h"
#include "report/units.h"
#include "reproduce/experiments.h"
#include "reproduce/systems.h"
#include "reproduce/training.h"

namespace cosformer::reproduce {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kLayers = 4;    // of SmallLanguageModelSettings()
constexpr int kTokens = 256;  // more than 200: maps are then embedded as pictures, which are small
constexpr int kNear = 16;     // tokens; what a summary calls near

std::string MapId(int layer, int64_t seed) {
  return fmt::format("map-layer{}-seed{}", layer, seed);
}

// The beginning of the validation text: more than kTokens tokens, and seen by no training.
std::string Passage(const std::string& directory) {
  constexpr size_t kBytes = 6000;
  for (const char* name : {"wiki.valid.tokens", "wiki.valid.raw", "valid.txt"}) {
    const std::string path = (fs::path(directory) / name).string();
    if (!fs::exists(path)) continue;
    std::string text = ReadFile(path, size_t{1} << 30);
    if (text.size() > kBytes) {
      const size_t end = text.find('\n', kBytes);
      text.resize(end == std::string::npos ? text.size() : end + 1);
    }
    return text;
  }
  return "";
}

std::vector<Cell> LocalityCells(const Request& request) {
  const Set set = FindSet("wikitext-2", request.data);
  const std::string passage = set.absent.empty() ? Passage(set.path) : "";
  std::vector<Cell> cells;
  for (const int64_t seed : request.seeds) {
    std::vector<std::string> runs, needs;
    for (const std::string& system : request.systems) {
      cells.push_back(TrainingCell(request, {.id = TrainingId(system, seed),
                                             .label = "training " + LabelOf(system),
                                             .system = system,
                                             .seed = seed,
                                             .settings = SmallLanguageModelSettings(),
                                             .set = set,
                                             .run = system}));
      runs.push_back(RunOf(cells.back(), system));
      needs.push_back(cells.back().id);
    }
    for (int layer = 0; layer < kLayers; ++layer) {
      Cell cell{.id = MapId(layer, seed),
                .label = fmt::format("maps of layer {}", layer),
                .task = "map",
                .seed = seed};
      cell.absent = set.absent.empty() && passage.empty()
                        ? std::string("The set wikitext-2 has no validation text to attend to.")
                        : set.absent;
      cell.files = {{"text.txt", passage}};
      std::vector<std::string> words = {"attention"};
      words.insert(words.end(), runs.begin(), runs.end());
      words.insert(words.end(),
                   {"--file", "{cell}/text.txt", "--tokens", fmt::format("{}", kTokens), "--layer",
                    fmt::format("{}", layer), "--out", "{cell}/map.svg", "--threads", "{threads}",
                    "--json", "{json}"});
      cell.commands = {{words, "map.json"}};
      cell.needs = needs;
      cell.weight = 0.05;  // some seconds
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

// The weight that lies on keys at most kNear tokens away, of blocks of queries past the first, and
// all their weight. Neighbouring queries look alike; blocks of them are taken as independent.
struct NearWeights {
  std::vector<double> near, all;
};

NearWeights NearWeightsOf(const json& weights) {
  NearWeights blocks;
  for (int i = 4 * kNear; i < static_cast<int>(weights.size()); ++i) {
    double near = 0, all = 0;
    for (int j = 0; j < static_cast<int>(weights[static_cast<size_t>(i)].size()); ++j) {
      const json& weight = weights[static_cast<size_t>(i)][static_cast<size_t>(j)];
      if (!weight.is_number()) continue;
      all += weight.get<double>();
      if (std::abs(i - j) <= kNear) near += weight.get<double>();
    }
    if (blocks.all.empty() || i % kNear == 0) {
      blocks.near.push_back(0);
      blocks.all.push_back(0);
    }
    if (!(all > 0)) continue;
    blocks.near.back() += near / all;
    blocks.all.back() += 1;
  }
  return blocks;
}

json CollectLocality(const Cell& cell, const std::string& directory) {
  if (cell.task != "map") return CollectTraining(directory);
  const json map = ReadJsonFile((fs::path(directory) / "map.json").string(), size_t{1} << 28);
  json values = {{"near_tokens", kNear}, {"maps", json::array()}};
  for (const json& one : map.at("maps")) {
    const NearWeights near = NearWeightsOf(one.at("weights"));
    const double queries = std::accumulate(near.all.begin(), near.all.end(), 0.0);
    const double share = std::accumulate(near.near.begin(), near.near.end(), 0.0) / queries;
    const report::Interval interval = report::OfMean(near.near, near.all);
    const auto number = [](double x) { return std::isnan(x) ? json() : json(x); };
    values["maps"].push_back({{"system", fs::path(one.at("model").get<std::string>()).filename()},
                              {"near_share", number(share)},
                              {"near_low", number(interval.low)},
                              {"near_high", number(interval.high)},
                              {"mean_weight_by_distance", one.at("mean_weight_by_distance")}});
  }
  return values;
}

// "near_share", "near_low" or "near_high" of a system's map.
double NearOf(const Finding& finding, const std::string& system, const char* value = "near_share") {
  if (!finding.Done()) return NAN;
  for (const json& map : finding.result->values.at("maps")) {
    if (map.at("system") == system && map.contains(value) && map[value].is_number()) {
      return map[value].get<double>();
    }
  }
  return NAN;
}

// Over the layers.
Estimate MeanNear(const Findings& findings, const Request& request, const std::string& system) {
  Estimate mean{0, 0, 0};
  for (int layer = 0; layer < kLayers; ++layer) {
    const Finding& finding = findings.At(MapId(layer, request.seeds[0]));
    mean.value += NearOf(finding, system) / kLayers;
    mean.low += NearOf(finding, system, "near_low") / kLayers;
    mean.high += NearOf(finding, system, "near_high") / kLayers;
    if (mean.unfit.empty()) mean.unfit = HardlyTrained(findings, finding);
  }
  return mean;
}

std::string LocalityFigureOf(const Result& result) {
  if (!result.values.contains("maps")) return TrainingFigure(result);
  std::string text;
  for (const json& map : result.values["maps"]) {
    if (!map.at("near_share").is_number()) continue;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ",
                        LabelOf(map.at("system").get<std::string>()),
                        100 * map["near_share"].get<double>());
  }
  return fmt::format("weight within {} tokens: {}", kNear, text);
}

// The last distances have few pairs each, and show nothing but noise.
size_t ShownDistances(size_t distances) { return distances * 7 / 8; }

// What a causal query that weighs all before it alike would give: query i has 1 / (i + 1) for each,
// and those from the distance on have a key there.
report::Series AlikeEverywhere(size_t tokens) {
  report::Series series{.name = "alike everywhere",
                        .points = {},
                        .hue = 4,
                        .dash = 2,
                        .markers = false,
                        .width = 1.5};
  double sum = 0;
  for (size_t distance = tokens; distance-- > 0;) {
    sum += 1 / static_cast<double>(distance + 1);
    if (distance >= ShownDistances(tokens)) continue;
    series.points.push_back(
        {static_cast<double>(distance), sum / static_cast<double>(tokens - distance)});
  }
  std::reverse(series.points.begin(), series.points.end());
  return series;
}

std::string DrawDistances(const Findings& findings, const Request& request) {
  report::Figure figure{.title = "Weight against distance",
                        .subtitle = "mean of the heads",
                        .panels = {},
                        .columns = 2};
  for (int layer = 0; layer < kLayers; ++layer) {
    const Finding& finding = findings.At(MapId(layer, request.seeds[0]));
    if (!finding.Done()) continue;
    report::Panel panel{.title = fmt::format("Layer {}", layer),
                        .x = {"distance in tokens", report::Scale::kLinear, ""},
                        .y = {"mean weight", report::Scale::kLog10, ""},
                        .series = {}};
    size_t tokens = 0;
    for (const json& map : finding.result->values.at("maps")) {
      report::Series series{
          .name = LabelOf(map.at("system").get<std::string>()), .points = {}, .markers = false};
      const json& weights = map.at("mean_weight_by_distance");
      tokens = weights.size();
      for (size_t i = 0; i < ShownDistances(tokens); ++i) {
        const double weight = weights[i].is_number() ? weights[i].get<double>() : NAN;
        series.points.push_back({static_cast<double>(i), weight > 0 ? weight : NAN});
      }
      panel.series.push_back(std::move(series));
    }
    panel.series.push_back(AlikeEverywhere(tokens));
    figure.panels.push_back(std::move(panel));
  }
  if (figure.panels.empty()) return "";
  try {
    return RenderSvg(figure);
  } catch (const Error&) {
    return "";  // a layer without any positive weight
  }
}

std::vector<Block> ReportLocality(const Findings& findings, const Request& request,
                                  const std::string& out) {
  Table table{.caption = fmt::format("The part of a query's weight on keys at most {} tokens away, "
                                     "in percent: mean over heads and queries",
                                     kNear),
              .header = {"system"}};
  table.columns = "l";
  for (int layer = 0; layer < kLayers; ++layer) {
    table.header.push_back(fmt::format("layer {}", layer));
    table.columns += 'r';
  }
  table.header.push_back("test perplexity");
  table.columns += 'r';
  for (const std::string& system : request.systems) {
    std::vector<std::string> row = {LabelOf(system)};
    for (int layer = 0; layer < kLayers; ++layer) {
      const Finding& finding = findings.At(MapId(layer, request.seeds[0]));
      const double near = NearOf(finding, system);
      row.push_back(
          Shown(finding, std::isfinite(near) ? fmt::format("{:.1f}", 100 * near) : "", table));
    }
    const Finding& training = findings.At(TrainingId(system, request.seeds[0]));
    row.push_back(Shown(training, fmt::format("{:.1f}", training.Value("perplexity")), table));
    table.rows.push_back(std::move(row));
  }
  std::vector<Block> blocks = {Heading{"How near attention looks"}, std::move(table)};
  if (std::string svg = DrawDistances(findings, request); !svg.empty()) {
    blocks.push_back(Picture{
        "distance",
        "The mean weight against the distance, layer by layer. Grey and dotted: a query that "
        "looks everywhere alike; far keys have less there too, since only late queries, which "
        "share their weight out over more keys, have any.",
        std::move(svg)});
  }
  blocks.push_back(Heading{"Maps"});
  for (int layer = 0; layer < kLayers; ++layer) {
    const Finding& finding = findings.At(MapId(layer, request.seeds[0]));
    if (!finding.Done()) continue;
    const std::string path = (fs::path(out) / finding.result->directory / "map.svg").string();
    if (!fs::exists(path)) continue;
    blocks.push_back(Picture{fmt::format("map-layer{}", layer),
                             fmt::format("Layer {}: queries from top to bottom, keys from left to "
                                         "right; mean of the heads.",
                                         layer),
                             ReadFile(path, size_t{1} << 26)});
  }
  return blocks;
}

std::vector<std::string> SummariseLocality(const Findings& findings, const Request& request) {
  std::vector<std::string> sentences;
  const Estimate cosformer = MeanNear(findings, request, "cosformer");
  const Estimate softmax = MeanNear(findings, request, "softmax");
  if (cosformer.Known() && softmax.Known()) {
    const Order order = OrderOf(cosformer, softmax);
    sentences.push_back(fmt::format(
        "Of a query's weight, cosFormer puts {:.0f} % on keys at most {} tokens away, "
        "softmax {:.0f} %, on average over the layers; the paper has cosFormer's "
        "re-weighting favour neighbours as softmax does{}.",
        100 * cosformer.value, kNear, 100 * softmax.value,
        order.sign == 0                          ? "; ours are " + order.why
        : order.sign > 0                         ? ": here more than it"
        : cosformer.value >= 0.5 * softmax.value ? ": here less, though of the same order"
                                                 : ": here far less"));
    // What a query that looks everywhere alike would have; causal, from 64 to 255 tokens before it.
    double even = 0;
    for (int i = 4 * kNear; i < kTokens; ++i) even += (kNear + 1.0) / (i + 1);
    sentences.push_back(
        fmt::format("A query that looks at all before it alike would put {:.0f} % "
                    "there.",
                    100 * even / (kTokens - 4 * kNear)));
  }
  return sentences;
}

}  // namespace

Experiment LocalityExperiment() {
  Experiment experiment;
  experiment.name = "locality";
  experiment.title = "Locality: what trained models attend to";
  experiment.summary = "attention maps of cosFormer and softmax, and the weight against distance";
  experiment.needs = FoldersOf("wikitext-2");
  experiment.systems = {"softmax", "cosformer"};
  experiment.limits = {
      "Maps are of one passage, the beginning of the validation text, and of one seed; the table "
      "and the curves are means over the heads, which may differ.",
      "cosFormer's map has what it weighs values by, after the normaliser: it has no softmax.",
      "Only systems that cosformer attention can draw: cosFormer, its ablations, the Linear "
      "Transformer and softmax."};
  experiment.cells = LocalityCells;
  experiment.collect = CollectLocality;
  experiment.figure = LocalityFigureOf;
  experiment.summarise = SummariseLocality;
  experiment.report = ReportLocality;
  return experiment;
}

}  // namespace cosformer::reproduce
