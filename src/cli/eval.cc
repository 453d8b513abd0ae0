// `cosformer eval`: how well a trained model does on a set of examples, with an interval.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/program.h"
#include "cli/recipe.h"
#include "cosformer/error.h"
#include "data/ngrams.h"
#include "formats/json.h"
#include "formats/task_card.h"
#include "model/model_files.h"
#include "report/meter.h"
#include "report/statistics.h"
#include "report/units.h"
#include "runs/run_directory.h"
#include "train/objective.h"
#include "train/process.h"
#include "train/sample.h"
#include "train/trainer.h"

namespace cosformer::cli {
namespace {

namespace fs = std::filesystem;
using data::Objective;
using nlohmann::json;

constexpr const char* kEvalDescription =
    R"(Evaluates a trained model: perplexity or accuracy, with a 95 % confidence interval.

A run is evaluated on its own test split, or on its validation split if it has no other; a path
after it says on what else. Of a text, every token is predicted once, with as much context as
--context gives it.)";

constexpr const char* kEvalExamples = R"(
Context (causal models)
  sliding   windows of the model's length, half a window apart: at least half a window before
            each token (--stride sets how far apart)
  cut       windows side by side: the first tokens of each have none; what training reports
  carried   one pass with the layers' memory carried along, for systems that stream; cosFormer's
            then goes on past its horizon. Not with learned positions

Examples
  cosformer eval runs/lm-cosformer
  cosformer eval runs/lm-cosformer other.txt --context carried
  cosformer eval runs/classify-cosformer SST-2 --split valid --json -
  cosformer eval runs/lm-cosformer --baselines --write 120 --prompt "The sea")";

struct EvalArguments {
  std::string model, path, split, context = "sliding";
  int64_t stride = 0, batch_tokens = 8192, tokens = 0;
  int threads = 0;
  bool baselines = false;
  SampleOptions sample{.tokens = 0};
  std::string prompt;
  std::string text_column, pair_column, label_column;
  std::string cache;
  std::string json;
};

// The data that a run was trained on, from its recipe.
DataArguments DataOf(const std::string& run) {
  DataArguments data;
  CLI::App app("", "recipe");
  AddDataOptions(app, data);
  ApplyRecipe(app, RecipePath(run), UnknownOptions::kSkip);
  return data;
}

struct Loaded {
  Model model{nullptr};
  Tokenizer tokenizer;
  TaskCard card;
  data::TaskData data;
  data::Split split;
};

data::Split SplitNamed(const std::string& name) {
  for (const data::Split split : data::kSplits) {
    if (Name(split) == name) return split;
  }
  throw Error(fmt::format("--split is \"{}\"; it takes train, valid, test", name));
}

// Which split to take: the one asked for, or the last there is.
data::Split Choose(const data::TaskData& data, const std::string& wanted) {
  if (wanted.empty()) {
    return data.test ? data::Split::kTest : data.valid ? data::Split::kValid : data::Split::kTrain;
  }
  const data::Split split = SplitNamed(wanted);
  if (!data.Get(split)) throw Error(fmt::format("the data have no {} split", wanted));
  return split;
}

Model LoadForContext(const std::string& directory, bool carried) {
  ModelConfig config = ReadConfig((fs::path(directory) / kConfigFile).string());
  if (carried) {
    if (config.positions.kind == PositionKind::kLearned) {
      throw Error(
          "--context carried goes past the positions that the model has learned; take "
          "sliding, or train with other --positions");
    }
    for (SystemConfig& layer : config.attention) {
      if (layer.system.starts_with("cosformer")) layer.options["endless"] = true;
    }
  }
  Model model(config);
  LoadWeights(*model, (fs::path(directory) / kWeightsFile).string());
  return model;
}

Loaded Load(const EvalArguments& arguments) {
  const std::string directory = ModelDirectory(arguments.model).string();
  Loaded loaded{.model = LoadForContext(directory, arguments.context == "carried"),
                .tokenizer = Tokenizer::Load(directory),
                .card = ReadTaskCard(directory),
                .data = data::TaskData(Tokenizer::Bytes()),
                .split = data::Split::kTest};
  CheckTrainedWith(loaded.card, loaded.tokenizer.Fingerprint(), directory);
  DataArguments data;
  if (arguments.path.empty()) {
    if (!fs::exists(RecipePath(arguments.model))) {
      throw Error(
          fmt::format("\"{}\" is a model, not a run: say on what to evaluate it, as in "
                      "cosformer eval {} PATH",
                      arguments.model, arguments.model));
    }
    for (const std::string* column :
         {&arguments.text_column, &arguments.pair_column, &arguments.label_column}) {
      if (!column->empty()) {
        throw Error(fmt::format(
            "column \"{}\" is of another table than the run's own: give its PATH as well",
            *column));
      }
    }
    data = DataOf(arguments.model);
  } else {
    data.task = loaded.card.task;
    if (fs::is_directory(arguments.path)) {
      data.source.data = arguments.path;
    } else {
      data.source.test = arguments.path;
    }
    data.source.text_column = arguments.text_column;
    data.source.pair_column = arguments.pair_column;
    data.source.label_column = arguments.label_column;
    data.prepare.given_tokenizer = loaded.tokenizer;
    data.prepare.given_labels = loaded.card.labels;
    if (!arguments.split.empty()) data.prepare.splits = {SplitNamed(arguments.split)};
  }
  if (!arguments.cache.empty()) data.prepare.cache = arguments.cache;
  loaded.data = PrepareData(data);
  if (loaded.data.tokenizer.Fingerprint() != loaded.tokenizer.Fingerprint()) {
    throw Error(
        fmt::format("the data of \"{}\" were tokenised with another tokenizer than the "
                    "model's: they have changed since it was trained; give a path",
                    arguments.model));
  }
  loaded.split = Choose(loaded.data, arguments.split);
  return loaded;
}

// Nats to perplexity, also of the interval.
json Perplexity(double loss, const report::Interval& interval) {
  return {{"perplexity", std::exp(loss)},
          {"low", std::exp(interval.low)},
          {"high", std::exp(interval.high)}};
}

// Perplexities a word can be astronomic.
std::string Number(double value) {
  return value < 1e6 ? fmt::format("{:.3f}", value) : fmt::format("{:.3g}", value);
}

std::string PerplexityLine(const std::string& unit, const json& row) {
  const auto low = row["low"].get<double>(), high = row["high"].get<double>();
  return fmt::format("  perplexity a {:<6}{:>10}   {}\n", unit,
                     Number(row["perplexity"].get<double>()),
                     std::isfinite(low) && std::isfinite(high)
                         ? fmt::format("95 %: {} to {}", Number(low), Number(high))
                         : "too few batches for an interval");
}

report::Interval Scaled(const report::Interval& interval, double factor) {
  return {interval.low * factor, interval.high * factor};
}

void AddPerplexities(const Evaluation& evaluation, const data::Dataset& set, std::string& table,
                     json& object) {
  const report::Interval interval = report::OfMean(evaluation.losses, evaluation.counts);
  object["loss"] = evaluation.Loss();
  const auto predictions = static_cast<double>(evaluation.Predictions());
  const auto line = [&](const char* unit, double count) {
    const double factor = predictions / count;
    const json row = Perplexity(evaluation.Loss() * factor, Scaled(interval, factor));
    object[fmt::format("per_{}", unit)] = row;
    table += PerplexityLine(unit, row);
  };
  line("token", predictions);
  // All tokens but the first are predicted, or a part of them: with them as much of the text.
  const double part = predictions / static_cast<double>(set.tokens() - 1);
  const double words = part * static_cast<double>(set.info().words);
  const double bytes = part * static_cast<double>(set.info().bytes);
  if (words > 0) line("word", words);
  if (bytes > 0) {
    line("byte", bytes);
    const double bits = evaluation.LossSum() / std::log(2.0) / bytes;
    object["bits_per_byte"] = bits;
    table += fmt::format("  bits a byte       {:>10.4f}\n", bits);
  }
}

void AddAccuracy(const Evaluation& evaluation, std::string& table, json& object) {
  const report::Interval interval = report::Wilson(evaluation.correct, evaluation.Predictions());
  object["accuracy"] = evaluation.Accuracy();
  object["low"] = interval.low;
  object["high"] = interval.high;
  table += fmt::format("  accuracy          {:>9.2f} %   95 %: {:.2f} to {:.2f} %\n",
                       100 * evaluation.Accuracy(), 100 * interval.low, 100 * interval.high);
}

// The share of the most frequent class, which knows nothing of the input.
void AddMajority(const Loaded& loaded, const data::Dataset& set, std::string& table, json& object) {
  std::vector<int64_t> counts(loaded.card.labels.size(), 0);
  for (int64_t i = 0; i < set.examples(); ++i) ++counts.at(static_cast<size_t>(set.Label(i)));
  const auto most = std::max_element(counts.begin(), counts.end());
  const double share = static_cast<double>(*most) / static_cast<double>(set.examples());
  object["majority"] = share;
  table += fmt::format("  majority          {:>9.2f} %   always \"{}\"\n", 100 * share,
                       loaded.card.labels[static_cast<size_t>(most - counts.begin())]);
}

// What counting alone gives, on the same tokens.
void AddBaselines(const Loaded& loaded, const data::Dataset& set, std::string& table,
                  json& object) {
  if (loaded.model->config().kind != ModelKind::kDecoder) {
    throw Error("--baselines are of language models: this is another kind of model");
  }
  if (!loaded.data.train) {
    throw Error("--baselines are counted in the training split: evaluate a run on its own data");
  }
  const data::Dataset& train = *loaded.data.train;
  for (const int order : {1, 3}) {
    data::NGramModel model(loaded.tokenizer.size(), order);
    constexpr int64_t kChunk = 1 << 20;
    const auto each = [&](const data::Dataset& from, auto&& take) {
      std::vector<int64_t> wide;
      std::vector<int32_t> tokens;
      for (int64_t place = 0; place < from.tokens(); place += kChunk) {
        wide.resize(static_cast<size_t>(std::min(kChunk, from.tokens() - place)));
        from.Copy(place, static_cast<int64_t>(wide.size()), wide.data());
        tokens.assign(wide.begin(), wide.end());
        take(tokens);
      }
    };
    each(train, [&](const std::vector<int32_t>& tokens) { model.Count(tokens); });
    model.Finish();
    double sum = 0;
    each(set,
         [&](const std::vector<int32_t>& tokens) { sum += model.NegativeLogLikelihood(tokens); });
    const double perplexity = std::exp(sum / static_cast<double>(set.tokens()));
    const char* name = order == 1 ? "unigram" : "trigram";
    object[name] = {{"perplexity", perplexity}};
    table += fmt::format("  {:<18}{:>10.3f}   perplexity a token, by counting\n", name, perplexity);
  }
}

void RunEvaluation(const EvalArguments& arguments) {
  if (arguments.context != "sliding" && arguments.context != "cut" &&
      arguments.context != "carried") {
    throw Error(
        fmt::format("--context is \"{}\"; it takes sliding, cut, carried", arguments.context));
  }
  if (arguments.tokens < 0 || (arguments.tokens > 0 && arguments.context == "carried")) {
    throw Error(
        "--tokens takes 0 or more, and --context carried reads the whole text: leave it out");
  }
  if (arguments.stride < 0) {
    throw Error(fmt::format("--stride is {}; give 1 or more, or 0 for half of the length",
                            arguments.stride));
  }
  CheckJsonOutput(arguments.json);
  CheckThreads(arguments.threads);
  SetThreads(arguments.threads);
  Loaded loaded = Load(arguments);
  ModelImpl& model = *loaded.model;
  if (arguments.sample.tokens > 0) RequireWriting(model.config(), arguments.prompt);
  const data::Dataset& set = *loaded.data.Get(loaded.split);
  const data::Task& task = data::FindTask(loaded.card.task);
  const Objective objective = task.description().objective;
  const bool causal = objective == Objective::kCausal;

  TrainOptions options;
  options.length = model.config().max_length;
  options.batch_tokens = arguments.batch_tokens;
  data::BatchOptions batch = BatchOptionsFor(task, loaded.tokenizer, model.config(), options);
  if (causal && arguments.context == "sliding") {
    batch.stride = arguments.stride > 0 ? arguments.stride : std::max<int64_t>(1, batch.length / 2);
  }
  report::Meter meter;
  const auto progress = [&](double done) { meter.Show(done, "evaluating"); };
  const Evaluation evaluation = causal && arguments.context == "carried"
                                    ? EvaluateCarried(model, set, batch.length, progress)
                                    : Evaluate(model, set, batch, arguments.tokens, progress);
  meter.Clear();

  json object{{"model", arguments.model},
              {"task", loaded.card.task},
              {"split", Name(loaded.split)},
              {"examples", set.examples()},
              {"predictions", evaluation.Predictions()},
              {"seconds", evaluation.seconds}};
  std::string table = fmt::format(
      "{} on {}: {} predictions in {}\n", arguments.model,
      arguments.path.empty() ? fmt::format("its {} split", Name(loaded.split)) : arguments.path,
      report::FormatInteger(evaluation.Predictions()), report::FormatDuration(evaluation.seconds));
  if (model.config().classes > 0) {
    AddAccuracy(evaluation, table, object);
    AddMajority(loaded, set, table, object);
  } else if (causal) {
    object["context"] = arguments.context;
    AddPerplexities(evaluation, set, table, object);
  } else {
    const report::Interval interval = report::OfMean(evaluation.losses, evaluation.counts);
    object["loss"] = evaluation.Loss();
    object["per_token"] = Perplexity(evaluation.Loss(), interval);
    table += PerplexityLine("token", object["per_token"]);
    AddAccuracy(evaluation, table, object);
  }
  if (arguments.baselines) AddBaselines(loaded, set, table, object);
  if (arguments.sample.tokens > 0) {
    const std::string text = Sample(model, loaded.tokenizer, arguments.prompt, arguments.sample);
    // What is written from a text does not go on with it.
    const std::string before =
        model.config().kind == ModelKind::kEncoderDecoder ? "" : arguments.prompt;
    object["sample"] = before + text;
    table += fmt::format("\n{}{}\n", before, text);
  }
  PrintResults(table, JsonText(object, 2) + "\n", arguments.json);
}

}  // namespace

int RunEval(int argc, char** argv) {
  EvalArguments arguments;
  CLI::App app(kEvalDescription, "cosformer eval");
  app.footer(kEvalExamples);
  app.get_formatter()->column_width(32);
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  app.add_option("model", arguments.model, "A run's directory, or a model's")->required();
  app.add_option("path", arguments.path, "On what: a file, or a directory as the task reads it");
  app.add_option("--split", arguments.split,
                 "train, valid, test; otherwise the last of them that there is");
  app.add_option("--context", arguments.context, "sliding, cut, carried; see below");
  app.add_option("--stride", arguments.stride,
                 "sliding: tokens between windows; 0: half the model's length");
  app.add_option("--batch-tokens", arguments.batch_tokens, "Tokens that are computed together");
  app.add_option("--tokens", arguments.tokens,
                 "Of the examples at most, spread over them; 0: all. Not with --context carried");
  app.add_option("--text-column", arguments.text_column, "Tables: the text's column");
  app.add_option("--pair-column", arguments.pair_column, "Tables: the second text's column");
  app.add_option("--label-column", arguments.label_column, "Tables: the class's column");
  app.add_flag("--baselines", arguments.baselines,
               "Language models: also what counting words and triples of them gives");
  app.add_option("--write", arguments.sample.tokens,
                 "Also let it write so many tokens; an encoder-decoder from --prompt");
  app.add_option("--prompt", arguments.prompt, "What it goes on from");
  app.add_option("--temperature", arguments.sample.temperature, "0: always the likeliest token");
  app.add_option("--top-k", arguments.sample.top, "Draw from so many of the likeliest; 0: all");
  app.add_option("--seed", arguments.sample.seed, "Of what it writes");
  app.add_option("--cache", arguments.cache, "Where prepared data are kept");
  app.add_option("--threads", arguments.threads, "Threads; 0: all cores");
  AddJsonOption(app, arguments.json);
  app.callback([&] { RunEvaluation(arguments); });
  return RunProgram(app, argc, argv);
}

}  // namespace cosformer::cli
