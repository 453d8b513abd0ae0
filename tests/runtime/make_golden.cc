// Writes the models and sessions that golden_test.cc holds the runtime to, into a folder that is
// given:
//
//   cmake --build BUILD --target make_golden && BUILD/tests/runtime/make_golden FOLDER
//
// What is in tests/runtime/golden stays as it is: people have files of that kind. A form that is
// added gets a model, or a session, beside those that are there: text.session is of version 1, from
// a program of then, and latest.session of version 2.
#include <cstdio>
#include <fstream>

#include "tests/formats/raw_model.h"
#include "tests/runtime/model_directory.h"

namespace cosformer::runtime::testing {
namespace {

using nlohmann::json;

void WriteJson(const std::string& path, const json& content) {
  std::ofstream(path) << content.dump() << '\n';
}

std::string MakeDirectory(const std::string& directory, json changes, WeightType type,
                          const Tokenizer& tokenizer) {
  std::filesystem::create_directories(directory);
  tokenizer.Save(directory);
  changes["vocabulary"] = tokenizer.size();
  const ModelConfig config = SmallConfig(changes);
  WriteConfig(directory + "/config.json", config);
  WriteParameters(config, SmallParameters(config, 20, type), directory + "/model.safetensors");
  return directory;
}

// A session that has read `length` tokens, and what comes of reading some more.
void WriteDecoder(const std::string& directory, const std::string& prompt, int64_t length) {
  // To end with its horizon, as at first all did.
  const Model model = Model::Load(directory, {.endless = false});
  json expected;
  expected["prompt"] = prompt;
  expected["prompt_tokens"] = model.Encode(prompt);
  Session read(model);
  read.Feed(model.Encode(prompt));
  expected["prompt_logits"] = read.Logits();

  Session session(model);
  session.Feed(TokensByRule(length, 7, model.vocabulary()));
  session.Save(directory + "/latest.session");
  expected["position"] = session.position();
  expected["logits"] = session.Logits();
  const std::vector<int32_t> further = TokensByRule(20, 5, model.vocabulary());
  session.Feed(further);
  expected["further_tokens"] = further;
  expected["further_logits"] = session.Logits();
  WriteJson(directory + "/expected.json", expected);
}

void WriteClassifier(const std::string& directory, const std::string& text) {
  WriteTaskCard(directory, {"classify", {"bad", "fair", "good"}, false});
  const Model model = Model::Load(directory);
  json expected;
  expected["prompt"] = text;
  expected["prompt_tokens"] = model.Encode(text);
  for (const Prediction& one : model.Classify(text)) {
    expected["log_probabilities"][static_cast<size_t>(one.token)] = one.log_probability;
  }
  WriteJson(directory + "/expected.json", expected);
}

// Between them every kind of tokenizer, of weights, of positions, and of a layer's state.
void WriteAll(const std::string& folder) {
  const json small = {
      {"width", 16}, {"heads", 2}, {"hidden", 24}, {"layers", 3}, {"max_length", 128}};
  const auto with = [&](const json& changes) {
    json config = small;
    config.update(changes);
    return config;
  };
  // Past the horizon: a state of two spans, a cache, and a state of one.
  WriteDecoder(MakeDirectory(folder + "/float32",
                             with({{"attention",
                                    {{{"system", "cosformer"}, {"horizon", 64}, {"endless", true}},
                                     "softmax",
                                     "linear"}},
                                   {"positions", "sinusoidal"},
                                   {"norm_position", "post"}}),
                             WeightType::kFloat32, Tokenizer::Bytes()),
               "Attention is all you need", 100);
  // Turned features, with a normaliser and without; a cache of turned keys.
  WriteDecoder(
      MakeDirectory(
          folder + "/int8",
          with({{"attention",
                 {"cosformer", {{"system", "cosformer"}, {"normaliser", "norm"}}, "softmax"}},
                {"positions", "rotary"},
                {"kv_heads", 1},
                {"norm", "rms"},
                {"activation", "swiglu"},
                {"bias", false},
                {"tied_embeddings", false}}),
          WeightType::kInt8, Tokenizer::SentencePiece(cosformer::testing::RawModel())),
      "the cat that ate the hat", 77);
  // So many tokens that the distant ones are kept apart from the latest.
  WriteDecoder(MakeDirectory(folder + "/int4",
                             with({{"attention", {"relu", "linear"}},
                                   {"layers", 2},
                                   {"positions", "none"},
                                   {"activation", "relu"}}),
                             WeightType::kInt4, Tokenizer::Words({"a", "rose", "is"})),
               "a rose is a rose", 100'000);
  // States that forget: of two spans, and of one.
  WriteDecoder(
      MakeDirectory(folder + "/gate",
                    with({{"attention",
                           {{{"system", "cosformer-gate"}, {"horizon", 64}, {"endless", true}},
                            "linear-gate"}},
                          {"layers", 2},
                          {"positions", "none"}}),
                    WeightType::kFloat32, Tokenizer::Bytes()),
      "Attention is all you need", 100);
  WriteClassifier(
      MakeDirectory(folder + "/bfloat16",
                    with({{"model", "encoder"},
                          {"classes", 3},
                          {"attention", "cosformer"},
                          {"layers", 2},
                          {"positions", "learned"}}),
                    WeightType::kBFloat16, Tokenizer::Words({"a", "rose", "is", "not"})),
      "a rose is not a cat");
}

}  // namespace
}  // namespace cosformer::runtime::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_golden FOLDER\n", stderr);
    return 2;
  }
  try {
    cosformer::runtime::testing::WriteAll(argv[1]);
  } catch (const cosformer::Error& error) {
    std::fprintf(stderr, "make_golden: %s\n", error.what());
    return 1;
  }
}
