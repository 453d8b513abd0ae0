// A table of corrupt files, each with the sentence it must give; and that no damage to a good file,
// wherever it falls, does worse than an error.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "contains.h"
#include "folder.h"
#include "formats/safetensors.h"
#include "raw_file.h"

namespace cosformer {
namespace {

using testing::Contains;
using testing::LengthBytes;
using testing::MessageOf;
using testing::RawFile;
using SafetensorsCorruptTest = testing::FolderTest;

struct Corrupt {
  std::string contents;
  std::string sentence;  // FILE stands for the quoted path
};

std::string WithPath(std::string sentence, const std::string& path) {
  for (size_t at; (at = sentence.find("FILE")) != std::string::npos;) {
    sentence.replace(at, 4, "\"" + path + "\"");
  }
  return sentence;
}

// One tensor "a" of the given description, and 8 bytes of data.
std::string One(const std::string& description) {
  return RawFile("{\"a\":" + description + "}", "01234567");
}

std::string Two(const std::string& first_offsets, const std::string& second_offsets) {
  return RawFile(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first_offsets +
                     R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second_offsets + "}}",
                 "0123456789ab");
}

std::string WithMetadata(const std::string& metadata) {
  return RawFile("{\"__metadata__\":" + metadata + "}", "");
}

TEST_F(SafetensorsCorruptTest, EveryBrokenRuleHasItsSentence) {
  const Corrupt cases[] = {
      {"", "cannot read FILE: the file is empty"},
      {"1234567",
       "FILE has 7 bytes, fewer than the 8 that say how long the header is; is it cut "
       "off?"},
      {LengthBytes(2), "FILE claims a header of 2 bytes but only 0 follow; is it cut off?"},
      {LengthBytes(100) + "{}",
       "FILE claims a header of 100 bytes but only 2 follow; is it cut off?"},
      {LengthBytes(100'000'001) + "{}",
       "FILE claims a header of 100000001 bytes; the format allows 100000000: it is no safetensors "
       "file"},
      {LengthBytes(UINT64_MAX) + "{}",
       "FILE claims a header of 18446744073709551615 bytes; the format allows 100000000: it is no "
       "safetensors file"},
      {LengthBytes(0), "the header of FILE does not begin with '{': it is no safetensors file"},
      {RawFile(" {}", ""), "the header of FILE does not begin with '{': it is no safetensors file"},
      {RawFile("[]", ""), "the header of FILE does not begin with '{': it is no safetensors file"},
      {RawFile("{\"a\":", ""),
       "the header of FILE is not valid JSON: line 1, column 5: syntax error while parsing value - "
       "unexpected end of input; expected '[', '{', or a literal"},
      {RawFile("{} x", ""),
       "the header of FILE is not valid JSON: line 1, column 4: syntax error while parsing value - "
       "invalid literal"},
      {RawFile(std::string("{}\0\0", 4), ""),
       "the header of FILE is not valid JSON: line 1, column 3: a zero byte"},
      {RawFile("{\"\xff\":1}", ""),
       "the header of FILE is not valid JSON: line 1, column 3: syntax error while parsing object "
       "key - invalid string: ill-formed UTF-8 byte"},
      {RawFile("{\"a\":" + std::string(100, '['), ""),
       "the header of FILE nests lists and objects more than 64 deep: is it the right file?"},
      {RawFile(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
               R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
               ""),
       "the header of FILE: the key \"a\" stands twice in one object; remove one of them"},
      {One("3"), "FILE: tensor \"a\" is 3; expected an object, {\"key\": value, ...}"},
      {One(R"({"shape":[2],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": the dtype is missing; expected one of BOOL, U8, I8, F8_E5M2, F8_E4M3, "
       "U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64"},
      {One(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": the dtype is \"F31\"; expected one of BOOL, U8, I8, F8_E5M2, F8_E4M3, "
       "U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64"},
      {One(R"({"dtype":32,"shape":[2],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": \"dtype\" is 32; expected a text in quotes"},
      {One(R"({"dtype":"F32","data_offsets":[0,8]})"),
       "FILE: tensor \"a\": the key \"shape\" is missing"},
      {One(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": \"shape\" is 2; expected a list of integers"},
      {One(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": \"shape\" holds -2; expected an integer from 0 to 9223372036854775807"},
      {One(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": \"shape\" holds 2.0; expected an integer from 0 to "
       "9223372036854775807"},
      {One(R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": \"shape\" holds 9223372036854775808; expected an integer from 0 to "
       "9223372036854775807"},
      {One(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})"),
       "FILE: tensor \"a\": the shape [4611686018427387904, 4] is too large for any file"},
      {One(R"({"dtype":"F32","shape":[2305843009213693952],"data_offsets":[0,0]})"),
       "FILE: tensor \"a\": the shape [2305843009213693952] is too large for any file"},
      {One(R"({"dtype":"F32","shape":[4294967296,0,4294967296],"data_offsets":[0,0]})"),
       "FILE: tensor \"a\": the shape [4294967296, 0, 4294967296] is too large for any file"},
      {One(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": F32 of shape [3] takes 12 bytes, but \"data_offsets\" [0, 8] hold 8"},
      {One(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": F32 of shape [1] takes 4 bytes, but \"data_offsets\" [0, 8] hold 8"},
      {One(R"({"dtype":"F32","shape":[],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": F32 of shape [] takes 4 bytes, but \"data_offsets\" [0, 8] hold 8"},
      {One(R"({"dtype":"F32","shape":[2]})"),
       "FILE: tensor \"a\": the key \"data_offsets\" is missing"},
      {One(R"({"dtype":"F32","shape":[2],"data_offsets":[8]})"),
       "FILE: tensor \"a\": \"data_offsets\" is a list of 1; expected [begin, end]"},
      {One(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4,8]})"),
       "FILE: tensor \"a\": \"data_offsets\" is a list of 3; expected [begin, end]"},
      {One(R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})"),
       "FILE: tensor \"a\": \"data_offsets\" holds -8; expected an integer from 0 to "
       "9223372036854775807"},
      {One(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
       "FILE: tensor \"a\": \"data_offsets\" [8, 0] end before they begin"},
      {One(R"({"dtype":"F32","shape":[3],"data_offsets":[0,12]})"),
       "FILE: tensor \"a\": the data ends at 12 but the file holds 8 bytes of data; is it cut "
       "off?"},
      {One(R"({"dtype":"U8","shape":[0],"data_offsets":[9223372036854775807,9223372036854775807]})"),
       "FILE: tensor \"a\": the data ends at 9223372036854775807 but the file holds 8 bytes of "
       "data; "
       "is it cut off?"},
      {One(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"strides":[1]})"),
       "FILE: tensor \"a\": unknown key \"strides\"; expected only \"dtype\", \"shape\", "
       "\"data_offsets\""},
      {One(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
       "FILE has 8 bytes of data, but its tensors end at 4: 4 trailing bytes"},
      {RawFile("{}", "x"), "FILE has 1 bytes of data, but its tensors end at 0: 1 trailing bytes"},
      {One(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
       "FILE: tensor \"a\" begins at 4 but the one before ends at 0: there is a hole between them"},
      {Two("[0,4]", "[8,12]"),
       "FILE: tensor \"b\" begins at 8 but the one before ends at 4: there is a hole between them"},
      {Two("[8,12]", "[6,10]"),
       "FILE: tensor \"b\" begins at 6 but the one before ends at 0: there is a hole between them"},
      {Two("[2,6]", "[0,4]"),
       "FILE: tensor \"a\" begins at 2 but the one before ends at 4: they overlap"},
      {Two("[0,4]", "[0,4]"),
       "FILE: tensor \"b\" begins at 0 but the one before ends at 4: they overlap"},
      {WithMetadata("3"), "FILE: __metadata__ is 3; expected an object of texts"},
      {WithMetadata("null"), "FILE: __metadata__ is null; expected an object of texts"},
      {WithMetadata(R"({"a":"b","epoch":3})"),
       "FILE: __metadata__ \"epoch\" is 3; expected a text"},
      {WithMetadata(R"({"a":{"b":"c"}})"),
       "FILE: __metadata__ \"a\" is an object; expected a text"},
      {WithMetadata(R"({"a":"b","a":"c"})"),
       "the header of FILE: the key \"a\" stands twice in one object; remove one of them"},
  };
  const std::string path = Path("model.safetensors");
  for (const Corrupt& corrupt : cases) {
    Write("model.safetensors", corrupt.contents);
    EXPECT_EQ(MessageOf([&] { SafetensorsFile::Open(path); }), WithPath(corrupt.sentence, path))
        << corrupt.contents;
  }
}

TEST_F(SafetensorsCorruptTest, WhatIsNoFileIsNamed) {
  const std::string missing = Path("missing");
  EXPECT_EQ(MessageOf([&] { SafetensorsFile::Open(missing); }),
            "cannot read \"" + missing + "\": No such file or directory");
  EXPECT_EQ(MessageOf([&] { SafetensorsFile::Open(folder_.string()); }),
            "cannot read \"" + folder_.string() + "\": it is a directory");
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
