// The runtime against the libtorch model that it was trained as: the same logits for every
// configuration that both have, from the same files.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "formats/task_card.h"
#include "model/model_files.h"
#include "runtime/parameters.h"
#include "support.h"

namespace cosformer::runtime::testing {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

class Directory {
 public:
  Directory() {
    std::string name = (fs::temp_directory_path() / "cosformer_runtime_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Directory() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

cosformer::Model MakeTorch(const ModelConfig& config) {
  torch::manual_seed(1);
  cosformer::Model model(config);
  torch::NoGradGuard no_grad;
  for (Tensor& parameter : model->parameters()) {
    // Logits of order one, and every gain and bias away from one and zero.
    parameter.add_((parameter.dim() == 1 ? 0.2 : 0.1) * torch::randn_like(parameter));
  }
  model->eval();
  return model;
}

Tensor AsTensor(std::span<const int32_t> tokens) {
  return torch::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()), torch::kInt64)
      .unsqueeze(0);
}

std::vector<float> Numbers(const Tensor& tensor) {
  const Tensor flat = tensor.contiguous().flatten();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

constexpr double kTolerance = 1e-4;

class Torch : public ::testing::TestWithParam<nlohmann::json> {};
INSTANTIATE_TEST_SUITE_P(Decoders, Torch, ::testing::ValuesIn(DecoderConfigs()));

TEST_P(Torch, GivesTheLogitsOfTheRuntime) {
  torch::NoGradGuard no_grad;
  const Directory directory;
  cosformer::Model trained = MakeTorch(SmallConfig(GetParam()));
  SaveModel(*trained, directory.path());
  const Model model = Model::Load(directory.path());
  const std::vector<int32_t> tokens = RandomTokens(80, 2);
  const std::vector<float> expected = Numbers(trained->Logits(trained->Encode(AsTensor(tokens))));
  Session session(model);
  std::vector<float> logits = session.FeedAll(std::span(tokens).first(61));
  for (size_t i = 61; i < tokens.size(); ++i) {
    const std::vector<float> row = session.FeedAll(std::span(tokens).subspan(i, 1));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  EXPECT_LE(Difference(logits, expected), kTolerance) << GetParam();
  EXPECT_EQ(model.parameters(), trained->ParameterCount());
}

std::vector<nlohmann::json> EncoderConfigs() {
  std::vector<nlohmann::json> configs = DecoderConfigs();
  // A gate is causal.
  std::erase_if(configs, [](const nlohmann::json& config) {
    return config.dump().find("-gate") != std::string::npos;
  });
  for (nlohmann::json& config : configs) config["model"] = "encoder";
  return configs;
}

class TorchEncoder : public ::testing::TestWithParam<nlohmann::json> {};
INSTANTIATE_TEST_SUITE_P(, TorchEncoder, ::testing::ValuesIn(EncoderConfigs()));

TEST_P(TorchEncoder, GivesTheLogitsOfTheRuntime) {
  torch::NoGradGuard no_grad;
  const Directory directory;
  cosformer::Model trained = MakeTorch(SmallConfig(GetParam()));
  SaveModel(*trained, directory.path());
  const Model model = Model::Load(directory.path());
  const std::vector<int32_t> tokens = RandomTokens(77, 2);
  const std::vector<float> hidden = model.network().Encode(tokens);
  std::vector<float> logits(77 * 29);
  model.network().Logits(hidden.data(), 77, logits.data());
  EXPECT_LE(Difference(logits, Numbers(trained->Logits(trained->Encode(AsTensor(tokens))))),
            kTolerance)
      << GetParam();
}

TEST(TorchClassifier, GivesTheScoresOfTheRuntimeForEveryPool) {
  torch::NoGradGuard no_grad;
  for (const char* pool : {"mean", "first", "last"}) {
    const Directory directory;
    cosformer::Model trained =
        MakeTorch(SmallConfig({{"model", "encoder"}, {"classes", 3}, {"pool", pool}}));
    SaveModel(*trained, directory.path());
    const Model model = Model::Load(directory.path());
    const std::vector<int32_t> tokens = RandomTokens(50, 3);
    const std::vector<float> scores = model.network().Classify(model.network().Encode(tokens));
    EXPECT_LE(Difference(scores, Numbers(trained->Classify(AsTensor(tokens)))), kTolerance) << pool;
    // The likeliest first, and all of them together certain.
    const std::vector<Prediction> predictions = model.Classify(tokens);
    double sum = 0;
    for (const Prediction& one : predictions) sum += std::exp(one.log_probability);
    EXPECT_NEAR(sum, 1, 1e-6);
    EXPECT_EQ(predictions[0].token,
              std::max_element(scores.begin(), scores.end()) - scores.begin());
  }
}

TEST(TorchTwoTower, GivesTheScoresOfTheRuntime) {
  torch::NoGradGuard no_grad;
  const Directory directory;
  cosformer::Model trained = MakeTorch(SmallConfig({{"model", "two-tower"}, {"classes", 2}}));
  SaveModel(*trained, directory.path());
  const Model model = Model::Load(directory.path());
  const std::vector<int32_t> first = RandomTokens(50, 3), second = RandomTokens(31, 4);
  const Network& network = model.network();
  EXPECT_LE(Difference(network.Classify(network.Encode(first), network.Encode(second)),
                       Numbers(trained->Classify(AsTensor(first), AsTensor(second)))),
            kTolerance);
}

TEST(TorchImages, GiveTheScoresOfTheRuntime) {
  torch::NoGradGuard no_grad;
  for (const char* kind : {"pixels", "patches"}) {
    nlohmann::json input = {{"kind", kind}, {"height", 8}, {"width", 12}, {"channels", 3}};
    if (std::string(kind) == "patches") input["patch"] = 4;
    nlohmann::json json = {{"model", "encoder"}, {"classes", 4}, {"input", input},
                           {"width", 24},        {"heads", 4},   {"layers", 2},
                           {"max_length", 96},   {"hidden", 40}};
    const ModelConfig config = ParseConfig(json, "test");
    const Directory directory;
    cosformer::Model trained = MakeTorch(config);
    SaveModel(*trained, directory.path());
    const Model model = Model::Load(directory.path());
    const Tensor image = torch::randint(256, {1, 8 * 12 * 3}, torch::kUInt8);
    const std::span<const uint8_t> pixels(image.data_ptr<uint8_t>(), 8 * 12 * 3);
    EXPECT_LE(Difference(model.network().Classify(model.network().EncodePixels(pixels)),
                         Numbers(trained->Classify(image))),
              kTolerance)
        << kind;
  }
}

}  // namespace
}  // namespace cosformer::runtime::testing
