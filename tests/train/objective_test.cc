// The loss of a batch against the plain one, for every objective, padded and packed; and which
// models take which batches.
#include "train/objective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "cosformer/error.h"
#include "formats/folder.h"
#include "train/tiny_model.h"

namespace cosformer {
namespace {

using data::Objective;
using nlohmann::json;
using testing::TinyModel;
using torch::Tensor;

constexpr Objective kObjectives[] = {Objective::kCausal, Objective::kMasked, Objective::kClassify,
                                     Objective::kRetrieve, Objective::kTranslate};

json ConfigFor(Objective objective) {
  json config = {{"model", std::string(Name(KindFor(objective)))}};
  if (objective == Objective::kClassify || objective == Objective::kRetrieve) config["classes"] = 3;
  if (objective == Objective::kTranslate) config["cross_attention"] = "softmax";
  return config;
}

bool HasPairs(Objective objective) {
  return objective == Objective::kRetrieve || objective == Objective::kTranslate;
}

class ObjectiveTest : public testing::FolderTest {
 protected:
  data::Dataset Texts(Objective objective, uint64_t seed, int count = 12) const {
    return testing::RandomTexts(Path("texts"), count, HasPairs(objective) ? 2 : 1, seed);
  }

  // Every batch of a small set, by TrainingLoss and plainly.
  static void ExpectPlainLosses(Model& model, const data::Dataset& set,
                                const data::BatchOptions& options, double smoothing,
                                const std::string& what) {
    const bool one_vs_each = model->config().loss == LossKind::kOneVsEach;
    const data::Batches batches(set, options);
    const data::Batches::Plan plan = batches.PlanOf(0);
    ASSERT_GT(plan.batches(), 1) << what;
    int64_t counted = 0;
    for (int64_t b = 0; b < plan.batches(); ++b) {
      const data::Batch batch = batches.Make(plan, b);
      testing::NaiveLoss naive;
      testing::AddNaively(*model, batch, options.objective, smoothing, one_vs_each, naive);
      counted += naive.counted;
      const LossResult result = TrainingLoss(*model, batch, options.objective, smoothing);
      EXPECT_EQ(result.counted, naive.counted) << what;
      if (naive.counted == 0) {  // a short window without a mask
        EXPECT_EQ(result.loss.item<double>(), 0) << what;
        continue;
      }
      EXPECT_EQ(result.counted, batch.Targets()) << what;
      EXPECT_EQ(result.correct, one_vs_each ? -1 : naive.correct) << what;
      // One-vs-each is a sum over the vocabulary: its terms round as often, and are larger in sum.
      const double tolerance =
          testing::LossTolerance() * (one_vs_each ? std::max(1.0, naive.Mean() / 10) : 1);
      EXPECT_NEAR(result.loss.item<double>(), naive.Mean(), tolerance) << what << " batch " << b;
      EXPECT_TRUE(result.loss.requires_grad()) << what;

      testing::NaiveLoss entropy;
      testing::AddNaively(*model, batch, options.objective, 0, false, entropy);
      const LossResult evaluated = EvaluationLoss(*model, batch, options.objective);
      EXPECT_NEAR(evaluated.loss.item<double>(), entropy.Mean(), testing::LossTolerance()) << what;
      EXPECT_EQ(evaluated.correct, entropy.correct) << what;
      EXPECT_FALSE(evaluated.loss.requires_grad()) << what;
    }
    EXPECT_GT(counted, 10) << what;
  }
};

TEST_F(ObjectiveTest, TheKindOfModelFollowsFromTheObjective) {
  EXPECT_EQ(KindFor(Objective::kCausal), ModelKind::kDecoder);
  EXPECT_EQ(KindFor(Objective::kMasked), ModelKind::kEncoder);
  EXPECT_EQ(KindFor(Objective::kClassify), ModelKind::kEncoder);
  EXPECT_EQ(KindFor(Objective::kRetrieve), ModelKind::kTwoTower);
  EXPECT_EQ(KindFor(Objective::kTranslate), ModelKind::kEncoderDecoder);
}

TEST_F(ObjectiveTest, ABatchHasTheMeanLossOfItsTextsOneByOne) {
  uint64_t seed = 1;
  for (const Objective objective : kObjectives) {
    const data::Dataset set = Texts(objective, ++seed);
    for (const char* system : {"cosformer", "softmax", "linear"}) {
      json config = ConfigFor(objective);
      config["attention"] = system;
      Model model = TinyModel(config, ++seed);
      for (const bool packing : {false, true}) {
        ExpectPlainLosses(model, set, testing::OptionsFor(objective, 40, packing), 0.0,
                          std::string(Name(KindFor(objective))) + " of " + system +
                              (packing ? ", packed" : ", padded"));
      }
    }
  }
}

TEST_F(ObjectiveTest, SmoothedTargetsAreOfTrainingAlone) {
  for (const Objective objective : kObjectives) {
    const data::Dataset set = Texts(objective, 3);
    Model model = TinyModel(ConfigFor(objective));
    ExpectPlainLosses(model, set, testing::OptionsFor(objective, 40, true), 0.25,
                      std::string(Name(KindFor(objective))));
  }
}

TEST_F(ObjectiveTest, OneVsEachTrainsAndCrossEntropyJudges) {
  for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
    const data::Dataset set = Texts(objective, 4);
    json config = ConfigFor(objective);
    config["loss"] = "one-vs-each";
    Model model = TinyModel(config);
    ExpectPlainLosses(model, set, testing::OptionsFor(objective, 40, false), 0,
                      std::string(Name(KindFor(objective))));
  }
}

TEST_F(ObjectiveTest, PackedTextsBeginAtTheirFirstPosition) {
  const data::Dataset set = Texts(Objective::kClassify, 5);
  for (const char* positions : {"none", "learned", "sinusoidal", "rotary"}) {
    json config = ConfigFor(Objective::kClassify);
    config["positions"] = positions;
    Model model = TinyModel(config);
    ExpectPlainLosses(model, set, testing::OptionsFor(Objective::kClassify, 40, true), 0,
                      positions);
  }
}

// Translation is where one side may be full while the other is not.
TEST_F(ObjectiveTest, OneSideOfAPairMayBeFull) {
  std::vector<std::vector<std::vector<int32_t>>> even_sources, even_targets;
  for (int32_t i = 0; i < 4; ++i) {
    const std::vector<int32_t> full = {i, 5, 6}, ragged(static_cast<size_t>(i) + 1, 7);
    even_sources.push_back({full, ragged});
    even_targets.push_back({ragged, full});
  }
  for (const SystemDescription& system : AttentionSystems()) {
    if (!system.abilities.cross || !system.abilities.padding) continue;
    json config = ConfigFor(Objective::kTranslate);
    config["cross_attention"] = system.name;
    Model model = TinyModel(config);
    model->eval();  // random features are drawn anew in training
    for (const auto& texts : {even_sources, even_targets}) {
      const data::Dataset set = testing::MakeDataset(Path("pairs"), texts);
      ExpectPlainLosses(model, set, testing::OptionsFor(Objective::kTranslate, 14, false), 0,
                        system.name);
    }
  }
}

TEST_F(ObjectiveTest, AnEmptyTextCountsAlikePaddedAndPacked) {
  const data::Dataset set =
      testing::MakeDataset(Path("pairs"), {{{1, 2, 3}, {4, 5}}, {{}, {6}}, {{7}, {}}}, {0, 1, 2});
  Model model = TinyModel(ConfigFor(Objective::kRetrieve));
  double losses[2];
  for (const bool packing : {false, true}) {
    const data::Batches batches(set, testing::OptionsFor(Objective::kRetrieve, 1000, packing));
    const data::Batches::Plan plan = batches.PlanOf(0);
    ASSERT_EQ(plan.batches(), 1);
    const LossResult result = EvaluationLoss(*model, batches.Make(plan, 0), Objective::kRetrieve);
    EXPECT_EQ(result.counted, 3);
    losses[packing] = result.loss.item<double>();
  }
  EXPECT_TRUE(std::isfinite(losses[0]));
  EXPECT_NEAR(losses[0], losses[1], testing::LossTolerance());
}

// What lets a step be put together from several passes. Without masked texts: what is masked is
// drawn by the batch, so that parts and whole differ.
TEST_F(ObjectiveTest, GradientsOfPartsWeightedByTargetsAreThoseOfTheWhole) {
  for (const Objective objective :
       {Objective::kCausal, Objective::kClassify, Objective::kRetrieve, Objective::kTranslate}) {
    const data::Dataset set = Texts(objective, 6);
    for (const bool packing : {false, true}) {
      Model model = TinyModel(ConfigFor(objective));
      const auto gradients = [&](int64_t tokens, int64_t least_batches) {
        const data::Batches batches(set, testing::OptionsFor(objective, tokens, packing));
        const data::Batches::Plan plan = batches.PlanOf(0);
        EXPECT_GE(plan.batches(), least_batches);
        int64_t targets = 0;
        for (int64_t b = 0; b < plan.batches(); ++b) targets += batches.Make(plan, b).Targets();
        model->zero_grad(/*set_to_none=*/true);
        for (int64_t b = 0; b < plan.batches(); ++b) {
          const data::Batch batch = batches.Make(plan, b);
          const LossResult result = TrainingLoss(*model, batch, objective, /*smoothing=*/0.1);
          (result.loss * (static_cast<double>(result.counted) / static_cast<double>(targets)))
              .backward();
        }
        std::vector<Tensor> all;
        for (const Tensor& parameter : model->parameters()) all.push_back(parameter.grad().clone());
        return all;
      };
      const std::vector<Tensor> parts = gradients(40, 3), whole = gradients(100000, 1);
      double length = 0;
      for (const Tensor& gradient : whole) length += gradient.square().sum().item<double>();
      for (size_t i = 0; i < whole.size(); ++i) {
        EXPECT_LT((parts[i] - whole[i]).abs().max().item<double>(),
                  256 * std::numeric_limits<float>::epsilon() * std::sqrt(length))
            << model->named_parameters().keys()[i];
      }
    }
  }
}

TEST_F(ObjectiveTest, AModelPacksIfAllOfItsLayersDo) {
  for (const SystemDescription& system : AttentionSystems()) {
    ModelConfig config;
    config.attention = {SystemConfig{system.name}, SystemConfig{"cosformer"}};
    EXPECT_EQ(CanPack(config), system.abilities.packing) << system.name;
    std::swap(config.attention[0], config.attention[1]);
    EXPECT_EQ(CanPack(config), system.abilities.packing) << system.name;

    config.attention = {SystemConfig{"cosformer"}};
    config.cross_attention = SystemConfig{system.name};
    EXPECT_TRUE(CanPack(config)) << "without a decoder there is no cross attention";
    config.kind = ModelKind::kEncoderDecoder;
    EXPECT_EQ(CanPack(config), system.abilities.packing) << system.name;
  }
  ModelConfig images;
  images.attention = {SystemConfig{"cosformer"}};
  images.input = InputKind::kPixels;
  EXPECT_FALSE(CanPack(images));
}

TEST_F(ObjectiveTest, WhatCanPackTakesPackedBatchesAndNothingElseDoes) {
  const data::Dataset set = Texts(Objective::kClassify, 7, 5);
  const data::Batches batches(set, testing::OptionsFor(Objective::kClassify, 1000, true));
  const data::Batch batch = batches.Make(batches.PlanOf(0), 0);
  for (const SystemDescription& system : AttentionSystems()) {
    if (!system.abilities.bidirectional) continue;
    for (const char* positions : {"learned", "rotary", "spe-sine", "spe-conv"}) {
      json config = ConfigFor(Objective::kClassify);
      config["attention"] = system.name;
      config["positions"] = positions;
      std::optional<Model> model;
      try {
        model = TinyModel(config);
      } catch (const Error&) {
        continue;  // these positions are not for this system
      }
      const auto loss = [&] { TrainingLoss(**model, batch, Objective::kClassify, 0); };
      if (CanPack((*model)->config())) {
        EXPECT_NO_THROW(loss()) << system.name << ", " << positions;
      } else {
        EXPECT_THROW(loss(), Error) << system.name << ", " << positions;
      }
    }
  }
}

TEST_F(ObjectiveTest, ImagesComeAsTokensPixelsOrPatches) {
  Random random(8);
  std::vector<std::vector<std::vector<int32_t>>> images;
  std::vector<int32_t> labels;
  for (int i = 0; i < 5; ++i) {
    std::vector<int32_t> image(16);
    for (int32_t& pixel : image) pixel = static_cast<int32_t>(random.Below(256));
    images.push_back({image});
    labels.push_back(i % 3);
  }
  const data::Dataset set = testing::MakeDataset(Path("images"), images, labels, 256);
  data::BatchOptions options = testing::OptionsFor(Objective::kClassify, 1000, false);
  options.images = true;
  const data::Batches batches(set, options);
  const data::Batch batch = batches.Make(batches.PlanOf(0), 0);
  ASSERT_EQ(batch.input.length, 16);
  for (const std::string input : {"tokens", "pixels", "patches"}) {
    json config = {{"model", "encoder"}, {"classes", 3}, {"vocabulary", 256}};
    if (input != "tokens") {
      config["vocabulary"] = 0;
      config["input"] = {{"kind", input}, {"height", 4}, {"width", 4}};
      if (input == "patches") config["input"]["patch"] = 2;
    }
    Model model = TinyModel(config);
    testing::NaiveLoss naive;
    torch::NoGradGuard no_grad;
    for (int64_t i = 0; i < 5; ++i) {
      Tensor image = torch::tensor(images[static_cast<size_t>(i)][0], torch::kInt64);
      image = input == "tokens" ? image.view({1, 16})
                                : (image.to(torch::kFloat32) / 127.5 - 1).view({1, 4, 4, 1});
      naive.Add(model->Classify(image), {labels[static_cast<size_t>(i)]}, 0, false);
    }
    const LossResult result = EvaluationLoss(*model, batch, Objective::kClassify);
    EXPECT_NEAR(result.loss.item<double>(), naive.Mean(), testing::LossTolerance()) << input;
    EXPECT_EQ(result.correct, naive.correct) << input;
  }
}

}  // namespace
}  // namespace cosformer
