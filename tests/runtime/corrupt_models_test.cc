// Model directories whose files are each in order, but are not those of one model, or hold numbers
// that are none: a table with the sentence that each gets. What is wrong within one file is in
// tests/formats/corrupt_files_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <list>

#include "corrupt_files.h"
#include "tests/runtime/model_directory.h"

namespace cosformer::runtime::testing {
namespace {

using cosformer::testing::Corrupt;
using cosformer::testing::CorruptFilesTest;
using nlohmann::json;

// A model's tensors, to be changed and written.
class Tensors {
 public:
  explicit Tensors(const std::string& path) : file_(SafetensorsFile::Open(path)) {
    entries_ = file_.tensors();
  }

  TensorEntry& At(const std::string& name) {
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const TensorEntry& one) { return one.name == name; });
    EXPECT_NE(found, entries_.end()) << name;
    return *found;
  }
  void Remove(const std::string& name) {
    std::erase_if(entries_, [&](const TensorEntry& one) { return one.name == name; });
  }
  void Add(const std::string& name, TensorType type, std::vector<int64_t> shape, size_t bytes) {
    data_.emplace_back(bytes, '\0');
    entries_.push_back({name, type, std::move(shape), std::as_bytes(std::span(data_.back()))});
  }
  // With other bytes at `at`.
  template <class T>
  void Put(const std::string& name, size_t at, T value) {
    TensorEntry& entry = At(name);
    std::string& copy =
        data_.emplace_back(reinterpret_cast<const char*>(entry.data.data()), entry.data.size());
    std::memcpy(copy.data() + at, &value, sizeof(value));
    entry.data = std::as_bytes(std::span(copy));
  }
  void Write(const std::string& path) const { WriteSafetensors(path, entries_, file_.metadata()); }

 private:
  SafetensorsFile file_;
  std::vector<TensorEntry> entries_;
  std::list<std::string> data_;
};

class CorruptModelsTest : public CorruptFilesTest {
 protected:
  // Weights begin at a multiple of 2 MiB: for so many, twice that is set aside.
  CorruptModelsTest() { least_ += int64_t{4} << 20; }

  const Reader load_ = [this](const std::string&) { Model::Load(folder_.string()); };

  void WriteWeights(WeightType type) {
    const ModelConfig config = SmallConfig({{"vocabulary", 260}});
    WriteConfig(Path("config.json"), config);
    WriteParameters(config, SmallParameters(config, 1, type), Path("good.safetensors"));
  }
  // The bytes of model.safetensors after a change.
  std::string Changed(const std::function<void(Tensors&)>& change) {
    Tensors tensors(Path("good.safetensors"));
    change(tensors);
    tensors.Write(Path("changed.safetensors"));
    return Read(Path("changed.safetensors"));
  }
};

TEST_F(CorruptModelsTest, WhoseConfigIsOfAnotherModelAreRefused) {
  WriteModel(folder_.string(), {});
  const json good = json::parse(Read(Path("config.json")));
  const auto with = [&](const json& changes) {
    json config = good;
    config.update(changes);
    return config.dump();
  };
  json without = good;
  without.erase("vocabulary");
  const std::string unknown = "which the config knows nothing of";
  const Corrupt table[] = {
      {"no vocabulary", without.dump(), "vocabulary"},
      {"another vocabulary", with({{"vocabulary", 259}}),
       "its tokenizer has 260 tokens, its config a vocabulary of 259: they belong to different "
       "models"},
      {"another width", with({{"width", 32}}),
       "\"embeddings.tokens\" has the shape [260, 24]; the config asks for [260, 32]"},
      {"fewer layers", with({{"layers", 1}, {"attention", "cosformer"}}),
       "it has a tensor \"decoder.layers.1."},
      {"more layers", with({{"layers", 3}, {"attention", "cosformer"}}),
       "it has no tensor \"decoder.layers.2.attention_norm.weight\", which the config asks for"},
      {"another kind", with({{"model", "encoder"}}),
       "it has no tensor \"encoder.layers.0.attention_norm.weight\""},
      {"no biases", with({{"bias", false}}), unknown},
      {"an output layer of its own", with({{"tied_embeddings", false}}),
       "it has no tensor \"output_weight\""},
      {"learned positions", with({{"positions", "learned"}}),
       "it has no tensor \"embeddings.positions\""},
      {"another normaliser",
       with({{"attention", {{"system", "cosformer"}, {"normaliser", "norm"}}}}),
       "it has no tensor \"decoder.layers.0.attention.system.gain\""},
      {"a system that only training has", with({{"attention", "performer"}}),
       "layer 0 has the attention \"performer\", which the runtime does not have; it has softmax"},
      {"positions that only training has", with({{"positions", "spe-sine"}}),
       "the runtime has the positions none, learned, sinusoidal and rotary; \"spe-sine\" runs in"},
      {"an encoder and a decoder",
       with({{"model", "encoder-decoder"}, {"attention", "cosformer"}, {"decoder_layers", 2}}),
       "a model with an encoder and a decoder runs in training and evaluation alone"},
      {"an option that there is not", with({{"attention", {{"system", "relu"}, {"horizon", 9}}}}),
       "horizon"},
  };
  ExpectRefused("config.json", load_, table);
}

TEST_F(CorruptModelsTest, WhoseOtherFilesAreOfAnotherModelAreRefused) {
  WriteModel(folder_.string(), {{"model", "encoder"}, {"classes", 3}});
  const Corrupt cards[] = {
      {"too few labels", R"({"task": "classify", "labels": ["bad", "good"]})",
       "its task.json names 2 classes, its config has 3"},
  };
  ExpectRefused("task.json", load_, cards);
  std::filesystem::remove(Path("task.json"));
  const Corrupt tokenizers[] = {
      {"another tokenizer", R"({"format": 1, "kind": "words", "words": ["a", "b"]})",
       "its tokenizer has 7 tokens, its config a vocabulary of 260"},
  };
  ExpectRefused("tokenizer.json", load_, tokenizers);
}

TEST_F(CorruptModelsTest, WhoseTokenizerIsOfAnotherModelOfTheSameSizeAreRefused) {
  const Tokenizer own = Tokenizer::Words({"cat", "moon"}), other = Tokenizer::Words({"sea", "sun"});
  WriteModel(folder_.string(), {}, own);
  Model::Load(folder_.string());  // of a model without a card nothing is known
  WriteTaskCard(folder_.string(), {"lm", {}, false, own.Fingerprint()});
  Model::Load(folder_.string());
  other.Save(folder_.string());
  const std::string error = ErrorOf([&] { Model::Load(folder_.string()); });
  EXPECT_NE(error.find("its tokenizer is not the one that the model was trained with"),
            std::string::npos)
      << error;
}

TEST_F(CorruptModelsTest, DoNotClassifyWhatTheyWereNotTrainedFor) {
  const nlohmann::json classifier = {{"model", "encoder"}, {"classes", 2}};
  const std::string folder = folder_.string();
  const auto refused = [&](const auto& call, const char* sentence) {
    EXPECT_NE(ErrorOf(call).find(sentence), std::string::npos) << ErrorOf(call);
  };
  WriteModel(folder, classifier);
  for (const bool pairs : {false, true}) {
    WriteTaskCard(folder, {"classify", {"no", "yes"}, pairs, ""});
    const Model model = Model::Load(folder);
    if (pairs) {
      EXPECT_EQ(model.Classify("a", "b").size(), 2u);
      refused([&] { model.Classify("a"); }, "this model was trained on two texts: give both");
      refused([&] { model.Classify("a", ""); }, "the text is empty");
    } else {
      EXPECT_EQ(model.Classify("a").size(), 2u);
      refused([&] { model.Classify("a", "b"); }, "this model was trained on single texts");
      refused([&] { model.Classify(""); }, "the text is empty");
    }
    refused([&] { model.Classify(std::span<const int32_t>()); }, "the text is empty");
    refused([&] { model.ClassifyImage(std::vector<uint8_t>{1, 2}); }, "reads text, not images");
  }
  WriteModel(folder, {{"model", "two-tower"}, {"classes", 2}});
  const Model towers = Model::Load(folder);
  EXPECT_EQ(towers.Classify("a", "b").size(), 2u);
  refused([&] { towers.Classify("a", ""); }, "the text is empty");
  refused([&] { towers.Classify("", "b"); }, "the text is empty");
}

TEST_F(CorruptModelsTest, WhoseWeightsDoNotFitAreRefused) {
  WriteWeights(WeightType::kFloat32);
  const std::string in = "decoder.layers.1.attention.in_weight";
  const std::string bias = "decoder.layers.1.attention.in_bias";
  const std::string none =
      "holds numbers that are infinite or NaN; the training that made it had "
      "diverged, or the file is damaged";
  const Corrupt table[] = {
      {"NaN in a matrix",
       Changed([&](Tensors& t) { t.Put(in, 400, std::numeric_limits<float>::quiet_NaN()); }),
       "\"" + in + "\" " + none},
      {"infinity at the end of a matrix",
       Changed([&](Tensors& t) { t.Put(in, t.At(in).data.size() - 4, HUGE_VALF); }),
       "\"" + in + "\" " + none},
      {"minus infinity in a vector", Changed([&](Tensors& t) { t.Put(bias, 0, -HUGE_VALF); }),
       "\"" + bias + "\" " + none},
      {"a tensor missing", Changed([&](Tensors& t) { t.Remove(in); }),
       "it has no tensor \"" + in + "\", which the config asks for"},
      {"a vector missing", Changed([&](Tensors& t) { t.Remove(bias); }),
       "it has no tensor \"" + bias + "\""},
      {"a tensor too many",
       Changed([&](Tensors& t) { t.Add("optimiser.mean", TensorType::kF32, {2}, 8); }),
       "it has a tensor \"optimiser.mean\", which the config knows nothing of"},
      {"scales of what is not quantised", Changed([&](Tensors& t) {
         t.Add(in + ".scales", TensorType::kF32, {72, 1}, 288);
       }),
       "it has a tensor \"" + in + ".scales\", which the config knows nothing of"},
      {"a matrix that lies on its side", Changed([&](Tensors& t) {
         t.At(in).shape = {24, 72};
       }),
       "\"" + in + "\" has the shape [24, 72]; the config asks for [72, 24]"},
      {"a matrix without rows", Changed([&](Tensors& t) { t.At(in).shape = {72 * 24}; }),
       "\"" + in + "\" has the shape [1728]; the config asks for [72, 24]"},
      {"a vector with rows", Changed([&](Tensors& t) {
         t.At(bias).shape = {8, 9};
       }),
       "\"" + bias + "\" has the shape [8, 9]; the config asks for [72]"},
      {"integers for floats", Changed([&](Tensors& t) { t.At(in).type = TensorType::kI32; }),
       "\"" + in + "\" is of type I32; weights are F32, BF16, I8 (int8) or U8 (int4)"},
      {"a vector of bfloat16", Changed([&](Tensors& t) {
         t.Remove(bias);
         t.Add(bias, TensorType::kBF16, {72}, 144);
       }),
       "\"" + bias + "\" is of type BF16; it must be F32"},
  };
  ExpectRefused("model.safetensors", load_, table);
}

TEST_F(CorruptModelsTest, WhoseBitsFlippedAreRefused) {
  const ModelConfig config = SmallConfig({{"vocabulary", 260}});
  for (const WeightType type : {WeightType::kFloat32, WeightType::kBFloat16, WeightType::kInt8}) {
    SCOPED_TRACE(Name(type));
    WriteConfig(Path("config.json"), config);
    const Parameters parameters = SmallParameters(config, 1, type);
    SaveParameters(config, parameters, folder_.string());
    WriteParameters(config, parameters, Path("good.safetensors"));
    EXPECT_EQ(Read(Path("good.safetensors")), Read(Path("model.safetensors")));
    Model::Load(folder_.string());
    const std::string matrix = "decoder.layers.1.feed_forward.out_weight";
    const std::string vector = "decoder.norm.bias";
    const std::string saved = "\" is not what was saved: it is ";
    const Corrupt table[] = {
        {"the lowest bit of a matrix", Changed([&](Tensors& t) {
           const auto byte = static_cast<uint8_t>(t.At(matrix).data[7]);
           t.Put(matrix, 7, static_cast<uint8_t>(byte ^ 1));
         }),
         "\"" + matrix + saved},
        {"the sign of a vector's number", Changed([&](Tensors& t) {
           const auto byte = static_cast<uint8_t>(t.At(vector).data[3]);
           t.Put(vector, 3, static_cast<uint8_t>(byte ^ 0x80));
         }),
         "\"" + vector + saved},
        {"bits that make NaN",
         Changed([&](Tensors& t) { t.Put(vector, 8, std::numeric_limits<float>::quiet_NaN()); }),
         "\"" + vector + saved},
    };
    ExpectRefused("model.safetensors", load_, table);
    // Nothing is wrong with them for who takes away the checksums.
    WriteParameters(config, SmallParameters(config, 2, type), Path("model.safetensors"));
    EXPECT_NE(ErrorOf([&] { load_(""); }), "");
    std::filesystem::remove(Path("checksums.json"));
    Model::Load(folder_.string());
  }
}

// Larger matrices are copied and checked in parts.
TEST_F(CorruptModelsTest, AreReadToTheLastNumberHoweverLargeTheyAre) {
  const ModelConfig config = SmallConfig({{"vocabulary", 20000}});
  WriteConfig(Path("config.json"), config);
  const Parameters parameters = SmallParameters(config, 1);
  WriteParameters(config, parameters, Path("model.safetensors"));
  const Parameters read = Model::Load(folder_.string()).network().parameters();
  const size_t bytes = 20000 * 24 * sizeof(float);
  EXPECT_EQ(std::memcmp(read.tokens.data, parameters.tokens.data, bytes), 0);

  std::filesystem::rename(Path("model.safetensors"), Path("good.safetensors"));
  const Corrupt table[] = {
      {"NaN as the last of 480,000 numbers",
       Changed([&](Tensors& t) { t.Put("embeddings.tokens", bytes - 4, std::nanf("")); }),
       "\"embeddings.tokens\" holds numbers that are infinite or NaN"},
  };
  ExpectRefused("model.safetensors", load_, table);
}

TEST_F(CorruptModelsTest, WhoseQuantisedWeightsDoNotFitAreRefused) {
  const std::string in = "decoder.layers.0.feed_forward.in_weight";  // [40, 24]
  const std::string scales = in + ".scales";
  const auto refused = [&](WeightType type, const std::string& shape, int64_t columns,
                           float too_large) {
    SCOPED_TRACE(Name(type));
    WriteWeights(type);
    const Corrupt table[] = {
        {"no scales", Changed([&](Tensors& t) { t.Remove(scales); }),
         "it has no tensor \"" + scales + "\", which the config asks for"},
        {"scales of another shape", Changed([&](Tensors& t) {
           t.At(scales).shape = {1, 40};
         }),
         "\"" + scales + "\" has the shape [1, 40]; the config asks for [40, 1]"},
        {"scales of another type",
         Changed([&](Tensors& t) { t.At(scales).type = TensorType::kI32; }),
         "\"" + scales + "\" is of type I32; it must be F32"},
        {"a scale of NaN",
         Changed([&](Tensors& t) { t.Put(scales, 156, std::numeric_limits<float>::quiet_NaN()); }),
         "\"" + scales + "\" holds numbers that are infinite or NaN"},
        {"a scale whose weights are infinite",
         Changed([&](Tensors& t) { t.Put(scales, 4, too_large); }),
         "\"" + scales + "\" holds the scale "},
        {"a scale below whose weights are infinite",
         Changed([&](Tensors& t) { t.Put(scales, 4, -too_large); }),
         ", which makes products infinite; the file is damaged"},
        {"rows that are no whole groups", Changed([&](Tensors& t) {
           const TensorType kept = t.At(in).type;
           t.Remove(in);
           t.Add(in, kept, {40, columns - 1}, static_cast<size_t>(40 * (columns - 1)));
         }),
         "\"" + in + "\" has the shape [40, " + std::to_string(columns - 1) +
             "]; the config asks for " + shape},
    };
    ExpectRefused("model.safetensors", load_, table);
  };
  refused(WeightType::kInt8, "[40, 64]", 64, 3e36f);
  refused(WeightType::kInt4, "[40, 16]", 16, 5e37f);

  WriteWeights(WeightType::kBFloat16);
  const Corrupt table[] = {
      {"NaN in bfloat16", Changed([&](Tensors& t) { t.Put(in, 2, uint16_t{0x7fc0}); }),
       "\"" + in + "\" holds numbers that are infinite or NaN"},
      {"infinity in bfloat16", Changed([&](Tensors& t) { t.Put(in, 1918, uint16_t{0xff80}); }),
       "\"" + in + "\" holds numbers that are infinite or NaN"},
  };
  ExpectRefused("model.safetensors", load_, table);
}

}  // namespace
}  // namespace cosformer::runtime::testing
