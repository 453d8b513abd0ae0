#include "formats/model_weights.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "cosformer/error.h"
#include "formats/json.h"
#include "formats/model_directory.h"
#include "formats/option_reader.h"
#include "formats/read_file.h"
#include "formats/safetensors_types.h"
#include "kernels/checksum.h"
#include "report/files.h"

namespace cosformer {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kChecksumsFormat = 1;

// A vector is one row.
uint64_t ChecksumOf(const TensorEntry& tensor) {
  return TensorChecksum(tensor.data, tensor.shape.size() < 2 ? 1 : tensor.shape.front());
}

std::string Describe(const TensorEntry& tensor, uint64_t checksum) {
  return fmt::format("{} {} {:016x}", Name(tensor.type), ShapeText(tensor.shape), checksum);
}

std::string FileIn(const std::string& directory, const char* file) {
  return (fs::path(directory) / file).string();
}

// None where there is no such file, or no longer.
std::optional<std::string> ReadIfThere(const std::string& path) {
  std::error_code none;
  if (!fs::exists(path, none)) return std::nullopt;
  try {
    return ReadFile(path, kMaxJsonFile);
  } catch (const Error&) {
    if (!fs::exists(path, none)) return std::nullopt;
    throw;
  }
}

// Also where it is a link, which the next file is written through.
void RemoveIfThere(const std::string& path) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error) return;
  fs::remove(file, error);
  if (error) throw Error(fmt::format("cannot remove \"{}\": {}", path, error.message()));
}

}  // namespace

Checksums Checksums::Of(std::span<const TensorEntry> tensors) {
  Checksums checksums;
  for (const TensorEntry& tensor : tensors) {
    checksums.tensors_[tensor.name] = Describe(tensor, ChecksumOf(tensor));
  }
  return checksums;
}

Checksums Checksums::Parse(std::string_view text, const std::string& path) {
  const std::string where = fmt::format("\"{}\"", path);
  Checksums checksums;
  checksums.path_ = path;
  try {
    if (text.empty()) throw Error(fmt::format("{} is empty; expected a JSON object", where));
    const json object = ParseJson(text, where);
    OptionReader reader(object, where);
    reader.CheckFormat(kChecksumsFormat);
    const json* tensors = reader.Find("tensors");
    if (tensors == nullptr || !tensors->is_object()) {
      throw Error(fmt::format("{}: \"tensors\" is {}; expected an object with a text per tensor",
                              where, tensors == nullptr ? "missing" : DescribeJson(*tensors)));
    }
    reader.Done();
    for (const auto& [name, description] : tensors->items()) {
      if (!description.is_string()) {
        throw Error(fmt::format("{}: {} is {}; expected a text with type, shape and checksum",
                                where, Quoted(name), DescribeJson(description)));
      }
      checksums.tensors_[name] = description.get<std::string>();
    }
  } catch (const Error& error) {
    throw Error(
        fmt::format("{} (copy it again with the model, or remove it to read the weights "
                    "unchecked)",
                    error.what()));
  }
  return checksums;
}

std::string Checksums::ToJson() const {
  return JsonText({{"format", kChecksumsFormat}, {"tensors", tensors_}}, 1) + "\n";
}

void Checksums::Check(const TensorEntry& tensor, const std::string& where) const {
  Check(tensor, ChecksumOf(tensor), where);
}

void Checksums::Check(const TensorEntry& tensor, uint64_t checksum,
                      const std::string& where) const {
  const auto found = tensors_.find(tensor.name);
  const std::string saved = found == tensors_.end() ? "no such tensor" : found->second;
  const std::string now = Describe(tensor, checksum);
  if (saved == now) return;
  throw Error(fmt::format(
      "{}: {} is not what was saved: it is {}, and \"{}\" has {}; the file is damaged: copy or "
      "make the model again (if a program changed it on purpose, remove {})",
      where, Quoted(tensor.name), now, path_, Quoted(saved), kChecksumsFile));
}

void Checksums::CheckAll(const SafetensorsFile& file, const std::string& where) const {
  for (const TensorEntry& tensor : file.tensors()) Check(tensor, where);
  for (const auto& [name, description] : tensors_) {
    if (file.Find(name) != nullptr) continue;
    throw Error(
        fmt::format("{}: {} is not there, which \"{}\" has as {}; the files are not of one model: "
                    "copy or make it again",
                    where, Quoted(name), path_, Quoted(description)));
  }
}

ModelWeights OpenModelWeights(const std::string& directory) {
  const std::string weights = FileIn(directory, kWeightsFile);
  const std::string checksums = FileIn(directory, kChecksumsFile);
  // Whoever saves removes the checksums first: weights that were opened between two looks at the
  // same ones are theirs. A model is saved every few seconds at most.
  constexpr int kMostTries = 100;
  for (int i = 1;; ++i) {
    const std::optional<std::string> before = ReadIfThere(checksums);
    ModelWeights opened{.file = SafetensorsFile::Open(weights), .path = weights, .checksums = {}};
    const std::optional<std::string> after = ReadIfThere(checksums);
    if (before != after && i < kMostTries) continue;
    if (before && before == after) opened.checksums = Checksums::Parse(*before, checksums);
    return opened;
  }
}

void WriteModelWeights(const std::string& directory, std::span<const TensorEntry> tensors,
                       const std::map<std::string, std::string>& metadata) {
  report::FileWriter weights = StageSafetensors(FileIn(directory, kWeightsFile), tensors, metadata);
  const std::string path = FileIn(directory, kChecksumsFile);
  report::FileWriter checksums(path);
  checksums.Write(Checksums::Of(tensors).ToJson());
  RemoveIfThere(path);
  weights.Commit();
  checksums.Commit();
}

}  // namespace cosformer
