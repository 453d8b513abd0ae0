// Tokens as text, as it can be shown: whole characters only, and nothing that a stop string may yet
// take back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer.h"

namespace cosformer {

// Finds the first of several texts to be complete in a stream of bytes, in time that does not
// depend on what came before: on average a few steps a byte and text.
class StopStrings {
 public:
  // Throws Error for texts that are empty or no UTF-8.
  explicit StopStrings(std::vector<std::string> texts);

  // Takes the next byte. Returns the length of the longest text that is complete with it, 0 for
  // none.
  size_t Add(char byte);
  // How many of the latest bytes may be the beginning of a text.
  size_t pending() const { return pending_; }

 private:
  struct Pattern {
    std::string text;
    // For each number of matching bytes, how many of them match when the text begins later: the
    // failure function of Knuth, Morris and Pratt.
    std::vector<size_t> shorter;
    size_t matched = 0;
  };

  std::vector<Pattern> patterns_;
  size_t pending_ = 0;
};

// One text that grows token by token. What Add and Finish return, put together, is the text of all
// tokens as Tokenizer::Decode has it, with U+FFFD for bytes that are no UTF-8 (one for as many as a
// character may begin with), and cut before the stop string that is the first to be complete there;
// of several that end at the same place, before the longest. How the text falls into tokens makes
// no difference to it.
// A value: a copy goes on as the original would. It holds the stop strings, and no more of the text
// than the longest of them and one character.
class TextStream {
 public:
  // `before` are tokens that the text goes on after, such as a prompt: they decide whether it
  // begins with a blank, and are not shown. Throws Error for stop strings that are empty or no
  // UTF-8, and for tokens outside the vocabulary.
  // Without them it begins a line, or goes on within one.
  explicit TextStream(Tokenizer tokenizer, std::vector<std::string> stop_strings = {},
                      std::span<const int32_t> before = {}, bool within_line = false);

  // What is certain now and was not before; after a stop, and after Finish, nothing. Throws Error
  // for a token outside the vocabulary, with nothing changed.
  std::string Add(int32_t token);
  // What was held back: the text ends here.
  std::string Finish();
  // Whether a stop string was complete; it is not shown, nor what came after it.
  bool stopped() const { return stopped_; }

 private:
  void ShowCharacters(bool finish);
  void Show(std::string_view characters);
  std::string TakeCertain();

  Tokenizer tokenizer_;
  StopStrings stops_;
  bool line_starts_ = true;
  bool stopped_ = false;
  bool ended_ = false;  // stopped, or finished
  std::string bytes_;   // of a character that is not whole yet
  std::string text_;    // not returned yet
};

}  // namespace cosformer
