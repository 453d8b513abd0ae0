// What a SentencePiece model file says about itself, read from its protocol buffer. The library
// tells little of it, takes a file that was cut off between two fields for a whole one, and trusts
// the offsets of the normalisation table and that few pieces begin with each other, so that the
// file is checked here before it is loaded.
#pragma once

#include <string>
#include <string_view>

namespace cosformer {

struct SentencePieceTraits {
  bool byte_pieces = false;    // bytes stand in for what has no piece
  bool normalises = false;     // characters are replaced by others before they are looked up
  bool blank_before = true;    // each text is encoded as if a blank stood before it
  bool removes_blanks = true;  // at either end, and all but one of several
  bool escapes_blanks = true;  // to U+2581

  // Whether every text of valid characters without U+2581 comes back from its pieces, which then
  // are no more than parts of it.
  bool Lossless() const {
    return byte_pieces && !normalises && !blank_before && !removes_blanks && escapes_blanks;
  }
};

// Throws Error, beginning with `where`.
SentencePieceTraits ReadTraits(std::string_view model, const std::string& where);

}  // namespace cosformer
