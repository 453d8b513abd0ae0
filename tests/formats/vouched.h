// Files that end with a checksum, altered and vouched for again: what stands before is then met,
// and not the checksum. Needs zlib.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace cosformer::testing {

// The same with its last four bytes made the CRC-32 of the rest.
inline std::string Vouched(std::string bytes) {
  const size_t content = bytes.size() - sizeof(uint32_t);
  const auto crc =
      static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), content));
  std::memcpy(bytes.data() + content, &crc, sizeof(crc));
  return bytes;
}

}  // namespace cosformer::testing
