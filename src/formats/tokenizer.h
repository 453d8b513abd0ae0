// From text to tokens and back: bytes, words, or SentencePiece. A tokenizer is part of a model
// directory: tokenizer.model, as SentencePiece writes it, or tokenizer.json for the others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cosformer {

enum class TokenizerKind { kBytes, kWords, kSentencePiece };
std::string_view Name(TokenizerKind kind);  // "bytes", "words", "sentencepiece"

// Tokens that stand for no text; -1 where the tokenizer has no such token.
struct SpecialTokens {
  int32_t unknown = -1;
  int32_t begin = -1;
  int32_t end = -1;        // of a document; of a line, in words
  int32_t separator = -1;  // between two texts in one sequence
  int32_t mask = -1;
};

// An immutable value, cheap to copy; every function may be called from several threads at once.
class Tokenizer {
 public:
  // Tokens 0 to 255 are the bytes; then begin, end, separator, mask.
  static Tokenizer Bytes();

  // Words lie between blanks; every '\n' is the token `end`, so that a line's end is predicted too.
  // The words come after the special ones: <unk>, <s>, </s>, <sep>, <mask>, unless they are among
  // the given (WikiText has <unk>). Throws Error for duplicates, empty words, words with blanks or
  // that are no UTF-8, and when there are none.
  static Tokenizer Words(std::vector<std::string> words);

  // A model in SentencePiece's own format. '\n' is a piece of its own where the model has one, or
  // the byte piece <0x0A>; otherwise it becomes `end`. Throws Error, beginning with `where`, when
  // the bytes are no such model.
  static Tokenizer SentencePiece(std::string model, const std::string& where = "tokenizer.model");

  TokenizerKind kind() const;
  int64_t size() const;  // of the vocabulary
  const SpecialTokens& special() const;

  // Appends the tokens of `text`. No special tokens are added around it. Takes whatever bytes there
  // are: bytes, and SentencePiece models as this library trains them, give all of them back; in
  // other models what is no UTF-8 becomes U+FFFD, and a word that is none is unknown.
  void Encode(std::string_view text, std::vector<int32_t>& tokens) const;
  std::vector<int32_t> Encode(std::string_view text) const;
  // The text of the tokens; special ones are left out, except that an unknown word shows as <unk>
  // and the end of a line as '\n'. Throws Error for tokens outside the vocabulary.
  std::string Decode(std::span<const int32_t> tokens) const;
  // The same token by token, for a text that is shown as it grows: appends what `token` adds to it.
  // Whether a line starts with it, true for the first token, is all that this depends on besides,
  // and is set for the next. Throws Error as above, with nothing changed.
  void Decode(int32_t token, bool& line_starts, std::string& text) const;
  // One token as a person may read it: "▁the", "<0x0A>", "</s>".
  std::string Piece(int32_t token) const;

  // Equal for tokenizers that encode alike: what a cache of tokens carries. 16 hexadecimal digits.
  const std::string& Fingerprint() const;

  // Into a directory, whole or not at all; removes the file of the other form if there is one.
  void Save(const std::string& directory) const;
  // From a directory, or a file: *.model or *.json. Throws Error for what is missing or broken.
  static Tokenizer Load(const std::string& path);
  static bool IsIn(const std::string& directory);

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace cosformer
