#include "cli/data_options.h"

#include <fmt/format.h>

#include "cosformer/error.h"
#include "data/cache.h"
#include "report/units.h"

namespace cosformer::cli {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// Nobody looks into a cache by themselves: what is removed from it is said, and that it is large.
void KeepWithinLimit(const DataArguments& arguments) {
  constexpr double kLarge = 2 * kGiB;
  const std::string cache = data::CacheDirectory(arguments.prepare.cache);
  const auto bytes_of = [](const std::vector<data::CachedSet>& sets) {
    double bytes = 0;
    for (const data::CachedSet& set : sets) bytes += static_cast<double>(set.bytes);
    return bytes;
  };
  const double limit = arguments.cache_limit * kGiB;
  if (limit > 0 && limit < 0x1p62) {
    const auto removed = data::ShrinkCache(cache, static_cast<int64_t>(limit));
    if (!removed.empty()) {
      fmt::print(stderr,
                 "removed from the cache, which takes up to {} (--cache-limit): {} prepared set{} "
                 "that {} unused for longest, {}\n",
                 report::FormatBytes(limit), removed.size(), removed.size() == 1 ? "" : "s",
                 removed.size() == 1 ? "was" : "were", report::FormatBytes(bytes_of(removed)));
    }
  }
  const double bytes = bytes_of(data::CachedSets(cache));
  if (bytes > kLarge || (limit > 0 && bytes > limit)) {
    fmt::print(stderr,
               "the cache of prepared data, {}, takes {}; cosformer data clean makes room\n", cache,
               report::FormatBytes(bytes));
  }
}

}  // namespace

void AddDataOptions(CLI::App& app, DataArguments& arguments) {
  constexpr const char* kGroup = "Data";
  data::Source& source = arguments.source;
  data::PrepareOptions& prepare = arguments.prepare;
  app.add_option("--task", arguments.task, "What is learned from the data, see below")
      ->group(kGroup);
  app.add_option("--data", source.data, "A file or a directory, as the task reads it; see below")
      ->group(kGroup);
  app.add_option("--train", source.train, "Training examples, instead of those in --data")
      ->group(kGroup);
  app.add_option("--valid", source.valid, "Validation examples, likewise")->group(kGroup);
  app.add_option("--test", source.test, "Test examples, likewise")->group(kGroup);
  app.add_option("--text-column", source.text_column,
                 "Tables: the text's column, by name, or by number in a table without a header")
      ->group(kGroup);
  app.add_option("--pair-column", source.pair_column, "Tables: the second text's column")
      ->group(kGroup);
  app.add_option("--label-column", source.label_column, "Tables: the class's column")
      ->group(kGroup);
  app.add_option("--tokenizer", prepare.tokenizer,
                 "bytes, words, sentencepiece (made from the training text), or a tokenizer's file "
                 "or model directory; otherwise the task's")
      ->group(kGroup);
  app.add_option("--vocabulary", prepare.vocabulary,
                 "Tokens of a tokenizer that is made from the text; 0: the task's number, or all "
                 "words")
      ->group(kGroup);
  app.add_option("--held-out", prepare.held_out,
                 "Part of the training examples to validate on, where there is no validation split")
      ->group(kGroup);
  app.add_option("--cache", prepare.cache,
                 "Where prepared data are kept for the next time; otherwise ~/.cache/cosformer")
      ->group(kGroup);
  app.add_option(
         "--cache-limit", arguments.cache_limit,
         "Most GiB of prepared data to keep there: beyond it, the sets that were unused for "
         "longest are removed; 0: no limit")
      ->group(kGroup);
}

std::string TaskList() {
  std::string text = "\nTasks, and what --data may be\n";
  for (const auto& task : data::Tasks()) {
    const data::TaskDescription& description = task->description();
    text += fmt::format("  {:<12}{}\n              {}\n", description.name, description.summary,
                        description.layouts);
  }
  return text;
}

data::TaskData PrepareData(const DataArguments& arguments) {
  const data::Task& task = data::FindTask(arguments.task);
  if (arguments.source.data.empty() && arguments.source.train.empty() &&
      arguments.source.valid.empty() && arguments.source.test.empty()) {
    throw Error(fmt::format("there are no data: give --data PATH; the task {} reads {}",
                            arguments.task, task.description().layouts));
  }
  if (!(arguments.cache_limit >= 0)) {
    throw Error(fmt::format("--cache-limit is {}; give a number of GiB, or 0 for no limit",
                            arguments.cache_limit));
  }
  report::Progress progress;
  data::TaskData data = data::Prepare(task, arguments.source, arguments.prepare,
                                      [&](const std::string& what) { progress.Show(what); });
  progress.Clear();
  if (data.use != nullptr) KeepWithinLimit(arguments);
  return data;
}

}  // namespace cosformer::cli
