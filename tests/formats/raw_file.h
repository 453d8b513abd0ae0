// A safetensors file put together by hand, so that any part of it can be wrong.
#pragma once

#include <cstdint>
#include <string>

namespace cosformer::testing {

inline std::string LengthBytes(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

inline std::string RawFile(const std::string& header, const std::string& data) {
  return LengthBytes(header.size()) + header + data;
}

}  // namespace cosformer::testing
