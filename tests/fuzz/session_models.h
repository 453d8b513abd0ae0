// The models whose sessions are fuzzed, as small as a model can be; make_seeds.cc writes a session
// or two of each.
#pragma once

#include <vector>

#include "tests/runtime/support.h"

namespace cosformer::fuzz {

inline std::vector<runtime::Model> SessionModels() {
  using nlohmann::json;
  const json small = {{"vocabulary", 5}, {"width", 4},    {"layers", 1},
                      {"heads", 2},      {"hidden", 4},   {"max_length", 20},
                      {"bias", false},   {"norm", "rms"}, {"tied_embeddings", true}};
  const json changes[] = {
      {{"attention", {"cosformer", "softmax"}}, {"layers", 2}},
      {{"attention", "cosformer"}, {"positions", "rotary"}},
      {{"attention", {{"system", "cosformer"}, {"endless", true}}}, {"positions", "sinusoidal"}},
      {{"attention", {"linear", "softmax"}}, {"layers", 2}, {"positions", "rotary"}},
      {{"attention", "softmax"}, {"positions", "learned"}},
  };
  std::vector<runtime::Model> models;
  for (const json& change : changes) {
    json config = small;
    config.update(change);
    models.push_back(runtime::testing::SmallModel(config, 1, WeightType::kFloat32,
                                                  {.endless = false, .threads = 1}));
  }
  return models;
}

}  // namespace cosformer::fuzz
