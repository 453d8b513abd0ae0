// config.json: what a model is, as a plain struct. Parsing, checking and writing it; which keys
// there are and what they mean is in docs/formats.md.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/activate.h"
#include "kernels/normalise.h"

namespace cosformer {

enum class ModelKind { kDecoder, kEncoder, kTwoTower, kEncoderDecoder };
enum class NormPlace { kPre, kPost };
enum class Pool { kMean, kFirst, kLast };
enum class InputKind { kTokens, kPixels, kPatches };
enum class PositionKind { kNone, kLearned, kSinusoidal, kRotary, kSpeSine, kSpeConv };
enum class LossKind { kCrossEntropy, kOneVsEach };

// As config.json spells them: "two-tower", "layer", "pre", "spe-sine", ...
std::string_view Name(ModelKind kind);
std::string_view Name(NormKind kind);
std::string_view Name(NormPlace place);
std::string_view Name(Activation activation);
std::string_view Name(Pool pool);
std::string_view Name(InputKind kind);
std::string_view Name(PositionKind kind);
std::string_view Name(LossKind kind);

// One attention. Which systems there are and which options each takes is the systems' own affair:
// here the name is any text, and the options any object without the key "system", of up to 4 KB.
struct SystemConfig {
  std::string system = "cosformer";
  nlohmann::json options = nlohmann::json::object();

  bool operator==(const SystemConfig&) const = default;
};

struct PositionConfig {
  PositionKind kind = PositionKind::kLearned;
  double rotary_base = 10000;  // rotary; "base" in JSON
  int64_t sines = 5;           // spe-sine: sinusoids a head and feature
  int64_t kernel = 128;        // spe-conv: length of the filters
  int64_t realisations = 64;   // both kinds of spe
  bool gated = true;           // both kinds of spe

  bool operator==(const PositionConfig&) const = default;
};

struct ImageConfig {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 1;
  int64_t patch = 1;  // side of a square patch

  bool operator==(const ImageConfig&) const = default;
};

// A zero that says "as something else" is resolved by Validate(); the zeros that remain mean none.
struct ModelConfig {
  ModelKind kind = ModelKind::kDecoder;  // "model" in JSON
  InputKind input = InputKind::kTokens;
  ImageConfig image;       // pixels and patches; all as declared for tokens
  int64_t vocabulary = 0;  // tokens; 0 for images

  int64_t width = 512;
  int64_t layers = 8;          // of the encoder, if there is a decoder beside it
  int64_t decoder_layers = 0;  // encoder-decoder: 0 is as layers. Others: 0
  int64_t heads = 8;
  int64_t kv_heads = 0;  // 0: as heads
  int64_t head_dim = 0;  // 0: width / heads
  int64_t hidden = 0;    // 0: 4 * width
  int64_t max_length = 1024;

  // One a layer after Validate(), those of the encoder before those of the decoder. Before it, a
  // single one stands for all layers, and none for cosformer in all.
  std::vector<SystemConfig> attention;
  SystemConfig cross_attention;  // encoder-decoder; as declared for others
  PositionConfig positions;

  NormKind norm = NormKind::kLayerNorm;
  NormPlace norm_place = NormPlace::kPre;  // "norm_position" in JSON
  double norm_epsilon = 1e-5;
  Activation activation = Activation::kGelu;
  double dropout = 0;
  bool bias = true;
  // The output layer over the vocabulary uses the weights of the embedding. Validate() makes it
  // false where there is no such layer: with classes, or image input.
  bool tied_embeddings = true;

  int64_t classes = 0;  // 0: the model predicts tokens; an encoder the masked ones
  Pool pool = Pool::kMean;
  LossKind loss = LossKind::kCrossEntropy;
  int64_t negatives = 0;       // one-vs-each; 0: 1024, or all other tokens if they are fewer
  bool checkpointing = false;  // recompute activations in the backward pass

  bool operator==(const ModelConfig&) const = default;

  // How many layers have self-attention: the length of `attention`.
  int64_t AttentionLayers() const { return layers + decoder_layers; }
  // Tokens that the model makes of its image; 0 for token input.
  int64_t ImageLength() const;
};

// Resolves what is derived from other fields and throws Error for values out of range and
// combinations that make no model. `where` begins the sentences. Validating twice changes nothing.
// Limits are such that no parameter's size in bytes overflows int64.
void Validate(ModelConfig& config, const std::string& where = "config");

// The result is validated.
ModelConfig ParseConfig(const nlohmann::json& json, std::string where = "config.json");
ModelConfig ReadConfig(const std::string& path);

// Expects a validated config; ParseConfig() of the result equals it.
nlohmann::json ToJson(const ModelConfig& config);
// Validates, then writes whole or not at all.
void WriteConfig(const std::string& path, const ModelConfig& config);

}  // namespace cosformer
