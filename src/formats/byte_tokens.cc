#include "formats/byte_tokens.h"

#include <fmt/format.h>

namespace cosformer {

void ByteTokens::Encode(std::string_view text, std::vector<int32_t>& tokens) const {
  const size_t before = tokens.size();
  tokens.resize(before + text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    tokens[before + i] = static_cast<unsigned char>(text[i]);
  }
}

void ByteTokens::Decode(int32_t token, bool& /*line_starts*/, std::string& text) const {
  if (token < 256) text += static_cast<char>(token);
}

std::string ByteTokens::Piece(int32_t token) const {
  constexpr std::string_view kSpecial[] = {"<s>", "</s>", "<sep>", "<mask>"};
  if (token >= 256) return std::string(kSpecial[token - 256]);
  if (token > ' ' && token < 0x7F) return std::string(1, static_cast<char>(token));
  return fmt::format("<0x{:02X}>", token);
}

}  // namespace cosformer
