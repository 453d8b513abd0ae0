// What a config says, what it leaves out, and that nothing is lost on the way through a file.
#include "formats/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "contains.h"
#include "folder.h"

namespace cosformer {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::MessageOf;
using ConfigTest = testing::FolderTest;

ModelConfig Parse(const char* text) { return ParseConfig(json::parse(text)); }

TEST_F(ConfigTest, DefaultsAreResolvedFromTheOtherFields) {
  const ModelConfig config = Parse(R"({"vocabulary": 256, "width": 96, "heads": 6, "layers": 3})");
  EXPECT_EQ(config.kind, ModelKind::kDecoder);
  EXPECT_EQ(config.input, InputKind::kTokens);
  EXPECT_EQ(config.vocabulary, 256);
  EXPECT_EQ(config.kv_heads, 6);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.hidden, 384);
  EXPECT_EQ(config.decoder_layers, 0);
  EXPECT_EQ(config.max_length, 1024);
  EXPECT_EQ(config.attention, std::vector<SystemConfig>(3));
  EXPECT_EQ(config.attention[0].system, "cosformer");
  EXPECT_EQ(config.positions, PositionConfig{});
  EXPECT_EQ(config.norm, NormKind::kLayerNorm);
  EXPECT_EQ(config.norm_place, NormPlace::kPre);
  EXPECT_EQ(config.norm_epsilon, 1e-5);
  EXPECT_EQ(config.activation, Activation::kGelu);
  EXPECT_EQ(config.dropout, 0);
  EXPECT_TRUE(config.bias);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.classes, 0);
  EXPECT_EQ(config.loss, LossKind::kCrossEntropy);
  EXPECT_EQ(config.negatives, 0);
  EXPECT_FALSE(config.checkpointing);
}

TEST_F(ConfigTest, EveryKeyReachesItsField) {
  const ModelConfig config = Parse(R"({
    "format": 1, "model": "encoder-decoder", "input": "tokens", "vocabulary": 5000, "width": 60,
    "layers": 2, "decoder_layers": 1, "heads": 6, "kv_heads": 3, "head_dim": 20, "hidden": 77,
    "max_length": 99, "attention": [{"system": "performer", "features": 8}, "linear", "softmax"],
    "cross_attention": {"system": "linear", "eps": 0.5}, "positions": {"kind": "rotary", "base": 500},
    "norm": "rms", "norm_position": "post", "norm_epsilon": 1e-6, "activation": "swiglu",
    "dropout": 0.25, "bias": false, "tied_embeddings": false, "loss": "one-vs-each",
    "negatives": 17, "checkpointing": true})");
  ModelConfig expected;
  expected.kind = ModelKind::kEncoderDecoder;
  expected.vocabulary = 5000;
  expected.width = 60;
  expected.layers = 2;
  expected.decoder_layers = 1;
  expected.heads = 6;
  expected.kv_heads = 3;
  expected.head_dim = 20;
  expected.hidden = 77;
  expected.max_length = 99;
  expected.attention = {{"performer", {{"features", 8}}}, {"linear"}, {"softmax"}};
  expected.cross_attention = {"linear", {{"eps", 0.5}}};
  expected.positions.kind = PositionKind::kRotary;
  expected.positions.rotary_base = 500;
  expected.norm = NormKind::kRmsNorm;
  expected.norm_place = NormPlace::kPost;
  expected.norm_epsilon = 1e-6;
  expected.activation = Activation::kSwiglu;
  expected.dropout = 0.25;
  expected.bias = false;
  expected.tied_embeddings = false;
  expected.loss = LossKind::kOneVsEach;
  expected.negatives = 17;
  expected.checkpointing = true;
  EXPECT_EQ(config, expected) << ToJson(config).dump(2);
}

TEST_F(ConfigTest, ClassesPoolAndImagesReachTheirFields) {
  const ModelConfig config = Parse(R"({
    "model": "encoder", "classes": 10, "pool": "last",
    "input": {"kind": "patches", "height": 32, "width": 48, "channels": 3, "patch": 16}})");
  EXPECT_EQ(config.classes, 10);
  EXPECT_EQ(config.pool, Pool::kLast);
  EXPECT_EQ(config.input, InputKind::kPatches);
  EXPECT_EQ(config.image, (ImageConfig{32, 48, 3, 16}));
  EXPECT_EQ(config.ImageLength(), 6);
  EXPECT_EQ(config.vocabulary, 0);
  EXPECT_FALSE(config.tied_embeddings);

  const ModelConfig pixels = Parse(R"({"model": "two-tower", "classes": 2,
                                       "input": {"kind": "pixels", "height": 28, "width": 30}})");
  EXPECT_EQ(pixels.ImageLength(), 840);
  EXPECT_EQ(pixels.pool, Pool::kMean);
}

TEST_F(ConfigTest, EveryNameIsReadAsItIsWritten) {
  const auto read = [](const char* key, std::string_view name) {
    json object = {{"vocabulary", 100}, {"model", "encoder"}, {"classes", 2}};
    object[key] = name;
    return ParseConfig(object);
  };
  for (auto norm : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    EXPECT_EQ(read("norm", Name(norm)).norm, norm);
  }
  for (auto place : {NormPlace::kPre, NormPlace::kPost}) {
    EXPECT_EQ(read("norm_position", Name(place)).norm_place, place);
  }
  for (auto activation : {Activation::kGelu, Activation::kRelu, Activation::kSwiglu}) {
    EXPECT_EQ(read("activation", Name(activation)).activation, activation);
  }
  for (auto pool : {Pool::kMean, Pool::kFirst, Pool::kLast}) {
    EXPECT_EQ(read("pool", Name(pool)).pool, pool);
  }
  for (auto kind : {PositionKind::kNone, PositionKind::kLearned, PositionKind::kSinusoidal,
                    PositionKind::kRotary, PositionKind::kSpeSine, PositionKind::kSpeConv}) {
    EXPECT_EQ(read("positions", Name(kind)).positions.kind, kind);
  }
  EXPECT_EQ(Name(ModelKind::kDecoder), "decoder");
  EXPECT_EQ(Name(ModelKind::kEncoder), "encoder");
  EXPECT_EQ(Name(ModelKind::kTwoTower), "two-tower");
  EXPECT_EQ(Name(ModelKind::kEncoderDecoder), "encoder-decoder");
  EXPECT_EQ(Name(NormKind::kRmsNorm), "rms");
  EXPECT_EQ(Name(NormPlace::kPost), "post");
  EXPECT_EQ(Name(Activation::kSwiglu), "swiglu");
  EXPECT_EQ(Name(Pool::kFirst), "first");
  EXPECT_EQ(Name(InputKind::kPatches), "patches");
  EXPECT_EQ(Name(PositionKind::kNone), "none");
  EXPECT_EQ(Name(PositionKind::kSinusoidal), "sinusoidal");
  EXPECT_EQ(Name(PositionKind::kSpeConv), "spe-conv");
  EXPECT_EQ(Name(LossKind::kOneVsEach), "one-vs-each");
}

TEST_F(ConfigTest, ParsingWhatWasWrittenGivesTheSameConfig) {
  const char* texts[] = {
      R"({"vocabulary": 256})",
      R"({"vocabulary": 16777216, "width": 65536, "layers": 1024, "heads": 1, "max_length": 2147483648})",
      R"({"vocabulary": 50, "attention": {"system": "performer", "nested": {"a": [1, null, "x"]}}})",
      R"({"vocabulary": 50, "layers": 2, "attention": ["linear", {"system": "linear", "a": 1}]})",
      R"({"vocabulary": 50, "layers": 1, "attention": ["softmax"]})",
      R"({"vocabulary": 50, "positions": "none", "dropout": 0.1, "norm_epsilon": 1e-8})",
      R"({"vocabulary": 50, "positions": {"kind": "rotary", "base": 1234.5}})",
      R"({"vocabulary": 50, "positions": {"kind": "spe-sine", "sines": 3, "realisations": 7, "gated": false}})",
      R"({"vocabulary": 50, "positions": {"kind": "spe-conv", "kernel": 9, "realisations": 7}})",
      R"({"vocabulary": 50, "loss": "one-vs-each"})",
      R"({"vocabulary": 5000, "loss": "one-vs-each", "model": "encoder"})",
      R"({"vocabulary": 50, "model": "encoder", "classes": 3, "pool": "first"})",
      R"({"vocabulary": 50, "model": "two-tower", "classes": 2, "tied_embeddings": false})",
      R"({"vocabulary": 50, "model": "encoder-decoder", "layers": 2, "cross_attention": "linear"})",
      R"({"vocabulary": 50, "model": "encoder-decoder", "layers": 1, "decoder_layers": 3,
          "attention": ["a", "b", "c", "d"], "cross_attention": {"system": "x", "y": 1}})",
      R"({"model": "encoder", "classes": 2, "input": {"kind": "pixels", "height": 4, "width": 5}})",
      R"({"model": "encoder", "classes": 2, "max_length": 4,
          "input": {"kind": "patches", "height": 4, "width": 4, "channels": 3, "patch": 2}})",
  };
  for (const char* text : texts) {
    const ModelConfig config = Parse(text);
    const json written = ToJson(config);
    EXPECT_EQ(written["format"], 1);
    EXPECT_EQ(ParseConfig(written), config) << written.dump(2);
    ModelConfig again = config;
    Validate(again);
    EXPECT_EQ(again, config) << "validating twice changes nothing";
    WriteConfig(Path("config.json"), config);
    EXPECT_EQ(ReadConfig(Path("config.json")), config);
  }
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(ConfigTest, OneAttentionStandsForAllLayersOfBothStacks) {
  const ModelConfig config = Parse(R"({"model": "encoder-decoder", "vocabulary": 9, "layers": 2,
      "decoder_layers": 3, "attention": {"system": "linear", "a": 1}})");
  EXPECT_EQ(config.attention, std::vector<SystemConfig>(5, {"linear", {{"a", 1}}}));
  EXPECT_EQ(config.cross_attention, SystemConfig{});
  EXPECT_EQ(ToJson(config)["attention"], json({{"system", "linear"}, {"a", 1}}));
}

TEST_F(ConfigTest, ADecoderBesideAnEncoderHasAsManyLayers) {
  const ModelConfig config = Parse(R"({"model": "encoder-decoder", "vocabulary": 9, "layers": 5})");
  EXPECT_EQ(config.decoder_layers, 5);
  EXPECT_EQ(config.attention.size(), 10u);
}

TEST_F(ConfigTest, NegativesAreAThousandOrAllOtherTokens) {
  EXPECT_EQ(Parse(R"({"vocabulary": 5000, "loss": "one-vs-each"})").negatives, 1024);
  EXPECT_EQ(Parse(R"({"vocabulary": 1025, "loss": "one-vs-each"})").negatives, 1024);
  EXPECT_EQ(Parse(R"({"vocabulary": 256, "loss": "one-vs-each"})").negatives, 255);
  EXPECT_EQ(Parse(R"({"vocabulary": 5, "loss": "one-vs-each", "negatives": 4})").negatives, 4);
}

TEST_F(ConfigTest, AProgramMayFillTheStructItself) {
  ModelConfig config;
  config.vocabulary = 100;
  config.layers = 3;
  config.attention = {{"softmax"}};
  Validate(config);
  EXPECT_EQ(config.attention, std::vector<SystemConfig>(3, {"softmax"}));
  EXPECT_EQ(config.head_dim, 64);

  ModelConfig classifier;
  classifier.kind = ModelKind::kEncoder;
  classifier.vocabulary = 100;
  classifier.classes = 2;
  Validate(classifier);
  EXPECT_FALSE(classifier.tied_embeddings) << "there is no output layer to tie";
}

TEST_F(ConfigTest, AFailedValidationLeavesTheStructAsItWas) {
  ModelConfig config;
  config.vocabulary = 100;
  config.negatives = 3;
  const ModelConfig before = config;
  EXPECT_THROW(Validate(config), Error);
  EXPECT_EQ(config, before);
}

TEST_F(ConfigTest, TheFileEndsWithANewlineAndReadsWell) {
  ModelConfig config;
  config.vocabulary = 100;
  WriteConfig(Path("config.json"), config);
  const std::string text = Read(Path("config.json"));
  EXPECT_TRUE(Contains(text, "\n  \"vocabulary\": 100,\n"));
  EXPECT_TRUE(text.ends_with("}\n"));
}

TEST_F(ConfigTest, OptionsThatJsonCannotHoldAreRefusedAndTheOldFileStays) {
  const std::string path = Write("config.json", "old");
  ModelConfig config;
  config.vocabulary = 100;
  config.attention = {{"performer", {{"scale", std::nan("")}}}};
  EXPECT_TRUE(Contains(MessageOf([&] { WriteConfig(path, config); }), "NaN"));
  config.attention = {{"performer", {{"name", "\xff"}}}};
  EXPECT_TRUE(Contains(MessageOf([&] { WriteConfig(path, config); }), "UTF-8"));
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(FilesInFolder(), 1);
}

}  // namespace
}  // namespace cosformer
