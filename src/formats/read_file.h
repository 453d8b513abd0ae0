// Files that come from outside, read whole with a limit on their size.
#pragma once

#include <cstddef>
#include <string>

namespace cosformer {

// Reads one byte more than `most_bytes` at most, whatever the file claims to be. Throws Error,
// naming the path, for files that are missing, directories or larger than that.
std::string ReadFile(const std::string& path, size_t most_bytes);

}  // namespace cosformer
