// The weights of a model's directory: model.safetensors, and beside it checksums.json, by which
// flipped bits are noticed.
//
//   {"format": 1,
//    "tensors": {"NAME": "TYPE SHAPE CHECKSUM", ...}}    the checksum: kernels/checksum.h, in hex
//
// Directories that were written before there were checksums are read unchecked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/safetensors.h"

namespace cosformer {

class Checksums {
 public:
  static Checksums Of(std::span<const TensorEntry> tensors);
  // Throws Error, naming `path`, for a text that is no checksums.json.
  static Checksums Parse(std::string_view text, const std::string& path);
  std::string ToJson() const;

  // Throws Error where the tensor is not as it was saved: a sentence with its name, the file
  // `where` and what to do.
  void Check(const TensorEntry& tensor, const std::string& where) const;
  // The same for who has computed its checksum.
  void Check(const TensorEntry& tensor, uint64_t checksum, const std::string& where) const;
  // Also that none is missing.
  void CheckAll(const SafetensorsFile& file, const std::string& where) const;

 private:
  std::map<std::string, std::string, std::less<>> tensors_;  // "TYPE SHAPE CHECKSUM" by name
  std::string path_;
};

struct ModelWeights {
  SafetensorsFile file;
  std::string path;
  std::optional<Checksums> checksums;  // none: the directory has no checksums.json
};

// Those that belong together, also while another process saves a model there. Nothing is checked
// yet. Throws Error for files that are broken.
ModelWeights OpenModelWeights(const std::string& directory);

// Both files, each whole or not at all. Wherever it is interrupted, no checksums stand beside
// weights that they are not of.
void WriteModelWeights(const std::string& directory, std::span<const TensorEntry> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace cosformer
