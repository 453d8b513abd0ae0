// Perplexity of causal language models: the paper's table on WikiText-103, on WikiText-2 at the
// compact scale. And the ablation of cosFormer, whose curves come from the same kind of training.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "report/units.h"
#include "reproduce/experiments.h"
#include "reproduce/systems.h"
#include "reproduce/training.h"

namespace cosformer::reproduce {
namespace {

std::vector<Cell> CellsOf(const Request& request, const Settings& settings, const Set& set) {
  std::vector<Cell> cells;
  for (const int64_t seed : request.seeds) {
    for (const std::string& system : request.systems) {
      cells.push_back(TrainingCell(request, {.id = TrainingId(system, seed),
                                             .label = LabelOf(system) + SeedLabel(request, seed),
                                             .system = system,
                                             .seed = seed,
                                             .settings = settings,
                                             .set = set}));
    }
  }
  return cells;
}

std::vector<const Finding*> FirstSeed(const Findings& findings, const Request& request) {
  std::vector<const Finding*> found;
  for (const std::string& system : request.systems) {
    found.push_back(&findings.At(TrainingId(system, request.seeds[0])));
  }
  return found;
}

// Perplexities, cost, and the published row beside them where there is one.
Table PerplexityTable(const Findings& findings, const Request& request,
                      const PublishedTable* published) {
  Table table{.caption = "Perplexity a word (lower is better)",
              .header = {"system", "parameters", "steps", "tokens/s", "validation", "test",
                         "to softmax", "test, a token"}};
  table.columns = "lrrrrrrr";
  if (published != nullptr) {
    table.header.insert(table.header.end(), {"paper: validation", "test", "to softmax"});
    table.columns += "rrr";
  }
  const double softmax = MeanOf(findings, request, "softmax", "perplexity");
  for (const std::string& system : request.systems) {
    const std::vector<const Finding*> seeds = RepeatsOf(findings, request, system);
    const auto count = [&](const char* value) {
      const auto spread = SpreadOf(seeds, value);
      return spread ? report::FormatCount(spread->mean) : "";
    };
    const auto integer = [&](const char* value) {
      const auto spread = SpreadOf(seeds, value);
      return spread ? report::FormatInteger(std::llround(spread->mean)) : "";
    };
    const double mean = MeanOf(findings, request, system, "perplexity");
    std::vector<std::string> row = {
        LabelOf(system),
        count("parameters"),
        integer("steps"),
        count("tokens_per_second"),
        SpreadText(seeds, "valid_perplexity", 1, 1, table),
        SpreadText(seeds, "perplexity", 1, 1, table),
        std::isfinite(mean / softmax) ? report::FormatRatio(mean / softmax) : "",
        SpreadText(seeds, "token_perplexity", 1, 2, table)};
    if (published != nullptr) {
      const auto figure = [&](const char* column) { return published->Find(system, column); };
      for (const char* column : {"valid", "test"}) {
        row.push_back(figure(column) ? fmt::format("{:.1f}", *figure(column)) : "");
      }
      row.push_back(figure("test")
                        ? report::FormatRatio(*figure("test") / *published->Find("softmax", "test"))
                        : "");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::string> SummariseModels(const Findings& findings, const Request& request) {
  std::vector<std::string> sentences;
  const auto perplexity = [&](const std::string& system) {
    return EstimateOf(findings, request, system, "perplexity");
  };
  const Estimate cosformer = perplexity("cosformer"), softmax = perplexity("softmax");
  const Estimate gate = perplexity("cosformer-gate");
  if (cosformer.Known() && softmax.Known()) {
    sentences.push_back(fmt::format(
        "cosFormer's test perplexity is {} a word, softmax's {}: {:.3f} × softmax's; the paper has "
        "23.1 against 26.2, {}{}.",
        PerplexityText(cosformer.value), PerplexityText(softmax.value),
        cosformer.value / softmax.value, report::FormatRatio(23.1 / 26.2),
        BesideThePaper(OrderOf(cosformer, softmax), 23.1, 26.2)));
  }
  if (gate.Known() && softmax.Known()) {
    const Order order = OrderOf(gate, softmax);
    sentences.push_back(fmt::format(
        "With a gate that forgets, which is not the paper's, cosFormer has {}: {:.3f} × softmax's"
        "{}.",
        PerplexityText(gate.value), gate.value / softmax.value,
        order.sign == 0 ? "; ours are " + order.why : ""));
  }
  if (cosformer.Known() && cosformer.unfit.empty()) {
    int better = 0, worse = 0, open = 0;
    for (const std::string& system : request.systems) {
      const Estimate other = perplexity(system);
      if (system == "cosformer" || system == "cosformer-gate" || !other.Known()) continue;
      const int sign = OrderOf(other, cosformer).sign;
      ++(sign < 0 ? better : sign > 0 ? worse : open);
    }
    if (better + worse + open > 0) {
      sentences.push_back(fmt::format(
          "Of the {} other systems of the paper that were run {} are better than cosFormer, {} "
          "worse, and of {} nothing follows; there none is better on the test split.",
          better + worse + open, better, worse, open));
    }
  }
  const double speed = MeanOf(findings, request, "cosformer", "tokens_per_second") /
                       MeanOf(findings, request, "softmax", "tokens_per_second");
  if (std::isfinite(speed) && cosformer.unfit.empty() && softmax.unfit.empty()) {
    sentences.push_back(
        fmt::format("In training cosFormer runs at {} softmax's tokens a second, at "
                    "512 tokens a sequence.",
                    report::FormatRatio(speed)));
  }
  return sentences;
}

std::vector<Block> ReportModels(const Findings& findings, const Request& request,
                                const std::string& out) {
  std::vector<Block> blocks = {Heading{"Perplexity"},
                               PerplexityTable(findings, request, &PublishedLanguageModel())};
  if (auto picture = CurvesPicture(FirstSeed(findings, request), out)) {
    blocks.push_back(std::move(*picture));
  }
  return blocks;
}

// A perplexity has no interval of its own in the tables: the test split is the same for all
// systems, and which texts it has matters less to their order than the seeds do.
constexpr const char* kSpreadLimit =
    "Of one seed a perplexity has no interval of its own: 2 % to either side are taken for it, as "
    "seen between seeds of small models. --seeds 1,2,3 shows the spread itself, as a range.";

struct Variant {
  const char* system;
  const char* similarity;
  const char* reweighting;
};
constexpr Variant kVariants[] = {{"softmax", "softmax", ""},
                                 {"cosformer", "ReLU", "cos"},
                                 {"relu", "ReLU", "none"},
                                 {"cosformer-leaky-relu", "LeakyReLU", "cos"},
                                 {"leaky-relu", "LeakyReLU", "none"},
                                 {"cosformer-identity", "identity", "cos"},
                                 {"identity", "identity", "none"}};

std::vector<Block> ReportAblation(const Findings& findings, const Request& request,
                                  const std::string& out) {
  Table table = PerplexityTable(findings, request, nullptr);
  table.header.insert(table.header.begin() + 1, {"similarity", "re-weighting"});
  table.columns.insert(1, "ll");
  for (size_t i = 0; i < table.rows.size(); ++i) {
    std::vector<std::string> facts = {"", ""};
    for (const Variant& variant : kVariants) {
      if (request.systems[i] == variant.system) facts = {variant.similarity, variant.reweighting};
    }
    table.rows[i].insert(table.rows[i].begin() + 1, facts.begin(), facts.end());
  }
  std::vector<Block> blocks = {Heading{"The similarity function and the re-weighting"},
                               std::move(table)};
  if (auto picture = CurvesPicture(FirstSeed(findings, request), out)) {
    blocks.push_back(std::move(*picture));
  }
  return blocks;
}

std::vector<std::string> SummariseAblation(const Findings& findings, const Request& request) {
  std::vector<std::string> sentences;
  // A training that diverged is the worst there is; one that had no room or time says nothing.
  const auto diverged = [&](const char* system) {
    const Finding& finding = findings.At(TrainingId(system, request.seeds[0]));
    return finding.result != nullptr && finding.result->values.value("failed_by", "") == "error";
  };
  const auto compare = [&](const char* one, const char* other, const char* what) {
    const Estimate a = EstimateOf(findings, request, one, "perplexity");
    const Estimate b = EstimateOf(findings, request, other, "perplexity");
    if (a.Known() && b.Known()) {
      const Order order = OrderOf(a, b);
      sentences.push_back(fmt::format("{}: {} against {}{}.", what, PerplexityText(a.value),
                                      PerplexityText(b.value),
                                      order.sign < 0   ? ", as in the paper"
                                      : order.sign > 0 ? ", against the paper"
                                                       : "; ours are " + order.why));
    } else if (a.Known() && a.unfit.empty() && diverged(other)) {
      sentences.push_back(fmt::format("{}: {}, and the other failed, as in the paper.", what,
                                      PerplexityText(a.value)));
    }
  };
  compare("cosformer", "relu", "With the cos re-weighting against without it (ReLU)");
  compare("cosformer", "cosformer-leaky-relu", "ReLU against LeakyReLU (with cos)");
  compare("cosformer-leaky-relu", "cosformer-identity", "LeakyReLU against identity (with cos)");
  compare("relu", "leaky-relu", "ReLU against LeakyReLU (without cos)");
  compare("leaky-relu", "identity", "LeakyReLU against identity (without cos)");
  return sentences;
}

nlohmann::json CollectLanguageModel(const Cell&, const std::string& directory) {
  return CollectTraining(directory);
}

}  // namespace

Experiment LanguageModelExperiment() {
  Experiment experiment;
  experiment.name = "language-model";
  experiment.title = "Language models: perplexity on WikiText";
  experiment.summary = "perplexity of softmax, Linear Transformer, RFA, Performer and cosFormer";
  experiment.needs =
      FoldersOf("wikitext-2") + "; at the original scale " + FoldersOf("wikitext-103");
  experiment.systems = {"softmax",           "cosformer",       "linear",
                        "performer",         "rfa-gaussian",    "rfa-arccos",
                        "rfa-gate-gaussian", "rfa-gate-arccos", "cosformer-gate"};
  experiment.scales = {kCompact, kOriginal};
  experiment.published = {PublishedLanguageModel()};
  experiment.limits = {
      "The paper trains 150,000 updates of a model with 16 layers of width 1,024 on WikiText-103; "
      "the compact scale has 4 layers of width 256 and WikiText-2. Ratios to softmax compare, "
      "perplexities do not.",
      "The paper's cosFormer has a test perplexity below its validation perplexity, which is "
      "unusual: take it with care. It has no figure for Performer, and none for cosFormer with a "
      "gate, which is not the paper's.",
      "The validation figure is of a sample of 65,536 tokens, the test figure of the whole split, "
      "in windows side by side.",
      kSpreadLimit};
  experiment.cells = [](const Request& request) {
    return CellsOf(
        request, LanguageModelSettings(request.scale),
        FindSet(request.scale == kOriginal ? "wikitext-103" : "wikitext-2", request.data));
  };
  experiment.collect = CollectLanguageModel;
  experiment.figure = TrainingFigure;
  experiment.summarise = SummariseModels;
  experiment.report = ReportModels;
  return experiment;
}

Experiment AblationExperiment() {
  Experiment experiment;
  experiment.name = "ablation";
  experiment.title = "Ablation: the similarity function and the cos re-weighting";
  experiment.summary = "ReLU, LeakyReLU, identity and softmax, with and without cos: loss curves";
  experiment.needs = FoldersOf("wikitext-2");
  for (const Variant& variant : kVariants) experiment.systems.push_back(variant.system);
  experiment.limits = {
      "The paper's order is set beside ours, not its figures: it ablates on other tasks. ReLU is "
      "best there, then LeakyReLU, then identity, and re-weighting helps.",
      "Weights of identity and LeakyReLU can be negative and their sum can vanish, so that a "
      "training may fail by chance: more seeds tell.",
      kSpreadLimit};
  experiment.cells = [](const Request& request) {
    return CellsOf(request, SmallLanguageModelSettings(), FindSet("wikitext-2", request.data));
  };
  experiment.collect = CollectLanguageModel;
  experiment.figure = TrainingFigure;
  experiment.summarise = SummariseAblation;
  experiment.report = ReportAblation;
  return experiment;
}

}  // namespace cosformer::reproduce
