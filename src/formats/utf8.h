// Which bytes are UTF-8, strictly: no overlong forms, no surrogates, nothing beyond U+10FFFF. How
// to show those that are none, and where a text may be cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cosformer {

enum class Utf8Part : uint8_t {
  kCharacter,
  kCut,     // what is there could still become a character
  kBroken,  // no character begins so
};

struct Utf8Start {
  Utf8Part part;
  size_t length;
};

// What `text` begins with, and its bytes. Of what is broken these are as many as a character may
// begin with, at least one: what the Unicode standard has one U+FFFD shown for. Nothing at all is
// cut, with 0 bytes.
Utf8Start StartOfUtf8(std::string_view text);

// Bytes of the character that `text` begins with; 0 when it does not begin with one.
size_t Utf8Length(std::string_view text);
// The offset of the first byte that begins no character (overlong forms, surrogates and what lies
// beyond U+10FFFF are none, nor is a character that the end cuts short); text.size() if there is
// none.
size_t FindInvalidUtf8(std::string_view text);
// Throws Error where there is one; `what` begins the sentence: "the text".
void CheckUtf8(std::string_view text, std::string_view what);
inline bool IsUtf8(std::string_view text) { return FindInvalidUtf8(text) == text.size(); }

// The first `most` bytes of a text that may hold anything, as an error can show them: bytes that
// are no UTF-8, and control characters, become \xNN.
std::string Printable(std::string_view text, size_t most);

// Where to cut a long text: before the first blank at or after `length`; or, where there is none up
// to twice that, there, between two characters. Its whole size when it is no longer than that.
size_t CutLength(std::string_view text, size_t length);

}  // namespace cosformer
