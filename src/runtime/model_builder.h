// Models that come from elsewhere than a directory: tests and benchmarks make them of numbers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cosformer/runtime.h"
#include "formats/config.h"
#include "runtime/parameters.h"

namespace cosformer::runtime {

class ModelBuilder {
 public:
  static Model Build(ModelConfig config, Parameters parameters,
                     std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                     std::vector<std::string> labels = {}, const LoadOptions& options = {});
};

}  // namespace cosformer::runtime
