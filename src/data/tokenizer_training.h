// Makes a tokenizer from a text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "formats/tokenizer.h"

namespace cosformer::data {

// Calls the function it is given with one stretch of text after another, of whole lines.
using TextStream = std::function<void(const std::function<void(std::string_view)>&)>;

// The most frequent words of the text, as many as make a tokenizer of `vocabulary` tokens; 0: all.
// Equally frequent ones in the order of their bytes; what is no UTF-8 is no word. Throws Error when
// fewer words are there than asked for, with the largest number that would do, and when there is
// no word at all.
Tokenizer TrainWords(const TextStream& text, int64_t vocabulary);

// A SentencePiece unigram model of `vocabulary` pieces from a sample of the text, 8 to 32 MB,
// byte for byte the same for the same text. Lossless: bytes stand in for what has no piece, and
// '\n' is a piece. Throws Error when the text does not support that many, with the largest number
// that would do, or takes that number if `fewer` will do; and when its letters alone need more,
// with the least.
Tokenizer TrainSentencePiece(const TextStream& text, int64_t vocabulary, bool fewer = false);

}  // namespace cosformer::data
