// Files that are no JSON, or not the JSON anyone meant.
#include "formats/json.h"

#include <gtest/gtest.h>

#include <string>

#include "contains.h"
#include "folder.h"

namespace cosformer {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::MessageOf;
using JsonTest = testing::FolderTest;

TEST_F(JsonTest, ReadsWhatTheParserUnderneathReads) {
  const char* texts[] = {
      "{}",
      "[]",
      "3",
      "\"text\"",
      "null",
      "true",
      "-1.5e3",
      "18446744073709551615",
      R"({"a": [1, {"b": [[], {}, null]}, "c"], "d": {"e": {"f": -1}, "g": false}, "": "\u0000"})",
      " \n[1, 2, 3]\n\n"};
  for (const char* text : texts) EXPECT_EQ(ParseJson(text, "text"), json::parse(text)) << text;
}

struct Broken {
  std::string text;
  const char* sentence;
};

TEST_F(JsonTest, WhatIsNotJsonIsPlacedByLineAndColumn) {
  const Broken cases[] = {
      {"{\n  \"a\": 1,\n  \"b\": x\n}", "text is not valid JSON: line 3, column 8: "},
      {"x", "line 1, column 1: "},
      {"\n\n\nx", "line 4, column 1: "},
      {"{\"a\": 1,}", "line 1, column 9: "},
      {"{\"a\" 1}", "line 1, column 6: "},
      {"[1, 2", "unexpected end of input"},
      {"{} {}", "line 1, column 4: "},
      {" ", "unexpected end of input"},
      {"[1e999]", "number overflow"},
      {"\"\xff\"", "ill-formed UTF-8"},
      {"{\"\xc3\x28\": 1}", "ill-formed UTF-8"},
      {std::string("{}\n\0 ]", 6), "line 2, column 1: a zero byte"},
      {"[NaN]", "line 1, column 2: "},
      {"{\"a\": 1, // comment\n}", "line 1, column 10: "},
  };
  for (const Broken& broken : cases) {
    EXPECT_TRUE(Contains(MessageOf([&] { ParseJson(broken.text, "text"); }), broken.sentence));
  }
}

TEST_F(JsonTest, TheSentenceDoesNotRepeatALongText) {
  const std::string message = MessageOf([] { ParseJson("\"" + std::string(100000, 'a'), "text"); });
  EXPECT_TRUE(Contains(message, "column 100001"));
  EXPECT_LT(message.size(), 300u);
}

TEST_F(JsonTest, AKeyMayStandOnlyOnceInAnObject) {
  EXPECT_EQ(MessageOf([] { ParseJson(R"({"b": {"a": 1, "c": 2, "a": 1}})", "text"); }),
            "text: the key \"a\" stands twice in one object; remove one of them");
  EXPECT_NO_THROW(ParseJson(R"({"a": {"a": 1}, "b": {"a": [{"a": 2}, {"a": 3}]}})", "text"));
}

TEST_F(JsonTest, DeepNestingIsRefusedBeforeItCosts) {
  EXPECT_NO_THROW(ParseJson(std::string(64, '[') + std::string(64, ']'), "text"));
  EXPECT_EQ(MessageOf([] { ParseJson(std::string(65, '[') + std::string(65, ']'), "text"); }),
            "text nests lists and objects more than 64 deep: is it the right file?");
  EXPECT_TRUE(
      Contains(MessageOf([] { ParseJson(std::string(5'000'000, '['), "text"); }), "more than 64"));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_TRUE(Contains(MessageOf([&] { ParseJson(objects, "text"); }), "more than 64"));
}

TEST_F(JsonTest, MoreValuesThanAnyFileHoldsAreRefused) {
  constexpr size_t kMost = size_t{1} << 23;
  std::string text = "[0";
  for (size_t i = 2; i < kMost; ++i) text += ",0";
  EXPECT_EQ(ParseJson(text + "]", "text").size(), kMost - 1) << "the list is a value too";
  EXPECT_EQ(MessageOf([&] { ParseJson(text + ",0]", "text"); }),
            "text holds more than 8388608 values: is it the right file?");
}

TEST_F(JsonTest, FilesAreReadWhole) {
  json list = json::array();
  for (int i = 0; i < 50000; ++i) list.push_back(i);
  EXPECT_EQ(ReadJsonFile(Write("file", list.dump())), list);
}

TEST_F(JsonTest, AFileOfSixteenMegabytesIsReadAndNoLargerOne) {
  std::string text = "[]" + std::string((16 << 20) - 2, ' ');
  EXPECT_EQ(ReadJsonFile(Write("file", text)), json::array());
  const std::string larger = Write("larger", text + " ");
  EXPECT_EQ(MessageOf([&] { ReadJsonFile(larger); }),
            "\"" + larger + "\" is larger than 16 MB: is it the right file?");
  EXPECT_TRUE(Contains(MessageOf([] { ReadJsonFile("/dev/zero"); }), "larger than 16 MB"));
}

TEST_F(JsonTest, FilesThatCannotBeReadAreNamed) {
  const std::string missing = Path("missing");
  EXPECT_EQ(MessageOf([&] { ReadJsonFile(missing); }),
            "cannot read \"" + missing + "\": No such file or directory");
  EXPECT_EQ(MessageOf([&] { ReadJsonFile(folder_.string()); }),
            "cannot read \"" + folder_.string() + "\": Is a directory");
  const std::string empty = Write("empty", "");
  EXPECT_EQ(MessageOf([&] { ReadJsonFile(empty); }),
            "\"" + empty + "\" is empty; expected a JSON object");
  const std::string broken = Write("broken", "{\n?");
  EXPECT_TRUE(Contains(MessageOf([&] { ReadJsonFile(broken); }),
                       "\"" + broken + "\" is not valid JSON: line 2, column 1: "));
}

}  // namespace
}  // namespace cosformer
