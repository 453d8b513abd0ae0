// `cosformer score`: every figure against one that is computed here, token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models.h"
#include "runtime/network.h"

namespace cosformer {
namespace {

using nlohmann::json;
using runtime::Model;
using runtime::Session;
using testing::Contains;
using testing::SomeText;

class ScoreCommandTest : public testing::ModelCommandTest {};

struct NaivePrediction {
  std::vector<double> log_probability;  // of every token
  double tolerance = 0;
};

NaivePrediction Predict(const Session& session) {
  const std::vector<float> logits = session.Logits();
  double sum = 0, largest = 0;
  for (const float x : logits) {
    sum += std::exp(static_cast<double>(x));
    largest = std::max(largest, std::abs(static_cast<double>(x)));
  }
  NaivePrediction prediction;
  for (const float x : logits) {
    prediction.log_probability.push_back(static_cast<double>(x) - std::log(sum));
  }
  // How a text is cut into calls changes logits by the rounding of sums, 2e-5 of the largest for
  // such models (see tests/runtime); a log-probability is the difference of two.
  prediction.tolerance = 2 * 2e-5 * largest;
  return prediction;
}

// Token by token, each in the first window that holds it.
void ExpectScores(const json& result, const Model& model, const std::string& text, size_t length,
                  size_t stride) {
  const std::vector<int32_t> tokens = model.Encode(text);
  ASSERT_EQ(result["scores"].size(), tokens.size() - 1);
  Session session(model, {.checkpoints = 0});
  size_t begin = 0, fed = 0;
  double sum = 0, tolerance = 0;
  for (size_t place = 1; place < tokens.size(); ++place) {
    for (; place >= begin + length; fed = begin) {
      begin += stride;
      session.Reset();
    }
    for (; fed < place; ++fed) session.Feed(tokens[fed]);
    const NaivePrediction expected = Predict(session);
    const json& score = result["scores"][place - 1];
    const double own = expected.log_probability[static_cast<size_t>(tokens[place])];
    ASSERT_EQ(score["token"], tokens[place]);
    ASSERT_NEAR(score["log_probability"].get<double>(), own, expected.tolerance) << place;
    sum += own;
    tolerance += expected.tolerance;
    // Others may change places with it by rounding alone.
    const auto likelier = [&](double than) {
      return std::count_if(expected.log_probability.begin(), expected.log_probability.end(),
                           [&](double x) { return x > than; });
    };
    ASSERT_GE(score["rank"].get<int64_t>(), likelier(own + 2 * expected.tolerance) + 1) << place;
    ASSERT_LE(score["rank"].get<int64_t>(), likelier(own - 2 * expected.tolerance)) << place;
    const double most =
        *std::max_element(expected.log_probability.begin(), expected.log_probability.end());
    ASSERT_NEAR(score["likeliest"][0]["log_probability"].get<double>(), most, expected.tolerance);
  }
  EXPECT_NEAR(result["log_probability"].get<double>(), sum, tolerance);
  const auto predicted = static_cast<double>(tokens.size() - 1);
  EXPECT_NEAR(std::log(result["perplexity_token"].get<double>()), -sum / predicted,
              tolerance / predicted);
}

TEST_F(ScoreCommandTest, EveryTokenHasItsLogProbabilityAndRank) {
  const Model model = Model::Load(WriteModel("lm").string());
  const std::string text = "attention is a sum";
  const json result = JsonOf("score lm '" + text + "' --likeliest 3");
  EXPECT_EQ(result["tokens"], text.size());
  EXPECT_EQ(result["windows"], 1);
  ExpectScores(result, model, text, 96, 48);
  for (const json& score : result["scores"]) {
    ASSERT_EQ(score["likeliest"].size(), 3u);
    EXPECT_GE(score["likeliest"][0]["log_probability"], score["likeliest"][1]["log_probability"]);
    EXPECT_GE(score["likeliest"][1]["log_probability"], score["likeliest"][2]["log_probability"]);
  }
  // Four words in 18 bytes, 17 of which are predicted.
  const double sum = result["log_probability"];
  EXPECT_NEAR(result["perplexity_word"].get<double>() / std::exp(-sum / (4 * 17.0 / 18)), 1, 1e-9);
  EXPECT_NEAR(result["perplexity_byte"].get<double>() / std::exp(-sum / 17), 1, 1e-9);
}

TEST_F(ScoreCommandTest, ATextThatWouldEndIsReadInWindowsThatOverlapByHalf) {
  const Model model = Model::Load(WriteModel("lm").string(), {.endless = false});
  for (const size_t length : {96, 97, 143, 145, 240}) {
    const std::string text = SomeText(length);
    WriteText("text", text);
    const json result = JsonOf("score lm --file text --no-endless");
    ExpectScores(result, model, text, 96, 48);
    EXPECT_EQ(result["windows"], length == 96 ? 1 : length <= 144 ? 2 : length <= 192 ? 3 : 4);
  }
  const Outcome outcome = Run("score lm --file text --no-endless");
  EXPECT_TRUE(Contains(outcome.out, "read in 4 windows, 48 tokens apart"));
}

TEST_F(ScoreCommandTest, WindowsAreAsLongAndAsFarApartAsAskedFor) {
  const Model model = Model::Load(WriteModel("lm").string());
  const std::string text = SomeText(50);
  WriteText("text", text + "\n");
  ExpectScores(JsonOf("score lm --file text --length 20 --stride 7"), model, text, 20, 7);
  ExpectScores(JsonOf("score lm --file text --length 2 --stride 1"), model, text, 2, 1);
}

TEST_F(ScoreCommandTest, AWindowMayBeLongerThanWhatIsComputedAtOnce) {
  const Model model =
      Model::Load(WriteModel("lm", {{"max_length", 1100}}).string(), {.endless = false});
  ASSERT_LT(2 * runtime::Network::kPass, 1100);
  const std::string text = SomeText(1300);
  WriteText("text", text);
  ExpectScores(JsonOf("score lm --file text --no-endless"), model, text, 1100, 550);
}

TEST_F(ScoreCommandTest, AModelThatComputesNoNumbersIsSaidTo) {
  const std::filesystem::path directory = WriteModel("lm");
  const ModelConfig config = ReadConfig((directory / "config.json").string());
  runtime::Parameters parameters = runtime::RandomParameters(config, WeightType::kFloat32, 1);
  for (float& x : parameters.norm.weight) x = 3e38f;
  runtime::WriteParameters(config, parameters, (directory / "model.safetensors").string());
  ExpectRefusal("score lm text", "the model's prediction of token 1 is no number");
}

TEST_F(ScoreCommandTest, ALongTextIsReadInOnePass) {
  const Model endless = Model::Load(WriteModel("lm").string());
  const std::string text = SomeText(150);
  WriteText("text", text);
  const json result = JsonOf("score lm --file text");
  EXPECT_EQ(result["windows"], 1);
  ExpectScores(result, endless, text, 1000, 1);
  EXPECT_EQ(JsonOf("score lm --file text --endless"), result);
  WriteModel("learned", {{"positions", "learned"}});
  EXPECT_EQ(JsonOf("score learned --file text")["windows"], 3);
  ExpectRefusal("score learned --file text --endless",
                "--endless is not for this model: its learned positions end at 96");
}

// The pixels of such a model are tokens, and bytes would be read as pixels.
TEST_F(ScoreCommandTest, ATextIsNotReadAsAnImage) {
  for (const char* task : {"image", "pathfinder"}) {
    WriteModel(task, {{"model", "encoder"}, {"classes", 2}},
               {.task = task, .labels = {"0", "1"}, .pairs = false});
    ExpectRefusal(std::string("score ") + task + " text", "this model reads images, not text");
    const Model model = Model::Load((folder_ / task).string());
    EXPECT_TRUE(model.reads_images());
    EXPECT_THROW(model.Classify("text"), Error);
    const std::vector<int32_t> grey = {1, 2, 200};
    EXPECT_EQ(model.ClassifyImage(std::vector<uint8_t>{1, 2, 200})[0].log_probability,
              model.Classify(grey)[0].log_probability);
  }
}

TEST_F(ScoreCommandTest, ATableShowsTheTokensAndSums) {
  WriteModel("lm");
  const Outcome outcome = Run("score lm 'ab c'");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part :
       {"token ", "log-probability", "rank", "likeliest", "<0x20>", "of 3 tokens",
        "perplexity a token", "perplexity a word", "perplexity a byte"}) {
    EXPECT_TRUE(Contains(outcome.out, part));
  }
}

TEST_F(ScoreCommandTest, TheTextMayComeFromStandardInput) {
  WriteModel("lm");
  WriteText("text", "from a pipe\n");
  const Outcome piped = Run("score lm --json -", "text");
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(json::parse(piped.out), JsonOf("score lm 'from a pipe'"));
}

TEST_F(ScoreCommandTest, FiguresDoNotDependOnThreads) {
  WriteModel("lm");
  const std::string one = Run("score lm 'the same to the bit' --json - --threads 1").out;
  EXPECT_NE(one, "");
  EXPECT_EQ(one, Run("score lm 'the same to the bit' --json - --threads 3").out);
}

TEST_F(ScoreCommandTest, AClassifierGivesTheProbabilitiesOfItsLabels) {
  const Model model = Model::Load(WriteClassifier("judge").string());
  const json result = JsonOf("score judge 'not so bad'");
  const std::vector<runtime::Prediction> expected = model.Classify("not so bad");
  ASSERT_EQ(result["classes"].size(), 3u);
  double sum = 0;
  for (size_t i = 0; i < 3; ++i) {
    const json& one = result["classes"][i];
    EXPECT_EQ(one["class"], expected[i].token);
    EXPECT_EQ(one["label"], model.labels()[static_cast<size_t>(expected[i].token)]);
    // The same bits in another process, whatever its threads.
    EXPECT_DOUBLE_EQ(one["log_probability"].get<double>(), expected[i].log_probability);
    sum += one["probability"].get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_EQ(result["label"], result["classes"][0]["label"]);
  EXPECT_EQ(result["cut_tokens"], 0);
}

TEST_F(ScoreCommandTest, WhatAClassifierCanNotReadIsCutAndSaid) {
  WriteClassifier("judge");
  // One of the 96 tokens says where the text begins.
  WriteText("fits", SomeText(95));
  WriteText("long", SomeText(100));
  EXPECT_FALSE(Contains(Run("score judge --file fits").out, "cut off"));
  EXPECT_TRUE(Contains(Run("score judge --file long").out, "5 more were cut off"));
  EXPECT_EQ(JsonOf("score judge --file long")["cut_tokens"], 5);
  EXPECT_EQ(JsonOf("score judge --file long")["classes"],
            JsonOf("score judge --file fits")["classes"]);
}

TEST_F(ScoreCommandTest, PairsAreReadTogether) {
  const TaskCard card = {.task = "classify", .labels = {"no", "yes"}, .pairs = true};
  const json kinds = {{"pairs", {{"model", "encoder"}, {"classes", 2}}},
                      {"towers", {{"model", "two-tower"}, {"classes", 2}}}};
  for (const auto& [name, changes] : kinds.items()) {
    SCOPED_TRACE(name);
    const Model model = Model::Load(WriteModel(name, changes, card).string());
    const json result = JsonOf("score " + name + " one --pair another");
    const auto expected = model.Classify("one", "another");
    EXPECT_EQ(result["class"], expected[0].token);
    EXPECT_DOUBLE_EQ(result["classes"][0]["log_probability"].get<double>(),
                     expected[0].log_probability);
    WriteText("second", "another\n");
    EXPECT_EQ(JsonOf("score " + name + " one --pair-file second"), result);
    ExpectRefusal("score " + name + " one", "give the second with --pair");
  }
  WriteText("long", SomeText(60));
  // 96 tokens: one begins, one separates, of the others each text has 47.
  EXPECT_EQ(JsonOf("score pairs --file long --pair-file long")["cut_tokens"], 120 - 94);
  EXPECT_EQ(JsonOf("score towers --file long --pair-file long")["cut_tokens"], 0);
}

TEST_F(ScoreCommandTest, MasksAreFilled) {
  const Model model = Model::Load(WriteModel("mlm", {{"model", "encoder"}}).string());
  const json result = JsonOf("score mlm 'a <mask> sea <mask>' --likeliest 2");
  const auto expected = model.Fill("a <mask> sea <mask>", 2);
  ASSERT_EQ(result["masks"].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(result["masks"][i].size(), 2u);
    for (size_t k = 0; k < 2; ++k) {
      EXPECT_EQ(result["masks"][i][k]["token"], expected[i][k].token);
      EXPECT_DOUBLE_EQ(result["masks"][i][k]["log_probability"].get<double>(),
                       expected[i][k].log_probability);
    }
  }
  EXPECT_EQ(JsonOf("score mlm '<mask>'")["masks"][0].size(), 5u);
  ExpectRefusal("score mlm 'no blank'", "write <mask>");
}

TEST_F(ScoreCommandTest, EveryLineIsATextWithLines) {
  WriteModel("lm");
  WriteClassifier("judge");
  WriteText("texts", "first line\n\nand a second\n");
  for (const std::string model : {"lm", "judge"}) {
    SCOPED_TRACE(model);
    const Outcome outcome = Run("score " + model + " --file texts --lines --json lines.jsonl");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3);
    EXPECT_TRUE(Contains(outcome.out, "\n-\n"));
    std::string expected;
    for (const char* text : {"'first line'", "", "'and a second'"}) {
      if (*text == '\0') {
        expected += "{\"empty\":true}\n";
        continue;
      }
      const Outcome one = Run("score " + model + " " + text + " --json -");
      expected += nlohmann::ordered_json::parse(one.out).dump() + "\n";
    }
    EXPECT_EQ(testing::ReadFile(folder_ / "lines.jsonl"), expected);
  }
}

TEST_F(ScoreCommandTest, ALineOfOneTokenHasNoScoreAndCostsNoOtherIts) {
  WriteModel("lm");
  WriteText("texts", "first line\na\nand a second\n");
  const Outcome outcome = Run("score lm --file texts --lines --json lines.jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3);
  EXPECT_TRUE(Contains(outcome.out, "\n-\n"));
  EXPECT_TRUE(
      Contains(testing::ReadFile(folder_ / "lines.jsonl"), "\n{\"predicted\":0,\"tokens\":1}\n"));
}

TEST_F(ScoreCommandTest, LinesArePairedWithLinesOrAllWithOneText) {
  WriteModel("towers", {{"model", "two-tower"}, {"classes", 2}});
  WriteText("a", "one\ntwo\n");
  WriteText("b", "three\nfour\n");
  WriteText("c", "three\n");
  const auto label = [&](const std::string& first, const std::string& second) {
    return JsonOf("score towers " + first + " --pair " + second)["classes"];
  };
  const auto lines = [&](const std::string& options) {
    std::istringstream out(Run("score towers --file a --lines --json - " + options).out);
    std::vector<json> classes;
    for (std::string line; std::getline(out, line);) {
      classes.push_back(json::parse(line)["classes"]);
    }
    return classes;
  };
  EXPECT_EQ(lines("--pair-file b"),
            (std::vector<json>{label("one", "three"), label("two", "four")}));
  EXPECT_EQ(lines("--pair four"), (std::vector<json>{label("one", "four"), label("two", "four")}));
  ExpectRefusal("score towers --file a --lines --pair-file c",
                "there are 2 lines of first texts and 1 of second ones");
}

TEST_F(ScoreCommandTest, BytesNeedNoUtf8ButWordsDo) {
  WriteModel("bytes");
  const std::filesystem::path words = WriteModel("words", {{"vocabulary", 7}});
  Tokenizer::Words({"two", "words"}).Save(words.string());
  WriteText("broken", "two \xff words");
  EXPECT_EQ(JsonOf("score bytes --file broken")["tokens"], 11);
  ExpectRefusal("score words --file broken", "the text is no UTF-8: byte 4 (0xff)");
  const Model model = Model::Load(words.string());
  for (const char* text : {"two \xff words", "two words \xc3"}) {
    EXPECT_THROW(model.Encode(text), Error) << text;
  }
  EXPECT_EQ(JsonOf("score words 'two words two'")["tokens"], 3);
}

TEST_F(ScoreCommandTest, WhatCanNotBeScoredIsOneSentence) {
  WriteModel("lm");
  WriteModel("mlm", {{"model", "encoder"}});
  WriteClassifier("judge");
  std::filesystem::remove(WriteModel("mute") / "tokenizer.json");
  WriteText("empty", "");
  WriteText("hole", "one\n\nthree\n");
  ExpectRefusal("score", "MODEL");
  ExpectRefusal("score nowhere text", "\"nowhere\" does not exist");
  ExpectRefusal("score lm ''", "the text is empty");
  ExpectRefusal("score lm", "the text is empty");
  ExpectRefusal("score lm --file missing", "missing");
  ExpectRefusal("score lm --file .", "cannot read \".\"");
  ExpectRefusal("score lm --file empty --lines", "no lines");
  ExpectRefusal("score lm x", "the text has 1 token, and the first is not predicted");
  ExpectRefusal("score lm text --file hole", "--file");
  ExpectRefusal("score lm text --lines", "--lines");
  ExpectRefusal("score lm text --pair other", "--pair");
  ExpectRefusal("score lm text --length 97 --no-endless", "this model reads 2 to 96");
  ExpectRefusal("score lm text --length 1", "windows of 1 tokens");
  ExpectRefusal("score lm text --length 3 --stride 3", "1 to 2 are possible");
  ExpectRefusal("score lm text --stride=-1", "-1");
  ExpectRefusal("score lm text --likeliest=-1", "--likeliest is -1");
  ExpectRefusal("score lm text --threads=-1", "--threads is -1");
  ExpectRefusal("score lm text --json missing/x.json", "missing/x.json");
  ExpectRefusal("score judge text --stride 4", "language models");
  ExpectRefusal("score judge text --pair other", "trained on single texts");
  ExpectRefusal("score mlm text --endless", "language models");
  ExpectRefusal("score mlm text --no-endless", "language models");
  ExpectRefusal("score mute text", "no tokenizer");
}

TEST_F(ScoreCommandTest, TheHelpHasExamples) {
  const Outcome outcome = Run("score --help");
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"Examples", "--likeliest", "--stride", "--pair-file", "--lines"}) {
    EXPECT_TRUE(Contains(outcome.out, part));
  }
  EXPECT_TRUE(Contains(Run("--help").out, "cosformer score "));
}

}  // namespace
}  // namespace cosformer
