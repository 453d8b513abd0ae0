#include "data/tasks/bytes_literal.h"

#include <charconv>

namespace cosformer::data {

std::string DecodeBytesLiteral(std::string_view cell) {
  if (cell.size() < 3 || cell[0] != 'b' || (cell[1] != '\'' && cell[1] != '"') ||
      cell.back() != cell[1]) {
    return std::string(cell);
  }
  const std::string_view inner = cell.substr(2, cell.size() - 3);
  constexpr std::string_view kNames = "tnr\\'\"";
  constexpr std::string_view kValues = "\t\n\r\\'\"";
  std::string bytes;
  bytes.reserve(inner.size());
  for (size_t i = 0; i < inner.size(); ++i) {
    bytes += inner[i];
    if (inner[i] != '\\' || i + 1 == inner.size()) continue;
    if (const size_t name = kNames.find(inner[i + 1]); name != std::string_view::npos) {
      bytes.back() = kValues[name];
      ++i;
    } else if (inner[i + 1] == 'x' && i + 3 < inner.size()) {
      unsigned char value = 0;
      const char* end = inner.data() + i + 4;
      const auto [parsed, error] = std::from_chars(end - 2, end, value, 16);
      if (error != std::errc() || parsed != end) continue;
      bytes.back() = static_cast<char>(value);
      i += 3;
    }
  }
  return bytes;
}

}  // namespace cosformer::data
