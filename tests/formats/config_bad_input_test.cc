// A table of configs that make no model, each with the sentence it must give.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "contains.h"
#include "folder.h"
#include "formats/config.h"

namespace cosformer {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::MessageOf;
using ConfigBadInputTest = testing::FolderTest;

struct BadConfig {
  const char* text;
  const char* sentence;
};

void ExpectSentences(std::span<const BadConfig> cases) {
  for (const BadConfig& bad : cases) {
    EXPECT_EQ(MessageOf([&] { ParseConfig(json::parse(bad.text)); }), bad.sentence) << bad.text;
  }
}

TEST_F(ConfigBadInputTest, ContradictionsAreNamed) {
  const BadConfig cases[] = {
      {"{}", "config.json: \"vocabulary\" is missing or 0; token input needs the number of tokens"},
      {R"({"vocabulary": 9, "heads": 6, "kv_heads": 4, "head_dim": 8})",
       "config.json: \"heads\" 6 is not a multiple of \"kv_heads\" 4"},
      {R"({"vocabulary": 9, "heads": 2, "kv_heads": 4})",
       "config.json: \"heads\" 2 is not a multiple of \"kv_heads\" 4"},
      {R"({"vocabulary": 9, "width": 100, "heads": 8})",
       "config.json: \"width\" 100 is not a multiple of \"heads\" 8; change one, or give "
       "\"head_dim\""},
      {R"({"vocabulary": 9, "head_dim": 5, "positions": "rotary"})",
       "config.json: \"head_dim\" is 5; rotary positions turn pairs and need an even one"},
      {R"({"vocabulary": 9, "width": 24, "positions": "rotary"})",
       "config.json: \"head_dim\" is 3; rotary positions turn pairs and need an even one"},
      {R"({"vocabulary": 9, "heads": 65536, "head_dim": 17})",
       "config.json: 65536 heads of dimension 17 are wider than 1048576; choose fewer or smaller "
       "ones"},
      {R"({"vocabulary": 9, "layers": 3, "attention": ["linear", "softmax"]})",
       "config.json: attention is a list of 2 but the model has 3 layers; give one a layer, or one "
       "without a list"},
      {R"({"vocabulary": 9, "layers": 3, "attention": ["linear"]})",
       "config.json: attention is a list of 1 but the model has 3 layers; give one a layer, or one "
       "without a list"},
      {R"({"vocabulary": 9, "layers": 2, "model": "encoder-decoder", "attention": ["a", "b"]})",
       "config.json: attention is a list of 2 but the model has 4 layers; give one a layer, or one "
       "without a list"},
      {R"({"vocabulary": 9, "decoder_layers": 2})",
       "config.json: \"decoder_layers\" is 2, but a model of kind \"decoder\" has only \"layers\"; "
       "remove it"},
      {R"({"vocabulary": 9, "cross_attention": "cosformer"})",
       "config.json: \"cross_attention\" is given, but only a model of kind \"encoder-decoder\" "
       "has "
       "one; remove it"},
      {R"({"vocabulary": 9, "model": "encoder", "classes": 1})",
       "config.json: \"classes\" is 1; a choice needs at least 2, 0 is none"},
      {R"({"vocabulary": 9, "classes": 2})",
       "config.json: \"classes\" is 2, but a model of kind \"decoder\" predicts tokens; remove it, "
       "or choose \"encoder\" or \"two-tower\""},
      {R"({"vocabulary": 9, "model": "encoder-decoder", "classes": 2})",
       "config.json: \"classes\" is 2, but a model of kind \"encoder-decoder\" predicts tokens; "
       "remove it, or choose \"encoder\" or \"two-tower\""},
      {R"({"vocabulary": 9, "model": "two-tower"})",
       "config.json: a model of kind \"two-tower\" needs \"classes\", at least 2"},
      {R"({"vocabulary": 9, "model": "encoder", "pool": "mean"})",
       "config.json: \"pool\" is given, but there are no \"classes\" to pool for; remove it"},
      {R"({"vocabulary": 9, "model": "encoder", "classes": 2, "tied_embeddings": true})",
       "config.json: \"tied_embeddings\" is given, but a model with \"classes\" has no output "
       "layer "
       "over the vocabulary; remove it"},
      {R"({"vocabulary": 9, "negatives": 4})",
       "config.json: \"negatives\" is 4 but the loss is \"cross-entropy\", which samples none; "
       "remove it, or choose \"one-vs-each\""},
      {R"({"vocabulary": 9, "loss": "one-vs-each", "negatives": 9})",
       "config.json: \"negatives\" is 9 but \"vocabulary\" is 9; at most the other tokens can be "
       "sampled"},
      {R"({"vocabulary": 1, "loss": "one-vs-each"})",
       "config.json: \"vocabulary\" is 1; \"one-vs-each\" needs another token to compare with"},
      {R"({"vocabulary": 9, "loss": "one-vs-each", "model": "encoder", "classes": 2})",
       "config.json: \"loss\" is \"one-vs-each\", which samples tokens, but the model predicts 2 "
       "classes; choose \"cross-entropy\""},
      {R"({"vocabulary": 9, "dropout": 1})",
       "config.json: \"dropout\" is 1, which leaves nothing; expected less"},
  };
  ExpectSentences(cases);
}

TEST_F(ConfigBadInputTest, ImagesThatDoNotFitAreNamed) {
  const BadConfig cases[] = {
      {R"({"vocabulary": 9, "input": {"kind": "tokens", "height": 4}})",
       "config.json: \"input\" is \"tokens\" but describes an image; remove height, width, "
       "channels "
       "and patch, or choose \"pixels\" or \"patches\""},
      {R"({"model": "encoder", "classes": 2, "input": "pixels"})",
       "config.json: input: \"height\" is 0; expected a value from 1 to 65536"},
      {R"({"model": "encoder", "classes": 2,
           "input": {"kind": "patches", "height": 10, "width": 12, "patch": 4}})",
       "config.json: patches of 4 x 4 do not tile an image of 10 x 12; choose a divisor of both"},
      {R"({"model": "encoder", "classes": 2,
           "input": {"kind": "patches", "height": 12, "width": 10, "patch": 4}})",
       "config.json: patches of 4 x 4 do not tile an image of 12 x 10; choose a divisor of both"},
      {R"({"model": "encoder", "classes": 2,
           "input": {"kind": "pixels", "height": 12, "width": 10, "patch": 2}})",
       "config.json: \"patch\" is 2 but the input is \"pixels\", one by one; choose \"patches\""},
      {R"({"model": "encoder", "classes": 2,
           "input": {"kind": "pixels", "height": 32, "width": 33}})",
       "config.json: the image is 1056 pixels long but \"max_length\" is 1024; raise it or make "
       "the "
       "image smaller"},
      {R"({"model": "encoder", "classes": 2, "max_length": 15,
           "input": {"kind": "patches", "height": 16, "width": 16, "patch": 4}})",
       "config.json: the image is 16 patches long but \"max_length\" is 15; raise it or make the "
       "image smaller"},
      {R"({"model": "encoder", "classes": 2, "max_length": 2147483648,
           "input": {"kind": "pixels", "height": 65536, "width": 65536}})",
       "config.json: the image is 4294967296 pixels long but \"max_length\" is 2147483648; raise "
       "it "
       "or make the image smaller"},
      {R"({"model": "encoder", "classes": 2, "vocabulary": 256,
           "input": {"kind": "pixels", "height": 4, "width": 4}})",
       "config.json: \"vocabulary\" is 256 but the input is an image, which has none; remove it"},
      {R"({"model": "encoder", "input": {"kind": "pixels", "height": 4, "width": 4}})",
       "config.json: an image needs \"classes\": it has no tokens to predict"},
      {R"({"input": {"kind": "pixels", "height": 4, "width": 4}})",
       "config.json: an image needs \"classes\": it has no tokens to predict"},
      {R"({"model": "encoder", "classes": 2, "tied_embeddings": true,
           "input": {"kind": "pixels", "height": 4, "width": 4}})",
       "config.json: \"tied_embeddings\" is given, but the input is an image, which has no "
       "embeddings to tie; remove it"},
  };
  ExpectSentences(cases);
}

TEST_F(ConfigBadInputTest, WrongValuesAndKeysAreNamed) {
  const BadConfig cases[] = {
      {"[]", "config.json is a list of 0; expected an object, {\"key\": value, ...}"},
      {R"({"model": "transformer"})",
       "config.json: \"model\" is the text \"transformer\"; expected one of \"decoder\", "
       "\"encoder\", \"two-tower\", \"encoder-decoder\""},
      {R"({"width": 0})", "config.json: \"width\" is 0; expected an integer from 1 to 65536"},
      {R"({"width": 65537})",
       "config.json: \"width\" is 65537; expected an integer from 1 to 65536"},
      {R"({"width": 64.5})", "config.json: \"width\" is 64.5; expected an integer from 1 to 65536"},
      {R"({"vocabulary": 16777217})",
       "config.json: \"vocabulary\" is 16777217; expected an integer from 0 to 16777216"},
      {R"({"layers": 1025})",
       "config.json: \"layers\" is 1025; expected an integer from 1 to 1024"},
      {R"({"heads": 0})", "config.json: \"heads\" is 0; expected an integer from 1 to 65536"},
      {R"({"head_dim": -1})",
       "config.json: \"head_dim\" is -1; expected an integer from 0 to 65536"},
      {R"({"max_length": 2147483649})",
       "config.json: \"max_length\" is 2147483649; expected an integer from 1 to 2147483648"},
      {R"({"norm_epsilon": 0})",
       "config.json: \"norm_epsilon\" is 0; expected a finite number from 1e-12 to 0.1"},
      {R"({"dropout": -0.5})",
       "config.json: \"dropout\" is -0.5; expected a finite number from 0 to 1"},
      {R"({"bias": 1})", "config.json: \"bias\" is 1; expected true or false"},
      {R"({"attention": 3})",
       "config.json: attention is 3; expected a name, or an object {\"system\": name, ...}"},
      {R"({"attention": null})",
       "config.json: attention is null; expected a name, or an object {\"system\": name, ...}"},
      {R"({"attention": {"features": 3}})", "config.json: attention lacks the key \"system\""},
      {R"({"layers": 2, "attention": ["linear", {"system": 3}]})",
       "config.json: attention, layer 1: \"system\" is 3; expected a text in quotes"},
      {R"({"vocabulary": 9, "attention": ""})",
       "config.json: the attention of layer 0 has no name; expected one as \"cosformer\""},
      {R"({"positions": []})",
       "config.json: positions is a list of 0; expected a name, or an object {\"kind\": name, "
       "...}"},
      {R"({"positions": {"base": 10}})", "config.json: positions lacks the key \"kind\""},
      {R"({"positions": {"kind": "learned", "base": 10000}})",
       "config.json: positions: \"base\" does nothing for positions of kind \"learned\"; remove "
       "it"},
      {R"({"positions": {"kind": "spe-sine", "kernel": 128}})",
       "config.json: positions: \"kernel\" does nothing for positions of kind \"spe-sine\"; remove "
       "it"},
      {R"({"positions": {"kind": "rotary", "base": 0}})",
       "config.json: positions: \"base\" is 0; expected a finite number from 1.001 to 1e+12"},
      {R"({"positions": {"kind": "rotary", "bases": 7}})",
       "config.json: positions: unknown key \"bases\" (did you mean \"base\"?); expected only "
       "\"kind\", \"sines\", \"kernel\", \"realisations\", \"base\", \"gated\""},
      {R"({"positions": {"kind": "spe-conv", "realisations": 0}})",
       "config.json: positions: \"realisations\" is 0; expected an integer from 1 to 4096"},
      {R"({"input": {"height": 3}})", "config.json: input lacks the key \"kind\""},
      {R"({"input": {"kind": "pixels", "hight": 3}})",
       "config.json: input: unknown key \"hight\" (did you mean \"height\"?); expected only "
       "\"kind\", \"height\", \"width\", \"channels\", \"patch\""},
  };
  ExpectSentences(cases);
  EXPECT_TRUE(Contains(
      MessageOf([] { ParseConfig(json::parse(R"({"vocabulary": 9, "tied_embedding": true})")); }),
      "config.json: unknown key \"tied_embedding\" (did you mean \"tied_embeddings\"?); expected "
      "only "));
}

struct BadStruct {
  std::function<void(ModelConfig&)> spoil;
  const char* sentence;
};

// What a file can't say, or says in another place.
TEST_F(ConfigBadInputTest, StructsAreHeldToTheSameRules) {
  const BadStruct cases[] = {
      {[](ModelConfig& c) { c.width = 65537; },
       "config: \"width\" is 65537; expected a value from 1 to 65536"},
      {[](ModelConfig& c) { c.heads = -8; },
       "config: \"heads\" is -8; expected a value from 1 to 65536"},
      {[](ModelConfig& c) { c.hidden = INT64_MAX; },
       "config: \"hidden\" is 9223372036854775807; expected a value from 0 to 1048576"},
      {[](ModelConfig& c) { c.dropout = std::nan(""); },
       "config: \"dropout\" is nan; expected a value from 0 to 1"},
      {[](ModelConfig& c) { c.norm_epsilon = INFINITY; },
       "config: \"norm_epsilon\" is inf; expected a value from 1e-12 to 0.1"},
      {[](ModelConfig& c) { c.attention.resize(3); },
       "config: \"attention\" is a list of 3 but the model has 8 layers; give one a layer, or one "
       "for all"},
      {[](ModelConfig& c) {
         c.attention = {{"linear", json::array({1})}};
       },
       "config: the options of the attention of layer 0 are a list of 1; expected an object"},
      {[](ModelConfig& c) {
         c.attention = {{"linear", {{"system", "softmax"}}}};
       },
       "config: the options of the attention of layer 0 hold \"system\", which is the key of its "
       "name"},
      {[](ModelConfig& c) { c.cross_attention.system = "linear"; },
       "config: \"cross_attention\" is given, but a model of kind \"decoder\" has none; remove it"},
      {[](ModelConfig& c) { c.pool = Pool::kFirst; },
       "config: \"pool\" is \"first\" but there are no \"classes\" to pool for; remove it"},
      {[](ModelConfig& c) { c.image.height = 4; },
       "config: \"input\" is \"tokens\" but describes an image; remove height, width, channels and "
       "patch, or choose \"pixels\" or \"patches\""},
      {[](ModelConfig& c) { c.positions.rotary_base = 500; },
       "config: positions: \"base\" does nothing for positions of kind \"learned\"; remove it"},
      {[](ModelConfig& c) {
         c.positions = {PositionKind::kSpeSine, 10000, 5, 129};
       },
       "config: positions: \"kernel\" does nothing for positions of kind \"spe-sine\"; remove it"},
      {[](ModelConfig& c) {
         c.positions = {PositionKind::kRotary, std::nan("")};
       },
       "config: positions: \"base\" is nan; expected a value from 1.001 to 1000000000000"},
      {[](ModelConfig& c) { c.positions.gated = false; },
       "config: positions: \"gated\" does nothing for positions of kind \"learned\"; remove it"},
  };
  for (const BadStruct& bad : cases) {
    ModelConfig config;
    config.vocabulary = 100;
    bad.spoil(config);
    EXPECT_EQ(MessageOf([&] { Validate(config); }), bad.sentence);
    EXPECT_EQ(MessageOf([&] { WriteConfig(Path("config.json"), config); }), bad.sentence);
  }
  EXPECT_EQ(FilesInFolder(), 0);
}

TEST_F(ConfigBadInputTest, TheFileIsNamed) {
  const std::string path = Write("config.json", R"({"width": 0})");
  EXPECT_EQ(MessageOf([&] { ReadConfig(path); }),
            "\"" + path + "\": \"width\" is 0; expected an integer from 1 to 65536");
  const std::string missing = Path("missing.json");
  EXPECT_TRUE(Contains(MessageOf([&] { ReadConfig(missing); }), missing));
}

}  // namespace
}  // namespace cosformer
