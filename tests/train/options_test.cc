// What no run can have is refused by the name of its option.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cosformer/error.h"
#include "train/trainer.h"

namespace cosformer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(TrainOptionsTest, TheDefaultsAndTheLimitsAreTaken) {
  TrainOptions options;
  CheckOptions(options);
  options.warmup = -1;
  options.final_share = 0;
  options.smoothing = options.clip = options.adamw.beta1 = options.adamw.weight_decay = 0;
  options.length = 2;
  options.minutes = 1e8;
  CheckOptions(options);
}

TEST(TrainOptionsTest, ImpossibleValuesAreRefusedByTheirOption) {
  struct Case {
    const char* sentence;
    std::function<void(TrainOptions&)> set;
  };
  const std::vector<Case> cases = {
      {"--steps is -1; it must be at least 1", [](auto& o) { o.steps = -1; }},
      {"--minutes is -1", [](auto& o) { o.minutes = -1; }},
      {"--minutes is 1e+300; it must be more than 0 and below 1e9",
       [](auto& o) { o.minutes = 1e300; }},
      {"--epochs is 0", [](auto& o) { o.epochs = 0; }},
      {"--epochs is nan", [](auto& o) { o.epochs = NAN; }},
      {"--length is 1; it must be at least 2 tokens", [](auto& o) { o.length = 1; }},
      {"--batch-tokens is 0; it must be at least 1", [](auto& o) { o.batch_tokens = 0; }},
      {"--accumulate is 0", [](auto& o) { o.accumulate = 0; }},
      {"--accumulate is 1000000000000", [](auto& o) { o.accumulate = 1'000'000'000'000; }},
      {"--masked is 2; it must be between 0 and 1", [](auto& o) { o.masked = 2; }},
      {"--masked is 0", [](auto& o) { o.masked = 0; }},
      {"--lr is nan", [](auto& o) { o.adamw.lr = NAN; }},
      {"--lr is inf", [](auto& o) { o.adamw.lr = kInfinity; }},
      {"--warmup is -5; it must be a number of steps, or -1", [](auto& o) { o.warmup = -5; }},
      {"--final-lr is 2; it must be from 0 to 1", [](auto& o) { o.final_share = 2; }},
      {"--power is -1", [](auto& o) { o.power = -1; }},
      {"--beta1 is 1", [](auto& o) { o.adamw.beta1 = 1; }},
      {"--beta2 is -0.5", [](auto& o) { o.adamw.beta2 = -0.5; }},
      {"--epsilon is inf", [](auto& o) { o.adamw.epsilon = kInfinity; }},
      {"--weight-decay is nan", [](auto& o) { o.adamw.weight_decay = NAN; }},
      {"--clip is -1", [](auto& o) { o.clip = -1; }},
      {"--smoothing is 1", [](auto& o) { o.smoothing = 1; }},
      {"--eval-every is -1", [](auto& o) { o.eval_every = -1; }},
      {"--eval-tokens is -1; it must be at least 0", [](auto& o) { o.eval_tokens = -1; }},
      {"--test-tokens is -1", [](auto& o) { o.test_tokens = -1; }},
      {"--save-every is -1", [](auto& o) { o.save_every = -1; }},
      {"--keep is 0", [](auto& o) { o.keep = 0; }},
      {"--patience is -1", [](auto& o) { o.patience = -1; }},
  };
  for (const Case& c : cases) {
    TrainOptions options;
    c.set(options);
    std::string sentence;
    try {
      CheckOptions(options);
    } catch (const Error& error) {
      sentence = error.what();
    }
    EXPECT_TRUE(sentence.starts_with(c.sentence)) << c.sentence << ": " << sentence;
  }
}

}  // namespace
}  // namespace cosformer
