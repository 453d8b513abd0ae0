// The models: a causal decoder, an encoder (masked tokens or classes), a two-tower encoder, and an
// encoder with a decoder. One class, whose parts follow from its config.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "cosformer/torch.h"
#include "formats/config.h"
#include "model/blocks.h"
#include "model/embeddings.h"
#include "model/losses.h"

namespace cosformer {

// What a model remembers of a text that it reads token by token.
struct ModelStream {
  StackImpl::Streams layers;
  torch::Tensor memory;  // encoder-decoder: the encoded source
  Layout cross;
  int64_t position = 0;
  int64_t batch = 0;
  bool broken = false;  // a step failed half way: the layers disagree about the text

  size_t bytes() const;  // held by all layers
};

class ModelImpl : public torch::nn::Module {
 public:
  explicit ModelImpl(ModelConfig config);  // validated here

  const ModelConfig& config() const { return config_; }
  int64_t ParameterCount() const;

  // The hidden states of the input, [batch, length, width]: causally in a decoder, in both
  // directions in the others. input: see Embeddings.
  torch::Tensor Encode(const torch::Tensor& input, const Layout& layout = {});

  // Encoder-decoder: the decoder's hidden states of `tokens`, attending to what Encode gave for the
  // source. source_layout is what Encode was told.
  torch::Tensor Decode(const torch::Tensor& tokens, const torch::Tensor& memory,
                       const Layout& layout = {}, const Layout& source_layout = {});

  // hidden [..., width] -> [..., vocabulary]. For a few rows; Loss for many.
  torch::Tensor Logits(const torch::Tensor& hidden);

  // The config's loss of tokens, or cross-entropy whatever the config says: what perplexity is made
  // of. targets [as hidden, without width], -1 where nothing is to be predicted.
  LossResult Loss(const torch::Tensor& hidden, const torch::Tensor& targets, double smoothing = 0);
  LossResult FullCrossEntropy(const torch::Tensor& hidden, const torch::Tensor& targets,
                              double smoothing = 0);

  // Encoder with classes: [sequences, classes]; sequences are the batch entries, or the packed
  // ones.
  torch::Tensor Classify(const torch::Tensor& input, const Layout& layout = {});
  // Two-tower: both texts through one encoder, then compared.
  torch::Tensor Classify(const torch::Tensor& first, const torch::Tensor& second,
                         const Layout& first_layout = {}, const Layout& second_layout = {});

  // Streaming, for a decoder: the hidden states of the next tokens [batch, n]. For an
  // encoder-decoder the stream begins with the encoded source.
  ModelStream NewStream(int64_t batch);
  ModelStream NewStream(const torch::Tensor& memory, const Layout& source_layout = {});
  torch::Tensor Step(const torch::Tensor& tokens, ModelStream& stream);

 private:
  torch::Tensor Pooled(const torch::Tensor& hidden, const Layout& layout) const;
  torch::Tensor OutputWeight() const;
  void Require(bool holds, const char* what) const;

  ModelConfig config_;
  Embeddings embeddings_{nullptr};
  Stack encoder_{nullptr};                       // or the decoder, in a model that has no other
  Stack decoder_{nullptr};                       // encoder-decoder
  torch::Tensor output_weight_, output_bias_;    // not tied: [vocabulary, width]
  torch::Tensor mix_weight_, mix_bias_;          // two-tower: [width, 4 * width]
  torch::Tensor classes_weight_, classes_bias_;  // [classes, width]
};
TORCH_MODULE(Model);

}  // namespace cosformer
