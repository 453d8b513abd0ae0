#include "reproduce/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "formats/recipe.h"

namespace cosformer::reproduce {
namespace {

void Add(Settings& settings, std::vector<std::pair<std::string, std::string>> options) {
  for (auto& [option, value] : options) settings.Set(option, value);
}

// By the steps of the experiment, and evaluated as often as suits them.
void TrainFor(Settings& settings, int steps) {
  for (const char* option : {"epochs", "warmup", "eval-every"}) settings.Remove(option);
  settings.Set("steps", fmt::format("{}", steps));
}

}  // namespace

void Settings::Set(const std::string& option, const std::string& value) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const auto& pair) { return pair.first == option; });
  if (found == options.end()) {
    options.emplace_back(option, value);
  } else {
    found->second = value;
  }
}

void Settings::SetText(const std::string& option, const std::string& text) {
  Set(option, fmt::format("\"{}\"", TomlEscaped(text)));
}

void Settings::Remove(const std::string& option) {
  std::erase_if(options, [&](const auto& pair) { return pair.first == option; });
}

std::string Settings::Value(const std::string& option) const {
  for (const auto& [name, value] : options) {
    if (name == option) return value;
  }
  return "";
}

std::string TomlEscaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string TomlOf(const Settings& settings) {
  std::string text = fmt::format("# {}\n", settings.comment);
  for (const auto& [option, value] : settings.options)
    text += fmt::format("{} = {}\n", option, value);
  return text;
}

Settings RecipeSettings(const std::string& recipe) {
  const auto& recipes = EmbeddedRecipes();
  const auto found = std::find_if(recipes.begin(), recipes.end(),
                                  [&](const auto& pair) { return pair.first == recipe; });
  assert(found != recipes.end());
  Settings settings{.comment = fmt::format("After recipes/{}.toml", recipe), .options = {}};
  const Recipe entries = Recipe::Parse(found->second, recipe);
  for (const Recipe::Entry& entry : entries.entries()) {
    settings.Set(entry.option, TomlValue(entry.value));
  }
  return settings;
}

Settings LanguageModelSettings(const std::string& scale) {
  if (scale == kOriginal) return RecipeSettings("wikitext-103");
  // About one pass over the text: a quarter of an hour on one core at 4,000 tokens a second.
  Settings settings = RecipeSettings("wikitext-2");
  TrainFor(settings, 900);
  settings.SetText("positions", "learned");  // the same for all, outside the attention
  settings.Set("eval-tokens", "65536");
  return settings;
}

Settings SmallLanguageModelSettings() {
  Settings settings = LanguageModelSettings(kCompact);
  TrainFor(settings, 600);
  return settings;
}

Settings LongRangeArenaSettings(const std::string& task, const std::string& scale) {
  return RecipeSettings(fmt::format("lra/{}-{}", task, scale));
}

Settings PretrainingSettings(const std::string& scale) {
  Settings settings = RecipeSettings("masked-lm");
  if (scale == kOriginal) {  // RoBERTa-base's size
    Add(settings, {{"layers", "12"},
                   {"width", "768"},
                   {"heads", "12"},
                   {"hidden", "3072"},
                   {"vocabulary", "32768"},
                   {"steps", "50000"},
                   {"batch-tokens", "4096"},
                   {"accumulate", "32"},
                   {"warmup", "3000"}});
    return settings;
  }
  TrainFor(settings, 1500);
  Add(settings,
      {{"length", "256"}, {"batch-tokens", "4096"}, {"lr", "0.002"}, {"eval-tokens", "65536"}});
  return settings;
}

Settings FinetuningSettings(const std::string& task, const std::string& scale) {
  Settings settings{.comment = "Fine-tuning on " + task + ", from a masked language model",
                    .options = {}};
  const bool small = task == "mrpc" || task == "rte";
  const bool documents = task == "imdb" || task == "amazon";
  Add(settings, {{"task", "\"classify\""},
                 {"length", documents ? (scale == kOriginal ? "512" : "256") : "128"},
                 // As many passes as a thousand steps or so take; the small sets need several.
                 {"epochs", small                ? "4"
                            : documents          ? "1"
                            : scale == kOriginal ? "3"
                                                 : "1"},
                 {"batch-tokens", small ? "2048" : "4096"},
                 {"lr", scale == kOriginal ? "0.0001" : "0.0005"},
                 {"schedule", "\"polynomial\""},
                 {"final-lr", "0.0"},
                 {"weight-decay", "0.01"},
                 {"dropout", "0.1"}});
  return settings;
}

SetSizes GeneratedSizes(const std::string& task, const std::string& scale) {
  if (scale == kOriginal) {
    return task == "listops" ? SetSizes{96000, 2000, 2000} : SetSizes{160000, 20000, 20000};
  }
  // About what a compact training sees, each once, and 2,000 tests: an interval of four percent.
  return {64000, 2000, 2000};
}

}  // namespace cosformer::reproduce
