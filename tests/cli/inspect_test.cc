// `cosformer inspect`: what it tells of models, sessions and tensors, against what the runtime says
// when it loads them.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "models.h"
#include "runtime/network.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using runtime::Model;
using runtime::Session;
using testing::Contains;

class InspectCommandTest : public testing::ModelCommandTest {
 protected:
  json Inspected(const std::string& arguments) const {
    const json all = JsonOf("inspect " + arguments);
    return all.size() == 1 ? all[0] : json();
  }
};

TEST_F(InspectCommandTest, AModelsFiguresAreThoseOfTheLoadedOne) {
  const json configs = {
      {"plain", json::object()},
      {"hybrid", {{"attention", {"cosformer", "softmax"}}, {"kv_heads", 2}}},
      {"turned", {{"positions", "rotary"}, {"head_dim", 8}}},
      {"learned", {{"positions", "learned"}, {"tied_embeddings", false}}},
      {"limitless", {{"attention", "linear"}, {"norm", "rms"}, {"bias", false}}},
      {"gains", {{"attention", {{"system", "cosformer"}, {"normaliser", "norm"}}}}}};
  for (const auto& [name, changes] : configs.items()) {
    SCOPED_TRACE(name);
    const fs::path directory = WriteModel(name, changes);
    const Model model = Model::Load(directory.string());
    const json facts = Inspected(name);
    EXPECT_EQ(facts["use"], "language model");
    EXPECT_EQ(facts["runs"], true);
    EXPECT_EQ(facts["weights"], "float32");
    EXPECT_EQ(facts["parameters"], model.parameters());
    EXPECT_EQ(facts["memory_bytes"], model.weight_bytes());
    EXPECT_EQ(facts["fingerprint"], model.network().parameters().fingerprint);
    int64_t parts = 0;
    for (const auto& [part, count] : facts["parts"].items()) parts += count.get<int64_t>();
    EXPECT_EQ(parts, model.parameters());
    int64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(directory)) {
      bytes += static_cast<int64_t>(entry.file_size());
    }
    EXPECT_EQ(facts["disk_bytes"], bytes);

    const json& session = facts["session"];
    const auto limit = model.max_tokens();
    EXPECT_EQ(session["longest_text"], limit ? json(*limit) : json());
    EXPECT_EQ(session["endless"], !limit);
    const auto ending = Model::Load(directory.string(), {.endless = false}).max_tokens();
    EXPECT_EQ(session["longest_text_no_endless"], ending ? json(*ending) : json());
    // What a session holds after some tokens, but that caches grow by more than a token at a time.
    Session text(model, {.checkpoints = 0});
    text.Feed(model.Encode("some text"));
    EXPECT_LE(session["constant_bytes"].get<size_t>() + 9 * session["token_bytes"].get<size_t>(),
              text.state_bytes());
    if (session["token_bytes"] == 0) {
      EXPECT_EQ(session["constant_bytes"], text.state_bytes());
    }
  }
  EXPECT_EQ(Inspected("hybrid")["session"]["token_bytes"], 2 * 2 * 6 * 4);
}

TEST_F(InspectCommandTest, TheSharesOfThePartsAreCounted) {
  WriteModel("lm", {{"tied_embeddings", false}, {"bias", false}, {"norm", "rms"}});
  const json parts = Inspected("lm")["parts"];
  EXPECT_EQ(parts["embedding"], 260 * 24);
  EXPECT_EQ(parts["attention"], 2 * (4 * 24 * 24 + 24));
  EXPECT_EQ(parts["feed-forward"], 2 * (2 * 24 * 40 + 24));
  EXPECT_EQ(parts["output"], 260 * 24 + 24);
}

TEST_F(InspectCommandTest, EqualNeighboursAmongLayersAreGathered) {
  WriteModel("lm", {{"layers", 5},
                    {"attention",
                     {"cosformer",
                      "cosformer",
                      "softmax",
                      {{"system", "cosformer"}, {"horizon", 500}},
                      "linear"}}});
  const json layers = Inspected("lm")["layers"];
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_EQ(layers[0]["first"], 0);
  EXPECT_EQ(layers[0]["last"], 1);
  EXPECT_EQ(layers[0]["horizon"], 96);
  EXPECT_EQ(layers[0]["state_grows"], false);
  EXPECT_EQ(layers[1]["attention"], "softmax");
  EXPECT_EQ(layers[1]["state_grows"], true);
  EXPECT_EQ(layers[2]["options"]["horizon"], 500);
  EXPECT_EQ(layers[3]["horizon"], nullptr);
  EXPECT_EQ(Inspected("lm")["horizons"], json({96, 500}));
  EXPECT_TRUE(Contains(Run("inspect lm").out,
                       "layers        5: 0 to 1 cosformer (horizon 96); 2 softmax; 3 cosformer "
                       "(horizon 500); 4 linear"));
}

TEST_F(InspectCommandTest, ATableTellsAPersonTheSame) {
  WriteModel("lm");
  const Outcome outcome = Run("inspect lm");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part :
       {"lm: language model\n", "width         24: 4 heads of 6\n", "hidden        40, gelu\n",
        "vocabulary    260 (bytes)\n", "however long the text\n", "longest text  any\n",
        "attends to    the last 48 to 96 tokens\n",
        "yes; with --no-endless a text has 96 tokens at most\n",
        "cosformer generate, cosformer score\n"}) {
    EXPECT_TRUE(Contains(outcome.out, part));
  }
}

TEST_F(InspectCommandTest, AModelsLayersSayHowFarBackTheyAttend) {
  const auto told = [&](const json& changes, const std::string& text) {
    WriteModel("lm", changes);
    EXPECT_TRUE(Contains(Run("inspect lm").out, "  attends to    " + text + "\n"));
  };
  told({{"attention", "linear"}}, "all tokens before it");
  told({{"attention", "linear-gate"}}, "all tokens before it, as far as its gate keeps them");
  told({{"attention", "cosformer-gate"}},
       "the last 48 to 96 tokens, as far as its gate keeps them");
  told({{"positions", "learned"}}, "all tokens before it");
  told({{"attention", {"cosformer", {{"system", "cosformer"}, {"epsilon", 0.1}}, "softmax"}},
        {"layers", 3}},
       "0 to 1: the last 48 to 96 tokens; 2: all tokens before it");
  const json layers = Inspected("lm")["layers"];
  EXPECT_EQ(layers[0]["attends_to"], json({48, 96}));
  EXPECT_EQ(layers[2]["attends_to"], nullptr);
}

// With one token changed, the logits of those that attend to it change, and no others.
TEST_F(InspectCommandTest, AModelAttendsAsFarBackAsIsSaid) {
  const Model model = Model::Load(WriteModel("lm", {{"layers", 1}}).string());
  const json reach = Inspected("lm")["layers"][0]["attends_to"];
  std::vector<int32_t> tokens = model.Encode(testing::SomeText(400));
  const auto logits = [&] { return Session(model).FeedAll(tokens); };
  const std::vector<float> before = logits();
  size_t least = 400, most = 0;
  for (size_t changed = 150; changed < 250; ++changed) {
    const int32_t token = std::exchange(tokens[changed], 'Z');
    const std::vector<float> after = logits();
    tokens[changed] = token;
    size_t last = changed;
    for (size_t i = changed; i < tokens.size(); ++i) {
      if (!std::equal(after.begin() + static_cast<ptrdiff_t>(i * 260),
                      after.begin() + static_cast<ptrdiff_t>(i * 260 + 260),
                      before.begin() + static_cast<ptrdiff_t>(i * 260))) {
        last = i;
      }
    }
    least = std::min(least, last - changed + 1);
    most = std::max(most, last - changed + 1);
  }
  EXPECT_GE(least, reach[0]);
  EXPECT_LE(least, reach[0].get<size_t>() + 1);
  EXPECT_EQ(most, reach[1]);
}

TEST_F(InspectCommandTest, OtherKindsSayWhatTheyAreFor) {
  WriteClassifier("judge");
  WriteModel("mlm", {{"model", "encoder"}});
  WriteModel("towers", {{"model", "two-tower"}, {"classes", 2}});
  const json judge = Inspected("judge");
  EXPECT_EQ(judge["use"], "classifier");
  EXPECT_EQ(judge["labels"], json({"bad", "fair", "good"}));
  EXPECT_EQ(judge["session"], nullptr);
  EXPECT_EQ(judge["parameters"], Model::Load((folder_ / "judge").string()).parameters());
  EXPECT_EQ(Inspected("mlm")["use"], "masked model");
  EXPECT_EQ(Inspected("towers")["use"], "retrieval");
  EXPECT_TRUE(Contains(Run("inspect judge").out, "cosformer generate will not run it"));
  EXPECT_TRUE(Contains(Run("inspect judge").out, "3: bad, fair, good"));
}

TEST_F(InspectCommandTest, ARunStandsForItsModelAndSeveralPathsAreListed) {
  WriteModel("run/model");
  WriteModel("other", {{"layers", 1}});
  EXPECT_EQ(Inspected("run")["path"], "run/model");
  const json both = JsonOf("inspect run other");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1]["path"], "other");
  EXPECT_EQ(both[1]["layers"][0]["last"], 0);
}

TEST_F(InspectCommandTest, QuantisedWeightsCountByTheirNumbers) {
  WriteModel("lm");
  ASSERT_EQ(Run("quantize lm small --weights int4").code, 0);
  const Model model = Model::Load((folder_ / "small").string());
  const json facts = Inspected("small");
  EXPECT_EQ(facts["weights"], "int4");
  EXPECT_EQ(facts["parameters"], Inspected("lm")["parameters"]);
  EXPECT_EQ(facts["memory_bytes"], model.weight_bytes());
  EXPECT_EQ(facts["fingerprint"], model.network().parameters().fingerprint);
  EXPECT_LT(facts["memory_bytes"], Inspected("lm")["memory_bytes"]);
}

TEST_F(InspectCommandTest, ModelsThatOnlyTrainingRunsAreDescribedWithTheReason) {
  WriteModel("random", {{"attention", {"performer", "cosformer"}}});
  const json random = Inspected("random");
  EXPECT_EQ(random["runs"], false);
  EXPECT_TRUE(Contains(random["why_not"].get<std::string>(), "performer"));
  EXPECT_EQ(random["layers"][0]["attention"], "performer");
  EXPECT_EQ(random["layers"][0]["horizon"], nullptr);
  EXPECT_GT(random["parameters"], 0);
  EXPECT_TRUE(Contains(Run("inspect random").out, "not with cosformer generate"));

  const fs::path both = WriteModel("both", {{"model", "encoder-decoder"},
                                            {"layers", 1},
                                            {"decoder_layers", 2},
                                            {"cross_attention", "linear"}});
  const std::vector<float> numbers(24, 1.0f);
  const auto bytes = std::as_bytes(std::span(numbers));
  const std::vector<TensorEntry> tensors = {
      {"embeddings.tokens", TensorType::kF32, {4, 6}, bytes},
      {"decoder.layers.1.cross.in_weight", TensorType::kF32, {6, 4}, bytes},
      {"decoder.layers.1.feed_forward_norm.weight", TensorType::kF32, {24}, bytes},
      {"decoder.layers.1.attention.system.passes", TensorType::kI64, {12}, bytes},
      {"decoder.norm.weight", TensorType::kF32, {24}, bytes}};
  WriteSafetensors((both / "model.safetensors").string(), tensors);
  const json facts = Inspected("both");
  EXPECT_EQ(facts["use"], "sequence to sequence");
  EXPECT_EQ(facts["runs"], false);
  EXPECT_EQ(facts["cross_attention"], "linear");
  ASSERT_EQ(facts["layers"].size(), 2u);
  EXPECT_EQ(facts["layers"][1]["stack"], "decoder");
  EXPECT_EQ(facts["layers"][1]["last"], 1);
  // The buffer of integers is no parameter.
  EXPECT_EQ(facts["parts"],
            json({{"embedding", 24}, {"attention", 24}, {"feed-forward", 24}, {"output", 24}}));
}

TEST_F(InspectCommandTest, FilesThatDoNotBelongTogetherAreSaidNotToRun) {
  const fs::path lm = WriteModel("lm");
  const fs::path wide = WriteModel("wide", {{"width", 48}});
  fs::copy_file(wide / "model.safetensors", lm / "model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(Contains(Inspected("lm")["why_not"].get<std::string>(), "the config asks for"));
  Tokenizer::Words({"one", "two"}).Save(wide.string());
  EXPECT_TRUE(Contains(Inspected("wide")["why_not"].get<std::string>(), "its tokenizer has 7"));
  // As many tokens, but others.
  const Tokenizer own = Tokenizer::Words({"cat", "moon"});
  const fs::path words =
      WriteModel("words", {{"vocabulary", 7}},
                 {.task = "lm", .labels = {}, .pairs = false, .tokenizer = own.Fingerprint()});
  own.Save(words.string());
  EXPECT_EQ(Inspected("words")["runs"], true);
  Tokenizer::Words({"sea", "sun"}).Save(words.string());
  EXPECT_EQ(Inspected("words")["runs"], false);
  EXPECT_TRUE(Contains(Run("inspect words").out,
                       "its tokenizer is not the one that the model was trained with"));
}

TEST_F(InspectCommandTest, ASessionNamesItsModelAndIsHeldAgainstIt) {
  const fs::path directory = WriteModel("lm");
  WriteModel("other", {{"layers", 3}});
  const Model model = Model::Load(directory.string());
  Session session(model);
  session.Feed(model.Encode("a text that was read"));
  session.Save((folder_ / "text.session").string());
  const json facts = Inspected("text.session");
  EXPECT_EQ(facts["type"], "session");
  EXPECT_EQ(facts["position"], 20);
  EXPECT_EQ(facts["layers"], 2);
  EXPECT_EQ(facts["bytes"], fs::file_size(folder_ / "text.session"));
  EXPECT_EQ(facts["model"], Inspected("lm")["fingerprint"]);
  EXPECT_EQ(facts["tokenizer"], Tokenizer::Bytes().Fingerprint());
  EXPECT_EQ(facts["fits"], nullptr);
  EXPECT_EQ(Inspected("text.session --model lm")["fits"], true);
  EXPECT_TRUE(Contains(Run("inspect text.session").out, "20 tokens read"));
  ExpectRefusal("inspect text.session --model other", "another model");
  ExpectRefusal("inspect text.session --model nowhere", "\"nowhere\" does not exist");
  ExpectRefusal("inspect lm --model lm", "no session was given");

  std::string bytes = testing::ReadFile(folder_ / "text.session");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  WriteText("damaged.session", bytes);
  ExpectRefusal("inspect damaged.session", "checksum");
  WriteText("cut.session", bytes.substr(0, 40));
  ExpectRefusal("inspect cut.session", "cut off");
}

TEST_F(InspectCommandTest, ASessionTellsItsHorizonsWithoutTheModel) {
  const auto saved = [&](const std::string& name, const json& changes, bool endless) {
    const Model model = Model::Load(WriteModel(name, changes).string(), {.endless = endless});
    Session session(model);
    session.Feed(model.Encode("some text"));
    session.Save((folder_ / (name + ".session")).string());
    return Inspected(name + ".session");
  };
  // Rotary positions have two states a layer.
  const json rotary = {{"positions", "rotary"}, {"head_dim", 8}};
  for (const bool endless : {false, true}) {
    for (const json& changes :
         {json::object(), rotary, json{{"attention", {"linear", "cosformer"}}},
          json{{"attention", {"cosformer", "softmax"}}}}) {
      const json session = saved("lm", changes, endless);
      EXPECT_EQ(session["horizons"], json({96})) << changes;
      EXPECT_EQ(session["endless"], endless) << changes;
    }
    EXPECT_TRUE(Contains(Run("inspect lm.session").out,
                         endless ? "96 tokens; endless" : "96 tokens; it ends there"));
  }
  EXPECT_EQ(saved("soft", {{"attention", "softmax"}}, false)["horizons"], json::array());
}

TEST_F(InspectCommandTest, ASessionKeepsToTheEndThatItBeganWith) {
  const std::string directory = WriteModel("lm").string();
  for (const bool endless : {false, true}) {
    const Model model = Model::Load(directory, {.endless = endless});
    Session session(model);
    session.Feed(model.Encode(testing::SomeText(endless ? 200 : 90)));
    session.Save((folder_ / "text.session").string());
    const json facts = Inspected("text.session --model lm");
    EXPECT_EQ(facts["endless"], endless);
    EXPECT_EQ(facts["longest_text"], endless ? json() : json(96));
    EXPECT_EQ(facts["fits"], true);
  }
}

TEST_F(InspectCommandTest, TensorsAreListedOfModelsAndOfAnyFile) {
  WriteModel("lm");
  const SafetensorsFile file = SafetensorsFile::Open((folder_ / "lm/model.safetensors").string());
  for (const char* path : {"lm", "lm/model.safetensors"}) {
    SCOPED_TRACE(path);
    const json listed = Inspected(std::string(path) + " --tensors")["tensors"];
    ASSERT_EQ(listed.size(), file.tensors().size());
    for (const json& one : listed) {
      const TensorEntry* entry = file.Find(one["name"].get<std::string>());
      ASSERT_NE(entry, nullptr);
      EXPECT_EQ(one["type"], Name(entry->type));
      EXPECT_EQ(one["shape"], json(entry->shape));
      EXPECT_EQ(one["bytes"], entry->data.size());
    }
  }
  EXPECT_EQ(Inspected("lm/model.safetensors")["count"], file.tensors().size());
  EXPECT_EQ(Inspected("lm/model.safetensors")["metadata"]["weights"], "float32");
  EXPECT_FALSE(Inspected("lm").contains("tensors"));
  EXPECT_TRUE(Contains(Run("inspect lm --tensors").out, "[260, 24]"));
}

TEST_F(InspectCommandTest, FlippedBitsAreNoticedWithCheck) {
  WriteModel("lm");
  ASSERT_EQ(Run("quantize lm small --weights int8").code, 0);
  const int64_t tensors = Inspected("small --tensors")["tensors"].size();
  EXPECT_EQ(Inspected("small --check")["checked"], tensors);
  EXPECT_FALSE(Inspected("small").contains("checked"));
  EXPECT_TRUE(Contains(Run("inspect small --check").out, "tensors are as they were saved"));
  // Models of earlier versions have nothing to be held against.
  EXPECT_EQ(Inspected("lm --check")["checked"], nullptr);
  EXPECT_TRUE(Contains(Run("inspect lm --check").out, "not checked: there is no checksums.json"));

  std::string bytes = testing::ReadFile(folder_ / "small/model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteText("small/model.safetensors", bytes);
  ExpectRefusal("inspect small --check", "is not what was saved");
  EXPECT_EQ(Run("inspect small").code, 0);
  ExpectRefusal("generate small --prompt a", "is not what was saved");
  WriteText("small/checksums.json", "{\"format\": 1");
  ExpectRefusal("inspect small --check", "small/checksums.json\" is not valid JSON");
  ExpectRefusal("generate small --prompt a", "remove it to read the weights unchecked");
  ExpectRefusal("inspect lm/model.safetensors --check", "no model was given");
}

TEST_F(InspectCommandTest, WhatIsNothingOfTheKindIsOneSentence) {
  fs::create_directories(folder_ / "empty");
  WriteText("notes.txt", "no tensors in here, only words");
  fs::remove(WriteModel("bare") / "model.safetensors");
  WriteText("bare/config.json", "{\"vocabulary\": 0}");
  ExpectRefusal("inspect", "PATH");
  ExpectRefusal("inspect nowhere", "\"nowhere\" does not exist");
  ExpectRefusal("inspect empty", "has no config.json");
  const std::string neither = "neither a model's directory, nor a session, nor a safetensors file";
  ExpectRefusal("inspect notes.txt", neither + ": \"notes.txt\" claims a header of ");
  WriteText("short.txt", "words");
  ExpectRefusal("inspect short.txt", neither + ": \"short.txt\" has 5 bytes");
  ExpectRefusal("inspect bare", "vocabulary");
  fs::remove(WriteModel("hollow") / "model.safetensors");
  ExpectRefusal("inspect hollow", "model.safetensors");
  ExpectRefusal("inspect hollow --json missing/x.json", "missing/x.json");
}

TEST_F(InspectCommandTest, TheHelpHasExamples) {
  const Outcome outcome = Run("inspect --help");
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"Examples", "--tensors", "--model", "--json", "--threads"}) {
    EXPECT_TRUE(Contains(outcome.out, part));
  }
}

}  // namespace
}  // namespace cosformer
