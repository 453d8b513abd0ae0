// What the tests of the runtime share: small models of random numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cosformer/error.h"
#include "cosformer/runtime.h"
#include "formats/config.h"
#include "formats/tokenizer.h"
#include "runtime/model_builder.h"
#include "runtime/network.h"

namespace cosformer::runtime::testing {

inline ModelConfig SmallConfig(const nlohmann::json& changes) {
  nlohmann::json config = {
      {"vocabulary", 29}, {"width", 24},      {"layers", 2},         {"heads", 4},
      {"hidden", 40},     {"max_length", 96}, {"positions", "none"}, {"attention", "cosformer"}};
  if (!changes.empty()) config.update(changes);
  return ParseConfig(config, "test");
}

// Gains and biases away from ones and zeros, so that each is seen to be used.
inline Parameters SmallParameters(const ModelConfig& config, uint64_t seed,
                                  WeightType type = WeightType::kFloat32) {
  Parameters parameters = RandomParameters(config, type, seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.2f);
  for (const Slot& slot : SlotsOf(config, parameters)) {
    if (slot.vector == nullptr) continue;
    for (float& x : *slot.vector) x += normal(random);
  }
  return parameters;
}

inline Model SmallModel(const nlohmann::json& changes, uint64_t seed = 1,
                        WeightType type = WeightType::kFloat32, const LoadOptions& options = {}) {
  const ModelConfig config = SmallConfig(changes);
  return ModelBuilder::Build(config, SmallParameters(config, seed, type), nullptr, {}, options);
}

inline std::vector<int32_t> RandomTokens(int64_t count, uint64_t seed, int32_t vocabulary = 29) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int32_t> uniform(0, vocabulary - 1);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = uniform(random);
  return tokens;
}

// The same with any standard library, whose distributions differ: for what outlasts the program.
inline std::vector<int32_t> TokensByRule(int64_t count, int64_t step, int64_t vocabulary) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>((i * i * step + i / 3) % vocabulary));
  }
  return tokens;
}

// The largest difference, as a part of the largest number.
inline double Difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double most = 0, scale = 1e-6;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return most / scale;
}

// Sums in another order: some hundred roundings through two layers. Features of both signs that
// are then normalised may cancel before.
inline double RoundingOf(const nlohmann::json& config) {
  return config.dump().find("identity") == std::string::npos ? 2e-5 : 2e-4;
}

// Products with weights in integers also round what they are multiplied with to 16 bits: by step /
// sqrt(12), as root mean square, with steps of 1/32767 of its largest number, which is some four
// times the root mean square of all. That makes 3.5e-5 of a product, and 1e-4 after nine of them in
// two layers and the output; twice that for the worst of many logits, relative to the largest.
inline double RoundingWith(WeightType type) {
  return WeightGroup(type) > 1 ? 2e-4 : RoundingOf({});
}

inline std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The models that the runtime has: every attention, positions, norms, activations, hybrids.
inline std::vector<nlohmann::json> DecoderConfigs() {
  using nlohmann::json;
  std::vector<json> configs;
  for (const char* attention : {"cosformer", "cosformer-leaky-relu", "relu", "leaky-relu", "linear",
                                "softmax", "cosformer-gate", "linear-gate"}) {
    configs.push_back({{"attention", attention}});
    configs.push_back({{"attention", attention}, {"positions", "rotary"}, {"head_dim", 8}});
  }
  const json norm = {{"system", "cosformer"}, {"normaliser", "norm"}};
  configs.push_back({{"attention", norm}});
  configs.push_back({{"attention", norm}, {"positions", "rotary"}});
  configs.push_back({{"attention", {{"system", "identity"}, {"normaliser", "norm"}}}});
  configs.push_back({{"attention", {{"system", "cosformer-identity"}, {"normaliser", "norm"}}}});
  configs.push_back(
      {{"attention", {{"system", "cosformer"}, {"horizon", 2500}, {"epsilon", 1e-3}}}});
  // A slope below zero, so that no feature is: weights of both signs would cancel.
  for (const char* system : {"leaky-relu", "cosformer-leaky-relu"}) {
    const json slope = {{"system", system}, {"slope", -0.3}};
    configs.push_back({{"attention", slope}});
    configs.push_back({{"attention", slope}, {"positions", "rotary"}});
  }
  configs.push_back({{"attention", {"cosformer", "softmax"}}});
  configs.push_back({{"attention", {"softmax", "linear", "cosformer"}}, {"layers", 3}});
  configs.push_back({{"attention", {"cosformer-gate", "softmax"}}, {"kv_heads", 2}});
  configs.push_back({{"attention", {{"system", "cosformer-gate"}, {"normaliser", "norm"}}}});
  configs.push_back({{"positions", "learned"}});
  configs.push_back({{"positions", "sinusoidal"}, {"width", 25}, {"head_dim", 5}});
  configs.push_back({{"kv_heads", 2}});
  configs.push_back({{"kv_heads", 1}, {"attention", "softmax"}, {"positions", "rotary"}});
  configs.push_back({{"norm", "rms"}, {"activation", "swiglu"}, {"bias", false}});
  configs.push_back({{"norm_epsilon", 0.05}});
  configs.push_back({{"norm_position", "post"}, {"activation", "relu"}});
  configs.push_back({{"norm_position", "post"}, {"norm", "rms"}, {"tied_embeddings", false}});
  configs.push_back({{"tied_embeddings", false}, {"bias", false}, {"layers", 1}});
  return configs;
}

}  // namespace cosformer::runtime::testing
