// A file as bytes in memory, without reading it: only what is looked at is loaded.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace cosformer {

// Moves, does not copy. The file must not be shortened while it is mapped: reading what is gone
// ends the process. Replacing it by renaming is safe.
class MappedFile {
 public:
  // Throws Error, naming the path, for what is missing, empty, or no regular file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace cosformer
