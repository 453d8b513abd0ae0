// `cosformer quantize`: the directory it writes, and whether what it says of the cost is so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "models.h"
#include "runtime/network.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using runtime::Model;
using testing::Contains;
using testing::ReadFile;
using testing::SomeText;

class QuantizeCommandTest : public testing::ModelCommandTest {
 protected:
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(".")) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

// Of every token after each of the text's but the last. The calls are the command's own, and so the
// logits are the same to the bit.
std::vector<std::vector<double>> LogProbabilities(const Model& model,
                                                  std::span<const int32_t> tokens) {
  runtime::Session session(model, {.checkpoints = 0});
  const std::vector<float> logits = session.FeedAll(tokens.first(tokens.size() - 1));
  const auto vocabulary = static_cast<size_t>(model.vocabulary());
  std::vector<std::vector<double>> all;
  for (size_t row = 0; row + 1 < tokens.size(); ++row) {
    const std::span of_row = std::span(logits).subspan(row * vocabulary, vocabulary);
    double sum = 0;
    for (const float x : of_row) sum += std::exp(static_cast<double>(x));
    all.emplace_back();
    for (const float x : of_row) all.back().push_back(static_cast<double>(x) - std::log(sum));
  }
  return all;
}

TEST_F(QuantizeCommandTest, TheModelIsWrittenWithItsFilesAndRuns) {
  const fs::path from = WriteClassifier("judge");
  for (const std::string type : {"bfloat16", "int8", "int4"}) {
    SCOPED_TRACE(type);
    const Outcome outcome = Run("quantize judge out-" + type + " --weights " + type);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_TRUE(Contains(outcome.out, "was not measured"));
    EXPECT_TRUE(Contains(outcome.out, "The model is in out-" + type));
    const fs::path out = folder_ / ("out-" + type);
    for (const char* file : {"config.json", "tokenizer.json", "task.json"}) {
      EXPECT_EQ(ReadFile(out / file), ReadFile(from / file)) << file;
    }
    EXPECT_LT(fs::file_size(out / "model.safetensors"), fs::file_size(from / "model.safetensors"));
    const Model model = Model::Load(out.string());
    EXPECT_EQ(runtime::Name(TypeOf(model.network().parameters())), type);
    EXPECT_EQ(model.labels(), (std::vector<std::string>{"bad", "fair", "good"}));
  }
  EXPECT_EQ(Names(), (std::vector<std::string>{"judge", "out-bfloat16", "out-int4", "out-int8"}));
}

TEST_F(QuantizeCommandTest, TheErrorOfTheWeightsIsWithinTheTypesRounding) {
  WriteModel("lm", {{"tied_embeddings", false}});
  const auto errors = [&](const std::string& type) {
    return JsonOf("quantize lm " + type + " --weights " + type)["weight_error"];
  };
  // Of weights that are uniform in [-m, m] the root mean square is m / sqrt(3). A bfloat16 is off
  // by 2^-9 of itself at most; an integer by half a scale, which is m / 127 or m / 7 at most.
  const std::pair<const char*, double> bounds[] = {
      {"bfloat16", 0x1p-9}, {"int8", std::sqrt(3.0) / 254}, {"int4", std::sqrt(3.0) / 14}};
  for (const auto& [type, bound] : bounds) {
    SCOPED_TRACE(type);
    const json found = errors(type);
    ASSERT_EQ(found.size(), 5u);
    const Model before = Model::Load((folder_ / "lm").string());
    const Model after = Model::Load((folder_ / type).string());
    for (const char* part : {"embedding", "attention", "feed-forward", "output", "all"}) {
      EXPECT_GT(found[part].get<double>(), bound / 10) << part;
      EXPECT_LE(found[part].get<double>(), bound) << part;
    }
    // One part number by number.
    double change = 0, square = 0;
    std::vector<float> x(24), y(24);
    for (int64_t row = 0; row < 260; ++row) {
      ReadWeights(before.network().parameters().tokens, row, x.data());
      ReadWeights(after.network().parameters().tokens, row, y.data());
      for (size_t c = 0; c < 24; ++c) {
        change += std::pow(static_cast<double>(y[c] - x[c]), 2);
        square += std::pow(static_cast<double>(x[c]), 2);
      }
    }
    EXPECT_NEAR(found["embedding"].get<double>(), std::sqrt(change / square), 1e-6 * bound);
  }
}

TEST_F(QuantizeCommandTest, TheCostOnATextIsWhatBothModelsSayOfIt) {
  const Model before = Model::Load(WriteModel("lm").string());
  const std::string text = SomeText(60);
  WriteText("text", text + "\n");
  const json result = JsonOf("quantize lm small --weights int4 --text text");
  const Model after = Model::Load((folder_ / "small").string());
  const std::vector<int32_t> tokens = before.Encode(text);
  const auto first = LogProbabilities(before, tokens), second = LogProbabilities(after, tokens);
  double sums[2] = {0, 0}, divergence = 0;
  int agreed = 0;
  for (size_t row = 0; row < first.size(); ++row) {
    const std::vector<double>&p = first[row], &q = second[row];
    sums[0] += p[static_cast<size_t>(tokens[row + 1])];
    sums[1] += q[static_cast<size_t>(tokens[row + 1])];
    for (size_t i = 0; i < p.size(); ++i) divergence += std::exp(p[i]) * (p[i] - q[i]);
    agreed += std::max_element(p.begin(), p.end()) - p.begin() ==
              std::max_element(q.begin(), q.end()) - q.begin();
  }
  // Sums of 59 times 260 doubles below 10, in another order.
  constexpr double kTolerance = 59 * 260 * 10 * 0x1p-52;
  const json& on = result["text"];
  EXPECT_EQ(on["predictions"], 59);
  EXPECT_NEAR(std::log(on["before"]["perplexity_token"].get<double>()), -sums[0] / 59, kTolerance);
  EXPECT_NEAR(std::log(on["after"]["perplexity_token"].get<double>()), -sums[1] / 59, kTolerance);
  EXPECT_NEAR(std::log(on["after"]["perplexity_byte"].get<double>()), -sums[1] / 59, kTolerance);
  // Ten words, of which 59 of 60 tokens are predicted.
  EXPECT_NEAR(std::log(on["after"]["perplexity_word"].get<double>()), -sums[1] / (10 * 59.0 / 60),
              kTolerance);
  EXPECT_NEAR(on["divergence"].get<double>(), divergence / 59, kTolerance);
  EXPECT_GT(on["divergence"].get<double>(), 1e-4);
  EXPECT_EQ(on["agreement"].get<double>(), agreed / 59.0);
  // The same figures as score's.
  EXPECT_DOUBLE_EQ(on["after"]["perplexity_token"].get<double>(),
                   JsonOf("score small --file text")["perplexity_token"].get<double>());
}

TEST_F(QuantizeCommandTest, ALongTextIsReadInWindowsAndAsFarAsAskedFor) {
  WriteModel("lm");
  WriteText("text", SomeText(300));
  WriteText("part", SomeText(120));
  const json whole = JsonOf("quantize lm a --weights int8 --text text")["text"];
  EXPECT_EQ(whole["windows"], 1) << "past the horizon in one pass";
  EXPECT_EQ(whole["predictions"], 299);
  const json part = JsonOf("quantize lm b --weights int8 --text text --tokens 120 --length 40");
  EXPECT_EQ(part["text"]["window_length"], 40);
  EXPECT_EQ(part["text"]["predictions"], 119);
  const json same = JsonOf("quantize lm c --weights int8 --text part --length 40");
  EXPECT_EQ(part["text"]["before"]["perplexity_token"], same["text"]["before"]["perplexity_token"]);
  const Outcome outcome = Run("quantize lm d --weights int8 --text text --length 96");
  for (const char* words : {"windows of 96 tokens", "perplexity a token", "KL divergence",
                            "the likeliest token is the same"}) {
    EXPECT_TRUE(Contains(outcome.out, words));
  }
  EXPECT_FALSE(Contains(outcome.out, "not measured"));
}

TEST_F(QuantizeCommandTest, AFormerModelIsReplacedWithForceAlone) {
  WriteModel("lm");
  ASSERT_EQ(Run("quantize lm out --weights int8").code, 0);
  const std::string int8 = ReadFile(folder_ / "out/model.safetensors");
  ExpectRefusal("quantize lm out --weights int4", "--force");
  EXPECT_EQ(ReadFile(folder_ / "out/model.safetensors"), int8);
  ASSERT_EQ(Run("quantize lm out/ --weights int4 --force").code, 0);
  EXPECT_LT(ReadFile(folder_ / "out/model.safetensors").size(), int8.size());
  EXPECT_EQ(Names(), (std::vector<std::string>{"lm", "out"}));
}

TEST_F(QuantizeCommandTest, ForceReplacesNothingButModels) {
  WriteModel("lm");
  fs::create_directories(folder_ / "mine");
  WriteText("mine/diary.txt", "dear diary");
  WriteText("file", "text");
  const std::string weights = ReadFile(folder_ / "lm/model.safetensors");
  ExpectRefusal("quantize lm mine --weights int8 --force", "diary.txt");
  ExpectRefusal("quantize lm file --weights int8 --force", "is a file");
  ExpectRefusal("quantize lm lm --weights int8 --force", "the model itself");
  ExpectRefusal("quantize lm ./lm/ --weights int8 --force", "the model itself");
  EXPECT_EQ(ReadFile(folder_ / "mine/diary.txt"), "dear diary");
  EXPECT_EQ(ReadFile(folder_ / "lm/model.safetensors"), weights);
}

TEST_F(QuantizeCommandTest, WhatCanNotBeDoneIsOneSentenceAndLeavesNothing) {
  WriteModel("lm");
  WriteClassifier("judge");
  WriteModel("learned", {{"positions", "learned"}});
  ASSERT_EQ(Run("quantize lm int8 --weights int8").code, 0);
  fs::create_directories(folder_ / "left.partial");
  WriteText("text", "some text");
  WriteText("short", "x");
  const std::vector<std::string> names = Names();
  ExpectRefusal("quantize lm out", "--weights");
  ExpectRefusal("quantize lm out --weights float16", "bfloat16, int8, int4");
  ExpectRefusal("quantize nowhere out --weights int8", "\"nowhere\" does not exist");
  ExpectRefusal("quantize int8 out --weights int8", "int8 already");
  ExpectRefusal("quantize int8 out --weights bfloat16", "int8 already");
  ExpectRefusal("quantize lm left --weights int8", "left.partial");
  ExpectRefusal("quantize lm missing/out --weights int8", "\"missing/out\"");
  ExpectRefusal("quantize lm . --weights int8", "give");
  ExpectRefusal("quantize judge out --weights int8 --text text", "cosformer score");
  ExpectRefusal("quantize lm out --weights int8 --text missing", "missing");
  ExpectRefusal("quantize lm out --weights int8 --text short", "1 token");
  ExpectRefusal("quantize learned out --weights int8 --text text --length 97", "2 to 96");
  ExpectRefusal("quantize lm out --weights int8 --text text --tokens=-1", "--tokens is -1");
  ExpectRefusal("quantize lm out --weights int8 --tokens 5", "--text");
  ExpectRefusal("quantize lm out --weights int8 --json missing/x.json", "missing/x.json");
  EXPECT_EQ(Names(), names);
}

TEST_F(QuantizeCommandTest, AFullDiskLeavesNothing) {
  WriteModel("lm");
  // Files end at 4 KiB, as on a disk that is full.
  std::string command = "cd '";
  command.append(folder_.string())
      .append("' && trap '' XFSZ && ulimit -f 8 && exec '" COSFORMER_COMMAND
              "' quantize lm out --weights int8 >.stdout 2>.stderr");
  EXPECT_NE(std::system(command.c_str()), 0);
  EXPECT_TRUE(Contains(ReadFile(folder_ / ".stderr"), "out.partial/model.safetensors"));
  EXPECT_EQ(Names(), (std::vector<std::string>{"lm"}));
}

TEST_F(QuantizeCommandTest, AModelIsConvertedAgainOnlyToFewerBits) {
  WriteModel("lm");
  ASSERT_EQ(Run("quantize lm half --weights bfloat16").code, 0);
  const json again = JsonOf("quantize half small --weights int4");
  EXPECT_EQ(again["before"]["weights"], "bfloat16");
  EXPECT_EQ(again["after"]["weights"], "int4");
  EXPECT_LT(again["after"]["memory_bytes"], again["before"]["memory_bytes"]);
}

TEST_F(QuantizeCommandTest, TheHelpHasExamples) {
  const Outcome outcome = Run("quantize --help");
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"Examples", "--weights", "--text", "--force"}) {
    EXPECT_TRUE(Contains(outcome.out, part));
  }
}

}  // namespace
}  // namespace cosformer
