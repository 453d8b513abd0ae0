#include "data/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cosformer/error.h"
#include "report/units.h"

namespace cosformer::data {
namespace {

constexpr size_t kReadBlock = 1 << 18;

[[noreturn]] void Fail(const std::string& path, int error_number) {
  throw Error(fmt::format("cannot read \"{}\": {}", path, std::strerror(error_number)));
}

int64_t CheckedSize(const std::string& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) Fail(path, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    throw Error(fmt::format(
        "cannot read \"{}\": it is no regular file, and what is learned from is read more than "
        "once; save it to a file first",
        path));
  }
  return status.st_size;
}

}  // namespace

InputFile::InputFile(std::string path)
    // A pipe without a writer must not block here; it is refused below.
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) Fail(path_, errno);
  try {
    struct stat status;
    if (fstat(descriptor_, &status) != 0) Fail(path_, errno);
    size_ = CheckedSize(path_, status);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() { close(descriptor_); }

size_t InputFile::Read(char* buffer, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = read(descriptor_, buffer + done, size - done);
    if (count < 0) {
      if (errno == EINTR) continue;
      Fail(path_, errno);
    }
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

int64_t FileSize(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) Fail(path, errno);
  return CheckedSize(path, status);
}

std::string ReadWhole(const std::string& path, int64_t most) {
  InputFile file(path);
  if (file.size() > most) {
    throw Error(fmt::format("\"{}\" has {}, but one example has at most {}", path,
                            report::FormatBytes(static_cast<double>(file.size())),
                            report::FormatBytes(static_cast<double>(most))));
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  text.resize(file.Read(text.data(), text.size()));
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

LineReader::LineReader(std::string path, size_t most) : file_(std::move(path)), most_(most) {
  Fill();
  if (buffer_.starts_with(kByteOrderMark)) {
    begin_ = kByteOrderMark.size();
    next_.offset = static_cast<int64_t>(begin_);
  }
}

bool LineReader::Fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t held = buffer_.size();
  buffer_.resize(held + kReadBlock);
  const size_t count = file_.Read(buffer_.data() + held, kReadBlock);
  buffer_.resize(held + count);
  return count > 0;
}

bool LineReader::Next(std::string_view& line) {
  size_t searched = 0;  // of the bytes from begin_
  size_t end = std::string::npos;
  bool ended = false;
  while (!ended && (end = buffer_.find('\n', begin_ + searched)) == std::string::npos) {
    searched = buffer_.size() - begin_;
    if (searched > most_) break;
    ended = !Fill();
  }
  const size_t length = (end == std::string::npos ? buffer_.size() : end) - begin_;
  if (ended && length == 0) return false;
  position_ = next_;
  if (length > most_) {
    throw Error(fmt::format("\"{}\", line {}: the line is longer than {}; is this a table of text?",
                            path(), position_.line,
                            report::FormatBytes(static_cast<double>(most_))));
  }
  line = std::string_view(buffer_).substr(begin_, length);
  const size_t taken = ended ? length : length + 1;
  begin_ += taken;
  ++next_.line;
  next_.offset += static_cast<int64_t>(taken);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return true;
}

}  // namespace cosformer::data
