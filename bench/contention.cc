#include "bench/contention.h"

#include <filesystem>
#include <fstream>

namespace cosformer::bench {

std::optional<Contention::Times> Contention::Read() {
  Times times;
  bool any = false;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(thread.path() / "schedstat");
    int64_t ran = 0, waited = 0;
    if (!(file >> ran >> waited)) continue;  // it has ended, or the kernel has no such file
    times.ran += ran;
    times.waited += waited;
    any = true;
  }
  return any ? std::optional(times) : std::nullopt;
}

std::optional<double> Contention::WaitedPart() const {
  const std::optional<Times> now = Read();
  if (!begin_ || !now) return std::nullopt;
  const auto waited = static_cast<double>(now->waited - begin_->waited);
  const double all = waited + static_cast<double>(now->ran - begin_->ran);
  // Threads that have ended took their times with them.
  if (waited < 0 || all <= 0) return std::nullopt;
  return waited / all;
}

}  // namespace cosformer::bench
