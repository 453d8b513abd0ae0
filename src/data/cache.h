// The cache of prepared data: a directory with one for every set, as prepare.h describes them. A
// process holds the set that it uses; the others may be removed by anyone, and are made again when
// they are wanted.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cosformer::data {

inline constexpr const char* kPrepared = "prepared.json";
inline constexpr int64_t kPreparedFormat = 1;

// `given`, or cosformer in $XDG_CACHE_HOME, or in ~/.cache.
std::string CacheDirectory(const std::string& given);

// The directory of a set in the cache, which is named after its task and what it is made of.
std::string CachedPath(const std::string& cache, const std::string& task,
                       const std::string& made_of);

// By which one sees whether a file has changed: its path, size and time, as make goes by them.
nlohmann::json FileStamp(const std::string& path);

// Keeps a set from being removed as long as it lives, and notes that it was used now.
class CacheUse {
 public:
  // Makes the directory if it is missing, and waits for whoever is removing it.
  explicit CacheUse(const std::string& directory);
  ~CacheUse();
  CacheUse(const CacheUse&) = delete;
  CacheUse& operator=(const CacheUse&) = delete;

 private:
  int descriptor_ = -1;
};

struct CachedSet {
  std::string path;
  std::string task;
  int64_t bytes = 0;
  std::chrono::system_clock::time_point used;  // for the last time
};

// The sets in the cache, longest unused first. What is not made by this program, or holds anything
// that is not, is not among them.
std::vector<CachedSet> CachedSets(const std::string& cache);

// Why nobody can use it any more; empty: it can be used. Looks at all files that it was made of.
std::string WhyUseless(const CachedSet& set);

// Whether a process is using it; one that can't be locked counts as used.
bool IsUsed(const CachedSet& set);

// Whether it is gone now: not while a process uses it. Throws Error where it cannot be removed.
bool RemoveCached(const CachedSet& set);

// Removes sets until the rest takes no more than `most_bytes`: those that nobody can use first,
// then the longest unused. Tells which.
std::vector<CachedSet> ShrinkCache(const std::string& cache, int64_t most_bytes);

}  // namespace cosformer::data
