// What the operator allocates, counted by this program's own operator new: never anything of size
// N^2 or N * dim * value_dim.
#include <gtest/gtest.h>

#include "counted_memory.h"
#include "problem.h"

namespace cosformer::testing {
namespace {

struct Peaks {
  int64_t forward, backward;
};

template <class System>
Peaks PeaksOf(int64_t length, int64_t heads, bool causal, int threads) {
  Case c = SelfAttention(length, 64, causal);
  c.heads = c.kv_heads = heads;
  c.threads = threads;
  Problem<System> p(c);
  Peaks peaks{};
  peaks.forward = PeakBytes([&] {
    System::Forward(p.q.view(), p.k.view(), p.v.view(), p.o.view(), p.Sums(),
                    System::OptionsOf(p.c));
  });
  peaks.backward = PeakBytes([&] {
    System::Backward(p.q.view(), p.k.view(), p.v.view(), p.o.view(), p.Sums(), p.d_o.view(),
                     p.dq.view(), p.dk.view(), p.dv.view(), System::OptionsOf(p.c));
  });
  return peaks;
}

template <class System>
class MemoryTest : public ::testing::Test {};
using Systems = ::testing::Types<Linear, Softmax>;
TYPED_TEST_SUITE(MemoryTest, Systems);

TYPED_TEST(MemoryTest, GrowsByAFewFloatsATokenAndHead) {
  const int64_t shorter = 1024, longer = 3072;
  for (const int64_t heads : {1, 4}) {
    for (const bool causal : {true, false}) {
      for (const int threads : {1, 2, 3}) {
        const Peaks few = PeaksOf<TypeParam>(shorter, heads, causal, threads);
        const Peaks many = PeaksOf<TypeParam>(longer, heads, causal, threads);
        const int64_t tokens = (longer - shorter) * heads;
        SCOPED_TRACE(::testing::Message() << heads << " heads, " << (causal ? "" : "not ")
                                          << "causal, " << threads << " threads");
        // The backward pass keeps two floats; lists of tasks may take as much again. A copy of the
        // keys would take 64, a row of scores 3072.
        EXPECT_LE(many.forward - few.forward, tokens * 2 * 4);
        EXPECT_LE(many.backward - few.backward, tokens * 4 * 4);
      }
    }
  }
}

TEST(LinearMemoryTest, IsOfStatesAndChunks) {
  const int64_t state = 2 * 64 * (64 + 2 * 16) * 4;
  for (const int threads : {1, 2}) {
    const Peaks peaks = PeaksOf<Linear>(4096, 1, true, threads);
    // States and chunks of each thread and, where they share one sequence, a window of 32 chunks.
    const int64_t most = threads * 8 * state + (threads > 1 ? 32 * state : 0);
    EXPECT_LE(peaks.forward, most) << threads << " threads";
    EXPECT_LE(peaks.backward, most + 4096 * 2 * 4) << threads << " threads";
  }
}

}  // namespace
}  // namespace cosformer::testing
