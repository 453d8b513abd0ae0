// What is no file; and that no damage to a good one, wherever it falls, does worse than an error.
// The table of corrupt files is in corrupt_files_test.cc.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <numeric>
#include <string>
#include <vector>

#include "contains.h"
#include "folder.h"
#include "formats/safetensors.h"

namespace cosformer {
namespace {

using testing::MessageOf;
using SafetensorsCorruptTest = testing::FolderTest;

TEST_F(SafetensorsCorruptTest, WhatIsNoFileIsNamed) {
  const std::string missing = Path("missing");
  EXPECT_EQ(MessageOf([&] { SafetensorsFile::Open(missing); }),
            "cannot read \"" + missing + "\": No such file or directory");
  const std::string pipe = Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MessageOf([&] { SafetensorsFile::Open(pipe); }),
            "cannot read \"" + pipe + "\": it is not a regular file");
}

class DamageTest : public testing::FolderTest {
 protected:
  DamageTest() {
    std::vector<uint8_t> bytes(48);
    std::iota(bytes.begin(), bytes.end(), uint8_t{0});
    const auto data = std::as_bytes(std::span(bytes));
    const TensorEntry tensors[] = {{"weight", TensorType::kF32, {3, 4}, data},
                                   {"bias", TensorType::kBF16, {4}, data.first(8)},
                                   {"none", TensorType::kF64, {0}, {}}};
    WriteSafetensors(Path("good"), tensors, {{"made by", "a test"}});
    good_ = Read(Path("good"));
  }

  // The sum of all data, so that every byte is read; or an Error.
  static int Use(const std::string& path) {
    const SafetensorsFile file = SafetensorsFile::Open(path);
    int sum = 0;
    for (const TensorEntry& tensor : file.tensors()) {
      for (const std::byte byte : tensor.data) sum += std::to_integer<int>(byte);
    }
    return sum;
  }

  std::string good_;
};

TEST_F(DamageTest, AFileCutAnywhereIsRefused) {
  EXPECT_EQ(Use(Path("good")), 47 * 48 / 2 + 7 * 8 / 2);
  for (size_t size = 0; size < good_.size(); ++size) {
    const std::string path = Write("cut", good_.substr(0, size));
    EXPECT_THROW(Use(path), Error) << size;
  }
  EXPECT_THROW(Use(Write("longer", good_ + "x")), Error);
}

TEST_F(DamageTest, AFileWithAWrongByteIsRefusedOrReadWithinItsBounds) {
  for (size_t at = 0; at < good_.size() - 56; ++at) {
    for (const char flip : {'\x01', '\x10', '\x80'}) {
      std::string damaged = good_;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const std::string path = Write("damaged", damaged);
      try {
        Use(path);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace cosformer
