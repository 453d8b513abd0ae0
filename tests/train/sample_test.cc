// Texts that a model writes, against the choice made plainly from the parallel pass over all that
// came before.
#include "train/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "cosformer/error.h"
#include "train/tiny_model.h"

namespace cosformer {
namespace {

using nlohmann::json;
using torch::Tensor;

const Tokenizer& Bytes() {
  static const Tokenizer tokenizer = Tokenizer::Bytes();
  return tokenizer;
}

// A model over bytes that writes none of the special tokens, so that the text tells every choice.
Model ByteModel(uint64_t seed, const json& changes = json::object()) {
  json config = {{"vocabulary", Bytes().size()}};
  config.update(changes);
  Model model = testing::TinyModel(config, seed);
  torch::NoGradGuard no_grad;
  model->named_parameters()["output_bias"].narrow(0, 256, Bytes().size() - 256).fill_(-1e4);
  return model;
}

// Makes `token` certain.
void Insist(Model& model, int32_t token) {
  torch::NoGradGuard no_grad;
  model->named_parameters()["output_bias"][token] = 1e4;
}

Tensor NextLogits(Model& model, const std::vector<int32_t>& tokens) {
  torch::NoGradGuard no_grad;
  const Tensor hidden =
      model->Encode(testing::RowOf(std::vector<int64_t>(tokens.begin(), tokens.end())));
  return model->Logits(hidden[0][hidden.size(1) - 1]);
}

std::string ErrorOf(Model& model, const std::string& prompt, const SampleOptions& options) {
  try {
    Sample(*model, Bytes(), prompt, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SampleTest, WithoutTemperatureEveryTokenIsTheLikeliest) {
  for (const char* system : {"cosformer", "softmax", "linear"}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Model model = ByteModel(seed, {{"attention", system}});
      model->eval();
      std::vector<int32_t> tokens = Bytes().Encode("once upon a time");
      const std::string written =
          Sample(*model, Bytes(), "once upon a time", {.tokens = 20, .temperature = 0});
      ASSERT_EQ(written.size(), 20u);
      for (const char byte : written) {
        const Tensor logits = NextLogits(model, tokens);
        const auto token = static_cast<int32_t>(static_cast<unsigned char>(byte));
        // Rounding may decide between two that are all but equal.
        EXPECT_GE(logits[token].item<float>(), logits.max().item<float>() - 1e-4) << system;
        tokens.push_back(token);
      }
    }
  }
}

TEST(SampleTest, ASeedGivesItsTextAgainAndAnotherAnother) {
  Model model = ByteModel(1);
  std::set<std::string> texts;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const SampleOptions options{.tokens = 20, .temperature = 1, .top = 0, .seed = seed};
    const std::string text = Sample(*model, Bytes(), "ab", options);
    EXPECT_EQ(Sample(*model, Bytes(), "ab", options), text);
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), 5u);
}

TEST(SampleTest, OnlyTheLikeliestTokensAreDrawn) {
  Model model = ByteModel(2);
  model->eval();
  for (const int64_t top : {1, 3}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      std::vector<int32_t> tokens = Bytes().Encode("ab");
      // So hot that all are drawn alike.
      const std::string written = Sample(
          *model, Bytes(), "ab", {.tokens = 20, .temperature = 100, .top = top, .seed = seed});
      for (const char byte : written) {
        const Tensor logits = NextLogits(model, tokens);
        const auto token = static_cast<int32_t>(static_cast<unsigned char>(byte));
        const int64_t likelier = logits.gt(logits[token] + 1e-4).sum().item<int64_t>();
        EXPECT_LT(likelier, top);
        tokens.push_back(token);
      }
    }
  }
}

// The number of draws of each token against its probability, for tokens that are drawn often.
TEST(SampleTest, TokensComeAsOftenAsTheyAreLikely) {
  Model model = ByteModel(3);
  model->eval();
  constexpr int kDraws = 1500;
  const Tensor logits = NextLogits(model, Bytes().Encode("ab")).to(torch::kFloat64);
  for (const double temperature : {0.5, 2.0}) {
    for (const int64_t top : {0, 4}) {
      Tensor likely = (logits / temperature).softmax(0);
      if (top > 0) {
        const Tensor least = std::get<0>(logits.topk(top))[top - 1];
        likely = likely * logits.ge(least);
        likely = likely / likely.sum();
      }
      std::vector<int> drawn(256, 0);
      for (uint64_t seed = 0; seed < kDraws; ++seed) {
        const std::string text =
            Sample(*model, Bytes(), "ab",
                   {.tokens = 1, .temperature = temperature, .top = top, .seed = seed});
        ASSERT_EQ(text.size(), 1u);
        ++drawn[static_cast<unsigned char>(text[0])];
      }
      for (int64_t token = 0; token < 256; ++token) {
        const double p = likely[token].item<double>();
        // Five standard deviations, and one more draw where hardly any is expected.
        const double deviation = std::sqrt(kDraws * p * (1 - p));
        EXPECT_NEAR(drawn[static_cast<size_t>(token)], kDraws * p, 5 * deviation + 1)
            << "token " << token << " at " << temperature << " of " << top;
      }
    }
  }
}

TEST(SampleTest, ItStopsAtTheEndOfTheText) {
  Model model = ByteModel(4);
  Insist(model, Bytes().special().end);
  EXPECT_EQ(Sample(*model, Bytes(), "ab", {.tokens = 20}), "");
}

// The end of a line is a word like others.
TEST(SampleTest, WordsGoOnAfterTheEndOfALine) {
  const Tokenizer words = Tokenizer::Words({"a", "b"});
  Model model = testing::TinyModel({{"vocabulary", words.size()}});
  Insist(model, words.special().end);
  EXPECT_EQ(Sample(*model, words, "a b", {.tokens = 3}), "\n\n\n");
}

TEST(SampleTest, NoMoreIsWrittenThanTheModelSees) {
  Model model = ByteModel(5, {{"max_length", 16}});
  EXPECT_EQ(Sample(*model, Bytes(), std::string(6, 'a'), {.tokens = 100}).size(), 10u);
  EXPECT_EQ(Sample(*model, Bytes(), std::string(15, 'a'), {.tokens = 100}).size(), 1u);
  EXPECT_EQ(Sample(*model, Bytes(), std::string(6, 'a'), {.tokens = 4}).size(), 4u);
  EXPECT_EQ(Sample(*model, Bytes(), "a", {.tokens = 0}), "");
  for (const size_t length : {16, 17}) {
    const std::string error = ErrorOf(model, std::string(length, 'a'), {});
    EXPECT_NE(error.find("the prompt has " + std::to_string(length) + " tokens"), std::string::npos)
        << error;
    EXPECT_NE(error.find("16; give a shorter one"), std::string::npos) << error;
  }
}

TEST(SampleTest, WithoutAPromptATextBegins) {
  Model model = ByteModel(6);
  model->eval();
  const std::string text = Sample(*model, Bytes(), "", {.tokens = 1, .temperature = 0});
  ASSERT_EQ(text.size(), 1u);
  EXPECT_EQ(static_cast<unsigned char>(text[0]),
            NextLogits(model, {Bytes().special().end}).argmax().item<int64_t>());
}

TEST(SampleTest, DropoutIsForTrainingAlone) {
  Model dropping = ByteModel(7, {{"dropout", 0.5}}), whole = ByteModel(7);
  dropping->train();
  const SampleOptions options{.tokens = 20, .temperature = 0};
  EXPECT_EQ(Sample(*dropping, Bytes(), "ab", options), Sample(*whole, Bytes(), "ab", options));
}

TEST(SampleTest, WhatCannotBeSampledIsSaid) {
  Model model = ByteModel(8);
  EXPECT_NE(ErrorOf(model, "ab", {.temperature = -0.1}).find("--temperature"), std::string::npos);
  Model encoder = ByteModel(8, {{"model", "encoder"}});
  EXPECT_NE(ErrorOf(encoder, "ab", {}).find("tells classes or hidden tokens"), std::string::npos);
  Model translator = ByteModel(8, {{"model", "encoder-decoder"}});
  EXPECT_NE(ErrorOf(translator, "", {}).find("give the other with --prompt"), std::string::npos);
}

TEST(SampleTest, AnEncoderDecoderWritesFromItsSource) {
  Model model = ByteModel(9, {{"model", "encoder-decoder"}});
  const SampleOptions options{.tokens = 12, .temperature = 0};
  const std::string text = Sample(*model, Bytes(), "a source", options);
  // The same as the decoder gives for all of the text at once.
  torch::NoGradGuard no_grad;
  model->eval();
  const auto tensor = [](const std::vector<int32_t>& tokens) {
    return torch::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()), torch::kInt64)
        .unsqueeze(0);
  };
  const torch::Tensor memory = model->Encode(tensor(Bytes().Encode("a source")));
  std::vector<int32_t> tokens = {Bytes().special().begin};
  while (tokens.size() < 13) {
    const torch::Tensor hidden = model->Decode(tensor(tokens), memory);
    const auto next = static_cast<int32_t>(
        model->Logits(hidden.select(1, hidden.size(1) - 1)).argmax().item<int64_t>());
    if (next == Bytes().special().end) break;
    tokens.push_back(next);
  }
  EXPECT_EQ(text, Bytes().Decode(std::span(tokens).subspan(1)));
  EXPECT_FALSE(text.empty());
}

}  // namespace
}  // namespace cosformer
