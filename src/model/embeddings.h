// From tokens or pixels to rows of the model's width, with the positions that are added to them.
#pragma once

#include <torch/nn/module.h>

#include "cosformer/torch.h"
#include "formats/config.h"

namespace cosformer {

class EmbeddingsImpl : public torch::nn::Module {
 public:
  explicit EmbeddingsImpl(const ModelConfig& config);

  // Tokens: input [batch, length], int64. Images: [batch, height * width * channels] or
  // [batch, height, width, channels], any number type; bytes are brought to [-1, 1].
  // Row 0 stands at `position`; packed sequences begin at 0 each. -> [batch, length, width]
  torch::Tensor forward(const torch::Tensor& input, const Layout& layout = {},
                        int64_t position = 0);

  const torch::Tensor& tokens() const { return tokens_; }  // [vocabulary, width]

 private:
  torch::Tensor Rows(const torch::Tensor& input) const;
  torch::Tensor Positions(int64_t length, const Layout& layout, int64_t position) const;

  ModelConfig config_;
  torch::Tensor tokens_;
  torch::Tensor pixel_weight_, pixel_bias_;  // [width, channels * patch^2], [width]
  torch::Tensor learned_;                    // [max_length, width]
};
TORCH_MODULE(Embeddings);

}  // namespace cosformer
