// Want of memory: an error that says how much was wanted, and what a program then ends with, so
// that who started it need not search what it wrote.
#pragma once

#include <cstddef>

#include "cosformer/error.h"

namespace cosformer::report {

inline constexpr int kOutOfMemoryExit = 3;

class OutOfMemory : public Error {
 public:
  // There was no room for a block of so many bytes.
  explicit OutOfMemory(size_t bytes);
};

}  // namespace cosformer::report
