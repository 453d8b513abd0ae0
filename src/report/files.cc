#include "report/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cosformer/error.h"

namespace cosformer::report {

// Where the bytes go: the end of a chain of links, so that renaming does not replace the link.
struct FilePlace {
  std::string path;
  bool exists = false;
  bool regular = true;
  mode_t mode = 0;  // of the file that is there
};

namespace {

[[noreturn]] void Fail(const std::string& path, int error_number) {
  throw Error(fmt::format("cannot write \"{}\": {}", path, std::strerror(error_number)));
}

FilePlace FindPlace(const std::string& path) {
  if (path.empty()) throw Error("cannot write a file without a name: give a path");
  FilePlace place{.path = path};
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    // A dangling link also ends here; renaming then replaces the link, which is what is wanted.
    if (errno != ENOENT) Fail(path, errno);
    return place;
  }
  if (S_ISDIR(status.st_mode)) Fail(path, EISDIR);
  place.exists = true;
  place.regular = S_ISREG(status.st_mode);
  place.mode = status.st_mode & 07777;
  // Renaming needs no permission on the file itself, but a file made read-only is meant to stay.
  if (access(path.c_str(), W_OK) != 0) Fail(path, errno);
  if (place.regular) {
    std::error_code error;
    place.path = std::filesystem::canonical(path, error).string();
    if (error) Fail(path, error.value());
  }
  return place;
}

void WriteAll(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      Fail(path, errno);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

// A new file beside the place, removed again unless it was moved into it.
class FileWriter::Beside {
 public:
  Beside(const std::string& path, FilePlace place)
      : path_(path),
        place_(std::move(place)),
        temporary_(fmt::format("{}.{}-{}.partial", place_.path, getpid(), NextNumber())),
        // Not O_EXCL: what is there was left by a process of the same number that was killed.
        descriptor_(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) Fail(path_, errno);
    if (place_.exists) fchmod(descriptor_, place_.mode);
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  ~Beside() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!moved_) unlink(temporary_.c_str());
  }

  void Write(std::string_view bytes) { WriteAll(descriptor_, bytes, path_); }

  void MoveIntoPlace() {
    // Without it, a power cut after the rename can leave an empty file under the final name.
    if (fsync(descriptor_) != 0) Fail(path_, errno);
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (close(descriptor) != 0) Fail(path_, errno);
    if (std::rename(temporary_.c_str(), place_.path.c_str()) != 0) Fail(path_, errno);
    moved_ = true;
  }

 private:
  // Threads of one process may write the same file.
  static int NextNumber() {
    static std::atomic<int> number = 0;
    return number++;
  }

  std::string path_;
  FilePlace place_;
  std::string temporary_;
  int descriptor_;
  bool moved_ = false;
};

FileWriter::FileWriter(const std::string& path) {
  FilePlace place = FindPlace(path);
  if (!place.regular) {
    throw Error(fmt::format("cannot write \"{}\": it is not a regular file", path));
  }
  beside_ = std::make_unique<Beside>(path, std::move(place));
}
FileWriter::FileWriter(FileWriter&&) noexcept = default;
FileWriter& FileWriter::operator=(FileWriter&&) noexcept = default;
FileWriter::~FileWriter() = default;

void FileWriter::Write(std::string_view bytes) { beside_->Write(bytes); }
void FileWriter::Commit() { beside_->MoveIntoPlace(); }

void CheckWritable(const std::string& path) {
  if (FindPlace(path).regular) FileWriter writer(path);
}

void WriteFile(const std::string& path, std::string_view contents) {
  WriteFile(path, std::span(&contents, 1));
}

void WriteFile(const std::string& path, std::span<const std::string_view> parts) {
  if (FindPlace(path).regular) {
    FileWriter writer(path);
    for (const std::string_view part : parts) writer.Write(part);
    writer.Commit();
    return;
  }
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) Fail(path, errno);
  try {
    for (const std::string_view part : parts) WriteAll(descriptor, part, path);
  } catch (...) {
    close(descriptor);
    throw;
  }
  if (close(descriptor) != 0) Fail(path, errno);
}

}  // namespace cosformer::report
