// The weights of a model's directory and their checksums: what was saved is accepted, what is
// damaged is named, and a save that is stopped half-way refuses nothing.
#include "formats/model_weights.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "contains.h"
#include "folder.h"

namespace cosformer {
namespace {

using testing::Contains;
using testing::MessageOf;
namespace fs = std::filesystem;

class ModelWeightsTest : public testing::FolderTest {
 protected:
  // A matrix and a vector, all numbers of which are `value`.
  void Save(float value) const {
    const std::vector<float> numbers(12, value);
    const auto bytes = std::as_bytes(std::span(numbers));
    const TensorEntry tensors[] = {{"matrix", TensorType::kF32, {3, 4}, bytes},
                                   {"vector", TensorType::kF32, {5}, bytes.first(20)}};
    WriteModelWeights(folder_.string(), tensors, {{"k", "v"}});
  }
  static void CheckAll(const ModelWeights& weights) {
    ASSERT_TRUE(weights.checksums);
    weights.checksums->CheckAll(weights.file, weights.path);
  }
  ModelWeights Open() const { return OpenModelWeights(folder_.string()); }
  std::string Complaint() const {
    return MessageOf([&] { CheckAll(Open()); });
  }
  void Flip(const std::string& file, size_t byte) const {
    std::string bytes = Read(Path(file));
    bytes.at(byte) = static_cast<char>(bytes.at(byte) ^ 4);
    Write(file, bytes);
  }
};

TEST_F(ModelWeightsTest, WhatWasSavedIsAcceptedAndReadByOtherReaders) {
  Save(1);
  CheckAll(Open());
  EXPECT_EQ(SafetensorsFile::Open(Path("model.safetensors")).metadata().at("k"), "v");
  const std::string text = Read(Path("checksums.json"));
  const nlohmann::json object = nlohmann::json::parse(text);
  EXPECT_EQ(object["format"], 1);
  EXPECT_TRUE(Contains(object["tensors"]["matrix"].get<std::string>(), "F32 [3, 4] "));
  EXPECT_TRUE(Contains(text, "\n  \"vector\": \"F32 [5] "));  // a line a tensor
  Save(2);
  CheckAll(Open());
  EXPECT_EQ(FilesInFolder(), 2);
}

TEST_F(ModelWeightsTest, AFlippedBitIsNamedWithTensorFilesAndWhatToDo) {
  Save(1);
  const size_t size = Read(Path("model.safetensors")).size();
  Flip("model.safetensors", size - 1);
  const std::string complaint = Complaint();
  const std::string parts[] = {"\"vector\" is not what was saved: it is F32 [5] ",
                               "\"" + Path("checksums.json") + "\"", "copy or make the model again",
                               "remove checksums.json"};
  for (const std::string& part : parts) {
    EXPECT_TRUE(Contains(complaint, part));
  }
  EXPECT_TRUE(Contains(complaint, Path("model.safetensors")));
  // What is not asked for is not looked at.
  const ModelWeights weights = Open();
  weights.checksums->Check(*weights.file.Find("matrix"), weights.path);
  EXPECT_TRUE(weights.checksums);
  Save(1);
  Flip("model.safetensors", size - 20 - 48);
  EXPECT_TRUE(Contains(Complaint(), "\"matrix\" is not what was saved"));
}

TEST_F(ModelWeightsTest, ChecksumsOfOtherTensorsAreRefused) {
  Save(1);
  nlohmann::json object = nlohmann::json::parse(Read(Path("checksums.json")));
  const auto with = [&](const char* name, const nlohmann::json& value) {
    nlohmann::json changed = object;
    if (value.is_null()) {
      changed["tensors"].erase(name);
    } else {
      changed["tensors"][name] = value;
    }
    Write("checksums.json", changed.dump());
    return Complaint();
  };
  const std::string right = object["tensors"]["matrix"];
  EXPECT_TRUE(Contains(with("matrix", nullptr), "has \"no such tensor\""));
  EXPECT_TRUE(Contains(with("another", right), "\"another\" is not there, which"));
  EXPECT_TRUE(Contains(with("matrix", "F32 [4, 3]" + right.substr(10)), "has \"F32 [4, 3] "));
  EXPECT_TRUE(Contains(with("matrix", "I32" + right.substr(3)), "has \"I32 [3, 4] "));
  EXPECT_TRUE(Contains(with("matrix", right + std::string(100000, '0')), "is not what was saved"));
  EXPECT_LT(Complaint().size(), 1000u);
  EXPECT_EQ(with("matrix", right), "");
}

TEST_F(ModelWeightsTest, AnOlderDirectoryWithoutChecksumsIsReadUnchecked) {
  Save(1);
  fs::remove(Path("checksums.json"));
  const ModelWeights weights = Open();
  EXPECT_FALSE(weights.checksums);
  EXPECT_EQ(weights.file.tensors().size(), 2u);
}

// Whichever moment is the last.
TEST_F(ModelWeightsTest, ASaveThatIsKilledLeavesNoChecksumsOfOtherWeights) {
  Save(0);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (float value = 1;; ++value) Save(value);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(700 * i));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    waitpid(child, nullptr, 0);
    const ModelWeights weights = Open();
    if (weights.checksums) CheckAll(weights);
  }
}

TEST_F(ModelWeightsTest, ASaveThatFailsLeavesTheModelAndItsChecksums) {
  Save(1);
  const std::string checksums = Read(Path("checksums.json"));
  const float number = 0;
  const TensorEntry wrong[] = {
      {"matrix", TensorType::kF32, {2}, std::as_bytes(std::span(&number, 1))}};
  EXPECT_TRUE(Contains(MessageOf([&] { WriteModelWeights(folder_.string(), wrong, {}); }),
                       "has 4 bytes of data"));
  EXPECT_EQ(Read(Path("checksums.json")), checksums);
  CheckAll(Open());
  EXPECT_EQ(FilesInFolder(), 2);
}

// `cosformer generate` may read a run's model while `train` saves a better one.
TEST_F(ModelWeightsTest, WhoeverReadsWhileAnotherSavesGetsFilesThatBelongTogether) {
  Save(0);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 1; i <= 60; ++i) Save(static_cast<float>(i));
    done = true;
  });
  int read = 0;
  std::string complaint;
  while (!done && complaint.empty()) {
    complaint = MessageOf([&] {
      const ModelWeights weights = Open();
      if (weights.checksums) weights.checksums->CheckAll(weights.file, weights.path);
    });
    ++read;
  }
  writer.join();
  EXPECT_EQ(complaint, "") << "after " << read;
  CheckAll(Open());
}

TEST_F(ModelWeightsTest, LinksAreFollowed) {
  fs::create_directory(Path("elsewhere"));
  for (const char* file : {"model.safetensors", "checksums.json"}) {
    Write(std::string("elsewhere/") + file, "{}");
    fs::create_symlink(Path(std::string("elsewhere/") + file), Path(file));
  }
  Save(3);
  CheckAll(Open());
  EXPECT_TRUE(fs::is_symlink(Path("checksums.json")));
  EXPECT_TRUE(fs::is_symlink(Path("model.safetensors")));
}

}  // namespace
}  // namespace cosformer
