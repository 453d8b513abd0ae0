// The machine's limits are measured; how high they are is the machine's affair.
#include "bench/machine.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "bench/machine_kernels.h"
#include "bench/memory.h"

namespace cosformer::bench {
namespace {

TEST(MachineTest, LimitsArePositiveForOneThreadAllThreadsAndThoseAsked) {
  report::Progress progress;
  Machine machine = DescribeMachine({1}, 100'000, 0.001);
  MeasureLimits(machine, 0.001, progress);
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_FALSE(machine.target.empty());
  EXPECT_EQ(machine.threads, AllThreads());
  EXPECT_GT(machine.read_bytes, 0);
  for (const int threads : {1, machine.threads}) {
    const Limits& limits = machine.For(threads);
    for (const double limit : {limits.fma_gflops, limits.read_gbps, limits.update_gbps}) {
      EXPECT_GT(limit, 0);
      EXPECT_TRUE(std::isfinite(limit));
    }
  }
  EXPECT_GE(machine.For(machine.threads).fma_gflops, machine.For(1).fma_gflops);
}

TEST(MachineTest, MeasuringAgainNeverLowersALimit) {
  report::Progress progress;
  Machine machine = DescribeMachine({1}, 1000, 0.001);
  machine.limits[1].fma_gflops = 1e9;
  MeasureLimits(machine, 0.001, progress);
  EXPECT_EQ(machine.For(1).fma_gflops, 1e9);
}

TEST(MachineTest, KernelsTouchEveryElementAtEveryLength) {
  std::array<uint8_t, 4200> bytes;  // two rounds of four streams of eight vectors, and some
  std::mt19937 random(1);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  uint8_t expected = 0;
  for (size_t count = 0; count < bytes.size(); expected ^= bytes[count++]) {
    EXPECT_EQ(ReadAll(bytes.data(), count), expected) << count;
  }
  alignas(64) float data[300];
  for (size_t count = 0; count <= 300; ++count) {
    for (float& x : data) x = 3;
    UpdateAll(data, count);
    for (size_t i = 0; i < 300; ++i) EXPECT_EQ(data[i], i < count ? 2 : 3);
  }
  float sink = 0;
  EXPECT_GT(MultiplyAdds(100, &sink), 0);
  EXPECT_GT(sink, 0);
}

TEST(MachineTest, SamplesAreRates) {
  const std::vector<uint8_t> numbers(1 << 16);
  const std::vector<Bytes> pieces = {Bytes(numbers), {}, Bytes(numbers).first(100)};
  for (const int threads : {1, 2}) {
    EXPECT_GT(SampleReads(pieces, threads), 0);
    EXPECT_GT(SampleMultiplyAdds(threads), 0);
  }
}

TEST(MachineTest, PeakMemoryNoticesWhatWasAllocatedAndFreed) {
  constexpr size_t kBytes = size_t{64} << 20;
  const PeakMemory memory;
  {
    const auto block = std::make_unique<char[]>(kBytes);
    // Volatile: a compiler may leave out memory that nobody looks at.
    volatile char* touched = block.get();
    for (size_t i = 0; i < kBytes; i += 4096) touched[i] = 1;
  }
  const auto rise = memory.Rise();
  if (!rise) GTEST_SKIP() << "this system does not let a process reset its peak";
  EXPECT_GT(*rise, static_cast<int64_t>(kBytes) * 9 / 10);
  EXPECT_GT(AvailableMemory(), 0);
}

}  // namespace
}  // namespace cosformer::bench
