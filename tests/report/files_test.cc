// Files are whole or as they were before; what stands in the way is named.
#include "report/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "contains.h"
#include "full_disk.h"

namespace cosformer::report {
namespace {

namespace fs = std::filesystem;
using cosformer::testing::Contains;
using cosformer::testing::MessageOf;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    std::string pattern = (fs::temp_directory_path() / "cosformer_files_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~FilesTest() override { fs::remove_all(folder_); }

  std::string Path(const char* name) const { return (folder_ / name).string(); }

  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  int FilesInFolder() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
};

TEST_F(FilesTest, WritesContentsAndLeavesNothingBeside) {
  const std::string contents("a\0b\n", 4);
  WriteFile(Path("new"), contents);
  EXPECT_EQ(Read(Path("new")), contents);
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(FilesTest, WritesPartsOneAfterTheOther) {
  const std::string_view parts[] = {"one", "", ", two", "\n"};
  WriteFile(Path("parts"), parts);
  EXPECT_EQ(Read(Path("parts")), "one, two\n");
  WriteFile(Path("parts"), std::span<const std::string_view>());
  EXPECT_EQ(Read(Path("parts")), "");
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(FilesTest, ReplacesAFileAndKeepsItsPermissions) {
  WriteFile(Path("file"), "old, and longer than the new one");
  fs::permissions(Path("file"), fs::perms::owner_read | fs::perms::owner_write);
  WriteFile(Path("file"), "new");
  EXPECT_EQ(Read(Path("file")), "new");
  EXPECT_EQ(fs::status(Path("file")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FilesTest, FollowsALinkInsteadOfReplacingIt) {
  WriteFile(Path("target"), "old");
  fs::create_symlink("target", Path("link"));
  WriteFile(Path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Read(Path("target")), "new");
}

TEST_F(FilesTest, CheckingLeavesTheFolderAndTheOldFileAsTheyWere) {
  CheckWritable(Path("new"));
  EXPECT_EQ(FilesInFolder(), 0);
  WriteFile(Path("old"), "kept");
  CheckWritable(Path("old"));
  EXPECT_EQ(Read(Path("old")), "kept");
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(FilesTest, AMissingFolderIsNamed) {
  const std::string path = Path("missing/file");
  EXPECT_TRUE(Contains(MessageOf([&] { CheckWritable(path); }), path));
  EXPECT_TRUE(Contains(MessageOf([&] { WriteFile(path, "x"); }), path));
}

TEST_F(FilesTest, AFolderOrNoNameIsNoFile) {
  EXPECT_TRUE(Contains(MessageOf([&] { CheckWritable(folder_.string()); }), "directory"));
  EXPECT_TRUE(Contains(MessageOf([] { CheckWritable(""); }), "without a name"));
}

TEST_F(FilesTest, AFullDiskIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_TRUE(Contains(MessageOf([] { WriteFile("/dev/full", "x"); }), "/dev/full"));
}

TEST_F(FilesTest, AFailedWriteKeepsTheOldFile) {
  WriteFile(Path("file"), "old");
  const std::string message = MessageOf([this] {
    const testing::FullDisk disk(1000);
    WriteFile(Path("file"), std::string(5000, 'x'));
  });
  EXPECT_TRUE(Contains(message, "cannot write"));
  EXPECT_EQ(Read(Path("file")), "old");
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(FilesTest, AReadOnlyFileStays) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everything";
  WriteFile(Path("file"), "old");
  fs::permissions(Path("file"), fs::perms::owner_read);
  EXPECT_TRUE(Contains(MessageOf([&] { WriteFile(Path("file"), "new"); }), Path("file")));
  EXPECT_EQ(Read(Path("file")), "old");
}

}  // namespace
}  // namespace cosformer::report
