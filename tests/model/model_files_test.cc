// A model saved and loaded is the same to the bit; one that does not fit is refused with everything
// that does not fit, and nothing is lost.
#include "model/model_files.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "formats/safetensors.h"

namespace cosformer {
namespace {

using nlohmann::json;
using torch::Tensor;
namespace fs = std::filesystem;

class ModelFilesTest : public ::testing::Test {
 protected:
  ModelFilesTest()
      : folder_((fs::temp_directory_path() / ("cosformer-model-" + std::to_string(getpid())))
                    .string()) {
    fs::remove_all(folder_);
  }
  ~ModelFilesTest() override { fs::remove_all(folder_); }

  std::string folder_;
};

Model Make(const json& changes) {
  json config = {
      {"vocabulary", 23}, {"width", 24}, {"layers", 2}, {"heads", 4}, {"max_length", 48}};
  config.update(changes);
  return Model(ParseConfig(config, "test"));
}

Tensor Tokens() { return torch::randint(23, {2, 30}, torch::kInt64); }

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

#define EXPECT_MENTIONS(sentence, word) \
  EXPECT_NE(std::string(sentence).find(word), std::string::npos) << sentence

TEST_F(ModelFilesTest, ALoadedModelGivesTheSameOutputsToTheBit) {
  // With buffers too: random features, hash seeds, positions.
  for (const json& config : std::vector<json>{
           json::object(),
           {{"attention", "performer"}},
           {{"attention", {"rfa-gate-gaussian", "reformer"}}},
           {{"attention", "linear"}, {"positions", "spe-conv"}},
           {{"model", "encoder"}, {"attention", {"bigbird", "linformer"}}},
           {{"model", "encoder"}, {"attention", {"synthesizer", "sinkhorn"}}, {"classes", 3}}}) {
    Model model = Make(config);
    model->eval();
    torch::NoGradGuard no_grad;
    const Tensor tokens = Tokens();
    const Tensor before = model->Encode(tokens);
    SaveModel(*model, folder_);
    Model loaded = LoadModel(folder_);
    loaded->eval();
    EXPECT_TRUE(loaded->Encode(tokens).equal(before)) << config;
    EXPECT_TRUE(loaded->config() == model->config());
  }
}

TEST_F(ModelFilesTest, ThePretrainedBodyLoadsUnderANewHead) {
  Model pretrained = Make({{"model", "encoder"}});
  SaveModel(*pretrained, folder_);
  Model tuned = Make({{"model", "encoder"}, {"classes", 3}});
  EXPECT_MENTIONS(ErrorOf([&] { LoadWeights(*tuned, folder_ + "/model.safetensors"); }),
                  "classes_weight is missing");
  const LoadReport report = LoadMatching(*tuned, folder_);
  EXPECT_EQ(report.kept, (std::vector<std::string>{"classes_bias", "classes_weight"}));
  EXPECT_EQ(report.unused, (std::vector<std::string>{"output_bias"}));
  EXPECT_TRUE(report.differ.empty());
  pretrained->eval();
  tuned->eval();
  const Tensor tokens = Tokens();
  EXPECT_TRUE(tuned->Encode(tokens).equal(pretrained->Encode(tokens)));
}

TEST_F(ModelFilesTest, EverythingThatDoesNotFitIsListedAtOnce) {
  SaveModel(*Make(json::object()), folder_);
  Model other = Make({{"width", 32}, {"layers", 3}, {"bias", false}});
  const Tensor kept = other->named_parameters()["embeddings.tokens"].clone();
  const std::string sentence =
      ErrorOf([&] { LoadWeights(*other, folder_ + "/model.safetensors"); });
  EXPECT_MENTIONS(sentence,
                  "embeddings.tokens is F32 [23, 24] in the file and F32 [23, 32] in the model");
  EXPECT_MENTIONS(sentence, "decoder.layers.2.attention.in_weight is missing");
  EXPECT_MENTIONS(sentence, "output_bias is unknown");
  EXPECT_TRUE(other->named_parameters()["embeddings.tokens"].equal(kept));
}

TEST_F(ModelFilesTest, AnotherTypeIsNotConvertedSilently) {
  SaveModel(*Make(json::object()), folder_);
  const std::string path = folder_ + "/model.safetensors";
  const Tensor doubles = torch::zeros({23, 24}, torch::kFloat64);
  {
    const SafetensorsFile file = SafetensorsFile::Open(path);
    std::vector<TensorEntry> entries = file.tensors();
    for (TensorEntry& entry : entries) {
      if (entry.name != "embeddings.tokens") continue;
      entry.type = TensorType::kF64;
      entry.data = {static_cast<const std::byte*>(doubles.data_ptr()), doubles.nbytes()};
    }
    WriteSafetensors(path, entries, {});
  }
  EXPECT_MENTIONS(ErrorOf([&] { LoadModel(folder_); }), "embeddings.tokens is F64 [23, 24]");
}

TEST_F(ModelFilesTest, FlippedBitsAreNoticedHoweverTheModelIsLoaded) {
  // With buffers too.
  SaveModel(*Make({{"attention", "performer"}}), folder_);
  const std::string path = folder_ + "/model.safetensors";
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-2, std::ios::end);
    const auto byte = static_cast<char>(file.peek() ^ 16);
    file.seekp(-2, std::ios::end);
    file.put(byte);
  }
  Model model = Make({{"attention", "performer"}});
  EXPECT_MENTIONS(ErrorOf([&] { LoadModel(folder_); }), "is not what was saved");
  EXPECT_MENTIONS(ErrorOf([&] { LoadModelWeights(*model, folder_); }), "is not what was saved");
  EXPECT_MENTIONS(ErrorOf([&] { LoadMatching(*model, folder_); }), "is not what was saved");
  fs::remove(folder_ + "/checksums.json");
  LoadModelWeights(*model, folder_);
}

TEST_F(ModelFilesTest, AForeignFileMatchesNothing) {
  fs::create_directories(folder_);
  const Tensor x = torch::zeros({2});
  WriteSafetensors(
      folder_ + "/model.safetensors",
      std::vector<TensorEntry>{
          {"x", TensorType::kF32, {2}, {static_cast<const std::byte*>(x.data_ptr()), 8}}},
      {});
  Model model = Make(json::object());
  EXPECT_MENTIONS(ErrorOf([&] { LoadMatching(*model, folder_); }), "none of its 1 tensors");
}

TEST_F(ModelFilesTest, AMissingOrBrokenDirectoryIsSaid) {
  EXPECT_MENTIONS(ErrorOf([&] { LoadModel(folder_); }), "config.json");
  SaveModel(*Make(json::object()), folder_);
  fs::resize_file(folder_ + "/model.safetensors", 1000);
  EXPECT_MENTIONS(ErrorOf([&] { LoadModel(folder_); }), "model.safetensors");
  fs::remove(folder_ + "/model.safetensors");
  EXPECT_MENTIONS(ErrorOf([&] { LoadModel(folder_); }), "model.safetensors");
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_MENTIONS(ErrorOf([&] { SaveModel(*Make(json::object()), folder_ + "/file/model"); }),
                  "cannot be made");
}

// Stochastic positions keep codes that they have computed; new weights make them old.
TEST_F(ModelFilesTest, WhatWasKeptOfOldWeightsIsNotUsedWithNewOnes) {
  const json config = {{"attention", "linear"}, {"positions", "spe-sine"}};
  Model saved = Make(config), used = Make(config);
  SaveModel(*saved, folder_);
  saved->eval();
  used->eval();
  torch::NoGradGuard no_grad;
  const Tensor tokens = Tokens();
  used->Encode(tokens);
  LoadWeights(*used, folder_ + "/model.safetensors");
  EXPECT_TRUE(used->Encode(tokens).equal(saved->Encode(tokens)));
}

}  // namespace
}  // namespace cosformer
