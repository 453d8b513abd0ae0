#include "formats/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cosformer/error.h"

namespace cosformer {
namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& why) {
  throw Error(fmt::format("cannot read \"{}\": {}", path, why));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  // Opening a pipe for reading waits for a writer, unless told otherwise.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) Fail(path, std::strerror(errno));
  struct stat status;
  std::string problem;
  if (fstat(descriptor, &status) != 0) {
    problem = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    problem = S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file";
  } else if (status.st_size == 0) {
    problem = "the file is empty";
  } else {
    size_ = static_cast<size_t>(status.st_size);
    data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data_ == MAP_FAILED) problem = std::strerror(errno);
  }
  close(descriptor);
  if (!problem.empty()) Fail(path, problem);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace cosformer
