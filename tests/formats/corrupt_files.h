// Rows of a table of corrupt files, and what is asked of each.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "contains.h"
#include "counted_memory.h"
#include "folder.h"

namespace cosformer::testing {

struct Corrupt {
  const char* name;
  std::string bytes;
  std::string sentence;  // or a part of it; FILE stands for the quoted path
};

inline std::string WithPath(std::string sentence, const std::string& path) {
  for (size_t at; (at = sentence.find("FILE")) != std::string::npos;) {
    sentence.replace(at, 4, "\"" + path + "\"");
  }
  return sentence;
}

class CorruptFilesTest : public FolderTest {
 protected:
  using Reader = std::function<void(const std::string& path)>;

  // What a file of any size may cost: a block of reading, 1 MB, of which a growing buffer can hold
  // two.
  int64_t least_ = int64_t{2} << 20;

  void ExpectRefused(const std::string& file, const Reader& read, std::span<const Corrupt> table) {
    for (const Corrupt& corrupt : table) {
      SCOPED_TRACE(corrupt.name);
      const std::string path = Write(file, corrupt.bytes);
      std::string message;
      const int64_t peak = PeakBytes([&] { message = MessageOf([&] { read(path); }); });
      EXPECT_TRUE(Contains(message, WithPath(corrupt.sentence, path)));
      EXPECT_LT(message.size(), 1000u);
      // For a byte of JSON half a value, of 80 bytes at most, in a list that grows.
      EXPECT_LE(peak, least_ + 80 * static_cast<int64_t>(corrupt.bytes.size()));
    }
  }
};

inline std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace cosformer::testing
