// Files as they are read here: from front to back in blocks, with errors that name them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/utf8.h"

namespace cosformer::data {

// A regular file, open for reading. Pipes are refused: what is read here is read more than once.
class InputFile {
 public:
  // Throws Error, naming the path, as Read does.
  explicit InputFile(std::string path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  // Fills as much of the buffer as the file still has; 0 at its end.
  size_t Read(char* buffer, size_t size);

 private:
  std::string path_;
  int descriptor_;
  int64_t size_ = 0;
};

int64_t FileSize(const std::string& path);

// A file as a whole, without a byte order mark. Throws Error when it is larger than `most` bytes.
std::string ReadWhole(const std::string& path, int64_t most = int64_t{1} << 28);

// The lines of a file, without their ends ("\n" or "\r\n") and without a byte order mark.
class LineReader {
 public:
  // A line longer than `most` bytes is an Error: the file is then no table of texts.
  explicit LineReader(std::string path, size_t most = size_t{1} << 28);

  // False at the end. The line is valid until the next call.
  bool Next(std::string_view& line);

  const std::string& path() const { return file_.path(); }
  // Where the line that Next returned begins.
  const TextPosition& position() const { return position_; }

 private:
  bool Fill();

  InputFile file_;
  size_t most_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is not yet read, in the buffer
  TextPosition position_;
  TextPosition next_;  // where the line after it begins
};

}  // namespace cosformer::data
