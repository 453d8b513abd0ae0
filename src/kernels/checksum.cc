#include "kernels/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace cosformer {

static_assert(std::endian::native == std::endian::little, "words are taken as they lie");

namespace {

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87u;
constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4fu;
constexpr uint64_t kPrime3 = 0x165667b19e3779f9u;
constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63u;
constexpr uint64_t kPrime5 = 0x27d4eb2f165667c5u;

template <class Word>
Word Read(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

uint64_t Round(uint64_t sum, uint64_t word) {
  return std::rotl(sum + word * kPrime2, 31) * kPrime1;
}

}  // namespace

uint64_t Xxh64(std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  uint64_t hash = kPrime5;
  if (bytes.size() >= 32) {
    uint64_t a = kPrime1 + kPrime2, b = kPrime2, c = 0, d = 0 - kPrime1;
    for (; end - at >= 32; at += 32) {
      a = Round(a, Read<uint64_t>(at));
      b = Round(b, Read<uint64_t>(at + 8));
      c = Round(c, Read<uint64_t>(at + 16));
      d = Round(d, Read<uint64_t>(at + 24));
    }
    hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    for (const uint64_t sum : {a, b, c, d}) hash = (hash ^ Round(0, sum)) * kPrime1 + kPrime4;
  }
  hash += bytes.size();
  for (; end - at >= 8; at += 8) {
    hash = std::rotl(hash ^ Round(0, Read<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  }
  if (end - at >= 4) {
    hash = std::rotl(hash ^ Read<uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at < end; ++at) {
    hash = std::rotl(hash ^ static_cast<uint64_t>(*at) * kPrime5, 11) * kPrime1;
  }
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

uint64_t TensorChecksum(std::span<const std::byte> bytes, int64_t rows) {
  const int64_t count = (rows + kChecksumRows - 1) / kChecksumRows;
  const size_t row_bytes = rows > 0 ? bytes.size() / static_cast<size_t>(rows) : 0;
  const size_t piece = row_bytes * static_cast<size_t>(kChecksumRows);
  std::vector<uint64_t> pieces(static_cast<size_t>(count));
#pragma omp parallel for schedule(static) if (bytes.size() > (1 << 20))
  for (int64_t i = 0; i < count; ++i) {
    const size_t begin = static_cast<size_t>(i) * piece;
    pieces[static_cast<size_t>(i)] =
        Xxh64(bytes.subspan(begin, std::min(piece, bytes.size() - begin)));
  }
  return TensorChecksum(pieces);
}

uint64_t TensorChecksum(std::span<const uint64_t> pieces) { return Xxh64(std::as_bytes(pieces)); }

}  // namespace cosformer
