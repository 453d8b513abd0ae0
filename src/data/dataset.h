// Examples as tokens in one file, mapped into memory: written once while the source is read, then
// looked into at any place. Larger than memory is fine.
//
//   8 bytes   "COSFTOKN"
//   tokens    u16 or u32, of all examples one after the other; padded to 8 bytes
//   offsets   u64, [examples * parts + 1]: where each text begins, in tokens
//   labels    i32, [examples], where there are classes; padded to 8 bytes
//   JSON      what the rest is
//   u64       length of the JSON
//   8 bytes   "COSFTOKN"
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/mapped_file.h"
#include "report/files.h"

namespace cosformer::data {

struct DatasetInfo {
  std::string task;
  std::string tokenizer;   // its fingerprint
  int64_t vocabulary = 0;  // tokens are below it
  int64_t parts = 1;       // texts an example
  bool labelled = false;
  int64_t bytes = 0;     // of the source
  int64_t words = 0;     // of the source: between blanks, and the ends of lines
  std::string checksum;  // of all before the JSON; set by the writer
};

class Dataset {
 public:
  // Throws Error, naming the file, for what is no such file or was cut short.
  static Dataset Open(const std::string& path);
  // Whether there is a file that begins like one; it may be cut short.
  static bool IsOne(const std::string& path);

  const DatasetInfo& info() const { return info_; }
  const std::string& path() const { return path_; }
  int64_t examples() const { return examples_; }
  int64_t tokens() const { return tokens_; }

  int64_t Length(int64_t example, int64_t part = 0) const;
  int64_t Label(int64_t example) const { return labels_[example]; }
  // `count` tokens from `begin` on, of all examples as one stream. Throws Error when one is not in
  // the vocabulary: the file was damaged.
  void Copy(int64_t begin, int64_t count, int64_t* out) const;
  // The first `count` of a text.
  void CopyText(int64_t example, int64_t part, int64_t count, int64_t* out) const;

 private:
  explicit Dataset(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  std::string path_;
  DatasetInfo info_;
  int64_t examples_ = 0, tokens_ = 0;
  int token_bytes_ = 2;
  const std::byte* token_data_ = nullptr;
  const uint64_t* offsets_ = nullptr;
  const int32_t* labels_ = nullptr;
};

// Writes such a file, example by example; it takes its place with Finish().
class DatasetWriter {
 public:
  DatasetWriter(const std::string& path, DatasetInfo info);

  // The texts of an example in turn, `parts` of them, then its label where there are classes.
  void AddText(std::span<const int32_t> tokens);
  void AddLabel(int32_t label) { labels_.push_back(label); }
  // What the source held, in addition to what was said before.
  void Count(int64_t bytes, int64_t words);

  void Finish();

 private:
  void Write(std::string_view bytes);
  void Pad();

  report::FileWriter file_;
  DatasetInfo info_;
  int token_bytes_;
  std::string buffer_;
  std::vector<uint64_t> offsets_ = {0};
  std::vector<int32_t> labels_;
  uint64_t written_ = 0;
  uint32_t checksum_ = 0;
};

}  // namespace cosformer::data
