// Threads by OpenMP, as in the operator. Other programs may run beside this one, so every limit is
// the best of many short runs; a sample is one run.
#include "bench/machine.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "bench/machine_kernels.h"
#include "bench/memory.h"
#include "cosformer/attention.h"
#include "cosformer/error.h"
#include "report/clock.h"

namespace cosformer::bench {
namespace {

using report::Clock;
using report::SecondsSince;

// So that the compiler can't drop the work that led to it.
void Use(float result) {
  volatile float sink = result;
  static_cast<void>(sink);
}

// The highest amount a second over runs of `run`, which does its work on `threads` threads and
// returns the amount. Runs last a few milliseconds, beside which starting the threads is nothing.
template <class Run>
double BestRate(double seconds, Run run) {
  constexpr int kLeastRuns = 3;
  double best = 0;
  const auto start = Clock::now();
  for (int runs = 0; runs < kLeastRuns || SecondsSince(start) < seconds; ++runs) {
    const auto run_start = Clock::now();
    const double amount = run();
    best = std::max(best, amount / SecondsSince(run_start));
  }
  return best;
}

// One run of one to two milliseconds; returns the operations done.
double RunMultiplyAdds(int threads) {
  constexpr size_t kIterations = 400'000;
  double operations = 0;
  float results = 0;
#pragma omp parallel num_threads(threads) reduction(+ : operations, results)
  {
    float result = 0;
    operations += MultiplyAdds(kIterations, &result);
    results += result;
  }
  Use(results);
  return operations;
}

double MeasureMultiplyAdds(int threads, double seconds) {
  return 1e-9 * BestRate(seconds, [threads] { return RunMultiplyAdds(threads); });
}

// Pages that are mapped, and as few of them as the system can do with: the limit is that of the
// memory, not of address translation.
class Buffer {
 public:
  explicit Buffer(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) {
      throw Error(fmt::format("cannot allocate {} bytes to measure the machine's memory", bytes));
    }
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { munmap(data_, bytes_); }

  float* floats() const { return static_cast<float*>(data_); }
  Bytes bytes() const { return {static_cast<const uint8_t*>(data_), bytes_}; }

 private:
  size_t bytes_;
  void* data_;
};

// The part of `bytes` that belongs to a thread, in whole cache lines.
struct Part {
  size_t begin, end;
};

Part PartOf(size_t bytes, int thread, int threads) {
  constexpr size_t kLine = 64;
  const size_t lines = bytes / kLine;
  const auto t = static_cast<size_t>(thread);
  const auto of = static_cast<size_t>(threads);
  return {lines * t / of * kLine, lines * (t + 1) / of * kLine};
}

// Each thread writes what it will read: memory lies near the core that first touches it.
void Fill(const Buffer& buffer, int threads) {
#pragma omp parallel num_threads(threads)
  {
    const Part part = PartOf(buffer.bytes().size(), omp_get_thread_num(), omp_get_num_threads());
    std::fill(buffer.floats() + part.begin / sizeof(float),
              buffer.floats() + part.end / sizeof(float), 1.0f);
  }
}

// One run over all of it, each thread its part of every piece; returns the bytes read.
double RunReads(std::span<const Bytes> pieces, int threads) {
  double bytes = 0;
  unsigned results = 0;
#pragma omp parallel num_threads(threads) reduction(+ : bytes, results)
  for (const Bytes& piece : pieces) {
    const Part part = PartOf(piece.size(), omp_get_thread_num(), omp_get_num_threads());
    results += ReadAll(piece.data() + part.begin, part.end - part.begin);
    bytes += static_cast<double>(part.end - part.begin);
  }
  Use(static_cast<float>(results));
  return bytes;
}

double MeasureReads(const Buffer& buffer, int threads, double seconds) {
  const Bytes all = buffer.bytes();
  return 1e-9 * BestRate(seconds, [&all, threads] { return RunReads({&all, 1}, threads); });
}

double MeasureUpdates(int64_t update_bytes, int threads, double seconds) {
  const size_t count = std::max<size_t>(static_cast<size_t>(update_bytes) / sizeof(float), 16);
  // Some 100 MB a run: milliseconds in cache.
  const size_t sweeps = std::max<size_t>(1, (size_t{25} << 20) / count);
  // The padding keeps the threads' buffers off each other's cache lines and pages.
  const size_t step = (count + 2047) / 1024 * 1024;
  const Buffer buffer(static_cast<int64_t>(step * static_cast<size_t>(threads) * sizeof(float)));
  return 1e-9 * BestRate(seconds, [&] {
           double bytes = 0;
#pragma omp parallel num_threads(threads) reduction(+ : bytes)
           {
             float* data = buffer.floats() + step * static_cast<size_t>(omp_get_thread_num());
             for (size_t i = 0; i < sweeps; ++i) UpdateAll(data, count);
             bytes += 2.0 * static_cast<double>(sweeps * count * sizeof(float));
           }
           return bytes;
         });
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "unknown CPU";
}

int64_t LastCacheBytes() {
  for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    const long bytes = sysconf(level);
    if (bytes > 0) return bytes;
  }
  return 0;
}

// Four times the last-level cache, so that at most a quarter of the reads is served by it, within
// what the machine can spare and what can be filled and read in the time given.
int64_t ReadBytes(int64_t last_cache_bytes, double seconds) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const int64_t wanted = std::clamp(4 * last_cache_bytes, 512 * kMiB, 1024 * kMiB);
  const int64_t affordable =
      std::max<int64_t>(static_cast<int64_t>(seconds / 0.25 * 1024) * kMiB, 16 * kMiB);
  const int64_t spare = std::max<int64_t>(AvailableMemory() / 4, kMiB);
  return std::min({wanted, affordable, spare}) / kMiB * kMiB;
}

}  // namespace

int AllThreads() { return omp_get_num_procs(); }

Machine DescribeMachine(const std::vector<int>& thread_counts, int64_t update_bytes,
                        double seconds) {
  Machine machine;
  machine.cpu = CpuName();
  machine.target = AttentionTarget();
  machine.threads = AllThreads();
  machine.last_cache_bytes = LastCacheBytes();
  machine.read_bytes = ReadBytes(machine.last_cache_bytes, seconds);
  machine.update_bytes = update_bytes;
  machine.limits[1] = machine.limits[machine.threads] = {};
  for (const int threads : thread_counts) machine.limits[threads] = {};
  return machine;
}

double SampleReads(std::span<const Bytes> pieces, int threads) {
  const auto start = Clock::now();
  const double bytes = RunReads(pieces, threads);
  return 1e-9 * bytes / SecondsSince(start);
}

double SampleMultiplyAdds(int threads) {
  const auto start = Clock::now();
  const double operations = RunMultiplyAdds(threads);
  return 1e-9 * operations / SecondsSince(start);
}

void MeasureLimits(Machine& machine, double seconds, report::Progress& progress) {
  // Idle cores sleep and run slowly at first.
  progress.Show("measuring the machine: warming up");
  MeasureMultiplyAdds(machine.threads, std::min(seconds, 0.2));

  const Buffer buffer(machine.read_bytes);
  Fill(buffer, machine.threads);
  Limits fewer_threads;
  for (auto& [threads, limits] : machine.limits) {
    const auto show = [&, count = threads](const char* what) {
      progress.Show(fmt::format("measuring the machine: {}, {} thread{}", what, count,
                                count == 1 ? "" : "s"));
    };
    // More threads can always do what fewer did.
    const auto improve = [](double& limit, double fewer, double measured) {
      limit = std::max({limit, fewer, measured});
    };
    show("FMA peak");
    improve(limits.fma_gflops, fewer_threads.fma_gflops, MeasureMultiplyAdds(threads, seconds));
    show("memory");
    improve(limits.read_gbps, fewer_threads.read_gbps, MeasureReads(buffer, threads, seconds));
    show("cache");
    improve(limits.update_gbps, fewer_threads.update_gbps,
            MeasureUpdates(machine.update_bytes, threads, seconds));
    fewer_threads = limits;
  }
}

}  // namespace cosformer::bench
