// The seam where tasks are added. A task reads examples from wherever the user keeps them, as text
// or bytes, and says what is to be learned from them; tokens, caches, batches and models follow
// from that and are no task's business.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer.h"

namespace cosformer::data {

enum class Split { kTrain, kValid, kTest };
inline constexpr Split kSplits[] = {Split::kTrain, Split::kValid, Split::kTest};
std::string_view Name(Split split);  // "train", "valid", "test"

// What is learned from an example.
enum class Objective {
  kCausal,     // the next token of a text                                    decoder
  kMasked,     // hidden tokens of a text                                     encoder
  kClassify,   // the class of a text, or of two in one sequence              encoder
  kRetrieve,   // the class of two texts that are encoded apart               two-tower
  kTranslate,  // a text from another                                         encoder-decoder
};

struct Image {
  int64_t height = 0, width = 0;  // 0: the examples are no images
};

// One example as the source has it.
struct RawExample {
  std::string first{};
  std::string second{};  // where the task has pairs
  std::string label{};   // where it has classes
  // Where it stands, for errors.
  std::string file{};
  int64_t line = 0;  // or the record of a binary file, both from 1; 0: the whole file
};
using Take = std::function<void(RawExample)>;

// Where the examples are, as the user says.
struct Source {
  std::string data{};  // a directory, or one file; what is in it the task finds out
  std::string train{}, valid{}, test{};  // instead of it, or of one of its splits
  std::string text_column{}, pair_column{}, label_column{};  // of tables; empty: the task's guess
  bool any_bytes = false;  // texts need not be UTF-8: the tokenizer takes whatever comes
};

struct TaskDescription {
  std::string name{};
  std::string summary{};  // one line
  std::string layouts{};  // what `data` may be, for the help
  Objective objective = Objective::kCausal;
  std::string tokenizer = "sentencepiece";  // unless the user asks for another
  int64_t vocabulary = 8192;                // of a tokenizer that is trained
  int64_t length = 512;                     // of an input, in tokens
  bool stream = false;  // examples are stretches of one text, each going on where the last ended
  bool tables = false;  // reads columns that the user may name
  Image image{};
};

class Task {
 public:
  virtual ~Task() = default;
  virtual const TaskDescription& description() const = 0;

  // The files of a split; none where the source has no such split. Throws Error when `source` is
  // not something that this task reads, saying what it does.
  virtual std::vector<std::string> Files(const Source& source, Split split) const = 0;
  // Hands over the examples of those files, in their order. Throws Error, naming file and line, for
  // what can't be read.
  virtual void Read(const Source& source, Split split, const Take& take) const = 0;

  // Whether examples of this source have a second text.
  virtual bool Pairs(const Source&) const { return false; }
  // The tokenizer that belongs to the task whatever the text, if there is one.
  virtual std::unique_ptr<Tokenizer> FixedTokenizer() const { return nullptr; }
};

// Every task, in the order of the documentation.
const std::vector<std::unique_ptr<Task>>& Tasks();
// Throws Error that names the tasks there are, and `where` the name stands, a file, if it does.
const Task& FindTask(std::string_view name, std::string_view where = "");

}  // namespace cosformer::data
