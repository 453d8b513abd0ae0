#include "report/out_of_memory.h"

#include <fmt/format.h>

#include "report/units.h"

namespace cosformer::report {

OutOfMemory::OutOfMemory(size_t bytes)
    : Error(
          fmt::format("out of memory: there is no room for another {}; take shorter texts, smaller "
                      "batches or a smaller model",
                      FormatBytes(static_cast<double>(bytes)))) {}

}  // namespace cosformer::report
