#include "formats/read_file.h"

#include <gtest/gtest.h>

#include <string>

#include "contains.h"
#include "folder.h"

namespace cosformer {
namespace {

using testing::MessageOf;
using ReadFileTest = testing::FolderTest;

TEST_F(ReadFileTest, FilesOfEverySizeUpToTheLimitAreReadWhole) {
  for (const size_t size : {0, 1, 65535, 65536, 65537, 200000, 1 << 20}) {
    std::string contents;
    for (size_t i = 0; i < size; ++i) contents += static_cast<char>(i * 31);
    EXPECT_EQ(ReadFile(Write("file", contents), 1 << 20), contents) << size;
  }
}

TEST_F(ReadFileTest, WhatIsLargerOrCannotBeReadIsNamed) {
  const std::string path = Write("file", std::string((1 << 20) + 1, 'a'));
  EXPECT_EQ(MessageOf([&] { ReadFile(path, 1 << 20); }),
            "\"" + path + "\" is larger than 1 MB: is it the right file?");
  EXPECT_EQ(MessageOf([] { ReadFile("/dev/zero", 1 << 20); }),
            "\"/dev/zero\" is larger than 1 MB: is it the right file?");
  const std::string missing = Path("missing");
  EXPECT_EQ(MessageOf([&] { ReadFile(missing, 1 << 20); }),
            "cannot read \"" + missing + "\": No such file or directory");
  EXPECT_EQ(MessageOf([&] { ReadFile(folder_.string(), 1 << 20); }),
            "cannot read \"" + folder_.string() + "\": Is a directory");
}

}  // namespace
}  // namespace cosformer
