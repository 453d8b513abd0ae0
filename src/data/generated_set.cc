#include "data/generated_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <unordered_set>

#include "base/parallel.h"
#include "cosformer/error.h"
#include "kernels/hash.h"
#include "report/files.h"
#include "report/units.h"

namespace cosformer::data {
namespace {

// Examples that are made before they are written: enough to keep threads busy, and some 10 MB.
constexpr int64_t kBlock = 1024;
// At the end of a set, some more than it needs: not one by one where many are repeated.
constexpr int64_t kLeastBlock = 64;
// More than any disk has room for.
constexpr int64_t kMostExamples = 1'000'000'000'000;
// This many repeated examples in a row mean that hardly a new one is left.
constexpr int64_t kMostRepeats = 10'000;

struct Example {
  std::string bytes;
  // Two different examples of equal hash, 1 in 10^9 sets of 200,000, would cost one of them and
  // nothing else.
  uint64_t hash = 0;
};

// Examples first .. first + size - 1.
void MakeBlock(const std::function<std::string(int64_t)>& make, int threads, int64_t first,
               std::vector<Example>& block) {
  ParallelFor(static_cast<int64_t>(block.size()), threads, [&](int64_t i) {
    Example& example = block[static_cast<size_t>(i)];
    example.bytes = make(first + i);
    example.hash = Fnv1a().Add(example.bytes).value();
  });
}

void MakeDirectory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw Error(fmt::format("cannot make the directory \"{}\": {}", directory, error.message()));
  }
}

// Hands over examples in the order of their index, each but once.
class Examples {
 public:
  Examples(const std::function<std::string(int64_t)>& make, int threads, int64_t wanted)
      : make_(make), threads_(threads), wanted_(wanted) {}

  const std::string& Next() {
    for (int64_t repeats = 0; repeats < kMostRepeats; ++repeats) {
      if (next_ == block_.size()) {
        block_.resize(static_cast<size_t>(std::clamp(wanted_ - Found(), kLeastBlock, kBlock)));
        MakeBlock(make_, threads_, made_, block_);
        made_ += static_cast<int64_t>(block_.size());
        next_ = 0;
      }
      const Example& example = block_[next_++];
      if (seen_.insert(example.hash).second) return example.bytes;
    }
    throw Error(
        fmt::format("after {} different examples, {} in a row were there before; ask for fewer "
                    "examples or larger ones",
                    report::FormatInteger(Found()), report::FormatInteger(kMostRepeats)));
  }

 private:
  int64_t Found() const { return static_cast<int64_t>(seen_.size()); }

  const std::function<std::string(int64_t)>& make_;
  int threads_;
  int64_t wanted_;
  int64_t made_ = 0;
  std::vector<Example> block_;
  size_t next_ = 0;
  std::unordered_set<uint64_t> seen_;
};

}  // namespace

void WriteGeneratedSet(const GeneratedSet& set,
                       const std::function<std::string(int64_t index)>& make,
                       const GenerationProgress& progress) {
  int64_t total = 0;
  for (const auto& [file, examples] : set.parts) {
    if (examples < 1 || examples > kMostExamples) {
      throw Error(fmt::format("cannot generate {} examples for \"{}\": give 1 to {}", examples,
                              file, report::FormatInteger(kMostExamples)));
    }
    total += examples;
  }
  if (set.threads < 0) {
    throw Error(fmt::format("cannot use {} threads: give their number, or 0 for all", set.threads));
  }

  MakeDirectory(set.directory);
  std::vector<report::FileWriter> writers;
  for (const auto& part : set.parts) {
    writers.emplace_back((std::filesystem::path(set.directory) / part.file).string());
  }

  Examples examples(make, ThreadsOr(set.threads), total);
  int64_t done = 0;
  for (size_t part = 0; part < writers.size(); ++part) {
    writers[part].Write(set.header);
    std::string buffer;
    const int64_t end = done + set.parts[part].examples;
    while (done < end) {
      buffer.clear();
      const int64_t stop = std::min(end, done + kBlock);
      for (; done < stop; ++done) buffer += examples.Next();
      writers[part].Write(buffer);
      if (progress) progress(done, total);
    }
  }
  for (report::FileWriter& writer : writers) writer.Commit();
}

}  // namespace cosformer::data
