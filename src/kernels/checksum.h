// The checksum of a tensor's bytes: fast enough to be computed whenever a model is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cosformer {

// XXH64 with seed 0, as `xxhsum -H64` prints it. It tells damage, not malice.
uint64_t Xxh64(std::span<const std::byte> bytes);

// Of a tensor whose bytes are so many rows: the Xxh64() of the Xxh64() of every 64 rows, as 8
// little-endian bytes one after the other. So threads take part in it, and whoever copies a tensor
// takes it of what the caches hold at that moment.
inline constexpr int64_t kChecksumRows = 64;
uint64_t TensorChecksum(std::span<const std::byte> bytes, int64_t rows);
// The last step of it.
uint64_t TensorChecksum(std::span<const uint64_t> pieces);

}  // namespace cosformer
