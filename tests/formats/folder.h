// A folder of its own for each test, gone afterwards, and whole files in and out of it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace cosformer::testing {

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "cosformer_test_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  std::string Write(const std::string& name, const std::string& contents) const {
    std::ofstream file(Path(name), std::ios::binary);
    file << contents;
    return Path(name);
  }

  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  int FilesInFolder() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::filesystem::path folder_;
};

}  // namespace cosformer::testing
