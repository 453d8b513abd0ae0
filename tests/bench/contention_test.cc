#include "bench/contention.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

namespace cosformer::bench {
namespace {

TEST(ContentionTest, ThreadsThatShareACoreWaitForIt) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);  // threads begin with it
  const Contention contention;
  std::atomic<int> left = 3;
  const auto work = [&] {
    volatile double sum = 0;
    for (int i = 0; i < 50'000'000; ++i) sum = sum + i;
    --left;
    while (left > 0) std::this_thread::yield();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(work);
  work();
  const std::optional<double> waited = contention.WaitedPart();
  for (std::thread& thread : threads) thread.join();
  sched_setaffinity(0, sizeof(before), &before);
  if (!waited) GTEST_SKIP() << "this kernel does not tell";
  EXPECT_GT(*waited, 0.3);
  EXPECT_LT(*waited, 1);
}

}  // namespace
}  // namespace cosformer::bench
