// Texts with blanks to be filled in, as tokens.
#include <gtest/gtest.h>

#include "sentencepiece_models.h"
#include "support.h"

namespace cosformer::runtime::testing {
namespace {

Model MaskedModel(const Tokenizer& tokenizer) {
  const ModelConfig config = SmallConfig({{"model", "encoder"}, {"vocabulary", tokenizer.size()}});
  return ModelBuilder::Build(config, SmallParameters(config, 1),
                             std::make_shared<Tokenizer>(tokenizer));
}

// The pieces of SentencePiece have the blank before a word, and hide it with the word; others are
// between the blanks, or are themselves blanks.
TEST(MaskedText, HidesABlankWhereTheTokensHaveOne) {
  const Tokenizer tokenizers[] = {cosformer::testing::Lossless(), Tokenizer::Bytes(),
                                  Tokenizer::Words({"the", "long"})};
  for (const Tokenizer& tokenizer : tokenizers) {
    const bool hides = tokenizer.kind() == TokenizerKind::kSentencePiece;
    const Model model = MaskedModel(tokenizer);
    std::vector<int32_t> expected = tokenizer.Encode(hides ? "the" : "the ");
    const auto mask_then = [&](const char* text) {
      expected.push_back(tokenizer.special().mask);
      tokenizer.Encode(text, expected);
    };
    mask_then(" long");
    mask_then(hides ? "" : " ");
    mask_then("");
    const std::string text = "the <mask> long<mask> <mask>";
    EXPECT_EQ(model.EncodeMasked(text), expected);
    EXPECT_EQ(model.Fill(text).size(), 3u);
  }
}

}  // namespace
}  // namespace cosformer::runtime::testing
