#include "kernels/checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace cosformer {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Files hold them, and other programs may compute them.
TEST(Checksum, Xxh64IsThePublishedOne) {
  EXPECT_EQ(Xxh64({}), 0xef46db3751d8e999u);
  EXPECT_EQ(Xxh64(BytesOf("a")), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(Xxh64(BytesOf("abc")), 0x44bc2cf5ad770999u);
  EXPECT_EQ(Xxh64(BytesOf("abcdefghijklmnopqrstuvwxyz")), 0xcfe1f278fa89835cu);
  EXPECT_EQ(Xxh64(BytesOf("Nobody inspects the spammish repetition")), 0xfbcea83c8a378bf1u);
  EXPECT_EQ(Xxh64(BytesOf("The quick brown fox jumps over the lazy dog")), 0x0b242d361fda71bcu);
}

TEST(Checksum, ATensorsIsThatOfItsPiecesOf64Rows) {
  std::vector<std::byte> bytes(150 * 7000);  // so many that threads share them
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 2654435761u >> 9);
  const std::span all(bytes);
  const size_t piece = 64 * 7000;
  const uint64_t sums[] = {Xxh64(all.first(piece)), Xxh64(all.subspan(piece, piece)),
                           Xxh64(all.subspan(2 * piece))};
  EXPECT_EQ(TensorChecksum(all, 150), Xxh64(std::as_bytes(std::span(sums))));
  EXPECT_EQ(TensorChecksum(all, 150), TensorChecksum(sums));
  const uint64_t whole[] = {Xxh64(all)};
  EXPECT_EQ(TensorChecksum(all, 1), TensorChecksum(whole));
  EXPECT_EQ(TensorChecksum({}, 0), Xxh64({}));
}

TEST(Checksum, AnyBitThatFlipsChangesIt) {
  std::vector<std::byte> bytes(11 * 7);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
  const uint64_t before = TensorChecksum(bytes, 11);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(TensorChecksum(bytes, 11), before) << "bit " << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace
}  // namespace cosformer
