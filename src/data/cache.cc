#include "data/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "cosformer/error.h"
#include "data/task.h"
#include "formats/json.h"

namespace cosformer::data {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Two independent 32-bit sums: enough for the name of a directory, whose prepared.json is compared
// in full.
std::string Digest(const std::string& text) {
  const auto* bytes = reinterpret_cast<const Bytef*>(text.data());
  return fmt::format("{:08x}{:08x}", crc32_z(0, bytes, text.size()),
                     adler32_z(1, bytes, text.size()));
}

// A descriptor of a directory, closed at the end. Locks are its.
class DirectoryHandle {
 public:
  explicit DirectoryHandle(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}
  ~DirectoryHandle() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  DirectoryHandle(const DirectoryHandle&) = delete;
  DirectoryHandle& operator=(const DirectoryHandle&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  // Whether it was locked. Some network file systems can't.
  bool Lock(int how) const {
    int result;
    do {
      result = flock(descriptor_, how);
    } while (result != 0 && errno == EINTR);
    return result == 0;
  }
  // Whether the directory of that name is still this one.
  bool IsAt(const std::string& path) const {
    struct stat own, there;
    return fstat(descriptor_, &own) == 0 && stat(path.c_str(), &there) == 0 &&
           own.st_ino == there.st_ino && own.st_dev == there.st_dev;
  }
  void Touch() const { (void)futimens(descriptor_, nullptr); }  // a cache may be read-only
  int Release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

// The task of a directory whose name is one of CachedPath().
std::optional<std::string> TaskOfName(const std::string& name) {
  constexpr size_t kDigits = 16;
  if (name.size() < kDigits + 2 || name[name.size() - kDigits - 1] != '-') return std::nullopt;
  if (name.find_first_not_of("0123456789abcdef", name.size() - kDigits) != std::string::npos) {
    return std::nullopt;
  }
  const std::string task = name.substr(0, name.size() - kDigits - 1);
  const bool known = std::any_of(Tasks().begin(), Tasks().end(),
                                 [&](const auto& one) { return one->description().name == task; });
  return known ? std::optional(task) : std::nullopt;
}

// Whether a file of a set has that name, or one that was not finished.
bool IsFileOfSet(const std::string& name) {
  constexpr const char* kNames[] = {kPrepared,      "tokenizer.model", "tokenizer.json",
                                    "train.tokens", "valid.tokens",    "test.tokens"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const std::string known) {
    return name == known || (name.starts_with(known + ".") && name.ends_with(".partial"));
  });
}

// The set in a directory of the cache; none where it holds anything else.
std::optional<CachedSet> SetAt(const fs::path& directory) {
  const std::optional<std::string> task = TaskOfName(directory.filename().string());
  struct stat status;
  if (!task || lstat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return {};
  CachedSet set{.path = directory.string(), .task = *task, .used = {}};
  set.used = std::chrono::system_clock::from_time_t(status.st_mtim.tv_sec);
  std::error_code error;
  bool ours = false;  // a tokenizer alone may be anybody's
  for (fs::directory_iterator file(directory, error); !error && file != fs::directory_iterator();
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    ours = ours || !name.starts_with("tokenizer.") || name.ends_with(".partial");
    if (!IsFileOfSet(name) || lstat(file->path().c_str(), &status) != 0 ||
        !S_ISREG(status.st_mode)) {
      return {};
    }
    set.bytes += status.st_size;
  }
  if (error || !ours) return {};
  return set;
}

}  // namespace

std::string CacheDirectory(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return (fs::path(cache) / "cosformer").string();
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return (fs::path(home) / ".cache" / "cosformer").string();
  }
  throw Error(
      "there is no place for prepared data: neither XDG_CACHE_HOME nor HOME is set; give "
      "--cache DIRECTORY");
}

std::string CachedPath(const std::string& cache, const std::string& task,
                       const std::string& made_of) {
  return (fs::path(cache) / fmt::format("{}-{}", task, Digest(made_of))).string();
}

json FileStamp(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    throw Error(fmt::format("cannot read \"{}\": {}", path, std::strerror(errno)));
  }
  return {fs::absolute(path).string(), status.st_size,
          static_cast<int64_t>(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec};
}

CacheUse::CacheUse(const std::string& directory) {
  for (;;) {
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) {
      throw Error(fmt::format("cannot make the directory \"{}\" for prepared data: {}", directory,
                              error.message()));
    }
    DirectoryHandle handle(directory);
    // Unlocked, it can't be removed by this program either, which removes what it can lock.
    if (handle.is_open() && handle.Lock(LOCK_SH) && !handle.IsAt(directory)) continue;
    if (handle.is_open()) handle.Touch();
    descriptor_ = handle.Release();
    return;
  }
}

CacheUse::~CacheUse() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::vector<CachedSet> CachedSets(const std::string& cache) {
  std::vector<CachedSet> sets;
  std::error_code error;
  for (fs::directory_iterator entry(cache, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (std::optional<CachedSet> set = SetAt(entry->path())) sets.push_back(std::move(*set));
  }
  std::sort(sets.begin(), sets.end(), [](const CachedSet& a, const CachedSet& b) {
    return std::tie(a.used, a.path) < std::tie(b.used, b.path);
  });
  return sets;
}

std::string WhyUseless(const CachedSet& set) {
  const fs::path directory = set.path;
  std::error_code none;
  if (!fs::exists(directory / kPrepared, none)) return "it was never finished";
  json made_from;
  try {
    const json object = ReadJsonFile((directory / kPrepared).string());
    made_from = object.is_object() ? object.value("made_from", json()) : json();
  } catch (const Error&) {
  }
  if (!made_from.is_object() || made_from.value("format", json()) != kPreparedFormat ||
      !made_from.contains("sources") || !made_from["sources"].is_object()) {
    return "it is damaged, or of another version";
  }
  for (const json& split : made_from["sources"]) {
    for (const json& stamp : split) {
      if (!stamp.is_array() || stamp.empty() || !stamp[0].is_string()) {
        return "it is damaged, or of another version";
      }
      const std::string path = stamp[0];
      // A name that is no UTF-8 stands there with replacement characters.
      if (path.find("\xEF\xBF\xBD") != std::string::npos) continue;
      try {
        if (FileStamp(path) != stamp) return fmt::format("\"{}\" has changed", path);
      } catch (const Error&) {
        return fmt::format("\"{}\" is gone", path);
      }
    }
  }
  return "";
}

bool IsUsed(const CachedSet& set) {
  const DirectoryHandle handle(set.path);
  return handle.is_open() && !handle.Lock(LOCK_EX | LOCK_NB);
}

bool RemoveCached(const CachedSet& set) {
  const fs::path directory = set.path;
  const DirectoryHandle handle(set.path);
  if (!handle.is_open() || !handle.Lock(LOCK_EX | LOCK_NB) || !handle.IsAt(set.path)) return false;
  // What it holds now, as long as nobody else may change it.
  if (!SetAt(directory)) return false;
  std::error_code error;
  // First what makes it whole: stopped half-way, it is one that was never finished.
  fs::remove(directory / kPrepared, error);
  if (!error) fs::remove_all(directory, error);
  if (error) {
    throw Error(fmt::format("cannot remove \"{}\" from the cache of prepared data: {}", set.path,
                            error.message()));
  }
  return true;
}

std::vector<CachedSet> ShrinkCache(const std::string& cache, int64_t most_bytes) {
  std::vector<CachedSet> sets = CachedSets(cache);
  int64_t bytes = 0;
  for (const CachedSet& set : sets) bytes += set.bytes;
  if (bytes <= most_bytes) return {};
  std::stable_partition(sets.begin(), sets.end(),
                        [](const CachedSet& set) { return !WhyUseless(set).empty(); });
  std::vector<CachedSet> removed;
  for (const CachedSet& set : sets) {
    if (bytes <= most_bytes) break;
    if (!RemoveCached(set)) continue;
    bytes -= set.bytes;
    removed.push_back(set);
  }
  return removed;
}

}  // namespace cosformer::data
