// A vocabulary of whole words, for texts that come split into them as WikiText does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/tokenizer.h"

namespace cosformer {

// Calls `word` with each word between blanks, and `end_of_line` at each '\n'. Blanks are those of
// ASCII: other alphabets' blanks are part of words, as in the programs that such texts come from.
template <class Word, class EndOfLine>
void ForEachWord(std::string_view text, Word word, EndOfLine end_of_line) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (at != end) {
    if (is_blank(*at)) {
      if (*at++ == '\n') end_of_line();
      continue;
    }
    const char* const begin = at;
    while (at != end && !is_blank(*at)) ++at;
    word(std::string_view(begin, static_cast<size_t>(at - begin)));
  }
}

// <unk>, <s>, </s>, <sep>, <mask>, in the order of their tokens.
std::span<const std::string_view> SpecialWords();

class WordTokens {
 public:
  // Throws Error, beginning with `where`, as Tokenizer::Words says.
  WordTokens(std::vector<std::string> words, const std::string& where);
  // The table refers to the words.
  WordTokens(WordTokens&&) = default;

  int64_t size() const { return static_cast<int64_t>(words_.size()); }
  const SpecialTokens& special() const { return special_; }
  void Encode(std::string_view text, std::vector<int32_t>& tokens) const;
  void Decode(int32_t token, bool& line_starts, std::string& text) const;
  std::string Piece(int32_t token) const { return words_[static_cast<size_t>(token)]; }

  // As they were given, without the special ones that were added.
  std::span<const std::string> given() const { return std::span(words_).subspan(added_); }

 private:
  std::vector<std::string> words_;  // by token
  size_t added_ = 0;                // special words before those given
  SpecialTokens special_;
  std::unordered_map<std::string_view, int32_t> tokens_;
};

}  // namespace cosformer
