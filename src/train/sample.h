// Text from a model that writes, token by token: to see what it has learned.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "formats/tokenizer.h"
#include "model/model.h"

namespace cosformer {

struct SampleOptions {
  int64_t tokens = 100;
  double temperature = 0.8;  // 0: the most likely token
  int64_t top = 40;          // of the most likely tokens; 0: all
  uint64_t seed = 1;
};

// Throws Error unless the model writes: after a prompt, or from it if it is an encoder-decoder,
// which then needs one.
void RequireWriting(const ModelConfig& config, const std::string& prompt);

// What the model writes after the prompt, or an encoder-decoder from it; up to max_length tokens in
// all, or the end of the text. Throws Error for a prompt without tokens and as RequireWriting().
std::string Sample(ModelImpl& model, const Tokenizer& tokenizer, const std::string& prompt,
                   const SampleOptions& options);

}  // namespace cosformer
