// `cosformer eval`: how well a trained model does on a set of examples, with an interval.
#include <fmt/format.h>

#include <algorithm>
#include <array>
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
--context gives it. Two language models with the same tokenizer are compared on the same text, with
an interval of the difference.)";

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
  cosformer eval runs/lm-softmax runs/lm-cosformer
  cosformer eval runs/classify-cosformer SST-2 --split valid --json -
  cosformer eval runs/lm-cosformer --baselines --write 120 --prompt "The sea")";

struct EvalArguments {
  std::string model, split, context = "sliding";
  std::vector<std::string> more;  // as they were given
  std::string other, path;        // what they are
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
  const data::Task* task = nullptr;
  data::TaskData data;  // none of a model that is compared with another on that one's
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
  LoadModelWeights(*model, directory);
  return model;
}

Loaded LoadModel(const std::string& model, const EvalArguments& arguments) {
  const std::string directory = ModelDirectory(model).string();
  Loaded loaded{.model = LoadForContext(directory, arguments.context == "carried"),
                .tokenizer = Tokenizer::Load(directory),
                .card = ReadTaskCard(directory),
                .data = data::TaskData(Tokenizer::Bytes()),
                .split = data::Split::kTest};
  loaded.task = &data::FindTask(loaded.card.task, (fs::path(directory) / kTaskFile).string());
  CheckTrainedWith(loaded.card, loaded.tokenizer.Fingerprint(), directory);
  return loaded;
}

Loaded Load(const EvalArguments& arguments) {
  Loaded loaded = LoadModel(arguments.model, arguments);
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

// What counting alone gives, on the tokens that the model predicted.
void AddBaselines(const Loaded& loaded, const data::Dataset& set, const Evaluation& evaluation,
                  std::string& table, json& object) {
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
    // `take` gets them with a few that stand before them.
    const auto each = [&](const data::Dataset& from, TokenRange range, int64_t before,
                          const auto& take) {
      std::vector<int64_t> wide;
      std::vector<int32_t> tokens;
      for (int64_t place = range.begin; place < range.end; place += kChunk) {
        const int64_t known = std::min(before, place);
        wide.resize(static_cast<size_t>(known + std::min(kChunk, range.end - place)));
        from.Copy(place - known, static_cast<int64_t>(wide.size()), wide.data());
        tokens.assign(wide.begin(), wide.end());
        take(tokens, static_cast<size_t>(known));
      }
    };
    each(train, {0, train.tokens()}, 0,
         [&](const std::vector<int32_t>& tokens, size_t) { model.Count(tokens); });
    model.Finish();
    double sum = 0;
    for (const TokenRange& range : evaluation.predicted) {
      each(set, range, order - 1, [&](const std::vector<int32_t>& tokens, size_t known) {
        sum += model.NegativeLogLikelihood(tokens, known);
      });
    }
    const double perplexity = std::exp(sum / static_cast<double>(evaluation.Predictions()));
    const char* name = order == 1 ? "unigram" : "trigram";
    object[name] = {{"perplexity", perplexity}};
    table += fmt::format("  {:<18}{:>10.3f}   perplexity a token, by counting\n", name, perplexity);
  }
}

// Whether it names a model, or a run, and not data.
bool IsModel(const std::string& path) {
  return fs::exists(fs::path(path) / kConfigFile) ||
         fs::exists(fs::path(path) / "model" / kConfigFile);
}

void Check(EvalArguments& arguments) {
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
  const SampleOptions& sample = arguments.sample;
  const auto at_least_zero = [](const char* option, auto value) {
    if (!(value >= 0)) throw Error(fmt::format("{} is {}; it must be at least 0", option, value));
  };
  at_least_zero("--write", sample.tokens);
  at_least_zero("--temperature", sample.temperature);
  at_least_zero("--top-k", sample.top);
  if (arguments.batch_tokens < 1) {
    throw Error(fmt::format("--batch-tokens is {}; it must be at least 1", arguments.batch_tokens));
  }
  CheckJsonOutput(arguments.json);
  CheckThreads(arguments.threads);

  std::vector<std::string>& more = arguments.more;
  if (!more.empty() && IsModel(more.front())) {
    arguments.other = more.front();
    more.erase(more.begin());
    if (arguments.baselines || sample.tokens > 0) {
      throw Error("--baselines and --write are of one model, and not for a comparison");
    }
  }
  if (more.size() > 1) {
    throw Error(fmt::format(
        "\"{}\" is no model to compare with, and data can be at one place only: leave \"{}\" out",
        more.front(), more.back()));
  }
  if (more.empty()) return;
  arguments.path = more.front();
  if (!fs::exists(arguments.path)) {
    throw Error(fmt::format("\"{}\" does not exist; give a model to compare with, or data",
                            arguments.path));
  }
}

bool IsCausal(const Loaded& loaded) {
  return loaded.task->description().objective == Objective::kCausal;
}

// With blocks of `stretch` tokens, or where that is 0 as they come.
Evaluation EvaluateOn(const data::Dataset& set, const EvalArguments& arguments, Loaded& loaded,
                      const std::string& name, int64_t stretch) {
  ModelImpl& model = *loaded.model;
  TrainOptions options;
  options.length = model.config().max_length;
  options.batch_tokens = arguments.batch_tokens;
  data::BatchOptions batch =
      BatchOptionsFor(*loaded.task, loaded.tokenizer, model.config(), options);
  if (IsCausal(loaded) && arguments.context == "sliding") {
    batch.stride = arguments.stride > 0 ? arguments.stride : std::max<int64_t>(1, batch.length / 2);
  }
  report::Meter meter;
  const auto progress = [&](double done) { meter.Show(done, fmt::format("evaluating {}", name)); };
  const Evaluation evaluation =
      IsCausal(loaded) && arguments.context == "carried"
          ? EvaluateCarried(model, set, stretch > 0 ? stretch : batch.length, progress)
      : stretch > 0 ? EvaluateStretches(model, set, batch, arguments.tokens, stretch, progress)
                    : Evaluate(model, set, batch, arguments.tokens, progress);
  meter.Clear();
  return evaluation;
}

// Of a split, or of the data at a path.
std::string WhatOf(const EvalArguments& arguments, const Loaded& loaded, double part) {
  const std::string name =
      arguments.path.empty() ? fmt::format("its {} split", Name(loaded.split)) : arguments.path;
  return part < 1 ? fmt::format("{:.2g} % of {}", 100 * part, name) : name;
}

json FiguresOf(const EvalArguments& arguments, const std::string& name, const Loaded& loaded,
               const data::Dataset& set, const Evaluation& evaluation, const std::string& what,
               std::string& table) {
  json object{{"model", name},
              {"task", loaded.card.task},
              {"split", Name(loaded.split)},
              {"examples", set.examples()},
              {"predictions", evaluation.Predictions()},
              {"part", evaluation.part},
              {"seconds", evaluation.seconds}};
  table += fmt::format("{} on {}: {} predictions in {}\n", name, what,
                       report::FormatInteger(evaluation.Predictions()),
                       report::FormatDuration(evaluation.seconds));
  if (loaded.model->config().classes > 0) {
    AddAccuracy(evaluation, table, object);
    AddMajority(loaded, set, table, object);
  } else if (IsCausal(loaded)) {
    object["context"] = arguments.context;
    AddPerplexities(evaluation, set, table, object);
  } else {
    const report::Interval interval = report::OfMean(evaluation.losses, evaluation.counts);
    object["loss"] = evaluation.Loss();
    object["per_token"] = Perplexity(evaluation.Loss(), interval);
    table += PerplexityLine("token", object["per_token"]);
    AddAccuracy(evaluation, table, object);
  }
  return object;
}

void RunOne(const EvalArguments& arguments) {
  Loaded loaded = Load(arguments);
  ModelImpl& model = *loaded.model;
  if (arguments.sample.tokens > 0) RequireWriting(model.config(), arguments.prompt);
  const data::Dataset& set = *loaded.data.Get(loaded.split);
  const Evaluation evaluation = EvaluateOn(set, arguments, loaded, arguments.model, 0);
  std::string table;
  json object = FiguresOf(arguments, arguments.model, loaded, set, evaluation,
                          WhatOf(arguments, loaded, evaluation.part), table);
  if (arguments.baselines) AddBaselines(loaded, set, evaluation, table, object);
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

void RequireComparable(const EvalArguments& arguments, const Loaded& first, const Loaded& second) {
  for (const Loaded* loaded : {&first, &second}) {
    if (IsCausal(*loaded)) continue;
    throw Error(fmt::format("\"{}\" is no language model: evaluate each by itself",
                            loaded == &first ? arguments.model : arguments.other));
  }
  if (first.tokenizer.Fingerprint() != second.tokenizer.Fingerprint()) {
    throw Error(fmt::format(
        "\"{}\" and \"{}\" have different tokenizers: evaluate each by itself, and compare their "
        "bits a byte",
        arguments.model, arguments.other));
  }
}

// Stretches that both have read in full stay, in the same order.
void KeepCommon(const data::Dataset& set, int64_t stretch, Evaluation& first, Evaluation& second) {
  std::array<Evaluation*, 2> both = {&first, &second};
  std::array<std::vector<double>, 2> losses, counts;
  for (size_t i = 0; i < first.counts.size(); ++i) {
    const int64_t whole = std::min(stretch, set.tokens() - 1 - static_cast<int64_t>(i) * stretch);
    if (first.counts[i] != static_cast<double>(whole) || first.counts[i] != second.counts[i]) {
      continue;
    }
    for (size_t m = 0; m < both.size(); ++m) {
      losses[m].push_back(both[m]->losses[i]);
      counts[m].push_back(both[m]->counts[i]);
    }
  }
  if (counts[0].empty()) {
    throw Error("no stretch of the text is read by both models: leave --tokens out, or give more");
  }
  for (size_t m = 0; m < both.size(); ++m) {
    both[m]->losses = std::move(losses[m]);
    both[m]->counts = std::move(counts[m]);
    both[m]->part =
        static_cast<double>(both[m]->Predictions()) / static_cast<double>(set.tokens() - 1);
  }
}

// How much worse the second predicts the same tokens.
void AddDifference(const EvalArguments& arguments, const Evaluation& first,
                   const Evaluation& second, double bytes, int64_t stretch, std::string& table,
                   json& object) {
  std::vector<double> differences = second.losses;
  for (size_t i = 0; i < differences.size(); ++i) differences[i] -= first.losses[i];
  const double mean = second.Loss() - first.Loss();
  const report::Interval interval = report::OfMean(differences, second.counts);
  const auto lines = [&](const char* key, const char* unit, auto&& of) {
    object[key] = {{"value", of(mean)}, {"low", of(interval.low)}, {"high", of(interval.high)}};
    table +=
        fmt::format("  {:<18}{:>10.4f}   {}\n", unit, of(mean),
                    std::isfinite(interval.low)
                        ? fmt::format("95 %: {:.4f} to {:.4f}", of(interval.low), of(interval.high))
                        : "too few stretches for an interval");
  };
  object["stretches"] = differences.size();
  object["stretch_tokens"] = stretch;
  table +=
      fmt::format("{} against {}, over {} stretches of {} tokens\n", arguments.other,
                  arguments.model, report::FormatInteger(static_cast<int64_t>(differences.size())),
                  report::FormatInteger(stretch));
  lines("nats_per_token", "nats a token", [](double nats) { return nats; });
  if (bytes > 0) {
    const double per_byte = static_cast<double>(first.Predictions()) / std::log(2.0) / bytes;
    lines("bits_per_byte", "bits a byte", [&](double nats) { return nats * per_byte; });
  }
  lines("perplexity_ratio", "perplexity, times", [](double nats) { return std::exp(nats); });
  table += interval.high < 0  ? fmt::format("  {} predicts it better\n", arguments.other)
           : interval.low > 0 ? fmt::format("  {} predicts it better\n", arguments.model)
                              : "  neither predicts it better by more than the interval\n";
}

void Compare(const EvalArguments& arguments) {
  Loaded second = LoadModel(arguments.other, arguments);
  Loaded first = Load(arguments);
  RequireComparable(arguments, first, second);
  second.split = first.split;
  const data::Dataset& set = *first.data.Get(first.split);
  const int64_t stretch =
      std::max(first.model->config().max_length, second.model->config().max_length);
  std::array<Evaluation, 2> evaluations = {
      EvaluateOn(set, arguments, first, arguments.model, stretch),
      EvaluateOn(set, arguments, second, arguments.other, stretch)};
  KeepCommon(set, stretch, evaluations[0], evaluations[1]);
  std::string table;
  json object{{"models", json::array()}, {"difference", json::object()}};
  object["models"].push_back(FiguresOf(arguments, arguments.model, first, set, evaluations[0],
                                       WhatOf(arguments, first, evaluations[0].part), table));
  object["models"].push_back(
      FiguresOf(arguments, arguments.other, second, set, evaluations[1], "the same text", table));
  AddDifference(arguments, evaluations[0], evaluations[1],
                evaluations[0].part * static_cast<double>(set.info().bytes), stretch, table,
                object["difference"]);
  PrintResults(table, JsonText(object, 2) + "\n", arguments.json);
}

void RunEvaluation(EvalArguments& arguments) {
  Check(arguments);
  SetThreads(arguments.threads);
  if (arguments.other.empty()) {
    RunOne(arguments);
  } else {
    Compare(arguments);
  }
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
  app.add_option(
         "more", arguments.more,
         "Another model to compare with, if it is one; then on what: a file, or a directory "
         "as the task reads it")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
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
  app.add_option("--seed", arguments.sample.seed, "Of what it writes")
      ->check(WholeNumber<uint64_t>());
  app.add_option("--cache", arguments.cache, "Where prepared data are kept");
  app.add_option("--threads", arguments.threads, "Threads; 0: all cores");
  AddJsonOption(app, arguments.json);
  app.callback([&] { RunEvaluation(arguments); });
  return RunProgram(app, argc, argv);
}

}  // namespace cosformer::cli
