#include "reproduce/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace cosformer::reproduce {
namespace {

struct Shape {
  int layers, width, heads, hidden;
};

Settings WithShape(const std::string& comment, const Shape& shape) {
  Settings settings{.comment = comment, .options = {}};
  settings.Set("layers", fmt::format("{}", shape.layers));
  settings.Set("width", fmt::format("{}", shape.width));
  settings.Set("heads", fmt::format("{}", shape.heads));
  settings.Set("hidden", fmt::format("{}", shape.hidden));
  return settings;
}

void Add(Settings& settings, std::vector<std::pair<std::string, std::string>> options) {
  for (auto& [option, value] : options) settings.Set(option, value);
}

// Of Long-Range Arena at its original scale, after its published rules.
Settings OriginalArena(const std::string& task) {
  const Shape shape = task == "listops"     ? Shape{4, 512, 8, 2048}
                      : task == "text"      ? Shape{4, 256, 4, 1024}
                      : task == "retrieval" ? Shape{4, 128, 4, 512}
                      : task == "image"     ? Shape{4, 128, 4, 256}
                                            : Shape{4, 128, 8, 128};
  Settings settings = WithShape("Long-Range Arena, " + task + ", after the published rules", shape);
  Add(settings, {{"steps", task == "listops" || task == "retrieval" ? "5000" : "20000"},
                 {"batch-tokens", task == "listops"      ? "8000"
                                  : task == "image"      ? "8192"
                                  : task == "pathfinder" ? "16384"
                                                         : "16000"},
                 {"accumulate", "8"},
                 {"lr", "0.0005"},
                 {"schedule", "\"inverse-sqrt\""},
                 {"warmup", "1000"},
                 {"weight-decay", "0.1"}});
  return settings;
}

// One shape for all five tasks, and batches and steps that one core computes in some ten to twenty
// minutes: 60,000 to 120,000 tokens a second.
Settings CompactArena(const std::string& task) {
  Settings settings =
      WithShape("Long-Range Arena, " + task + ", in a shape that fits a CPU", {2, 64, 2, 128});
  Add(settings, {{"steps", task == "retrieval" ? "1000" : "2000"},
                 {"batch-tokens", "32768"},
                 {"lr", "0.001"},
                 {"schedule", "\"cosine\""},
                 {"weight-decay", "0.01"}});
  return settings;
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
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  Set(option, quoted + "\"");
}

void Settings::Remove(const std::string& option) {
  std::erase_if(options, [&](const auto& pair) { return pair.first == option; });
}

std::string TomlOf(const Settings& settings) {
  std::string text = fmt::format("# {}\n", settings.comment);
  for (const auto& [option, value] : settings.options)
    text += fmt::format("{} = {}\n", option, value);
  return text;
}

Settings LanguageModelSettings(const std::string& scale) {
  if (scale == kOriginal) {
    Settings settings = WithShape("WikiText-103 as the paper trains it", {16, 1024, 8, 4096});
    Add(settings, {{"task", "\"lm\""},
                   {"tokenizer", "\"words\""},
                   {"length", "512"},
                   {"steps", "150000"},
                   {"batch-tokens", "4096"},
                   {"accumulate", "16"},
                   {"lr", "0.0005"},
                   {"beta2", "0.98"},
                   {"weight-decay", "0.01"},
                   {"schedule", "\"inverse-sqrt\""},
                   {"warmup", "8000"},
                   {"dropout", "0.1"},
                   {"eval-every", "2000"},
                   {"checkpointing", "true"}});
    return settings;
  }
  // About one pass over WikiText-2: a quarter of an hour on one core at 4,000 tokens a second.
  Settings settings = WithShape("WikiText-2 in pieces, 4 M parameters", {4, 256, 4, 1024});
  Add(settings, {{"task", "\"lm\""},
                 {"tokenizer", "\"sentencepiece\""},
                 {"vocabulary", "4096"},
                 {"length", "512"},
                 {"steps", "900"},
                 {"batch-tokens", "4096"},
                 {"lr", "0.002"},
                 {"schedule", "\"cosine\""},
                 {"final-lr", "0.02"},
                 {"weight-decay", "0.1"},
                 {"dropout", "0.1"},
                 {"eval-tokens", "65536"}});
  return settings;
}

Settings SmallLanguageModelSettings() {
  Settings settings = LanguageModelSettings(kCompact);
  settings.comment = "WikiText-2 in pieces, a short training";
  settings.Set("steps", "600");
  return settings;
}

Settings LongRangeArenaSettings(const std::string& task, const std::string& scale) {
  Settings settings = scale == kOriginal ? OriginalArena(task) : CompactArena(task);
  settings.SetText("task", task);
  const bool pixels = task == "image" || task == "pathfinder";
  settings.Set("length", pixels ? "1024" : task == "listops" ? "2000" : "4000");
  settings.Set("dropout", "0.1");
  if (scale != kOriginal) settings.Set("eval-tokens", "1000000");
  return settings;
}

Settings PretrainingSettings(const std::string& scale) {
  Settings settings =
      scale == kOriginal
          ? WithShape("A masked language model of RoBERTa-base's size", {12, 768, 12, 3072})
          : WithShape("A masked language model, 4 M parameters", {4, 256, 4, 1024});
  Add(settings, {{"task", "\"mlm\""},
                 {"tokenizer", "\"sentencepiece\""},
                 {"vocabulary", scale == kOriginal ? "32768" : "8192"},
                 {"length", scale == kOriginal ? "512" : "256"},
                 {"steps", scale == kOriginal ? "50000" : "1500"},
                 {"batch-tokens", "4096"},
                 {"lr", scale == kOriginal ? "0.0005" : "0.002"},
                 {"beta2", "0.98"},
                 {"weight-decay", "0.01"},
                 {"schedule", "\"polynomial\""},
                 {"final-lr", "0.0"},
                 {"dropout", "0.1"}});
  if (scale == kOriginal) {
    settings.Set("warmup", "3000");
    settings.Set("accumulate", "32");
  } else {
    settings.Set("eval-tokens", "65536");
  }
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
  // More than a compact training sees, and 2,000 tests: an interval of four percent.
  return {32000, 2000, 2000};
}

}  // namespace cosformer::reproduce
