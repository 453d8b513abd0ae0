// A tokenizer, as tokenizer.model and as tokenizer.json: texts become tokens of the vocabulary, and
// these some text again.
#include "formats/tokenizer.h"

#include "fuzz.h"

namespace cosformer::fuzz {
namespace {

// Blanks of every kind, a character that normalisation changes, SentencePiece's blank, and bytes
// that are no UTF-8.
constexpr std::string_view kText =
    " the  a\tb\n\xEF\xBD\x81 caf\xC3\xA9 \xE2\x96\x81<unk><sep>\xFF\xC3\n\xE4\xBD\xA0";

void Use(const Tokenizer& tokenizer, std::string_view input) {
  const auto size = static_cast<int32_t>(tokenizer.size());
  Check(size > 0, "a tokenizer has tokens");
  const SpecialTokens& special = tokenizer.special();
  for (const int32_t token :
       {special.unknown, special.begin, special.end, special.separator, special.mask}) {
    Check(token >= -1 && token < size, "special tokens are tokens, or none");
  }
  for (int32_t token = 0; token < size; ++token) tokenizer.Piece(token);
  for (const std::string_view text : {kText, input}) {
    const std::vector<int32_t> tokens = tokenizer.Encode(text);
    for (const int32_t token : tokens) {
      Check(token >= 0 && token < size, "texts become tokens of the vocabulary");
    }
    const std::string decoded = tokenizer.Decode(tokens);
    Check(tokenizer.kind() != TokenizerKind::kBytes || decoded == text, "bytes come back");
  }
}

}  // namespace

void Try(std::string_view input) {
  MayRefuse([&] { Use(Tokenizer::SentencePiece(std::string(input), "the input"), input); });
  MayRefuse([&] { Use(Tokenizer::Load(FileOf("tokenizer.json", input)), input); });
}

}  // namespace cosformer::fuzz
