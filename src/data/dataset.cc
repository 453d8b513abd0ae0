#include "data/dataset.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "cosformer/error.h"
#include "formats/json.h"
#include "formats/option_reader.h"

namespace cosformer::data {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "COSFTOKN";
constexpr int64_t kDatasetFormat = 1;
constexpr size_t kBuffer = 1 << 20;
constexpr int64_t kMost = int64_t{1} << 48;  // of anything counted: far from overflow

int TokenBytes(int64_t vocabulary) { return vocabulary <= 1 << 16 ? 2 : 4; }

uint64_t Padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

template <class T>
std::string_view Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class Token>
void CopyTokens(const std::byte* from, int64_t count, int64_t vocabulary, const std::string& path,
                int64_t* out) {
  const auto* tokens = reinterpret_cast<const Token*>(from);
  Token most = 0;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = tokens[i];
    most = std::max(most, tokens[i]);
  }
  if (static_cast<int64_t>(most) >= vocabulary) {
    throw Error(
        fmt::format("\"{}\" is damaged: it holds token {} of a vocabulary of {}; remove it, "
                    "and it is made again",
                    path, most, vocabulary));
  }
}

}  // namespace

bool Dataset::IsOne(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char beginning[kMagic.size()] = {};
  file.read(beginning, sizeof beginning);
  return std::string_view(beginning, sizeof beginning) == kMagic;
}

Dataset Dataset::Open(const std::string& path) {
  Dataset set{MappedFile(path)};
  set.path_ = path;
  const std::span<const std::byte> bytes = set.file_.bytes();
  const auto broken = [&](const std::string& why) {
    return Error(
        fmt::format("\"{}\" is no file of tokens, or was cut short: {}; remove it, and it "
                    "is made again",
                    path, why));
  };
  const auto text = [&](uint64_t begin, uint64_t count) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()) + begin, count);
  };
  const uint64_t size = bytes.size();
  if (size < 24 || text(0, 8) != kMagic || text(size - 8, 8) != kMagic) {
    throw broken(fmt::format("it does not begin and end with {}", kMagic));
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data() + size - 16, sizeof(length));
  if (length > size - 24) throw broken("the length of its description is larger than the file");
  const uint64_t end = size - 16 - length;  // of the data

  const json object = ParseJson(text(end, length), fmt::format("the description in \"{}\"", path));
  OptionReader reader(object, fmt::format("\"{}\"", path));
  reader.CheckFormat(kDatasetFormat, "remove the file");
  DatasetInfo& info = set.info_;
  info.task = reader.Text("task", "");
  info.tokenizer = reader.Text("tokenizer", "");
  info.vocabulary = reader.Integer("vocabulary", 0, 1, std::numeric_limits<int32_t>::max());
  info.parts = reader.Integer("parts", 1, 1, 2);
  info.labelled = reader.Flag("labelled", false);
  info.bytes = reader.Integer("bytes", 0, 0, kMost);
  info.words = reader.Integer("words", 0, 0, kMost);
  info.checksum = reader.Text("checksum", "");
  set.examples_ = reader.Integer("examples", 0, 0, kMost);
  set.tokens_ = reader.Integer("tokens", 0, 0, kMost);
  reader.Done();

  set.token_bytes_ = TokenBytes(info.vocabulary);
  const uint64_t texts = static_cast<uint64_t>(set.examples_ * info.parts);
  const uint64_t offsets = Padded(8 + static_cast<uint64_t>(set.tokens_ * set.token_bytes_));
  const uint64_t labels = offsets + 8 * (texts + 1);
  const uint64_t rest =
      info.labelled ? Padded(labels + 4 * static_cast<uint64_t>(set.examples_)) : labels;
  if (rest != end) {
    throw broken(fmt::format("{} tokens in {} examples take {} bytes, but it has {}", set.tokens_,
                             set.examples_, rest, end));
  }
  set.token_data_ = bytes.data() + 8;
  set.offsets_ = reinterpret_cast<const uint64_t*>(bytes.data() + offsets);
  set.labels_ = reinterpret_cast<const int32_t*>(bytes.data() + labels);
  for (uint64_t t = 0; t < texts; ++t) {
    if (set.offsets_[t] > set.offsets_[t + 1]) throw broken("its offsets do not grow");
  }
  if (set.offsets_[0] != 0 || set.offsets_[texts] != static_cast<uint64_t>(set.tokens_)) {
    throw broken("its offsets do not cover its tokens");
  }
  return set;
}

int64_t Dataset::Length(int64_t example, int64_t part) const {
  const int64_t text = example * info_.parts + part;
  return static_cast<int64_t>(offsets_[text + 1] - offsets_[text]);
}

void Dataset::Copy(int64_t begin, int64_t count, int64_t* out) const {
  const std::byte* from = token_data_ + begin * token_bytes_;
  if (token_bytes_ == 2) {
    CopyTokens<uint16_t>(from, count, info_.vocabulary, path_, out);
  } else {
    CopyTokens<uint32_t>(from, count, info_.vocabulary, path_, out);
  }
}

void Dataset::CopyText(int64_t example, int64_t part, int64_t count, int64_t* out) const {
  Copy(static_cast<int64_t>(offsets_[example * info_.parts + part]), count, out);
}

DatasetWriter::DatasetWriter(const std::string& path, DatasetInfo info)
    : file_(path), info_(std::move(info)), token_bytes_(TokenBytes(info_.vocabulary)) {
  Write(kMagic);
}

void DatasetWriter::AddText(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    buffer_.append(reinterpret_cast<const char*>(&token), static_cast<size_t>(token_bytes_));
  }
  offsets_.push_back(offsets_.back() + tokens.size());
  if (buffer_.size() < kBuffer) return;
  Write(buffer_);
  buffer_.clear();
}

void DatasetWriter::Count(int64_t bytes, int64_t words) {
  info_.bytes += bytes;
  info_.words += words;
}

void DatasetWriter::Write(std::string_view bytes) {
  file_.Write(bytes);
  written_ += bytes.size();
  checksum_ = static_cast<uint32_t>(
      crc32_z(checksum_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

void DatasetWriter::Pad() { Write(std::string(Padded(written_) - written_, '\0')); }

void DatasetWriter::Finish() {
  Write(buffer_);
  Pad();
  Write(Bytes(offsets_));
  if (info_.labelled) {
    Write(Bytes(labels_));
    Pad();
  }
  const json object{
      {"format", kDatasetFormat},
      {"task", info_.task},
      {"tokenizer", info_.tokenizer},
      {"vocabulary", info_.vocabulary},
      {"parts", info_.parts},
      {"labelled", info_.labelled},
      {"bytes", info_.bytes},
      {"words", info_.words},
      {"checksum", fmt::format("{:08x}", checksum_)},
      {"examples", static_cast<int64_t>(offsets_.size() - 1) / info_.parts},
      {"tokens", offsets_.back()},
  };
  const std::string text = object.dump();
  const uint64_t length = text.size();
  file_.Write(text);
  file_.Write({reinterpret_cast<const char*>(&length), sizeof(length)});
  file_.Write(kMagic);
  file_.Commit();
}

}  // namespace cosformer::data
