// SentencePiece's pieces, line by line, so that a text of many lines comes back as it was.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/sentencepiece_library.h"
#include "formats/sentencepiece_model.h"
#include "formats/tokenizer.h"

namespace cosformer {

class PieceTokens {
 public:
  // Throws Error, beginning with `where`, when the bytes are no model.
  PieceTokens(std::string model, const std::string& where);

  int64_t size() const { return static_cast<int64_t>(text_.size()); }
  const SpecialTokens& special() const { return special_; }
  void Encode(std::string_view text, std::vector<int32_t>& tokens) const;
  void Decode(int32_t token, bool& line_starts, std::string& text) const;
  std::string Piece(int32_t token) const;

  const std::string& model() const { return model_; }  // the bytes it was made from

 private:
  void EncodeLine(std::string_view line, std::vector<int32_t>& tokens) const;
  void EncodeLong(std::string_view text, std::vector<int32_t>& tokens) const;

  std::string model_;
  SentencePieceTraits traits_;
  std::unique_ptr<const PieceProcessor> processor_;
  SpecialTokens special_;
  int32_t newline_ = -1;
  std::vector<int32_t> byte_tokens_;  // [256] where the model has byte pieces
  std::vector<std::string> text_;     // what each token adds to a text
};

}  // namespace cosformer
