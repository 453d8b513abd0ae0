// Writes a set of generated examples: made by several threads, in the same order whatever their
// number, no example twice, all files of the set or none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cosformer::data {

// Called now and then with the number of examples that are written and of all that will be. What it
// throws ends the generation, and nothing is left behind.
using GenerationProgress = std::function<void(int64_t done, int64_t total)>;

struct GeneratedSet {
  struct Part {
    std::string file;
    int64_t examples = 0;
  };
  std::string directory;  // made if it is not there
  std::vector<Part> parts;
  std::string header;  // the beginning of each file
  int threads = 0;     // 0: all
};

// `make(index)` returns the bytes of one example and depends on nothing but the index; several
// threads call it. Throws Error when a file can't be written or when, again and again, an example
// is one that was there before.
void WriteGeneratedSet(const GeneratedSet& set,
                       const std::function<std::string(int64_t index)>& make,
                       const GenerationProgress& progress);

}  // namespace cosformer::data
