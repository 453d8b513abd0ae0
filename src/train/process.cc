#include "train/process.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/process.h"
#include "report/out_of_memory.h"

namespace cosformer {
namespace {

// Set in the environment of the second start, so that there is no third.
constexpr const char* kPrepared = "COSFORMER_PREPARED";

// OpenBLAS's own functions, where the BLAS is OpenBLAS.
template <class Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

std::string BlasCore() {
  auto* core = Find<char*()>("openblas_get_corename");
  return core == nullptr ? "" : core();
}

// The kernels that this CPU can run, where OpenBLAS picked older ones: a version of it that is
// older than the CPU does not know its model number and falls back to SSE.
const char* BetterCore() {
#if defined(__x86_64__)
  const std::string core = BlasCore();
  const bool old = core == "Prescott" || core == "Core2" || core == "Nehalem";
  if (!old) return nullptr;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

// libtorch's own allocator, but for what it throws.
class Allocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR == 1
  c10::DataPtr allocate(size_t bytes) const override { return Allocate(bytes); }
#else
  c10::DataPtr allocate(size_t bytes) override { return Allocate(bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return own_->raw_deleter(); }

 private:
  c10::DataPtr Allocate(size_t bytes) const {
    try {
      return own_->allocate(bytes);
    } catch (const c10::Error&) {
      throw report::OutOfMemory(bytes);
    }
  }

  c10::Allocator* own_ = c10::GetDefaultCPUAllocator();
};

}  // namespace

void PrepareProcess(char** argv) {
  static Allocator allocator;  // libtorch keeps a pointer to it
  c10::SetCPUAllocator(&allocator);
  if (std::getenv(kPrepared) != nullptr) return;
  setenv(kPrepared, "1", 1);
  // Up to 2^40 bytes stay with the process; huge pages by madvise.
  setenv("GLIBC_TUNABLES",
         "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:"
         "glibc.malloc.top_pad=67108864:glibc.malloc.hugetlb=1",
         0);
  if (const char* core = BetterCore()) setenv("OPENBLAS_CORETYPE", core, 0);
  BoundWaiting();
  Restart(argv);
}

int SetThreads(int threads) {
  if (threads <= 0) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    threads = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? std::max(1, CPU_COUNT(&cores)) : 1;
  }
  at::set_num_threads(threads);
  return threads;
}

std::string BlasComplaint() {
  const std::string core = BlasCore();
  if (core.empty()) {
    return "the BLAS under libtorch is not OpenBLAS, and the reference BLAS is some 50 times "
           "slower; "
           "install libopenblas0-openmp";
  }
  if (auto* parallel = Find<int()>("openblas_get_parallel");
      parallel != nullptr && parallel() == 1) {
    return "OpenBLAS is the build with its own threads, which get in the way of OpenMP's; install "
           "libopenblas0-openmp";
  }
  if (BetterCore() != nullptr) {
    return fmt::format(
        "OpenBLAS takes this CPU for a {} and runs at a fifth of its speed; set "
        "OPENBLAS_CORETYPE={}",
        core, BetterCore());
  }
  return "";
}

}  // namespace cosformer
