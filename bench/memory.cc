#include "bench/memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace cosformer::bench {
namespace {

// The value of a line "Name:   123 kB" in bytes.
std::optional<int64_t> ReadKilobytes(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t kilobytes = 0;
    if (word == name + ":" && file >> kilobytes) return kilobytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

std::optional<int64_t> ReadNumber(const char* path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number) return number;  // "max" is no number
  return std::nullopt;
}

// Writing 5 sets the peak (VmHWM) back to what is resident now.
bool ResetPeak() {
  const int descriptor = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool done = write(descriptor, "5", 1) == 1;
  close(descriptor);
  return done;
}

}  // namespace

int64_t AvailableMemory() {
  int64_t available =
      ReadKilobytes("/proc/meminfo", "MemAvailable").value_or(std::numeric_limits<int64_t>::max());
  const auto limit = ReadNumber("/sys/fs/cgroup/memory.max");
  const auto used = ReadNumber("/sys/fs/cgroup/memory.current");
  if (limit && used) available = std::min(available, std::max<int64_t>(0, *limit - *used));
  return available;
}

void RefuseMoreThanAvailable() {
  const int64_t used = ReadKilobytes("/proc/self/status", "VmData").value_or(0);
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(used + AvailableMemory()));
  setrlimit(RLIMIT_DATA, &limit);
}

PeakMemory::PeakMemory() {
  malloc_trim(0);
  if (ResetPeak()) resident_ = ReadKilobytes("/proc/self/status", "VmRSS");
}

std::optional<int64_t> PeakMemory::Rise() const {
  const auto peak = Peak();
  if (!peak) return std::nullopt;
  return std::max<int64_t>(0, *peak - *resident_);
}

std::optional<int64_t> PeakMemory::Peak() const {
  if (!resident_) return std::nullopt;
  return ReadKilobytes("/proc/self/status", "VmHWM");
}

}  // namespace cosformer::bench
