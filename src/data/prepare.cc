#include "data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/parallel.h"
#include "cosformer/error.h"
#include "data/cache.h"
#include "data/statistics.h"
#include "data/tokenizer_training.h"
#include "formats/json.h"
#include "formats/option_reader.h"
#include "report/files.h"
#include "report/units.h"

namespace cosformer::data {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Of text that is tokenised at once, by all threads.
constexpr size_t kRound = 8 << 20;

std::string TokensFile(const std::string& directory, Split split) {
  return (fs::path(directory) / fmt::format("{}.tokens", Name(split))).string();
}

// Classes in an order that does not depend on the examples': numbers by value, then names.
std::vector<std::string> SortLabels(const std::set<std::string>& names) {
  const auto is_number = [](const std::string& name) {
    return !name.empty() && name.size() < 18 &&
           name.find_first_not_of("0123456789") == std::string::npos;
  };
  std::vector<std::string> sorted(names.begin(), names.end());
  if (std::all_of(sorted.begin(), sorted.end(), is_number)) {
    std::sort(sorted.begin(), sorted.end(), [](const std::string& a, const std::string& b) {
      return std::pair(std::stoll(a), a) < std::pair(std::stoll(b), b);
    });
  }
  return sorted;
}

// One preparation, from options to files.
class Preparation {
 public:
  Preparation(const Task& task, const Source& source, const PrepareOptions& options,
              const Notify& notify)
      : task_(task), source_(source), options_(options), notify_(notify) {
    if (!(options.held_out > 0 && options.held_out <= 0.5)) {
      throw Error(
          fmt::format("--held-out is {}; give the part of the training examples to keep for "
                      "validation, above 0 and at most 0.5",
                      options.held_out));
    }
    if (!task.description().tables &&
        !(source.text_column + source.pair_column + source.label_column).empty()) {
      throw Error(
          fmt::format("the task {} reads no tables whose columns could be named; leave "
                      "--text-column, --pair-column and --label-column out",
                      task.description().name));
    }
    if (options.vocabulary < 0) throw Error("--vocabulary is negative; give a number of tokens");
    spec_ = !options.tokenizer.empty() ? options.tokenizer : task.description().tokenizer;
    if (options.given_tokenizer) {
      fixed_ = *options.given_tokenizer;
    } else if (const std::unique_ptr<Tokenizer> own = task.FixedTokenizer()) {
      if (!options.tokenizer.empty()) {
        throw Error(fmt::format("the task {} has a tokenizer of its own; leave --tokenizer out",
                                task.description().name));
      }
      fixed_ = *own;
    } else if (spec_ == "bytes") {
      fixed_ = Tokenizer::Bytes();
    } else if (!IsTokenizerKind(spec_)) {
      if (!fs::exists(spec_)) {
        throw Error(
            fmt::format("--tokenizer \"{}\" is neither bytes, words, sentencepiece nor a "
                        "file or model directory that exists",
                        spec_));
      }
      fixed_ = Tokenizer::Load(spec_);
    }
    source_.any_bytes = fixed_ && fixed_->kind() == TokenizerKind::kBytes;
    vocabulary_is_default_ = options.vocabulary == 0;
    vocabulary_ = options.vocabulary > 0 ? options.vocabulary
                  : spec_ == "words"     ? 0
                                         : task.description().vocabulary;
    if (fixed_ && options.vocabulary > 0 && options.vocabulary != fixed_->size()) {
      throw Error(
          fmt::format("--vocabulary is {}, but the tokenizer has {} tokens; leave "
                      "--vocabulary out",
                      options.vocabulary, fixed_->size()));
    }
    FindSplits();
  }

  TaskData Run() {
    const std::string directory = Directory();
    const json wanted = Description();
    // From before it is looked into, so that nobody removes it meanwhile.
    const auto use = options_.directory.empty() ? std::make_shared<CacheUse>(directory) : nullptr;
    std::optional<TaskData> data = OpenIfCurrent(directory, wanted);
    if (!data) data = Make(directory, wanted);
    data->use = use;
    return std::move(*data);
  }

 private:
  bool Wants(Split split) const {
    return std::find(options_.splits.begin(), options_.splits.end(), split) !=
           options_.splits.end();
  }

  // What the user called the data, for errors.
  const std::string& Where() const {
    for (const std::string* given : {&source_.data, &source_.train, &source_.valid}) {
      if (!given->empty()) return *given;
    }
    return source_.test;
  }

  void FindSplits() {
    for (const Split split : kSplits) {
      files_[split] = task_.Files(source_, split);
    }
    held_out_ = files_[Split::kValid].empty() && !files_[Split::kTrain].empty();
    every_ = std::llround(std::clamp(1 / options_.held_out, 2.0, 1e15));
    for (const Split split : kSplits) {
      if (!Wants(split)) continue;
      if (Exists(split)) present_.push_back(split);
    }
    if (present_.empty()) {
      throw Error(fmt::format("\"{}\" has {} for the task {}; it reads {}", Where(),
                              options_.splits.size() == 1
                                  ? fmt::format("no {} split", Name(options_.splits.front()))
                                  : "nothing",
                              task_.description().name, task_.description().layouts));
    }
    if (Wants(Split::kTrain) && !Exists(Split::kTrain) && !options_.given_tokenizer) {
      throw Error(fmt::format("\"{}\" has no training split for the task {}; it reads {}", Where(),
                              task_.description().name, task_.description().layouts));
    }
  }

  bool Exists(Split split) const {
    return !files_.at(split).empty() || (split == Split::kValid && held_out_);
  }

  // All that the result depends on.
  json Description() const {
    json sources = json::object();
    for (const Split split : present_) {
      json& list = sources[std::string(Name(split))] = json::array();
      const bool own = !files_.at(split).empty();
      for (const std::string& file : files_.at(own ? split : Split::kTrain)) {
        list.push_back(FileStamp(file));
      }
    }
    json object{
        {"format", kPreparedFormat},
        {"task", task_.description().name},
        {"sources", sources},
        {"columns", {source_.text_column, source_.pair_column, source_.label_column}},
        {"tokenizer", fixed_ ? fixed_->Fingerprint() : spec_},
    };
    if (!fixed_) object["vocabulary"] = vocabulary_;
    if (held_out_) object["held_out_every"] = every_;
    if (options_.given_tokenizer) object["given_labels"] = options_.given_labels;
    return object;
  }

  std::string Directory() const {
    if (!options_.directory.empty()) return options_.directory;
    // Sources that change take their old place, so that caches don't pile up.
    json place = Description();
    for (json& list : place["sources"]) {
      for (json& stamp : list) stamp = stamp[0];
    }
    return CachedPath(CacheDirectory(options_.cache), task_.description().name, JsonText(place));
  }

  std::optional<TaskData> OpenIfCurrent(const std::string& directory, const json& wanted) const {
    const std::string path = (fs::path(directory) / kPrepared).string();
    if (!fs::exists(path)) return std::nullopt;
    try {
      const json found = ReadJsonFile(path);
      if (!found.is_object() || JsonText(found.value("made_from", json())) != JsonText(wanted)) {
        return std::nullopt;
      }
      return OpenPrepared(task_, directory);
    } catch (const Error&) {
      return std::nullopt;  // damaged: it can be made again, since its sources are at hand
    }
  }

  // Hands over the examples of a split as they will stand in its file.
  void Read(Split split, const Take& take) const {
    if (!held_out_ || split == Split::kTest) {
      task_.Read(source_, split, take);
      return;
    }
    int64_t index = 0;
    task_.Read(source_, Split::kTrain, [&](RawExample example) {
      const bool held_out = index++ % every_ == every_ / 2;
      if (held_out == (split == Split::kValid)) take(std::move(example));
    });
  }

  Tokenizer MakeTokenizer() const {
    if (fixed_) return *fixed_;
    notify_(spec_ == "words" ? "counting words"
                             : fmt::format("training a SentencePiece tokenizer of {} tokens",
                                           report::FormatInteger(vocabulary_)));
    const TextStream text = [&](const std::function<void(std::string_view)>& take) {
      Read(Split::kTrain, [&](RawExample example) {
        take(example.first);
        if (!example.second.empty()) take(example.second);
      });
    };
    // A number that nobody asked for is no reason to refuse a small text.
    return spec_ == "words" ? TrainWords(text, vocabulary_)
                            : TrainSentencePiece(text, vocabulary_, vocabulary_is_default_);
  }

  int Threads() const {
    return options_.threads > 0
               ? options_.threads
               : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  bool HasClasses() const {
    const Objective objective = task_.description().objective;
    return objective == Objective::kClassify || objective == Objective::kRetrieve;
  }

  std::vector<std::string> FindLabels() const {
    if (!HasClasses()) return {};
    if (options_.given_tokenizer) return options_.given_labels;
    std::set<std::string> names;
    notify_("finding the classes");
    // Those of held-out examples too: a rare class may have no other.
    task_.Read(source_, Split::kTrain,
               [&](const RawExample& example) { names.insert(example.label); });
    if (names.size() < 2) {
      throw Error(
          fmt::format("the training examples of \"{}\" are all of the class \"{}\"; there "
                      "is nothing to tell apart",
                      Where(), names.empty() ? "" : *names.begin()));
    }
    return SortLabels(names);
  }

  TaskData Make(const std::string& directory, const json& description) const {
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) {
      throw Error(fmt::format("cannot make the directory \"{}\" for prepared data: {}", directory,
                              error.message()));
    }
    // In a cache the names are its own: what is damaged there is made again.
    for (const Split split : kSplits) {
      const std::string path = TokensFile(directory, split);
      if (!options_.directory.empty() && fs::exists(path) && !Dataset::IsOne(path)) {
        throw Error(fmt::format(
            "\"{}\" is no file of tokens, or a damaged one, and would be overwritten: prepare in "
            "another directory, or remove it if nothing else is in it",
            path));
      }
    }
    const std::string marker = (fs::path(directory) / kPrepared).string();
    fs::remove(marker, error);  // until all is there again
    const Tokenizer tokenizer = MakeTokenizer();
    const std::vector<std::string> labels = FindLabels();
    tokenizer.Save(directory);
    for (const Split split : kSplits) {
      if (std::find(present_.begin(), present_.end(), split) == present_.end()) {
        fs::remove(TokensFile(directory, split), error);
      } else {
        WriteSplit(split, tokenizer, labels, TokensFile(directory, split));
      }
    }
    const json object{{"format", kPreparedFormat},
                      {"task", task_.description().name},
                      {"labels", labels},
                      {"held_out", held_out_},
                      {"made_from", description}};
    report::WriteFile(marker, JsonText(object, 1) + "\n");
    return OpenPrepared(task_, directory);
  }

  void WriteSplit(Split split, const Tokenizer& tokenizer, const std::vector<std::string>& labels,
                  const std::string& path) const {
    std::map<std::string, int32_t, std::less<>> label_index;
    for (const std::string& label : labels) {
      label_index.emplace(label, static_cast<int32_t>(label_index.size()));
    }
    DatasetInfo info;
    info.task = task_.description().name;
    info.tokenizer = tokenizer.Fingerprint();
    info.vocabulary = tokenizer.size();
    const Objective objective = task_.description().objective;
    info.parts = objective == Objective::kRetrieve || objective == Objective::kTranslate ||
                         task_.Pairs(source_)
                     ? 2
                     : 1;
    info.labelled = HasClasses();
    DatasetWriter writer(path, info);
    std::vector<RawExample> round;
    size_t round_bytes = 0;
    int64_t examples = 0, bytes = 0;
    std::string file;  // of the last example
    auto last_notice = std::chrono::steady_clock::now();

    const auto flush = [&] {
      std::vector<std::vector<int32_t>> tokens(round.size() * static_cast<size_t>(info.parts));
      std::vector<int64_t> words(round.size());
      const auto count = static_cast<int64_t>(round.size());
      ParallelFor(count, Threads(), [&](int64_t i) {
        const RawExample& example = round[static_cast<size_t>(i)];
        const size_t text = static_cast<size_t>(i * info.parts);
        tokenizer.Encode(example.first, tokens[text]);
        words[static_cast<size_t>(i)] = CountWords(example.first);
        if (info.parts == 2) {
          tokenizer.Encode(example.second, tokens[text + 1]);
          words[static_cast<size_t>(i)] += CountWords(example.second);
        }
      });
      for (size_t i = 0; i < round.size(); ++i) {
        const RawExample& example = round[i];
        // A text ends where its file does.
        if (task_.description().stream && !file.empty() && file != example.file &&
            tokenizer.special().end >= 0) {
          tokens[i].insert(tokens[i].begin(), tokenizer.special().end);
        }
        file = example.file;
        for (int64_t part = 0; part < info.parts; ++part) {
          writer.AddText(tokens[i * static_cast<size_t>(info.parts) + static_cast<size_t>(part)]);
        }
        if (info.labelled) writer.AddLabel(IndexOf(example, label_index));
        writer.Count(static_cast<int64_t>(example.first.size() + example.second.size()), words[i]);
      }
      round.clear();
      round_bytes = 0;
      if (const auto now = std::chrono::steady_clock::now();
          now - last_notice > std::chrono::milliseconds(200)) {
        last_notice = now;
        notify_(fmt::format("tokenising {}: {} examples, {}", Name(split),
                            report::FormatInteger(examples),
                            report::FormatBytes(static_cast<double>(bytes))));
      }
    };
    notify_(fmt::format("tokenising {}", Name(split)));
    Read(split, [&](RawExample example) {
      round_bytes += example.first.size() + example.second.size();
      bytes += static_cast<int64_t>(example.first.size() + example.second.size());
      ++examples;
      round.push_back(std::move(example));
      if (round_bytes >= kRound || round.size() >= 65536) flush();
    });
    flush();
    if (examples == 0) {
      throw Error(fmt::format(
          "there are no {} examples in \"{}\"{}", Name(split), Where(),
          split == Split::kValid && held_out_
              ? fmt::format(
                    ": it has too few to keep every {}th for validation; give --valid, or a "
                    "larger --held-out",
                    every_)
              : ""));
    }
    writer.Finish();
  }

  int32_t IndexOf(const RawExample& example,
                  const std::map<std::string, int32_t, std::less<>>& labels) const {
    const auto found = labels.find(example.label);
    if (found != labels.end()) return found->second;
    std::string known;
    for (const auto& [name, index] : labels) known += (known.empty() ? "" : ", ") + name;
    throw Error(fmt::format(
        "\"{}\"{}: the label \"{}\" was not seen in training, which has {}", example.file,
        example.line > 0 ? fmt::format(", line {}", example.line) : "", example.label, known));
  }

 public:
  // A directory that is complete.
  static TaskData OpenPrepared(const Task& task, const std::string& directory) {
    const std::string path = (fs::path(directory) / kPrepared).string();
    const json object = ReadJsonFile(path);
    OptionReader reader(object, fmt::format("\"{}\"", path));
    reader.CheckFormat(kPreparedFormat, "prepare the data again");
    if (const std::string made_for = reader.Text("task", ""); made_for != task.description().name) {
      throw Error(
          fmt::format("\"{}\" was prepared for the task {}, not for {}; give --task {}, or "
                      "prepare it again",
                      directory, made_for, task.description().name, made_for));
    }
    TaskData data(Tokenizer::Load(directory));
    data.directory = directory;
    if (const json* labels = reader.Find("labels"); labels != nullptr && labels->is_array()) {
      for (const json& label : *labels) {
        if (label.is_string()) data.labels.push_back(label.get<std::string>());
      }
    }
    data.held_out = reader.Flag("held_out", false);
    const json* made_from = reader.Find("made_from");
    reader.Done();
    const json sources = made_from != nullptr && made_from->is_object()
                             ? made_from->value("sources", json::object())
                             : json::object();
    const Objective objective = task.description().objective;
    const bool two = objective == Objective::kRetrieve || objective == Objective::kTranslate;
    int64_t parts = two ? 2 : 0;  // 0: not known yet
    for (const Split split : kSplits) {
      const std::string tokens = TokensFile(directory, split);
      if (!sources.contains(std::string(Name(split)))) continue;
      if (!fs::exists(tokens)) {
        throw Error(fmt::format("\"{}\" is gone; prepare the data again", tokens));
      }
      Dataset set = Dataset::Open(tokens);
      if (set.info().tokenizer != data.tokenizer.Fingerprint()) {
        throw Error(
            fmt::format("\"{}\" was made with another tokenizer than the one beside it; "
                        "prepare the data again",
                        tokens));
      }
      if (set.info().task != task.description().name ||
          set.info().labelled != !data.labels.empty() || (parts > 0 && set.info().parts != parts)) {
        throw Error(fmt::format(
            "\"{}\" is of another task than what lies beside it; prepare the data again", tokens));
      }
      parts = set.info().parts;
      for (int64_t i = 0; set.info().labelled && i < set.examples(); ++i) {
        if (set.Label(i) < 0 || set.Label(i) >= static_cast<int64_t>(data.labels.size())) {
          throw Error(
              fmt::format("\"{}\" is damaged: it holds class {} of {}; prepare the data again",
                          tokens, set.Label(i), data.labels.size()));
        }
      }
      (split == Split::kTrain   ? data.train
       : split == Split::kValid ? data.valid
                                : data.test) = std::move(set);
    }
    return data;
  }

 private:
  const Task& task_;
  Source source_;
  const PrepareOptions& options_;
  const Notify& notify_;
  std::string spec_;
  std::optional<Tokenizer> fixed_;
  int64_t vocabulary_ = 0;
  bool vocabulary_is_default_ = false;
  std::map<Split, std::vector<std::string>> files_;
  std::vector<Split> present_;
  bool held_out_ = false;
  int64_t every_ = 20;
};

}  // namespace

const std::optional<Dataset>& TaskData::Get(Split split) const {
  return split == Split::kTrain ? train : split == Split::kValid ? valid : test;
}

bool IsTokenizerKind(const std::string& tokenizer) {
  return tokenizer == "bytes" || tokenizer == "words" || tokenizer == "sentencepiece";
}

namespace {

// What was settled when the data were prepared cannot be asked for again.
void RequireAsPrepared(const TaskData& data, const Source& source, const PrepareOptions& options) {
  const auto refuse = [&](const std::string& what) {
    throw Error(
        fmt::format("\"{}\" was prepared before, {}; leave that out, or give the text itself",
                    source.data, what));
  };
  if (!options.directory.empty()) refuse("and is not prepared again elsewhere");
  for (const std::string* split : {&source.train, &source.valid, &source.test}) {
    if (!split->empty()) refuse(fmt::format("without \"{}\"", *split));
  }
  for (const std::string* column :
       {&source.text_column, &source.pair_column, &source.label_column}) {
    if (!column->empty()) refuse(fmt::format("and column \"{}\" is not in it", *column));
  }
  if (options.given_tokenizer || options.tokenizer.empty()) return;
  const Tokenizer& own = data.tokenizer;
  if (!IsTokenizerKind(options.tokenizer)) {
    if (Tokenizer::Load(options.tokenizer).Fingerprint() != own.Fingerprint()) {
      refuse(fmt::format("with another tokenizer than \"{}\"", options.tokenizer));
    }
  } else if (options.tokenizer != Name(own.kind())) {
    refuse(fmt::format("with the tokenizer {}, not {}", Name(own.kind()), options.tokenizer));
  } else if (options.tokenizer == "sentencepiece" && options.vocabulary > 0 &&
             options.vocabulary != own.size()) {
    refuse(fmt::format("with {} pieces, not {}", own.size(), options.vocabulary));
  }
}

}  // namespace

TaskData Prepare(const Task& task, const Source& source, const PrepareOptions& options,
                 const Notify& notify) {
  if (!source.data.empty() && fs::exists(fs::path(source.data) / kPrepared)) {
    TaskData data = Preparation::OpenPrepared(task, source.data);
    if (options.given_tokenizer &&
        options.given_tokenizer->Fingerprint() != data.tokenizer.Fingerprint()) {
      throw Error(
          fmt::format("\"{}\" was prepared with another tokenizer than the model's; give "
                      "the text itself",
                      source.data));
    }
    if (options.given_tokenizer && options.given_labels != data.labels) {
      throw Error(
          fmt::format("\"{}\" was prepared with other classes than the model's; give the "
                      "examples themselves",
                      source.data));
    }
    RequireAsPrepared(data, source, options);
    return data;
  }
  // Without its prepared.json, what was prepared would pass for text that is named train.tokens.
  for (const Split split : kSplits) {
    if (source.data.empty() || !Dataset::IsOne(TokensFile(source.data, split))) continue;
    throw Error(
        fmt::format("\"{}\" holds prepared data, but not all: there is no {}; prepare them again",
                    source.data, kPrepared));
  }
  return Preparation(task, source, options, notify).Run();
}

}  // namespace cosformer::data
