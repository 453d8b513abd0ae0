// Text from a causal model, token by token: to see what it has learned.
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

// What the model writes after the prompt; up to max_length tokens in all, or the end of the text.
// Throws Error for a prompt without tokens and for a model that does not write.
std::string Sample(ModelImpl& model, const Tokenizer& tokenizer, const std::string& prompt,
                   const SampleOptions& options);

}  // namespace cosformer
