// Texts of files: their places, and where they are not UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cosformer::data {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The largest offset of at most `most` that does not lie within a character. Where that would be 0,
// or there is no UTF-8 around it, `most` itself. At least `most` bytes must be there.
size_t Utf8Boundary(std::string_view text, size_t most);

// A place in a file. Columns count bytes.
struct TextPosition {
  int64_t line = 1;
  int64_t column = 1;
  int64_t offset = 0;

  void Pass(std::string_view text);  // to the end of the text that begins here
};

// Throws Error with the place of the first byte that is not UTF-8; `text` begins at `position`.
void CheckUtf8(std::string_view text, std::string_view file, TextPosition position);

}  // namespace cosformer::data
