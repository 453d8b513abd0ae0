// The speed of a model is measured without a trace in it.
#include "train/pace.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <vector>

#include "formats/folder.h"
#include "train/tiny_model.h"
#include "train/training_state.h"

namespace cosformer {
namespace {

class PaceTest : public testing::FolderTest {};

TEST_F(PaceTest, MeasuringLeavesTheModelAndTheRandomNumbersAsTheyWere) {
  const data::Dataset set = testing::MakeDataset(Path("text"), {{std::vector<int32_t>(200, 7)}});
  Model model = testing::TinyModel({{"attention", "performer"}, {"dropout", 0.5}});
  data::BatchOptions options = testing::OptionsFor(data::Objective::kCausal, 32, false);
  const data::Batches batches(set, options);
  std::vector<torch::Tensor> before;
  for (const auto& tensors : {model->parameters(), model->buffers()}) {
    for (const torch::Tensor& tensor : tensors) before.push_back(tensor.detach().clone());
  }
  const torch::Tensor random = TorchRandomState();
  for (const double seconds : {0.0, 1.0}) {
    const Pace pace = MeasurePace(*model, batches, data::Objective::kCausal, seconds);
    EXPECT_GT(pace.pass_seconds, 0);
    EXPECT_GT(pace.update_seconds, 0);
    EXPECT_GT(pace.evaluation_seconds, 0);
  }
  const int threads = at::get_num_threads();
  const int faster = FasterThreads(*model, batches, data::Objective::kCausal);
  EXPECT_TRUE(faster == 1 || faster == threads) << faster;
  EXPECT_EQ(at::get_num_threads(), faster);
  at::set_num_threads(threads);
  size_t index = 0;
  for (const auto& tensors : {model->parameters(), model->buffers()}) {
    for (const torch::Tensor& tensor : tensors) EXPECT_TRUE(tensor.equal(before[index++]));
  }
  for (const torch::Tensor& parameter : model->parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
  }
  EXPECT_TRUE(TorchRandomState().equal(random));
  EXPECT_TRUE(model->is_training());
}

}  // namespace
}  // namespace cosformer
