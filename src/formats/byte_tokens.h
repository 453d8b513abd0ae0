// Every byte a token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer.h"

namespace cosformer {

class ByteTokens {
 public:
  int64_t size() const { return 260; }
  const SpecialTokens& special() const { return special_; }
  void Encode(std::string_view text, std::vector<int32_t>& tokens) const;
  void Decode(int32_t token, bool& line_starts, std::string& text) const;
  std::string Piece(int32_t token) const;

 private:
  SpecialTokens special_ = {.begin = 256, .end = 257, .separator = 258, .mask = 259};
};

}  // namespace cosformer
