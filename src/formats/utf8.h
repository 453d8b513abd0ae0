// Which bytes are UTF-8, strictly: no overlong forms, no surrogates, nothing beyond U+10FFFF. And
// where a text may be cut.
#pragma once

#include <cstddef>
#include <string_view>

namespace cosformer {

// Bytes of the character that `text` begins with; 0 when it does not begin with one.
size_t Utf8Length(std::string_view text);
bool IsUtf8(std::string_view text);

// Where to cut a long text: before the first blank at or after `length`; or, where there is none up
// to twice that, there, between two characters. Its whole size when it is no longer than that.
size_t CutLength(std::string_view text, size_t length);

}  // namespace cosformer
