// Evaluation is the mean over all that a set asks for, of a model that is left as it was; carried
// along a text, it is one pass over the whole.
#include "train/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cosformer/error.h"
#include "formats/folder.h"
#include "train/objective.h"
#include "train/tiny_model.h"
#include "train/training_state.h"

namespace cosformer {
namespace {

using data::Objective;
using nlohmann::json;
using testing::TinyModel;

class EvaluateTest : public testing::FolderTest {
 protected:
  // One text of `tokens` random tokens.
  data::Dataset Text(int64_t tokens, uint64_t seed = 1) const {
    Random random(seed);
    std::vector<int32_t> text(static_cast<size_t>(tokens));
    for (int32_t& token : text) token = static_cast<int32_t>(random.Below(95));
    return testing::MakeDataset(Path("text"), {{text}});
  }
};

TEST_F(EvaluateTest, TheMeanIsOverAllThatIsToBePredicted) {
  for (const Objective objective : {Objective::kCausal, Objective::kMasked, Objective::kClassify,
                                    Objective::kRetrieve, Objective::kTranslate}) {
    const bool pairs = objective == Objective::kRetrieve || objective == Objective::kTranslate;
    const bool classes = objective == Objective::kClassify || objective == Objective::kRetrieve;
    const data::Dataset set = testing::RandomTexts(Path("texts"), 15, pairs ? 2 : 1, 2);
    json config = {{"model", std::string(Name(KindFor(objective)))}};
    if (classes) config["classes"] = 3;
    if (objective == Objective::kTranslate) config["cross_attention"] = "softmax";
    if (!classes) config["loss"] = "one-vs-each";  // which evaluation is not made of
    Model model = TinyModel(config);
    for (const bool packing : {false, true}) {
      const data::BatchOptions options = testing::OptionsFor(objective, 40, packing);
      const data::Batches batches(set, options);
      const data::Batches::Plan plan = batches.PlanOf(0);
      testing::NaiveLoss naive;
      size_t blocks = 0;  // those in which nothing is to be predicted are left out
      for (int64_t b = 0; b < plan.batches(); ++b) {
        const data::Batch batch = batches.Make(plan, b);
        testing::AddNaively(*model, batch, objective, 0, false, naive);
        blocks += batch.Targets() > 0;
      }
      const std::string what = std::string(Name(KindFor(objective))) + (packing ? " packed" : "");
      const Evaluation evaluation = Evaluate(*model, set, options, 0);
      EXPECT_EQ(evaluation.Predictions(), naive.counted) << what;
      EXPECT_NEAR(evaluation.Loss(), naive.Mean(), testing::LossTolerance()) << what;
      EXPECT_EQ(evaluation.LossSum() / static_cast<double>(naive.counted), evaluation.Loss());
      EXPECT_EQ(evaluation.correct, naive.correct) << what;
      EXPECT_EQ(evaluation.Accuracy(),
                static_cast<double>(naive.correct) / static_cast<double>(naive.counted));
      ASSERT_EQ(evaluation.losses.size(), blocks) << what;
      EXPECT_EQ(evaluation.counts.size(), evaluation.losses.size());
      if (objective == Objective::kCausal) {
        EXPECT_EQ(naive.counted, set.tokens() - 1);
      } else if (classes) {
        EXPECT_EQ(naive.counted, set.examples());
      }
    }
  }
}

TEST_F(EvaluateTest, PaddedAndPackedHaveOneMean) {
  const data::Dataset set = testing::RandomTexts(Path("texts"), 40, 1, 3);
  Model model = TinyModel({{"model", "encoder"}, {"classes", 3}});
  const auto evaluate = [&](bool packing) {
    return Evaluate(*model, set, testing::OptionsFor(Objective::kClassify, 50, packing), 0);
  };
  const Evaluation padded = evaluate(false), packed = evaluate(true);
  EXPECT_NE(padded.losses.size(), packed.losses.size()) << "they should differ in their batches";
  EXPECT_EQ(padded.correct, packed.correct);
  EXPECT_NEAR(padded.Loss(), packed.Loss(), testing::LossTolerance());
}

TEST_F(EvaluateTest, ALimitTakesBatchesSpreadOverTheSet) {
  const data::Dataset set = Text(321);
  Model model = TinyModel(json::object());
  const data::BatchOptions options = testing::OptionsFor(Objective::kCausal, 16, false);
  const Evaluation all = Evaluate(*model, set, options, 0);
  ASSERT_EQ(all.losses.size(), 20u);
  for (const auto& [limit, taken] : std::vector<std::pair<int64_t, size_t>>{
           {1, 1}, {16, 1}, {17, 2}, {80, 5}, {300, 19}, {320, 20}, {100000, 20}}) {
    const Evaluation some = Evaluate(*model, set, options, limit);
    ASSERT_EQ(some.losses.size(), taken) << limit;
    for (size_t i = 0; i < taken; ++i) {
      EXPECT_EQ(some.losses[i], all.losses[i * 20 / taken]) << limit << " batch " << i;
    }
    EXPECT_EQ(some.Predictions(), static_cast<int64_t>(16 * taken));
  }
}

TEST_F(EvaluateTest, StretchesAreOfTheTextWhateverTheWindows) {
  const data::Dataset set = Text(321);
  Model model = TinyModel(json::object());
  for (const int64_t stride : {0, 8, 5}) {
    data::BatchOptions options = testing::OptionsFor(Objective::kCausal, 48, false);
    options.stride = stride;
    const Evaluation plain = Evaluate(*model, set, options, 0);
    // What every token adds; what follows token i is in block i.
    const Evaluation single = EvaluateStretches(*model, set, options, 0, 1);
    ASSERT_EQ(single.counts, std::vector<double>(320, 1)) << stride;
    EXPECT_NEAR(single.Loss(), plain.Loss(), testing::LossTolerance()) << stride;
    EXPECT_EQ(single.correct, plain.correct) << stride;
    const Evaluation blocks = EvaluateStretches(*model, set, options, 0, 23);
    ASSERT_EQ(blocks.losses.size(), 14u);
    for (size_t block = 0; block < 14; ++block) {
      const size_t begin = 23 * block, end = std::min<size_t>(320, begin + 23);
      double sum = 0;
      for (size_t i = begin; i < end; ++i) sum += single.losses[i];
      EXPECT_EQ(blocks.counts[block], static_cast<double>(end - begin)) << stride;
      EXPECT_NEAR(blocks.losses[block], sum, 23 * testing::LossTolerance()) << stride;
    }
    ASSERT_EQ(plain.predicted.size(), 1u) << stride;
    EXPECT_EQ(plain.predicted[0].begin, 1);
    EXPECT_EQ(plain.predicted[0].end, 321);
  }
  // Of 7 batches of 48 tokens, the first and the fourth.
  const Evaluation some =
      EvaluateStretches(*model, set, testing::OptionsFor(Objective::kCausal, 48, false), 90, 48);
  EXPECT_EQ(some.counts, (std::vector<double>{48, 0, 0, 48, 0, 0, 0}));
  EXPECT_EQ(some.part, 2.0 / 7);
  ASSERT_EQ(some.predicted.size(), 2u);
  EXPECT_EQ(some.predicted[1].begin, 145);
  EXPECT_EQ(some.predicted[1].end, 193);
}

TEST_F(EvaluateTest, NothingIsShuffled) {
  const data::Dataset set = Text(321);
  Model model = TinyModel(json::object());
  data::BatchOptions options = testing::OptionsFor(Objective::kCausal, 16, false);
  const Evaluation plain = Evaluate(*model, set, options, 0);
  options.shuffle = true;
  options.seed = 7;
  EXPECT_EQ(Evaluate(*model, set, options, 0).losses, plain.losses);
}

TEST_F(EvaluateTest, TheModelIsJudgedWithoutDropoutAndLeftAsItWas) {
  const data::Dataset set = Text(50);
  const data::BatchOptions options = testing::OptionsFor(Objective::kCausal, 32, false);
  Model model = TinyModel({{"dropout", 0.5}, {"attention", "performer"}});
  model->eval();
  const Evaluation expected = Evaluate(*model, set, options, 0);
  EXPECT_FALSE(model->is_training());
  EXPECT_EQ(EvaluateCarried(*model, set, 7).losses.size(), 7u);
  EXPECT_FALSE(model->is_training());

  model->train();
  std::vector<torch::Tensor> buffers;
  for (const torch::Tensor& buffer : model->buffers()) buffers.push_back(buffer.clone());
  const torch::Tensor random = TorchRandomState();
  EXPECT_EQ(Evaluate(*model, set, options, 0).losses, expected.losses);
  const Evaluation carried = EvaluateCarried(*model, set, 7);
  EXPECT_EQ(EvaluateCarried(*model, set, 7).losses, carried.losses);
  for (const auto& module : model->modules()) EXPECT_TRUE(module->is_training());
  EXPECT_TRUE(TorchRandomState().equal(random));
  for (size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(model->buffers()[i].equal(buffers[i]));
  for (const torch::Tensor& parameter : model->parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST_F(EvaluateTest, AnErrorLeavesTheModelTrainingToo) {
  const data::Dataset set = Text(100);
  Model model = TinyModel({{"vocabulary", 50}});
  model->train();
  EXPECT_THROW(Evaluate(*model, set, testing::OptionsFor(Objective::kCausal, 32, false), 0), Error);
  EXPECT_TRUE(model->is_training());
  EXPECT_THROW(EvaluateCarried(*model, set, 8), Error);
  EXPECT_TRUE(model->is_training());
}

TEST_F(EvaluateTest, ProgressGoesFromTheFirstBatchToOne) {
  const data::Dataset set = Text(61);
  Model model = TinyModel(json::object());
  std::vector<double> seen;
  const auto note = [&](double done) { seen.push_back(done); };
  Evaluate(*model, set, testing::OptionsFor(Objective::kCausal, 16, false), 0, note);
  EXPECT_EQ(seen, (std::vector<double>{0.25, 0.5, 0.75, 1}));
  seen.clear();
  EvaluateCarried(*model, set, 24, note);
  EXPECT_EQ(seen, (std::vector<double>{0.4, 0.8, 1}));
}

TEST_F(EvaluateTest, CarriedAlongATextItIsOnePassOverTheWhole) {
  uint64_t seed = 5;
  for (const char* system : {"cosformer", "linear", "softmax"}) {
    for (const char* positions : {"learned", "rotary"}) {
      Model model = TinyModel({{"attention", system}, {"positions", positions}}, ++seed);
      for (const int64_t tokens : {2, 40, 64}) {
        const data::Dataset set = Text(tokens, ++seed);
        data::BatchOptions options = testing::OptionsFor(Objective::kCausal, 64, false);
        options.length = 64;
        const Evaluation whole = Evaluate(*model, set, options, 0);
        ASSERT_EQ(whole.losses.size(), 1u);
        for (const int64_t chunk : {1, 3, 7, 16, 38, 39, 40, 1000}) {
          const Evaluation carried = EvaluateCarried(*model, set, chunk);
          const std::string what = std::string(system) + " " + positions + " " +
                                   std::to_string(tokens) + " by " + std::to_string(chunk);
          EXPECT_EQ(carried.Predictions(), tokens - 1) << what;
          EXPECT_EQ(carried.correct, whole.correct) << what;
          EXPECT_EQ(carried.losses.size(), static_cast<size_t>((tokens - 2 + chunk) / chunk));
          EXPECT_NEAR(carried.Loss(), whole.Loss(), testing::LossTolerance()) << what;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cosformer
