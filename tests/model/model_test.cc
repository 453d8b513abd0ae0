// Whole models: what they compute does not depend on how a batch is laid out, on what comes later,
// on checkpointing, or on whether the text is read at once or token by token.
#include "model/model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

namespace cosformer {
namespace {

using nlohmann::json;
using torch::Tensor;

ModelConfig Config(const json& changes) {
  json config = {{"vocabulary", 23},
                 {"width", 24},
                 {"layers", 2},
                 {"heads", 4},
                 {"hidden", 40},
                 {"max_length", 48},
                 {"attention", "cosformer"}};
  config.update(changes);
  return ParseConfig(config, "test");
}

Model Make(const json& changes, int64_t seed = 1) {
  torch::manual_seed(seed);
  Model model(Config(changes));
  // Gains and biases away from ones and zeros, so that each is seen to be used.
  torch::NoGradGuard no_grad;
  for (Tensor& parameter : model->parameters()) {
    if (parameter.dim() == 1) parameter.add_(0.1 * torch::randn_like(parameter));
  }
  model->eval();
  return model;
}

Tensor Tokens(int64_t batch, int64_t length) {
  return torch::randint(23, {batch, length}, torch::kInt64);
}

// Sums in another order: some hundred roundings of numbers of order one.
::testing::AssertionResult Close(const Tensor& a, const Tensor& b, double tolerance = 2e-5) {
  if (a.sizes() != b.sizes()) return ::testing::AssertionFailure() << a.sizes() << " " << b.sizes();
  const double error = (a - b).abs().max().item<double>();
  const double scale = b.abs().max().item<double>() + 1e-6;
  if (error <= tolerance * scale) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "differ by " << error << " of " << scale;
}

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The variants of a block that must all behave alike.
const std::vector<json>& Variants() {
  static const std::vector<json> variants = {
      json::object(),
      {{"norm", "rms"}, {"activation", "swiglu"}, {"bias", false}, {"positions", "rotary"}},
      {{"norm_position", "post"}, {"activation", "relu"}, {"positions", "sinusoidal"}},
      {{"kv_heads", 2}, {"head_dim", 8}, {"tied_embeddings", false}, {"positions", "none"}},
      {{"attention", {"softmax", "cosformer"}}, {"positions", "learned"}},
      {{"attention", {{{"system", "cosformer"}, {"normaliser", "norm"}}, "local"}}},
      {{"attention", "linear"}, {"positions", "spe-sine"}},
  };
  return variants;
}

TEST(ModelTest, ADecoderDoesNotSeeTheFuture) {
  for (const json& variant : Variants()) {
    Model model = Make(variant);
    torch::NoGradGuard no_grad;
    Tensor tokens = Tokens(2, 40);
    const Tensor before = model->Encode(tokens);
    tokens.slice(1, 25).copy_(Tokens(2, 15));
    const Tensor after = model->Encode(tokens);
    EXPECT_TRUE(before.slice(1, 0, 25).equal(after.slice(1, 0, 25))) << variant;
    EXPECT_FALSE(before.slice(1, 25).equal(after.slice(1, 25))) << variant;
    EXPECT_TRUE(Close(model->Encode(tokens.slice(1, 0, 25)), after.slice(1, 0, 25))) << variant;
  }
}

TEST(ModelTest, AStreamGivesWhatTheWholeTextGives) {
  for (const json& variant : Variants()) {
    Model model = Make(variant);
    torch::NoGradGuard no_grad;
    const Tensor tokens = Tokens(2, 37);
    const Tensor whole = model->Encode(tokens);
    ModelStream stream = model->NewStream(2);
    std::vector<Tensor> pieces;
    int64_t at = 0;
    for (const int64_t count : {1, 5, 1, 1, 16, 2, 1, 10}) {
      pieces.push_back(model->Step(tokens.slice(1, at, at + count), stream));
      at += count;
    }
    EXPECT_EQ(stream.position, 37);
    EXPECT_GT(stream.bytes(), 0u);
    EXPECT_TRUE(Close(torch::cat(pieces, 1), whole)) << variant;
  }
}

TEST(ModelTest, PaddingAndPackingChangeNothing) {
  for (const std::string kind : {"decoder", "encoder"}) {
    for (json variant : Variants()) {
      variant["model"] = kind;
      Model model = Make(variant);
      torch::NoGradGuard no_grad;
      const Tensor tokens = Tokens(3, 30);
      const std::vector<int64_t> lengths = {30, 1, 17};
      const Tensor padded = model->Encode(tokens, Layout::Padded(lengths));
      std::vector<Tensor> parts, alone;
      for (int64_t b = 0; b < 3; ++b) {
        const Tensor part = tokens.slice(0, b, b + 1).slice(1, 0, lengths[b]);
        parts.push_back(part);
        alone.push_back(model->Encode(part));
        EXPECT_TRUE(Close(padded.slice(0, b, b + 1).slice(1, 0, lengths[b]), alone.back()))
            << kind << variant << b;
      }
      const bool packs = variant.dump().find("local") == std::string::npos;
      if (!packs) continue;
      const Tensor packed = model->Encode(torch::cat(parts, 1), Layout::Packed({0, 30, 31, 48}));
      EXPECT_TRUE(Close(packed, torch::cat(alone, 1))) << kind << variant;
    }
  }
}

TEST(ModelTest, CheckpointingChangesNoBit) {
  for (const json& variant : Variants()) {
    std::vector<std::vector<Tensor>> gradients;
    std::vector<double> losses;
    for (const bool checkpointing : {false, true}) {
      json config = variant;
      config["checkpointing"] = checkpointing;
      config["dropout"] = 0.2;
      Model model = Make(config);
      model->train();
      torch::manual_seed(3);
      const Tensor tokens = Tokens(2, 32);
      const LossResult loss = model->Loss(model->Encode(tokens), tokens.roll(-1, 1));
      loss.loss.backward();
      losses.push_back(loss.loss.item<double>());
      gradients.emplace_back();
      for (const Tensor& parameter : model->parameters()) {
        gradients.back().push_back(parameter.grad().defined() ? parameter.grad()
                                                              : torch::zeros_like(parameter));
      }
    }
    EXPECT_EQ(losses[0], losses[1]) << variant;
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      // Adding up a parameter's gradients in another order is not a difference.
      EXPECT_TRUE(Close(gradients[0][i], gradients[1][i], 1e-6)) << variant << i;
    }
  }
}

// Systems that draw random numbers draw the same again.
TEST(ModelTest, CheckpointingRepeatsWhatRandomSystemsDrew) {
  for (const std::string system : {"performer", "rfa-gaussian", "reformer"}) {
    std::vector<Tensor> gradients;
    for (const bool checkpointing : {false, true}) {
      json options = {{"system", system}};
      if (system != "reformer") options["redraw"] = 1;
      Model model =
          Make({{"attention", options}, {"checkpointing", checkpointing}, {"dropout", 0.2}});
      model->train();
      torch::manual_seed(4);
      const Tensor tokens = Tokens(2, 32);
      model->Loss(model->Encode(tokens), tokens).loss.backward();
      gradients.push_back(model->named_parameters()["decoder.layers.0.attention.in_weight"].grad());
    }
    EXPECT_TRUE(Close(gradients[0], gradients[1], 1e-5)) << system;
  }
}

TEST(ModelTest, EveryParameterOfEveryKindIsTrained) {
  const std::vector<json> kinds = {
      {{"model", "decoder"}, {"tied_embeddings", false}},
      {{"model", "encoder"}},
      {{"model", "encoder"}, {"classes", 3}, {"pool", "first"}},
      {{"model", "two-tower"}, {"classes", 2}, {"pool", "last"}},
      {{"model", "encoder-decoder"}, {"decoder_layers", 1}, {"cross_attention", "softmax"}},
      {{"model", "encoder-decoder"}, {"norm_position", "post"}},
  };
  for (const json& kind : kinds) {
    Model model = Make(kind);
    model->train();
    const Tensor a = Tokens(2, 20), b = Tokens(2, 12);
    Tensor loss;
    if (kind.contains("classes")) {
      const Tensor logits =
          kind["model"] == "two-tower" ? model->Classify(a, b) : model->Classify(a);
      EXPECT_EQ(logits.sizes(), torch::IntArrayRef({2, kind["classes"].get<int64_t>()}));
      loss = CrossEntropyOfLogits(logits, torch::tensor({0, 1}, torch::kInt64)).loss;
    } else if (kind["model"] == "encoder-decoder") {
      loss = model->Loss(model->Decode(b, model->Encode(a)), b).loss;
    } else {
      loss = model->Loss(model->Encode(a), a).loss;
    }
    loss.backward();
    for (const auto& item : model->named_parameters()) {
      EXPECT_TRUE(item.value().grad().defined() && item.value().grad().ne(0).any().item<bool>())
          << kind << item.key();
    }
  }
}

TEST(ModelTest, PoolingLooksAtItsSequenceAlone) {
  for (const std::string pool : {"mean", "first", "last"}) {
    Model model = Make({{"model", "encoder"}, {"classes", 4}, {"pool", pool}});
    torch::NoGradGuard no_grad;
    const Tensor tokens = Tokens(2, 20);
    const Tensor padded = model->Classify(tokens, Layout::Padded({20, 9}));
    EXPECT_TRUE(Close(padded[0], model->Classify(tokens.slice(0, 0, 1))[0])) << pool;
    const Tensor second = tokens.slice(0, 1).slice(1, 0, 9);
    EXPECT_TRUE(Close(padded[1], model->Classify(second)[0])) << pool;
    const Tensor packed = model->Classify(torch::cat({tokens.slice(0, 0, 1), second}, 1),
                                          Layout::Packed({0, 20, 29}));
    EXPECT_TRUE(Close(packed, padded)) << pool;
  }
}

TEST(ModelTest, TwoTowersAreOneEncoder) {
  Model model = Make({{"model", "two-tower"}, {"classes", 2}});
  torch::NoGradGuard no_grad;
  const Tensor a = Tokens(1, 15), b = Tokens(1, 22);
  EXPECT_FALSE(Close(model->Classify(a, b), model->Classify(b, a)));
  const Tensor longer = torch::cat({a, Tokens(1, 7)}, 1);
  EXPECT_TRUE(Close(model->Classify(longer, b, Layout::Padded({15})), model->Classify(a, b)));
}

TEST(ModelTest, AnEncoderDecoderStreamsFromItsSource) {
  for (const std::string cross : {"cosformer", "softmax", "linear", "performer"}) {
    Model model = Make({{"model", "encoder-decoder"}, {"cross_attention", cross}});
    torch::NoGradGuard no_grad;
    const Tensor source = Tokens(2, 30), tokens = Tokens(2, 21);
    const Layout layout = Layout::Padded({30, 11});
    const Tensor memory = model->Encode(source, layout);
    const Tensor whole = model->Decode(tokens, memory, {}, layout);
    ModelStream stream = model->NewStream(memory, layout);
    std::vector<Tensor> pieces;
    for (int64_t i = 0; i < 21; i += 3) {
      pieces.push_back(model->Step(tokens.slice(1, i, i + 3), stream));
    }
    EXPECT_TRUE(Close(torch::cat(pieces, 1), whole)) << cross;
    // The source's padding is not seen, and the source is.
    Tensor other = source.clone();
    other.slice(0, 1).slice(1, 11).fill_(3);
    EXPECT_TRUE(Close(model->Decode(tokens, model->Encode(other, layout), {}, layout), whole));
    other.slice(0, 1).slice(1, 0, 5).fill_(3);
    EXPECT_FALSE(
        Close(model->Decode(tokens, model->Encode(other, layout), {}, layout)[1], whole[1]));
  }
}

TEST(ModelTest, ImagesComeAsPixelsOrPatches) {
  for (const std::string kind : {"pixels", "patches"}) {
    json input = {{"kind", kind}, {"height", 8}, {"width", 6}, {"channels", 3}};
    if (kind == "patches") input["patch"] = 2;
    const json config = {{"model", "encoder"}, {"input", input}, {"classes", 5},    {"width", 24},
                         {"layers", 1},        {"heads", 4},     {"max_length", 48}};
    torch::manual_seed(1);
    Model model(ParseConfig(config, "test"));
    model->eval();
    torch::NoGradGuard no_grad;
    const Tensor bytes = torch::randint(256, {2, 8, 6, 3}, torch::kUInt8);
    EXPECT_EQ(model->Encode(bytes).size(1), kind == "pixels" ? 48 : 12);
    const Tensor logits = model->Classify(bytes);
    EXPECT_TRUE(Close(model->Classify(bytes.flatten(1)), logits));
    EXPECT_TRUE(Close(model->Classify(bytes.to(torch::kFloat32) / 127.5 - 1), logits));
    EXPECT_NE(ErrorOf([&] {
                model->Classify(torch::zeros({2, 7}));
              }).find("[batch, 8, 6, 3]"),
              std::string::npos);
  }
}

TEST(ModelTest, WhatAModelCannotDoIsSaid) {
  EXPECT_NE(ErrorOf([] { Make({{"attention", "bigbird"}}); }).find("softmax"), std::string::npos);
  EXPECT_NE(ErrorOf([] {
              Make({{"attention", "cosfromer"}});
            }).find("did you mean \"cosformer\""),
            std::string::npos);
  EXPECT_NE(ErrorOf([] {
              Make({{"model", "encoder-decoder"}, {"cross_attention", "local"}});
            }).find("cross attention"),
            std::string::npos);
  EXPECT_NE(ErrorOf([] {
              Make({{"attention", {{"system", "cosformer"}, {"horizn", 3}}}});
            }).find("did you mean \"horizon\""),
            std::string::npos);
  EXPECT_NE(ErrorOf([] {
              Make({{"model", "encoder"}, {"attention", "linformer"}, {"positions", "rotary"}});
            }).find("because"),
            std::string::npos);
  Model decoder = Make(json::object());
  EXPECT_NE(ErrorOf([&] { decoder->Classify(Tokens(1, 3)); }).find("does not classify"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] {
              decoder->Decode(Tokens(1, 3), torch::zeros({1, 3, 24}));
            }).find("decoder"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] {
              decoder->Encode(torch::full({1, 3}, 23, torch::kInt64));
            }).find("23"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { decoder->Encode(Tokens(1, 49)); }).find("max_length is 48"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] {
              decoder->Encode(torch::zeros({1, 3}));
            }).find("int64"),
            std::string::npos);
  ModelStream stream = decoder->NewStream(2);
  EXPECT_NE(ErrorOf([&] { decoder->Step(Tokens(1, 3), stream); }).find("batch of 2"),
            std::string::npos);
}

TEST(ModelTest, OneVsEachTrainsWhereTheConfigSaysSo) {
  Model model = Make({{"loss", "one-vs-each"}, {"negatives", 22}});
  const Tensor tokens = Tokens(2, 20);
  const Tensor hidden = model->Encode(tokens);
  EXPECT_GT(model->Loss(hidden, tokens).loss.item<double>(),
            model->FullCrossEntropy(hidden, tokens).loss.item<double>());
}

TEST(ModelTest, ATargetIsPaddedLikeASource) {
  for (const std::string cross : {"cosformer", "softmax", "linformer"}) {
    Model model = Make({{"model", "encoder-decoder"}, {"cross_attention", cross}});
    torch::NoGradGuard no_grad;
    const Tensor source = Tokens(2, 30), tokens = Tokens(2, 20);
    for (const Layout& source_layout : {Layout(), Layout::Padded({30, 13})}) {
      const Layout target_layout = Layout::Padded({9, 20});
      const Tensor both =
          model->Decode(tokens, model->Encode(source, source_layout), target_layout, source_layout);
      for (int64_t b = 0; b < 2; ++b) {
        const int64_t from = source_layout.padded() ? source_layout.query_lengths[b] : 30;
        const int64_t to = target_layout.query_lengths[b];
        const Tensor memory = model->Encode(source.slice(0, b, b + 1).slice(1, 0, from));
        const Tensor alone = model->Decode(tokens.slice(0, b, b + 1).slice(1, 0, to), memory);
        EXPECT_TRUE(Close(both.slice(0, b, b + 1).slice(1, 0, to), alone)) << cross << b;
      }
    }
  }
}

TEST(ModelTest, PackedTargetsSeeTheirOwnSources) {
  Model model = Make({{"model", "encoder-decoder"}});
  torch::NoGradGuard no_grad;
  const Tensor source = Tokens(1, 30), tokens = Tokens(1, 20);
  const Layout sources = Layout::Packed({0, 11, 30}), targets = Layout::Packed({0, 14, 20});
  const Tensor memory = model->Encode(source, sources);
  const Tensor both = model->Decode(tokens, memory, targets, sources);
  const Tensor first = model->Decode(tokens.slice(1, 0, 14), model->Encode(source.slice(1, 0, 11)));
  const Tensor second = model->Decode(tokens.slice(1, 14), model->Encode(source.slice(1, 11)));
  EXPECT_TRUE(Close(both, torch::cat({first, second}, 1)));
  EXPECT_NE(ErrorOf([&] { model->Decode(tokens, memory, targets, {}); }).find("packed"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { model->NewStream(memory, sources); }).find("packed"), std::string::npos);
}

TEST(ModelTest, CheckpointingAnEncoderDecoderChangesNothingWhateverTheModeIsAfterwards) {
  std::vector<std::vector<Tensor>> gradients;
  for (const bool checkpointing : {false, true}) {
    Model model = Make({{"model", "encoder-decoder"},
                        {"checkpointing", checkpointing},
                        {"attention", "rfa-arccos"},
                        {"dropout", 0.1}});
    model->train();
    torch::manual_seed(5);
    const Tensor a = Tokens(2, 20), b = Tokens(2, 12);
    const Layout layout = Layout::Padded({20, 7});
    const Tensor loss = model->Loss(model->Decode(b, model->Encode(a, layout), {}, layout), b).loss;
    model->eval();
    loss.backward();
    gradients.emplace_back();
    for (const Tensor& parameter : model->parameters())
      gradients.back().push_back(parameter.grad());
    EXPECT_FALSE(model->is_training());
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    EXPECT_TRUE(Close(gradients[0][i], gradients[1][i], 1e-5)) << i;
  }
}

TEST(ModelTest, RowsOutsidePackedSequencesArePaddingWhereverTheyStand) {
  Model model = Make({{"max_length", 16}});
  torch::NoGradGuard no_grad;
  const Tensor tokens = Tokens(1, 40);
  const Tensor packed = model->Encode(tokens, Layout::Packed({0, 16, 30}));
  EXPECT_TRUE(Close(packed.slice(1, 16, 30), model->Encode(tokens.slice(1, 16, 30))));
  EXPECT_NE(ErrorOf([&] {
              model->Encode(tokens, Layout::Packed({0, 16, 41}));
            }).find("41"),
            std::string::npos);
}

TEST(ModelTest, AStreamThatFailedHalfWayGoesNoFurther) {
  Model model = Make({{"attention", {"softmax", "cosformer"}}, {"positions", "none"}});
  ModelStream stream = model->NewStream(1);
  model->Step(Tokens(1, 40), stream);
  EXPECT_NE(ErrorOf([&] { model->Step(Tokens(1, 9), stream); }).find("horizon"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { model->Step(Tokens(1, 1), stream); }).find("another stream"),
            std::string::npos);
}

}  // namespace
}  // namespace cosformer
