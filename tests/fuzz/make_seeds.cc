// Writes those of the fuzzers' first inputs that are no text, into the corpus that is given:
//
//   cmake --preset fuzz && cmake --build build/fuzz --target make_seeds
//   build/fuzz/tests/fuzz/make_seeds tests/fuzz/corpus
//
// Needed only when a format changes; the files are in the repository, and each can be read.
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "cosformer/attention.h"
#include "cosformer/error.h"
#include "formats/safetensors.h"
#include "formats/tokenizer.h"
#include "raw_model.h"
#include "session_models.h"

namespace cosformer {
namespace {

using namespace testing;

void WriteTensors(const std::string& folder) {
  std::vector<uint8_t> bytes(24);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  const auto data = std::as_bytes(std::span(bytes));
  const TensorEntry several[] = {{"layers.0.weight", TensorType::kF32, {2, 3}, data},
                                 {"layers.0.bias", TensorType::kBF16, {2}, data.first(4)},
                                 {"step", TensorType::kI64, {}, data.first(8)},
                                 {"none", TensorType::kF64, {0, 4}, {}}};
  WriteSafetensors(folder + "/several", several, {{"format", "pt"}, {"made by", "caf\xC3\xA9"}});
  WriteSafetensors(folder + "/none", {});
}

void WriteModel(const std::string& path, const std::string& model) {
  Tokenizer::SentencePiece(model).Encode("the cat");
  std::ofstream(path, std::ios::binary) << model;
}

void WriteModels(const std::string& folder) {
  WriteModel(folder + "/unigram.model", RawModel(1));
  WriteModel(folder + "/pairs.model", RawModel(2));
  WriteModel(folder + "/words.model", RawModel(3));
  WriteModel(folder + "/characters.model", RawModel(4));
  std::string bytes = PieceField("<unk>", kUnknown, 0);
  for (int i = 0; i < 256; ++i) {
    char name[7];
    std::snprintf(name, sizeof(name), "<0x%02X>", i);
    // Without a score, for the size.
    bytes += BytesField(1, BytesField(1, name) + NumberField(3, kByte));
  }
  // Lossless: no blank before, none removed.
  WriteModel(folder + "/bytes.model", bytes + PieceField("the") + TrainerField(NumberField(35, 1)) +
                                          NormaliserField(NumberField(3, 0) + NumberField(4, 0)));
  WriteModel(folder + "/normalising.model", RawPieces() + PieceField("<sep>", kUserDefined) +
                                                TrainerField("") +
                                                NormaliserField(BytesField(2, RawTable())) +
                                                BytesField(5, BytesField(2, RawTable())));
}

void WriteState(const std::string& path, const LinearStateConfig& config, int64_t tokens) {
  LinearState state(config);
  const auto rows = [&](int64_t dim) {
    return std::vector<float>(static_cast<size_t>(config.batch * tokens * config.heads * dim), 0.5);
  };
  const std::vector<float> k = rows(config.dim), v = rows(config.value_dim);
  state.Absorb(ConstView::Of(k.data(), config.batch, tokens, config.heads, config.dim),
               ConstView::Of(v.data(), config.batch, tokens, config.heads, config.value_dim), 1);
  std::ofstream out(path, std::ios::binary);
  state.Save(out);
}

void WriteStates(const std::string& folder) {
  LinearStateConfig config{1, 2, 3, 2, {}, false};
  config.kernel.horizon = 20;
  WriteState(folder + "/cos", config, 11);
  config.endless = true;
  WriteState(folder + "/endless", config, 47);
  config.kernel.horizon = INT64_MAX;
  WriteState(folder + "/far", config, 3);
  config.endless = false;
  config.kernel.reweighting = Reweighting::kNone;
  config.kernel.feature_map = FeatureMap::kEluPlusOne;
  // So many that the state keeps the distant tokens apart from the latest.
  WriteState(folder + "/folded", config, 100'000);
}

void WriteSessions(const std::string& folder) {
  const char* names[] = {"hybrid", "turned", "endless", "rotary_hybrid", "softmax"};
  const std::vector<runtime::Model> models = fuzz::SessionModels();
  for (size_t i = 0; i < models.size(); ++i) {
    runtime::Session session(models[i]);
    if (i == 0) session.Save(folder + "/nothing_read");
    // Past the horizon where there is an end to it.
    session.Feed(runtime::testing::TokensByRule(i == 2 ? 47 : 3, 7, 5));
    session.Save(folder + "/" + names[i] + "_2");  // those without a number are of version 1
  }
}

// A directory in one file, as model_fuzz.cc takes it apart.
void WriteDirectory(const std::string& path, const nlohmann::json& changes, WeightType type) {
  nlohmann::json config = {{"vocabulary", 5}, {"width", 4},  {"layers", 1},
                           {"heads", 2},      {"hidden", 4}, {"max_length", 20}};
  config.update(changes);
  const ModelConfig parsed = ParseConfig(config, "seed");
  runtime::WriteParameters(parsed, runtime::RandomParameters(parsed, type, 1), path);
  std::ifstream file(path, std::ios::binary);
  const std::string weights((std::istreambuf_iterator<char>(file)), {});
  std::ofstream(path, std::ios::binary) << config.dump() << '\0' << weights;
}

void WriteDirectories(const std::string& folder) {
  const nlohmann::json least = {{"bias", false}, {"norm", "rms"}, {"positions", "none"}};
  WriteDirectory(folder + "/float32", least, WeightType::kFloat32);
  WriteDirectory(folder + "/bfloat16", least, WeightType::kBFloat16);
  WriteDirectory(folder + "/int8", least, WeightType::kInt8);
  WriteDirectory(folder + "/int4", least, WeightType::kInt4);
  WriteDirectory(folder + "/classifier", {{"model", "encoder"}, {"classes", 2}},
                 WeightType::kFloat32);
  WriteDirectory(folder + "/norm",
                 {{"attention", {{"system", "cosformer"}, {"normaliser", "norm"}}},
                  {"positions", "rotary"},
                  {"norm_position", "post"},
                  {"activation", "swiglu"}},
                 WeightType::kFloat32);
}

}  // namespace
}  // namespace cosformer

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_seeds tests/fuzz/corpus\n", stderr);
    return 2;
  }
  const std::string corpus = argv[1];
  try {
    cosformer::WriteTensors(corpus + "/safetensors");
    cosformer::WriteModels(corpus + "/tokenizer");
    cosformer::WriteStates(corpus + "/linear_state");
    cosformer::WriteSessions(corpus + "/session");
    cosformer::WriteDirectories(corpus + "/model");
  } catch (const cosformer::Error& error) {
    std::fprintf(stderr, "make_seeds: %s\n", error.what());
    return 1;
  }
}
