// What a session says that it holds is what it takes.
#include <gtest/gtest.h>

#include "counted_memory.h"
#include "tests/runtime/support.h"

namespace cosformer::runtime::testing {
namespace {

using cosformer::testing::BytesInUse;
using cosformer::testing::kCountsMemory;

TEST(SessionMemory, IsWhatTheSessionSays) {
  if (!kCountsMemory) GTEST_SKIP() << "a sanitizer has an operator new of its own";
  using nlohmann::json;
  for (const json& changes : {json{{"attention", "cosformer"}}, json{{"attention", "softmax"}},
                              json{{"attention", {"cosformer", "softmax"}}},
                              json{{"attention", "cosformer"}, {"positions", "rotary"}}}) {
    json config = changes;
    config["max_length"] = 4000;
    config["width"] = 96;
    const Model model = SmallModel(config);
    // What a pass computes with stays with the model, for the next one.
    Session(model, {.checkpoints = 0}).Feed(RandomTokens(100, 1));
    const int64_t before = BytesInUse();
    Session session(model, {.checkpoints = 8});
    for (int i = 0; i < 30; ++i) session.Feed(RandomTokens(100, 1));
    const auto held = static_cast<double>(BytesInUse() - before);
    // Beside the numbers: the objects around them, some hundred bytes a layer and checkpoint.
    EXPECT_GE(held, static_cast<double>(session.bytes())) << config;
    EXPECT_LE(held, static_cast<double>(session.bytes()) + 9 * 2 * 1000) << config;
  }
}

}  // namespace
}  // namespace cosformer::runtime::testing
