// AdamW against torch's own in double precision, and what it does not decay.
#include "train/adamw.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cosformer/error.h"
#include "model/model.h"

namespace cosformer {
namespace {

using torch::Tensor;

TEST(AdamWTest, StepsAsTorchsOwn) {
  torch::manual_seed(1);
  for (const double clip : {0.0, 0.5}) {
    const Tensor start = torch::randn({7, 5});
    Tensor ours = start.clone().requires_grad_();
    Tensor theirs = start.to(torch::kFloat64).requires_grad_();
    AdamW optimiser({{{ours}}}, {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.98, .weight_decay = 0.1});
    torch::optim::AdamW other(
        {theirs}, torch::optim::AdamWOptions(1e-2).betas({0.9, 0.98}).eps(1e-8).weight_decay(0.1));
    for (int step = 0; step < 20; ++step) {
      const Tensor direction = torch::randn({7, 5});
      (ours * direction).sum().backward();
      (theirs * direction.to(torch::kFloat64)).sum().backward();
      const double length = optimiser.ClipGradients(clip);
      EXPECT_NEAR(length, direction.norm().item<double>(), 1e-5 * length);
      if (clip > 0) torch::nn::utils::clip_grad_norm_({theirs}, clip);
      optimiser.Step();
      optimiser.ZeroGradients();
      other.step();
      other.zero_grad();
    }
    EXPECT_EQ(optimiser.steps(), 20);
    EXPECT_LT((ours.to(torch::kFloat64) - theirs).abs().max().item<double>(), 2e-5) << clip;
  }
}

TEST(AdamWTest, ParametersWithoutGradientStay) {
  Tensor used = torch::ones({3}).requires_grad_(), unused = torch::ones({3}).requires_grad_();
  AdamW optimiser({{{used, unused}}}, {});
  used.sum().backward();
  optimiser.Step(0.1);
  EXPECT_FALSE(used.equal(torch::ones({3})));
  EXPECT_TRUE(unused.equal(torch::ones({3})));
}

TEST(AdamWTest, RestoredItStepsToTheBitAsIfItHadNeverStopped) {
  torch::manual_seed(2);
  const auto advance = [](AdamW& optimiser, Tensor& parameter, const Tensor& direction) {
    (parameter * direction).sum().backward();
    optimiser.Step();
    optimiser.ZeroGradients();
  };
  Tensor parameter = torch::randn({4, 3}).requires_grad_();
  const Tensor before = torch::randn({4, 3}), after = torch::randn({4, 3});
  AdamW optimiser({{{parameter}}}, {.lr = 1e-2});
  advance(optimiser, parameter, before);

  Tensor copy = parameter.detach().clone().requires_grad_();
  AdamW restored({{{copy}}}, {.lr = 1e-2});
  restored.Restore(1,
                   {{optimiser.moments()[0].mean.clone(), optimiser.moments()[0].square.clone()}});
  EXPECT_EQ(restored.steps(), 1);
  advance(optimiser, parameter, after);
  advance(restored, copy, after);
  EXPECT_TRUE(copy.equal(parameter));
}

TEST(AdamWTest, MomentsOfOtherParametersAreRefused) {
  Tensor first = torch::ones({2, 3}).requires_grad_(), second = torch::ones({4}).requires_grad_();
  AdamW optimiser({{{first}}, {{second}}}, {});
  (first.sum() + second.sum()).backward();
  optimiser.Step();
  const std::vector<AdamW::Moments> own = optimiser.moments();
  ASSERT_EQ(own.size(), 2u);
  const auto expect_refused = [&](const std::vector<AdamW::Moments>& moments, const char* what) {
    EXPECT_THROW(optimiser.Restore(9, moments), Error) << what;
    EXPECT_EQ(optimiser.steps(), 1) << what;
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_TRUE(optimiser.moments()[i].mean.is_same(own[i].mean)) << what;
      EXPECT_TRUE(optimiser.moments()[i].square.is_same(own[i].square)) << what;
    }
  };
  const AdamW::Moments fits = {torch::zeros({4}), torch::zeros({4})};
  expect_refused({own[0]}, "one too few");
  expect_refused({own[0], fits, fits}, "one too many");
  expect_refused({fits, own[0]}, "in another order");
  expect_refused({own[0], {torch::zeros({5}), torch::zeros({4})}}, "another mean");
  expect_refused({own[0], {torch::zeros({4}), torch::zeros({1, 4})}}, "another square");
  expect_refused({own[0], {torch::zeros({4}, torch::kFloat64), torch::zeros({4})}}, "in double");
  expect_refused({{torch::zeros({3, 2}).t(), own[0].square}, fits}, "not contiguous");
  expect_refused({own[0], {Tensor(), torch::zeros({4})}}, "half of it");
  expect_refused({own[0], {torch::zeros({4}), Tensor()}}, "the other half");

  optimiser.Restore(9, {own[0], {Tensor(), Tensor()}});  // a parameter without a gradient so far
  EXPECT_EQ(optimiser.steps(), 9);
  EXPECT_FALSE(optimiser.moments()[1].mean.defined());
}

TEST(AdamWTest, OnlyMatricesOfProductsDecay) {
  for (const SystemDescription& system : AttentionSystems()) {
    const bool causal = system.abilities.causal;
    nlohmann::json attention = {{"system", system.name}};
    if (system.name == "cosformer") attention["normaliser"] = "norm";
    Model model(ParseConfig({{"model", causal ? "decoder" : "encoder"},
                             {"vocabulary", 11},
                             {"width", 16},
                             {"layers", 1},
                             {"heads", 4},
                             {"max_length", 32},
                             {"attention", attention},
                             {"positions", system.name == "linear" ? "spe-conv" : "learned"}},
                            "test"));
    const std::vector<ParameterGroup> groups = GroupsOf(*model);
    size_t count = 0;
    for (const ParameterGroup& group : groups) count += group.parameters.size();
    EXPECT_EQ(count, model->parameters().size());
    const auto decays = [&](const std::string& name) {
      const Tensor parameter = model->named_parameters()[name];
      for (const Tensor& other : groups[0].parameters) {
        if (other.is_same(parameter)) return true;
      }
      return false;
    };
    EXPECT_TRUE(groups[0].decay);
    EXPECT_FALSE(groups[1].decay);
    for (const auto& item : model->named_parameters()) {
      const std::string& name = item.key();
      const bool matrix = name.ends_with("weight") && !name.ends_with("norm.weight");
      if (matrix || name.ends_with("tokens")) {
        EXPECT_TRUE(decays(name)) << system.name << " " << name;
      } else if (!name.ends_with("projection")) {
        EXPECT_FALSE(decays(name)) << system.name << " " << name;
      }
    }
  }
}

}  // namespace
}  // namespace cosformer
