// Files written and read, byte for byte where the format leaves no choice.
#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "contains.h"
#include "folder.h"
#include "full_disk.h"
#include "raw_file.h"

namespace cosformer {
namespace {

using testing::Contains;
using testing::MessageOf;
using testing::RawFile;
using SafetensorsTest = testing::FolderTest;

template <class T>
std::span<const std::byte> Bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Laid out by hand from the rules: the length 0xC0, 192 bytes of header of which the last 4 are
// padding, then the doubles, the floats, the bytes.
TEST_F(SafetensorsTest, AFileIsTheseBytes) {
  const std::vector<float> floats = {1.0f, -2.0f};
  const std::vector<double> doubles = {0.5};
  const std::vector<uint8_t> small = {7, 8, 9};
  const TensorEntry tensors[] = {{"c", TensorType::kU8, {3}, Bytes(small)},
                                 {"b", TensorType::kF32, {1, 2}, Bytes(floats)},
                                 {"a", TensorType::kF64, {}, Bytes(doubles)}};
  WriteSafetensors(Path("file"), tensors, {{"k", "v"}});
  const std::string header = R"({"__metadata__":{"k":"v"},)"
                             R"("a":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
                             R"("c":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})";
  const std::string golden = std::string("\xc0\0\0\0\0\0\0\0", 8) + header + "    " +
                             std::string("\0\0\0\0\0\0\xe0\x3f", 8) +
                             std::string("\0\0\x80\x3f\0\0\0\xc0", 8) + "\x07\x08\x09";
  ASSERT_EQ(header.size() + 4, 0xc0u);
  EXPECT_EQ(Read(Path("file")), golden);
}

TEST_F(SafetensorsTest, AFileOfAnotherWriterIsRead) {
  // Keys in no order, blanks in the header and behind it, metadata last, a scalar, empty tensors at
  // the beginning, in the middle and at the end, an escaped name, no alignment.
  const std::string path = Write("file", RawFile(R"({
    "late":  {"shape": [2, 1], "data_offsets": [5, 9], "dtype": "BF16"},
    "empty": {"dtype": "F32", "shape": [3, 0], "data_offsets": [5, 5]},
    "t\u00e4il": {"dtype": "I64", "shape": [0], "data_offsets": [9, 9]},
    "scalar": {"dtype": "I32", "shape": [], "data_offsets": [1, 5]},
    "head": {"dtype": "F64", "shape": [0, 7], "data_offsets": [0, 0]},
    "flag": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]},
    "__metadata__": {"format": "pt", "": "\n"}}   )",
                                                 "\x01"
                                                 "abcd"
                                                 "efgh"));
  const SafetensorsFile file = SafetensorsFile::Open(path);
  ASSERT_EQ(file.tensors().size(), 6u);
  std::vector<std::string> names;
  for (const TensorEntry& tensor : file.tensors()) names.push_back(tensor.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"head", "flag", "scalar", "empty", "late", "t\xc3\xa4il"}));
  const TensorEntry* late = file.Find("late");
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(late->type, TensorType::kBF16);
  EXPECT_EQ(late->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(Text(late->data), "efgh");
  EXPECT_EQ(Text(file.Find("scalar")->data), "abcd");
  EXPECT_TRUE(file.Find("scalar")->shape.empty());
  EXPECT_EQ(file.Find("empty")->shape, (std::vector<int64_t>{3, 0}));
  EXPECT_TRUE(file.Find("empty")->data.empty());
  EXPECT_EQ(file.Find("lat"), nullptr);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"", "\n"}}));
}

TEST_F(SafetensorsTest, EveryTypeGoesThroughAFile) {
  std::vector<uint8_t> bytes(8 * 6);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  std::vector<TensorEntry> tensors;
  for (int i = 0; i <= static_cast<int>(TensorType::kF64); ++i) {
    const auto type = static_cast<TensorType>(i);
    const auto size = static_cast<size_t>(6 * ByteSize(type));
    tensors.push_back({std::string(Name(type)), type, {2, 3}, Bytes(bytes).first(size)});
  }
  WriteSafetensors(Path("file"), tensors);
  const SafetensorsFile file = SafetensorsFile::Open(Path("file"));
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorEntry& tensor : tensors) {
    const TensorEntry* read = file.Find(tensor.name);
    ASSERT_NE(read, nullptr) << tensor.name;
    EXPECT_EQ(read->type, tensor.type) << tensor.name;
    EXPECT_EQ(read->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(Text(read->data), Text(tensor.data)) << tensor.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read->data.data()) %
                  static_cast<uintptr_t>(ByteSize(tensor.type)),
              0u)
        << tensor.name << " is aligned";
  }
  EXPECT_TRUE(file.metadata().empty());
}

TEST_F(SafetensorsTest, TypesHaveTheNamesAndSizesOfTheFormat) {
  const std::pair<TensorType, std::pair<const char*, int64_t>> types[] = {
      {TensorType::kBool, {"BOOL", 1}},      {TensorType::kU8, {"U8", 1}},
      {TensorType::kI8, {"I8", 1}},          {TensorType::kF8E5M2, {"F8_E5M2", 1}},
      {TensorType::kF8E4M3, {"F8_E4M3", 1}}, {TensorType::kU16, {"U16", 2}},
      {TensorType::kI16, {"I16", 2}},        {TensorType::kF16, {"F16", 2}},
      {TensorType::kBF16, {"BF16", 2}},      {TensorType::kU32, {"U32", 4}},
      {TensorType::kI32, {"I32", 4}},        {TensorType::kF32, {"F32", 4}},
      {TensorType::kU64, {"U64", 8}},        {TensorType::kI64, {"I64", 8}},
      {TensorType::kF64, {"F64", 8}},
  };
  for (const auto& [type, expected] : types) {
    EXPECT_EQ(Name(type), expected.first);
    EXPECT_EQ(ByteSize(type), expected.second);
  }
}

TEST_F(SafetensorsTest, TheBytesDoNotDependOnTheOrderOfTheEntries) {
  const std::vector<float> values = {1, 2, 3};
  std::vector<TensorEntry> tensors;
  for (const char* name : {"b", "a", "d", "c"}) {
    tensors.push_back({name, TensorType::kF32, {3}, Bytes(values)});
  }
  tensors.push_back({"e", TensorType::kI64, {0}, {}});
  tensors.push_back({"\x01 \"quoted\" \xc3\xa4", TensorType::kI8, {12}, Bytes(values)});
  WriteSafetensors(Path("one"), tensors);
  std::reverse(tensors.begin(), tensors.end());
  WriteSafetensors(Path("two"), tensors);
  EXPECT_EQ(Read(Path("one")), Read(Path("two")));
  EXPECT_NE(SafetensorsFile::Open(Path("two")).Find("\x01 \"quoted\" \xc3\xa4"), nullptr);
}

TEST_F(SafetensorsTest, AFileWithoutTensorsIsAFile) {
  WriteSafetensors(Path("file"), {}, {{"a", "b"}});
  const SafetensorsFile file = SafetensorsFile::Open(Path("file"));
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(file.metadata().at("a"), "b");
  WriteSafetensors(Path("file"), {});
  EXPECT_EQ(Read(Path("file")), std::string("\x08\0\0\0\0\0\0\0", 8) + "{}      ");
}

TEST_F(SafetensorsTest, SpansMoveWithTheFile) {
  const std::vector<float> values(100, 3.0f);
  WriteSafetensors(Path("file"), {{{"a", TensorType::kF32, {100}, Bytes(values)}}});
  SafetensorsFile first = SafetensorsFile::Open(Path("file"));
  SafetensorsFile second = std::move(first);
  EXPECT_EQ(Text(second.Find("a")->data), Text(Bytes(values)));
  first = std::move(second);
  EXPECT_EQ(Text(first.tensors()[0].data), Text(Bytes(values)));
}

TEST_F(SafetensorsTest, AFileCanBeReplacedByWhatIsReadFromIt) {
  std::vector<float> values(300000);
  std::iota(values.begin(), values.end(), 0.0f);
  WriteSafetensors(Path("file"), {{{"a", TensorType::kF32, {300000}, Bytes(values)}}});
  const SafetensorsFile old = SafetensorsFile::Open(Path("file"));
  std::vector<TensorEntry> tensors = old.tensors();
  tensors.push_back({"b", TensorType::kF32, {300000}, old.tensors()[0].data});
  WriteSafetensors(Path("file"), tensors);
  const SafetensorsFile now = SafetensorsFile::Open(Path("file"));
  EXPECT_EQ(Text(now.Find("a")->data), Text(Bytes(values)));
  EXPECT_EQ(Text(now.Find("b")->data), Text(Bytes(values)));
  EXPECT_EQ(Text(old.Find("a")->data), Text(Bytes(values)));
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(SafetensorsTest, WhatCannotBeWrittenIsRefusedAndTheOldFileStays) {
  const std::string path = Write("file", "old");
  const std::vector<float> values = {1, 2};
  const auto message = [&](std::vector<TensorEntry> tensors,
                           const std::map<std::string, std::string>& metadata = {}) {
    return MessageOf([&] { WriteSafetensors(path, tensors, metadata); });
  };
  const TensorEntry good{"a", TensorType::kF32, {2}, Bytes(values)};
  const std::string start = "cannot write \"" + path + "\": ";
  EXPECT_EQ(message({good, {"b", TensorType::kF64, {1}, Bytes(values)}, good}),
            start + "two tensors have the name \"a\"; give them different ones");
  EXPECT_EQ(message({good, {"a", TensorType::kF64, {1}, Bytes(values)}}),
            start + "two tensors have the name \"a\"; give them different ones");
  EXPECT_EQ(message({{"a", TensorType::kF32, {3, 1}, Bytes(values)}}),
            start + "tensor \"a\" has 8 bytes of data; F32 of shape [3, 1] takes 12");
  EXPECT_EQ(message({{"a", TensorType::kF32, {-1, -2}, Bytes(values)}}),
            start + "tensor \"a\" has the shape [-1, -2], which is negative");
  EXPECT_EQ(message({{"a", TensorType::kF32, {int64_t{1} << 62}, Bytes(values)}}),
            start +
                "tensor \"a\" has 8 bytes of data; F32 of shape [4611686018427387904] takes more "
                "than any file holds");
  EXPECT_EQ(message({{"__metadata__", TensorType::kF32, {2}, Bytes(values)}}),
            start + "no tensor can have the name \"__metadata__\"; give it another");
  EXPECT_TRUE(Contains(message({{"\xff", TensorType::kF32, {2}, Bytes(values)}}), "not UTF-8"));
  EXPECT_TRUE(Contains(message({good}, {{"key", "\xff"}}), "not UTF-8"));
  EXPECT_TRUE(Contains(message({good}, {{"\xff", "value"}}), "not UTF-8"));
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(SafetensorsTest, AHeaderBeyondTheLimitIsRefused) {
  const std::map<std::string, std::string> metadata = {{"a", std::string(100'000'000, 'x')}};
  EXPECT_TRUE(Contains(MessageOf([&] { WriteSafetensors(Path("file"), {}, metadata); }),
                       "the format allows 100000000"));
  EXPECT_EQ(FilesInFolder(), 0);
}

TEST_F(SafetensorsTest, AFullDiskLeavesTheOldFileAndNoLitter) {
  const std::vector<float> values(100000, 1.0f);
  const TensorEntry tensors[] = {{"a", TensorType::kF32, {100000}, Bytes(values)},
                                 {"b", TensorType::kF32, {100000}, Bytes(values)}};
  const std::string path = Write("file", "old");
  const std::string message = MessageOf([&] {
    const testing::FullDisk disk(600000);  // in the middle of the second tensor
    WriteSafetensors(path, tensors);
  });
  EXPECT_TRUE(Contains(message, "cannot write"));
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(FilesInFolder(), 1);
}

}  // namespace
}  // namespace cosformer
