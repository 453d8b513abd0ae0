#include "formats/read_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cosformer/error.h"

namespace cosformer {

std::string ReadFile(const std::string& path, size_t most_bytes) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    throw Error(fmt::format("cannot read \"{}\": {}", path, std::strerror(errno)));
  }
  std::string text;
  size_t size = 0;
  while (size <= most_bytes) {
    if (size == text.size()) {
      text.resize(std::min(most_bytes + 1, std::max<size_t>(65536, 2 * size)));
    }
    const ssize_t part = read(descriptor, text.data() + size, text.size() - size);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) {
      const int error_number = errno;
      close(descriptor);
      throw Error(fmt::format("cannot read \"{}\": {}", path, std::strerror(error_number)));
    }
    if (part == 0) break;
    size += static_cast<size_t>(part);
  }
  close(descriptor);
  if (size > most_bytes) {
    throw Error(
        fmt::format("\"{}\" is larger than {} MB: is it the right file?", path, most_bytes >> 20));
  }
  text.resize(size);
  return text;
}

}  // namespace cosformer
