// Output files are written whole or not at all: beside their place first, then renamed into it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace cosformer::report {

// Throws Error, naming the path, if a file can't be created there now. Call it before hours of
// work whose result shall go there. Nothing is left behind.
void CheckWritable(const std::string& path);

// Writes `contents` to `path`. On failure (no permission, full disk) throws Error, naming the path,
// and a file that was there before stays as it was. Links are followed; what is not a regular file,
// as /dev/stdout, is written straight.
void WriteFile(const std::string& path, std::string_view contents);
// The same for contents in parts, written one after the other without a copy that holds them all.
void WriteFile(const std::string& path, std::span<const std::string_view> parts);

// A file that is written piece by piece, beside its place: it takes the place with Commit(), and
// leaves nothing behind without it.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  FileWriter(FileWriter&&) noexcept;
  FileWriter& operator=(FileWriter&&) noexcept;
  ~FileWriter();

  void Write(std::string_view bytes);
  void Commit();

 private:
  class Beside;
  std::unique_ptr<Beside> beside_;
};

}  // namespace cosformer::report
