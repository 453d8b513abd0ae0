// `cosformer score`: what a model makes of given texts. The likelihood of every token, the classes,
// or what belongs where <mask> stands.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/endless.h"
#include "cli/model_facts.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/text_input.h"
#include "cosformer/error.h"
#include "cosformer/runtime.h"
#include "data/statistics.h"
#include "formats/json.h"
#include "formats/model_directory.h"
#include "formats/task_card.h"
#include "formats/tokenizer.h"
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
using runtime::Prediction;
using runtime::Use;

constexpr const char* kScoreDescription =
    R"(Scores texts with a trained model.

A language model gives the log-probability of every token but the first, and the text's perplexity;
words and bytes are counted by the share of tokens that are predicted. A text may be longer than the
horizon: past it, layers of cosFormer attend to the last half of it at least. A classifier, or a retrieval
model with two texts, gives the probabilities of its classes. A masked model says what belongs where
<mask> stands. The text is an argument, a file, or standard input; a line break at the end of a file
is not part of it.)";

constexpr const char* kScoreFooter = R"(
Examples
  cosformer score runs/lm-cosformer "The sea was calm" --likeliest 3
  cosformer score runs/lm-cosformer --file chapter.txt --json scores.json
  cosformer score runs/mlm-cosformer "The <mask> was calm"
  cosformer score runs/classify-cosformer --file reviews.txt --lines --json -
  cosformer score runs/retrieval-cosformer --file a.txt --pair-file b.txt)";

struct ScoreArguments {
  std::string model, text, file;
  std::string pair, pair_file;
  bool has_text = false, has_pair = false;
  int64_t likeliest = 0;
  int64_t length = 0, stride = 0;
  bool lines = false;
  EndlessOptions endless;
  int threads = 0;
  std::string json;
};

struct Scored {
  std::string text;  // for people: a table, or with --lines one line
  json object;
};

// So many with a token of a text, or with a <mask>: the likeliest is of use beside what stands
// there, and a few where nothing does.
int64_t LikeliestOr(const ScoreArguments& arguments, int64_t otherwise) {
  return arguments.likeliest > 0 ? arguments.likeliest : otherwise;
}

// One token or class with its log-probability, for people: "▁sea 12.3 %".
std::string Chance(const std::string& name, double log_probability) {
  return fmt::format("{} {:.1f} %", name, 100 * std::exp(log_probability));
}

// Perplexities a word can be astronomic.
std::string PerplexityText(double value) {
  return value < 1e6 ? fmt::format("{:.3f}", value) : fmt::format("{:.3g}", value);
}

// ---- language models

json Alternatives(const Tokenizer& tokenizer, const std::vector<ScoredToken>& likeliest) {
  json list = json::array();
  for (const ScoredToken& one : likeliest) {
    list.push_back({{"token", one.token},
                    {"piece", tokenizer.Piece(one.token)},
                    {"log_probability", one.log_probability}});
  }
  return list;
}

std::string TokenTable(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                       const std::vector<runtime::TokenScore>& scores) {
  std::vector<std::vector<std::string>> rows = {
      {"token", "log-probability", "rank", "likeliest"},
      {tokenizer.Piece(tokens[0]), "-", "-", "(nothing stands before it)"}};
  for (const runtime::TokenScore& score : scores) {
    std::vector<std::string> likeliest;
    for (const ScoredToken& one : score.likeliest) {
      likeliest.push_back(Chance(tokenizer.Piece(one.token), one.log_probability));
    }
    rows.push_back({tokenizer.Piece(score.token), fmt::format("{:.4f}", score.log_probability),
                    FormatInteger(score.rank), fmt::format("{}", fmt::join(likeliest, ", "))});
  }
  return TableText(rows, "lrrl");
}

Scored ScoreText(const Model& model, const std::string& text, const ScoreArguments& arguments) {
  const Tokenizer& tokenizer = *model.tokenizer();
  const std::vector<int32_t> tokens = model.Encode(text);
  const auto size = static_cast<int64_t>(tokens.size());
  if (arguments.lines && size < 2) {
    return {"-\n", {{"tokens", size}, {"predicted", 0}}};  // nothing stands before it
  }
  const runtime::Windows windows = WindowsFor(model, size, arguments.length, arguments.stride);
  report::Meter meter;
  const std::vector<runtime::TokenScore> scores =
      ScoreTokens(model, tokens, windows, LikeliestOr(arguments, 1), [&](double done) {
        if (!arguments.lines) meter.Show(done, "scoring");
      });
  meter.Clear();
  double sum = 0;
  json list = json::array();
  for (const runtime::TokenScore& score : scores) {
    sum += score.log_probability;
    list.push_back({{"token", score.token},
                    {"piece", tokenizer.Piece(score.token)},
                    {"log_probability", score.log_probability},
                    {"rank", score.rank},
                    {"likeliest", Alternatives(tokenizer, score.likeliest)}});
  }
  const auto predicted = static_cast<double>(scores.size());
  const double part = predicted / static_cast<double>(size);
  const double words = part * static_cast<double>(data::CountWords(text));
  const double bytes = part * static_cast<double>(text.size());
  const auto perplexity = [&](double count) { return std::exp(-sum / count); };
  Scored scored;
  scored.object = {{"tokens", size},
                   {"predicted", scores.size()},
                   {"log_probability", sum},
                   {"perplexity_token", perplexity(predicted)},
                   {"perplexity_word", words > 0 ? json(perplexity(words)) : json()},
                   {"perplexity_byte", perplexity(bytes)},
                   {"windows", windows.count},
                   {"window_length", windows.length},
                   {"window_stride", windows.stride},
                   {"scores", std::move(list)}};
  if (arguments.lines) {
    scored.text = fmt::format("{:.4f}  {}  {}\n", sum, PerplexityText(perplexity(predicted)),
                              FormatInteger(size));
    return scored;
  }
  scored.text = TokenTable(tokenizer, tokens, scores);
  scored.text += fmt::format("\nlog-probability     {:.4f}, of {} tokens\n", sum,
                             FormatInteger(static_cast<int64_t>(scores.size())));
  scored.text += fmt::format("perplexity a token  {}\n", PerplexityText(perplexity(predicted)));
  if (words > 0) {
    scored.text += fmt::format("perplexity a word   {}\n", PerplexityText(perplexity(words)));
  }
  scored.text += fmt::format("perplexity a byte   {}\n", PerplexityText(perplexity(bytes)));
  if (windows.count > 1) {
    scored.text += fmt::format(
        "The text is longer than {} tokens: it was read in {} windows, {} tokens apart; every "
        "token but the first {} has {} before it at least.\n",
        FormatInteger(windows.length), FormatInteger(windows.count), FormatInteger(windows.stride),
        FormatInteger(windows.length - windows.stride),
        FormatInteger(windows.length - windows.stride));
  }
  return scored;
}

// ---- masked models

Scored FillText(const Model& model, const std::string& text, const ScoreArguments& arguments) {
  const Tokenizer& tokenizer = *model.tokenizer();
  const auto filled = model.Fill(text, LikeliestOr(arguments, 5));
  Scored scored;
  scored.object["masks"] = json::array();
  std::vector<std::string> all;
  for (size_t i = 0; i < filled.size(); ++i) {
    json list = json::array();
    std::vector<std::string> chances;
    for (const Prediction& one : filled[i]) {
      chances.push_back(Chance(tokenizer.Piece(one.token), one.log_probability));
      list.push_back({{"token", one.token},
                      {"piece", tokenizer.Piece(one.token)},
                      {"log_probability", one.log_probability}});
    }
    scored.object["masks"].push_back(std::move(list));
    all.push_back(fmt::format("{}", fmt::join(chances, ", ")));
    if (!arguments.lines) scored.text += fmt::format("<mask> {}  {}\n", i + 1, all.back());
  }
  if (arguments.lines) scored.text = fmt::format("{}\n", fmt::join(all, "; "));
  return scored;
}

// ---- classes

// How many tokens of the texts are left out, as in training.
int64_t CutTokens(const Model& model, const std::string& text, const std::string* pair) {
  const int64_t most = model.network().config().max_length;
  const auto first = static_cast<int64_t>(model.Encode(text).size());
  const auto second = pair != nullptr ? static_cast<int64_t>(model.Encode(*pair).size()) : 0;
  if (model.use() == Use::kRetrieval) {
    return std::max<int64_t>(0, first - most) + std::max<int64_t>(0, second - most);
  }
  const int64_t around =
      (model.tokenizer()->special().begin >= 0 ? 1 : 0) + (pair != nullptr ? 1 : 0);
  return std::max<int64_t>(0, first + second - std::max<int64_t>(0, most - around));
}

Scored ClassifyText(const Model& model, const std::string& text, const std::string* pair,
                    const ScoreArguments& arguments) {
  const std::vector<Prediction> classes =
      pair != nullptr ? model.Classify(text, *pair) : model.Classify(text);
  const int64_t cut = CutTokens(model, text, pair);
  const auto label = [&](int32_t index) {
    return model.labels().empty() ? fmt::format("class {}", index)
                                  : model.labels()[static_cast<size_t>(index)];
  };
  Scored scored;
  scored.object = {{"class", classes[0].token},
                   {"label", label(classes[0].token)},
                   {"cut_tokens", cut},
                   {"classes", json::array()}};
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> chances;
  for (const Prediction& one : classes) {
    const double probability = std::exp(one.log_probability);
    rows.push_back({label(one.token), fmt::format("{:.2f} %", 100 * probability)});
    chances.push_back(Chance(label(one.token), one.log_probability));
    scored.object["classes"].push_back({{"class", one.token},
                                        {"label", label(one.token)},
                                        {"probability", probability},
                                        {"log_probability", one.log_probability}});
  }
  if (arguments.lines) {
    scored.text = fmt::format("{}{}\n", fmt::join(chances, ", "),
                              cut > 0 ? fmt::format("  ({} tokens cut off)", cut) : "");
    return scored;
  }
  scored.text = TableText(rows, "lr");
  if (cut > 0) {
    scored.text +=
        fmt::format("The model reads {} tokens: {} more were cut off, as in training.\n",
                    FormatInteger(model.network().config().max_length), FormatInteger(cut));
  }
  return scored;
}

// ---- the command

// What does not go together, before the model is loaded.
void CheckArguments(const ScoreArguments& arguments) {
  if (arguments.has_text && !arguments.file.empty()) {
    throw Error("a text is given, and --file too: give one of them");
  }
  if (arguments.has_pair && !arguments.pair_file.empty()) {
    throw Error("--pair and --pair-file are both given: give one of them");
  }
  if (arguments.likeliest < 0) {
    throw Error(fmt::format("--likeliest is {}; give 0 or more", arguments.likeliest));
  }
  if (arguments.lines && arguments.has_text) {
    throw Error("--lines reads a file or standard input, a text a line: give no text beside it");
  }
}

// What this model has no use for.
void CheckUse(const Model& model, const ScoreArguments& arguments) {
  const bool language = model.use() == Use::kLanguageModel;
  const bool classes = model.use() == Use::kClassifier || model.use() == Use::kRetrieval;
  const bool pair = arguments.has_pair || !arguments.pair_file.empty();
  if (model.reads_images()) {
    throw Error("this model reads images, not text; cosformer eval evaluates it");
  }
  if (model.tokenizer() == nullptr) {
    throw Error("the model's directory has no tokenizer, and so it can't read text");
  }
  if (pair && !classes) {
    throw Error("--pair and --pair-file are for classifiers and retrieval models: this is neither");
  }
  if (!language && (arguments.length != 0 || arguments.stride != 0 || arguments.endless.Given())) {
    throw Error(
        "--length, --stride, --endless and --no-endless are for language models: this is none");
  }
  CheckEndless(arguments.endless, model);
  if (!classes) return;
  const std::string directory = ModelDirectory(arguments.model).string();
  const bool pairs = model.use() == Use::kRetrieval ||
                     (fs::exists(fs::path(directory) / kTaskFile) && ReadTaskCard(directory).pairs);
  if (pairs && !pair) {
    throw Error("this model was trained on two texts: give the second with --pair or --pair-file");
  }
  if (!pairs && pair) {
    throw Error("this model was trained on single texts: leave --pair and --pair-file out");
  }
}

Scored ScoreOne(const Model& model, const std::string& text, const std::string* pair,
                const ScoreArguments& arguments, const std::string& what) {
  CheckText(model, text, what);
  if (pair != nullptr) CheckText(model, *pair, what == "the text" ? "the second text" : what);
  switch (model.use()) {
    case Use::kLanguageModel:
      return ScoreText(model, text, arguments);
    case Use::kMaskedModel:
      return FillText(model, text, arguments);
    case Use::kClassifier:
    case Use::kRetrieval:
      break;
  }
  return ClassifyText(model, text, pair, arguments);
}

void RunScore(const ScoreArguments& arguments) {
  CheckArguments(arguments);
  CheckJsonOutput(arguments.json);
  UseThreads(arguments.threads);
  if (!arguments.has_text && arguments.file.empty() && isatty(STDIN_FILENO) != 0) {
    throw Error("there is no text; give one, --file FILE, or text on standard input");
  }
  RequireKnownTask(arguments.model);
  const Model model =
      Model::Load(arguments.model, LoadOptionsFor(arguments.endless, arguments.threads));
  CheckUse(model, arguments);
  const std::string text =
      arguments.has_text ? arguments.text : ReadText(arguments.file.empty() ? "-" : arguments.file);
  const bool has_pair = arguments.has_pair || !arguments.pair_file.empty();
  const std::string pair =
      arguments.pair_file.empty() ? arguments.pair : ReadText(arguments.pair_file);
  const auto dump = [](const json& object, int indent) { return JsonText(object, indent) + "\n"; };
  if (!arguments.lines) {
    const Scored scored = ScoreOne(model, text, has_pair ? &pair : nullptr, arguments, "the text");
    return PrintResults(scored.text, dump(scored.object, 2), arguments.json);
  }
  const std::vector<std::string> lines = SplitLines(text);
  if (lines.empty()) throw Error("there are no lines to score: the text is empty");
  // One second text for all, or one a line.
  std::vector<std::string> pairs(1, pair);
  if (!arguments.pair_file.empty()) {
    pairs = SplitLines(pair);
    if (pairs.size() != lines.size()) {
      throw Error(
          fmt::format("there are {} lines of first texts and {} of second ones: each needs its own",
                      lines.size(), pairs.size()));
    }
  }
  std::string all, all_json;
  report::Meter meter;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string what = fmt::format("line {}", i + 1);
    if (lines[i].empty()) {
      all += "-\n";
      all_json += dump(json{{"empty", true}}, -1);
      continue;
    }
    try {
      const Scored scored =
          ScoreOne(model, lines[i], has_pair ? &pairs[i % pairs.size()] : nullptr, arguments, what);
      all += scored.text;
      all_json += dump(scored.object, -1);
      meter.Show(static_cast<double>(i + 1) / static_cast<double>(lines.size()), "scoring");
    } catch (const Error& error) {
      // Which of a thousand lines is worth knowing.
      const std::string sentence = error.what();
      throw Error(sentence.starts_with(what) ? sentence : fmt::format("{}: {}", what, sentence));
    }
  }
  meter.Clear();
  PrintResults(all, all_json, arguments.json);
}

}  // namespace

void AddScore(CLI::App& app) {
  CLI::App* score = app.add_subcommand("score", kScoreDescription);
  score->footer(kScoreFooter);
  score->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<ScoreArguments>();
  score->add_option("MODEL", arguments->model, "A model's directory, or a run's")
      ->required()
      ->type_name("");
  CLI::Option* text =
      score->add_option("TEXT", arguments->text, "The text; without one, --file or standard input")
          ->type_name("");
  score->add_option("--file", arguments->file, "A file with the text; - for standard input");
  CLI::Option* pair =
      score->add_option("--pair", arguments->pair, "The second text, for models that read two");
  score->add_option("--pair-file", arguments->pair_file, "A file with the second text");
  score->add_flag("--lines", arguments->lines,
                  "Every line is a text: one result a line, in --json too; an empty one, or with a "
                  "language model one of a single token, has none: -. "
                  "Language models print log-probability, perplexity a token, tokens");
  score->add_option("--likeliest", arguments->likeliest,
                    "So many of the likeliest tokens with each token or <mask>; 0: one, or five");
  score->add_option("--length", arguments->length,
                    "Language models: tokens of a window; 0: the model's longest text, or all");
  score->add_option("--stride", arguments->stride,
                    "Language models: tokens between windows; 0: half of their length");
  AddEndlessOptions(*score, arguments->endless);
  AddThreadsOption(*score, arguments->threads);
  AddJsonOption(*score, arguments->json);
  score->callback([arguments, text, pair] {
    arguments->has_text = text->count() > 0;
    arguments->has_pair = pair->count() > 0;
    RunScore(*arguments);
  });
}

}  // namespace cosformer::cli
