#include "reproduce/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cosformer/error.h"
#include "formats/json.h"
#include "report/plot.h"
#include "report/statistics.h"
#include "reproduce/systems.h"
#include "runs/curves.h"
#include "runs/run_directory.h"

namespace cosformer::reproduce {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> DataWords(const Set& set, const Settings& settings) {
  std::vector<std::string> words = {"data", "show", "--samples", "0"};
  for (const auto& [option, value] : set.options) {
    words.insert(words.end(), {"--" + option, value});
  }
  // What decides how it is tokenised.
  for (const auto& [option, value] : settings.options) {
    if (option != "task" && option != "length" && option != "tokenizer" && option != "vocabulary") {
      continue;
    }
    std::string plain = value;
    std::erase(plain, '"');
    words.insert(words.end(), {"--" + option, plain});
  }
  words.insert(words.end(), {"--json", "{json}"});
  return words;
}

// A loss is the mean over tokens: that of a word counts its tokens.
void AddPerplexity(const std::string& prefix, double loss, const json& split, json& values) {
  const auto tokens = split.at("tokens").get<double>(), words = split.at("words").get<double>();
  values[prefix + "token_perplexity"] = std::exp(loss);
  if (split.contains("unigram_perplexity")) {
    values[prefix + "unigram_perplexity"] = split["unigram_perplexity"];
  }
  // Of a text without blanks there is none a word.
  values[prefix + "perplexity"] = std::exp(words > 0 ? loss * (tokens - 1) / words : loss);
}

void AddAccuracy(double accuracy, int64_t examples, double majority, json& values) {
  const report::Interval interval =
      report::Wilson(std::llround(accuracy * static_cast<double>(examples)), examples);
  values.update({{"accuracy", accuracy},
                 {"low", interval.low},
                 {"high", interval.high},
                 {"majority", majority},
                 {"examples", examples}});
}

}  // namespace

std::string TrainingId(const std::string& what, int64_t seed) {
  return fmt::format("{}-seed{}", what, seed);
}

std::string TaskAndSystem(const std::string& task, const std::string& system) {
  return fmt::format("{}-{}", task, system);
}

std::string SeedLabel(const Request& request, int64_t seed) {
  return request.seeds.size() > 1 ? fmt::format(", seed {}", seed) : "";
}

Cell TrainingCell(const Request& request, const Training& training) {
  Settings settings = training.settings;
  for (const auto& [option, value] : training.set.options) settings.SetText(option, value);
  settings.SetText("attention", training.system);
  settings.Set("seed", fmt::format("{}", training.seed));
  if (!training.from.empty()) settings.SetText("from", training.from);
  const std::string eval_tokens = fmt::format("{}", request.eval_tokens);
  if (request.eval_tokens > 0) {
    settings.Set("eval-tokens", eval_tokens);
    settings.Set("test-tokens", eval_tokens);
  }
  if (request.by_time) {
    settings.Remove("steps");
    settings.Remove("epochs");
    settings.Remove("warmup");
    settings.Remove("eval-every");
  }
  const std::string steps = training.settings.Value("steps");
  Cell cell{.id = training.id, .label = training.label, .system = training.system};
  cell.task = training.task;
  cell.seed = training.seed;
  cell.steps = steps.empty() ? 0 : std::stoll(steps);
  cell.absent = training.set.absent;
  cell.files = {{kRecipeFile, TomlOf(settings)}};
  const std::string run = "{cell}/" + training.run;
  if (training.judged == Judged::kTest || training.judged == Judged::kPerplexity) {
    cell.commands.push_back({DataWords(training.set, training.settings), "data.json"});
  }
  cell.commands.push_back({{"train", "--recipe", "{cell}/recipe.toml", "--out", run, "--threads",
                            "{threads}", "--json", "{json}"},
                           "train.json",
                           training.run});
  if (training.judged == Judged::kValidation) {
    cell.commands.push_back(
        {{"eval", run, "--split", "valid", "--threads", "{threads}", "--json", "{json}"},
         "valid.json"});
    // Settings have it where it was asked for; otherwise it is what a budget leaves time for.
    cell.commands.back().also = {"--tokens",
                                 request.eval_tokens > 0 ? eval_tokens : "{eval_tokens}"};
  }
  cell.support = training.judged == Judged::kNot;
  return cell;
}

std::string RunOf(const Cell& cell, const std::string& run) {
  return fmt::format("{{out}}/{}/{}", DirectoryOf(cell), run);
}

json CollectTraining(const std::string& directory) {
  const auto path = [&](const char* name) { return (fs::path(directory) / name).string(); };
  const json train = ReadJsonFile(path("train.json"));
  json values = {{"parameters", train.at("parameters")},
                 {"steps", train.at("step")},
                 {"tokens", train.at("tokens")},
                 {"training_seconds", train.at("seconds")},
                 {"tokens_per_second", train.at("tokens_per_second")},
                 {"training_peak_bytes", train.at("peak_bytes")}};
  if (fs::exists(path("data.json"))) {
    const json splits = ReadJsonFile(path("data.json")).at("splits");
    const json& test = train.at("test");
    values["evaluated_part"] = test.value("part", 1.0);
    if (test.contains("accuracy")) {
      const json& split = splits.at("test");
      AddAccuracy(test["accuracy"].get<double>(),
                  test.value("predictions", split.at("examples").get<int64_t>()),
                  split.at("majority").get<double>(), values);
    } else {
      AddPerplexity("", test.at("loss").get<double>(), splits.at("test"), values);
      AddPerplexity("valid_", train.at("best").at("loss").get<double>(), splits.at("valid"),
                    values);
    }
  } else if (fs::exists(path("valid.json"))) {
    const json valid = ReadJsonFile(path("valid.json"));
    const auto predictions = valid.at("predictions").get<int64_t>();
    AddAccuracy(valid.at("accuracy").get<double>(), predictions, valid.at("majority").get<double>(),
                values);
    values["evaluated_part"] =
        static_cast<double>(predictions) / valid.at("examples").get<double>();
  }
  return values;
}

std::string TrainingFigure(const Result& result) {
  const json& values = result.values;
  const double part = values.value("evaluated_part", 1.0);
  const std::string of = part < 1 ? fmt::format(", of {:.2g} % of the split", 100 * part) : "";
  if (values.contains("accuracy")) {
    return fmt::format("accuracy {:.2f} % (majority {:.2f} %){}",
                       100 * values["accuracy"].get<double>(),
                       100 * values.at("majority").get<double>(), of);
  }
  if (values.contains("perplexity")) {
    return fmt::format("test perplexity {} a word{}",
                       PerplexityText(values["perplexity"].get<double>()), of);
  }
  return "";
}

std::optional<Spread> SpreadOf(std::span<const Finding* const> findings, const std::string& value) {
  Spread spread;
  for (const Finding* finding : findings) {
    const double x = finding->Value(value);
    if (!std::isfinite(x)) continue;
    spread.low = spread.count == 0 ? x : std::min(spread.low, x);
    spread.high = spread.count == 0 ? x : std::max(spread.high, x);
    spread.mean += x;
    ++spread.count;
  }
  if (spread.count == 0) return std::nullopt;
  spread.mean /= spread.count;
  return spread;
}

std::vector<const Finding*> RepeatsOf(const Findings& findings, const Request& request,
                                      const std::string& what) {
  std::vector<const Finding*> found;
  for (const int64_t seed : request.seeds) found.push_back(&findings.At(TrainingId(what, seed)));
  return found;
}

double MeanOf(const Findings& findings, const Request& request, const std::string& what,
              const std::string& value) {
  const auto spread = SpreadOf(RepeatsOf(findings, request, what), value);
  return spread ? spread->mean : NAN;
}

std::string SpreadText(std::span<const Finding* const> findings, const std::string& value,
                       double scale, int digits, Table& table, const std::string& after) {
  const std::optional<Spread> spread = SpreadOf(findings, value);
  if (!spread) return findings.empty() ? "" : Shown(*findings[0], "?", table);
  std::string text = fmt::format("{:.{}f}", scale * spread->mean, digits);
  if (spread->count > 1) {
    text += fmt::format(" ({:.{}f}–{:.{}f})", scale * spread->low, digits, scale * spread->high,
                        digits);
  }
  text += after;
  for (const Finding* finding : findings) {
    if (finding->Done() && finding->other_settings) return Shown(*finding, text, table);
  }
  return text;
}

std::string PercentText(double percent) {
  return std::isfinite(percent) ? fmt::format("{:.2f}", percent) : "";
}

std::string AccuracyText(std::span<const Finding* const> findings, Table& table) {
  std::string interval;
  if (findings.size() == 1) {
    const double width = findings[0]->Value("high") - findings[0]->Value("low");
    if (std::isfinite(width)) interval = fmt::format(" ± {:.1f}", 50 * width);
  }
  return SpreadText(findings, "accuracy", 100, 2, table, interval);
}

std::string MajorityText(const Findings& findings, const Request& request,
                         const std::string& task) {
  for (const std::string& system : request.systems) {
    const double share = MeanOf(findings, request, TaskAndSystem(task, system), "majority");
    if (std::isfinite(share)) return PercentText(100 * share);
  }
  return "";
}

Estimate EstimateOf(const Findings& findings, const Request& request, const std::string& what,
                    const std::string& value) {
  const std::vector<const Finding*> seeds = RepeatsOf(findings, request, what);
  const auto spread = SpreadOf(seeds, value);
  if (!spread) return {};
  std::string unfit;
  for (const Finding* seed : seeds) {
    if (seed->Done() && unfit.empty()) unfit = HardlyTrained(findings, *seed);
  }
  constexpr double kChance = 0.02;  // seen between seeds of small language models
  const auto low = SpreadOf(seeds, "low"), high = SpreadOf(seeds, "high");
  if (low && high) return {spread->mean, low->low, high->high, unfit};
  if (spread->count == 1) return Around(spread->mean, kChance, unfit);
  return {spread->mean, spread->low, spread->high, unfit};
}

std::string PerplexityText(double perplexity) {
  return perplexity < 1e5 ? fmt::format("{:.1f}", perplexity) : fmt::format("{:.3g}", perplexity);
}

std::string AccuracySentence(const Findings& findings, const Request& request,
                             const std::string& task, const std::string& title,
                             const PublishedTable& published) {
  const auto estimate = [&](const char* system) {
    return EstimateOf(findings, request, TaskAndSystem(task, system), "accuracy");
  };
  const Estimate ours = estimate("cosformer"), softmax = estimate("softmax");
  if (!ours.Known()) return "";
  std::string text = fmt::format("{}: cosFormer {:.1f} %", title, 100 * ours.value);
  if (softmax.Known()) text += fmt::format(", softmax {:.1f} %", 100 * softmax.value);
  const double majority = MeanOf(findings, request, TaskAndSystem(task, "cosformer"), "majority");
  text += fmt::format(", always the same class {:.1f} %", 100 * majority);
  const auto theirs = published.Find("cosformer", task);
  const auto reference = published.Find("softmax", task);
  if (theirs) {
    text += fmt::format("; the paper: cosFormer {:.1f}", *theirs);
    text += reference ? fmt::format(", softmax {:.1f} %", *reference) : " %";
  }
  if (softmax.Known() && theirs && reference) {
    text += BesideThePaper(OrderOf(ours, softmax), *theirs, *reference);
  } else if (!ours.unfit.empty()) {
    text += "; ours is " + ours.unfit;
  }
  return text + ".";
}

Table PublishedAccuracies(const PublishedTable& published, const Request& request,
                          std::string (*title)(const std::string& task)) {
  Table table{.caption = "The paper's accuracy in percent", .header = {"system", "average"}};
  table.columns = "lr";
  std::vector<std::string> columns = {"avg"};
  for (const std::string& task : request.tasks) {
    if (std::find(published.columns.begin(), published.columns.end(), task) ==
        published.columns.end()) {
      continue;
    }
    columns.push_back(task);
    table.header.push_back(title(task));
    table.columns += 'r';
  }
  for (const std::string& system : request.systems) {
    if (!published.Find(system, "avg")) continue;
    std::vector<std::string> row = {LabelOf(system)};
    for (const std::string& column : columns) {
      row.push_back(PercentText(published.Find(system, column).value_or(NAN)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::optional<Picture> CurvesPicture(std::span<const Finding* const> findings,
                                     const std::string& out, const std::string& run) {
  std::vector<TrainingRun> runs;
  for (const Finding* finding : findings) {
    if (finding->result == nullptr) continue;
    const std::string metrics =
        MetricsPath((fs::path(out) / finding->result->directory / run).string());
    if (!fs::exists(metrics)) continue;
    runs.push_back({finding->cell->label, ReadMetrics(metrics)});
  }
  if (runs.empty()) return std::nullopt;
  try {
    report::Figure figure = CurvesOf(runs, {});
    figure.title = "Loss and validation";
    return Picture{"curves",
                   "The training loss (dotted) and what the validation split gave, against steps.",
                   RenderSvg(figure)};
  } catch (const Error&) {
    return std::nullopt;  // a run that ended before its first figures
  }
}

}  // namespace cosformer::reproduce
