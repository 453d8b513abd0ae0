// From what the user has to what training reads: a tokenizer, and the splits as files of tokens,
// in a directory that is used again as long as nothing that went into it has changed.
//
//   prepared.json                 what it was made from, and the names of the classes; written last
//   tokenizer.model or .json
//   train.tokens, valid.tokens, test.tokens
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/cache.h"
#include "data/dataset.h"
#include "data/task.h"
#include "formats/tokenizer.h"

namespace cosformer::data {

struct PrepareOptions {
  std::string tokenizer;   // bytes, words, sentencepiece, or a path; empty: the task's
  int64_t vocabulary = 0;  // of a tokenizer that is made from the text; 0: the task's
  double held_out = 0.05;  // of the training examples: where the source has no validation split
  std::string directory;   // where to prepare; empty: a name that follows from all this, in `cache`
  std::string cache;       // empty: as CacheDirectory() says
  int threads = 0;         // 0: all cores

  // A model's own, which is to read the data: nothing is made from the text then, and classes that
  // it does not know are refused.
  std::optional<Tokenizer> given_tokenizer;
  std::vector<std::string> given_labels;
  std::vector<Split> splits = {Split::kTrain, Split::kValid, Split::kTest};
};

struct TaskData {
  explicit TaskData(Tokenizer its_tokenizer) : tokenizer(std::move(its_tokenizer)) {}

  Tokenizer tokenizer;
  std::vector<std::string> labels;  // the names of the classes, in their order
  bool held_out = false;            // the validation split was taken from training
  std::string directory;
  std::shared_ptr<const CacheUse> use;  // none: it is not in the cache
  std::optional<Dataset> train, valid, test;

  const std::optional<Dataset>& Get(Split split) const;
};

// Whether `tokenizer` is a kind that is made from the text (or bytes), and no path.
bool IsTokenizerKind(const std::string& tokenizer);

// What is being done, and how much of it, for people: called now and then.
using Notify = std::function<void(const std::string&)>;

// `source.data` may also be a directory that was prepared before, for this task.
TaskData Prepare(const Task& task, const Source& source, const PrepareOptions& options,
                 const Notify& notify);

}  // namespace cosformer::data
