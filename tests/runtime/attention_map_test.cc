// Attention maps against the operator: with a value for every token that is 1 there and 0
// elsewhere, its outputs are the weights.
#include "runtime/attention_map.h"

#include <gtest/gtest.h>

#include "support.h"

namespace cosformer::runtime::testing {
namespace {

// [tokens, tokens] of a head, by the operator.
std::vector<float> ByOperator(const Model& model, const std::vector<int32_t>& tokens, size_t layer,
                              int64_t head) {
  const Network& network = model.network();
  const LayerAttention& attention = network.attention()[layer];
  const Network::QueriesAndKeys rows = network.QueriesAndKeysOf(tokens, layer);
  const int64_t n = rows.length;
  std::vector<float> one_hot(static_cast<size_t>(n * n), 0.0f), weights(one_hot.size());
  for (int64_t i = 0; i < n; ++i) one_hot[static_cast<size_t>(i * n + i)] = 1;
  ConstView q = ConstView::Of(rows.q.data(), 1, n, attention.heads, attention.dim);
  ConstView k = ConstView::Of(rows.k.data(), 1, n, attention.kv_heads, attention.dim);
  const auto only = [](ConstView& view, int64_t which) {
    view.data = static_cast<const float*>(view.data) + which * view.head_stride;
    view.heads = 1;
  };
  only(q, head);
  const int64_t group = attention.heads / attention.kv_heads;
  only(k, head / group);
  const ConstView v = ConstView::Of(one_hot.data(), 1, n, 1, n);
  const View o = View::Of(weights.data(), 1, n, 1, n);
  const bool causal = network.config().kind == ModelKind::kDecoder;
  if (attention.softmax) {
    SoftmaxOptions options;
    options.causal = causal;
    SoftmaxAttentionForward(q, k, v, o, {}, options);
  } else {
    LinearOptions options;
    options.kernel = attention.options.kernel;
    options.causal = causal;
    std::vector<float> keep;
    for (int64_t i = 0; i < n && attention.options.gate; ++i) {
      keep.push_back(rows.keep[static_cast<size_t>(i * attention.kv_heads + head / group)]);
    }
    options.keep = keep;
    LinearAttentionForward(q, k, v, o, {}, options);
  }
  return weights;
}

TEST(AttentionMaps, HaveTheWeightsOfTheOperator) {
  const std::vector<int32_t> tokens = RandomTokens(40, 1);
  for (const char* kind : {"decoder", "encoder"}) {
    for (const std::string system :
         {"cosformer", "cosformer-leaky-relu", "linear", "relu", "softmax", "cosformer-gate"}) {
      if (system.ends_with("-gate") && kind != std::string("decoder")) continue;
      for (const int64_t kv_heads : {4, 2}) {
        const Model model =
            SmallModel({{"model", kind}, {"attention", system}, {"kv_heads", kv_heads}});
        for (const int64_t layer : {0, 1}) {
          std::vector<double> mean(1600, 0.0);
          for (int64_t head = 0; head < 4; ++head) {
            const std::vector<float> map = AttentionMap(model.network(), tokens, layer, head);
            const std::vector<float> expected =
                ByOperator(model, tokens, static_cast<size_t>(layer), head);
            for (size_t i = 0; i < map.size(); ++i) {
              if (kind == std::string("decoder") && i % 40 > i / 40) {
                ASSERT_TRUE(std::isnan(map[i]));
                continue;
              }
              ASSERT_NEAR(map[i], expected[i], 2e-5f * (1 + std::abs(expected[i])))
                  << kind << " " << system;
              mean[i] += static_cast<double>(map[i]) / 4;
            }
          }
          const std::vector<float> all = AttentionMap(model.network(), tokens, layer, -1);
          for (size_t i = 0; i < all.size(); ++i) {
            if (!std::isnan(all[i])) {
              ASSERT_NEAR(all[i], mean[i], 1e-6);
            }
          }
        }
      }
    }
  }
}

TEST(AttentionMaps, OfRotarySoftmaxDependOnDistancesAlone) {
  // One token over and over has one query and one key, so that only positions can tell them apart.
  const Model model =
      SmallModel({{"attention", "softmax"}, {"positions", "rotary"}, {"head_dim", 8}});
  const std::vector<int32_t> tokens(20, 7);
  const std::vector<float> map = AttentionMap(model.network(), tokens, 0, 0);
  for (size_t i = 2; i < 20; ++i) {
    for (size_t j = 1; j < i; ++j) {
      // Ratios within a row, as its sum depends on its length.
      EXPECT_NEAR(map[i * 20 + j] / map[i * 20 + j - 1],
                  map[(i - 1) * 20 + j - 1] / map[(i - 1) * 20 + std::max<size_t>(j, 2) - 2],
                  j < 2 ? 1e9 : 1e-3);
    }
  }
  EXPECT_GT(std::abs(map[19 * 20 + 19] / map[19 * 20 + 18] - 1), 1e-3);
}

TEST(AttentionMaps, RefuseWhatTheModelDoesNotHave) {
  const Model model = SmallModel({});
  const std::vector<int32_t> tokens = RandomTokens(5, 1);
  const auto error = [&](int64_t layer, int64_t head, const std::vector<int32_t>& text) {
    return ErrorOf([&] { AttentionMap(model.network(), text, layer, head); });
  };
  EXPECT_NE(error(2, 0, tokens).find("layer 2 is asked for; the model has 2 layers, 0 to 1"),
            std::string::npos);
  EXPECT_NE(error(-1, 0, tokens).find("layer -1"), std::string::npos);
  EXPECT_NE(error(0, 4, tokens).find("head 4"), std::string::npos);
  EXPECT_NE(error(0, 0, {}).find("0 tokens"), std::string::npos);
  EXPECT_NE(error(0, 0, RandomTokens(5000, 1)).find("5000 tokens"), std::string::npos);
}

}  // namespace
}  // namespace cosformer::runtime::testing
