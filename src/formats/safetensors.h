// The safetensors format: named tensors in one file, read by mapping it into memory and written in
// one pass. A file is
//
//   u64     length of the header, little-endian
//   JSON    {name: {"dtype": , "shape": , "data_offsets": [begin, end]}, "__metadata__": {...}}
//   bytes   the data, row-major and little-endian; the offsets tile it without hole or overlap
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/mapped_file.h"
#include "report/files.h"

namespace cosformer {

enum class TensorType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64,
};

// As headers spell it: "F32", "BF16", "BOOL".
std::string_view Name(TensorType type);
int64_t ByteSize(TensorType type);

struct TensorEntry {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape = {};       // empty for a scalar
  std::span<const std::byte> data = {};  // not owned
};

class SafetensorsFile {
 public:
  // Throws Error, naming the file and the tensor, for whatever breaks the rules of the format; the
  // data itself is not looked at. The file must not be shortened while it is open: reading what is
  // gone ends the process. Replacing it by renaming, as WriteSafetensors() does, is safe.
  static SafetensorsFile Open(const std::string& path);

  // In the order of their data. The spans live as long as this object and move with it. Files of
  // WriteSafetensors() align every tensor to its type; others need not.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  // Null when there is none of that name.
  const TensorEntry* Find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, size_t, std::less<>> index_;  // into tensors_
  std::map<std::string, std::string> metadata_;
};

// Writes whole or not at all, without a copy of the data: an entry may point into an open file,
// even the one that is replaced. The bytes depend on the contents alone, not on the order of the
// entries: tensors with wide elements come first, then by name. Throws Error for duplicate names,
// for data whose size is not that of its shape, and for text that is not UTF-8.
void WriteSafetensors(const std::string& path, std::span<const TensorEntry> tensors,
                      const std::map<std::string, std::string>& metadata = {});

// The same beside its place: Commit() moves it there.
report::FileWriter StageSafetensors(const std::string& path, std::span<const TensorEntry> tensors,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace cosformer
