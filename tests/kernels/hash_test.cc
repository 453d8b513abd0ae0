#include "kernels/hash.h"

#include <gtest/gtest.h>

namespace cosformer {
namespace {

// Names of files and states of texts depend on them: they are what they always were.
TEST(Hash, Fnv1aIsThePublishedOne) {
  EXPECT_EQ(Fnv1a().value(), 0xcbf29ce484222325u);
  EXPECT_EQ(Fnv1a().Add("a").value(), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(Fnv1a().Add("foobar").value(), 0x85944171f73967e8u);
  EXPECT_EQ(Fnv1a().Add("foo").Add("bar").value(), 0x85944171f73967e8u);
}

TEST(Hash, MixingIsSplitMix64) {
  uint64_t state = 1234567;
  EXPECT_EQ(Mix(state += kMixStep), 6457827717110365317u);
  EXPECT_EQ(Mix(state += kMixStep), 3203168211198807973u);
  EXPECT_EQ(MixNext(1234567), 6457827717110365317u);
}

}  // namespace
}  // namespace cosformer
