// Every wrong value and every unknown key is met with its name, what it is and what it should be.
#include "formats/option_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "contains.h"

namespace cosformer {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::MessageOf;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(OptionReaderTest, ReadsEveryTypeAndFallsBackWhereThereIsNone) {
  const json object = {{"integer", 3},  {"number", 0.5}, {"flag", true},
                       {"choice", "b"}, {"text", "t"},   {"list", {1, 2}}};
  OptionReader reader(object, "here");
  EXPECT_EQ(reader.Integer("integer", 7, 0, 9), 3);
  EXPECT_EQ(reader.Number("number", 7, 0, 9), 0.5);
  EXPECT_EQ(reader.Flag("flag", false), true);
  EXPECT_EQ(reader.Choice("choice", "a", {"a", "b"}), "b");
  EXPECT_EQ(reader.Text("text", "none"), "t");
  ASSERT_NE(reader.Find("list"), nullptr);
  EXPECT_EQ(*reader.Find("list"), json({1, 2}));
  EXPECT_NO_THROW(reader.Done());

  EXPECT_EQ(reader.Integer("no integer", -7, 0, 9), -7) << "a fallback outside the range stays";
  EXPECT_EQ(reader.Number("no number", -0.5, 0, 9), -0.5);
  EXPECT_EQ(reader.Flag("no flag", true), true);
  const std::vector<std::string_view> choices = {"a", "b"};
  EXPECT_EQ(reader.Choice("no choice", "elsewhere", choices), "elsewhere");
  EXPECT_EQ(reader.Text("no text", "none"), "none");
  EXPECT_EQ(reader.Find("no list"), nullptr);
  EXPECT_NO_THROW(reader.Done());
}

TEST(OptionReaderTest, BoundsBelongToTheRange) {
  const json object = {{"integer", 5}, {"number", 0.5}, {"largest", kMost}, {"smallest", kLeast}};
  OptionReader reader(object, "here");
  EXPECT_EQ(reader.Integer("integer", 0, 5, 5), 5);
  EXPECT_EQ(reader.Number("number", 0, 0.5, 0.5), 0.5);
  EXPECT_EQ(reader.Integer("largest", 0, kLeast, kMost), kMost);
  EXPECT_EQ(reader.Integer("smallest", 0, kLeast, kMost), kLeast);
}

TEST(OptionReaderTest, AnIntegerMayBeWrittenAsANumberWithoutFraction) {
  const json object = json::parse(R"({"a": 3.0, "b": 1e6, "c": -0.0})");
  OptionReader reader(object, "here");
  EXPECT_EQ(reader.Integer("a", 0, kLeast, kMost), 3);
  EXPECT_EQ(reader.Integer("b", 0, kLeast, kMost), 1000000);
  EXPECT_EQ(reader.Integer("c", 1, kLeast, kMost), 0);
}

TEST(OptionReaderTest, AnIntegerIsTakenAsANumber) {
  const json object = {{"a", 3}};
  EXPECT_EQ(OptionReader(object, "here").Number("a", 0, 0, 9), 3.0);
}

struct WrongValue {
  json value;
  std::function<void(OptionReader&)> read;
  const char* sentence;
};

TEST(OptionReaderTest, AWrongValueIsNamedWithWhatWasExpected) {
  const auto integer = [](OptionReader& reader) { reader.Integer("key", 1, 0, 9); };
  const auto any_integer = [](OptionReader& reader) { reader.Integer("key", 1, kLeast, kMost); };
  const auto natural = [](OptionReader& reader) { reader.Integer("key", 1, 0, kMost); };
  const auto number = [](OptionReader& reader) { reader.Number("key", 1, 0, 0.5); };
  const auto any_number = [](OptionReader& reader) {
    reader.Number("key", 1, -kInfinity, kInfinity);
  };
  const auto at_most = [](OptionReader& reader) { reader.Number("key", 1, -kInfinity, 2); };
  const auto flag = [](OptionReader& reader) { reader.Flag("key", true); };
  const auto choice = [](OptionReader& reader) { reader.Choice("key", "a", {"a", "b"}); };
  const auto text = [](OptionReader& reader) { reader.Text("key", ""); };
  const WrongValue cases[] = {
      {3.5, integer, "here: \"key\" is 3.5; expected an integer from 0 to 9"},
      {10, integer, "here: \"key\" is 10; expected an integer from 0 to 9"},
      {-1, integer, "here: \"key\" is -1; expected an integer from 0 to 9"},
      {nullptr, integer, "here: \"key\" is null; expected an integer from 0 to 9"},
      {true, integer, "here: \"key\" is true; expected an integer from 0 to 9"},
      {"3", integer, "here: \"key\" is the text \"3\"; expected an integer from 0 to 9"},
      {json::array({3}), integer, "here: \"key\" is a list of 1; expected an integer from 0 to 9"},
      {json::object(), integer, "here: \"key\" is an object; expected an integer from 0 to 9"},
      {-1, natural, "here: \"key\" is -1; expected an integer of at least 0"},
      {uint64_t{1} << 63, any_integer, "here: \"key\" is 9223372036854775808; expected an integer"},
      {1e300, any_integer, "here: \"key\" is 1e+300; expected an integer"},
      {-1e19, any_integer, "here: \"key\" is -1e+19; expected an integer"},
      {std::nan(""), any_integer, "here: \"key\" is nan; expected an integer"},
      {0.75, number, "here: \"key\" is 0.75; expected a finite number from 0 to 0.5"},
      {-1, number, "here: \"key\" is -1; expected a finite number from 0 to 0.5"},
      {std::nan(""), any_number, "here: \"key\" is nan; expected a finite number"},
      {kInfinity, any_number, "here: \"key\" is inf; expected a finite number"},
      {-kInfinity, any_number, "here: \"key\" is -inf; expected a finite number"},
      {3, at_most, "here: \"key\" is 3; expected a finite number of at most 2"},
      {true, any_number, "here: \"key\" is true; expected a finite number"},
      {nullptr, any_number, "here: \"key\" is null; expected a finite number"},
      {"0.5", any_number, "here: \"key\" is the text \"0.5\"; expected a finite number"},
      {1, flag, "here: \"key\" is 1; expected true or false"},
      {"true", flag, "here: \"key\" is the text \"true\"; expected true or false"},
      {nullptr, flag, "here: \"key\" is null; expected true or false"},
      {"c", choice, "here: \"key\" is the text \"c\"; expected one of \"a\", \"b\""},
      {"", choice, "here: \"key\" is the text \"\"; expected one of \"a\", \"b\""},
      {1, choice, "here: \"key\" is 1; expected one of \"a\", \"b\""},
      {nullptr, choice, "here: \"key\" is null; expected one of \"a\", \"b\""},
      {1, text, "here: \"key\" is 1; expected a text in quotes"},
      {nullptr, text, "here: \"key\" is null; expected a text in quotes"},
  };
  for (const WrongValue& wrong : cases) {
    json object = json::object();
    object["key"] = wrong.value;
    OptionReader reader(object, "here");
    EXPECT_EQ(MessageOf([&] { wrong.read(reader); }), wrong.sentence);
  }
}

TEST(OptionReaderTest, WhatIsNoObjectIsRefused) {
  const json list = {1, 2};
  const json null;
  EXPECT_EQ(MessageOf([&] { OptionReader(list, "config.json"); }),
            "config.json is a list of 2; expected an object, {\"key\": value, ...}");
  EXPECT_TRUE(Contains(MessageOf([&] { OptionReader(null, "config.json"); }), "is null"));
}

TEST(OptionReaderTest, UnknownKeysAreNamedWithTheNearestKnownOne) {
  const json object = {{"widht", 1}, {"layers", 2}, {"colour", 3}, {"color_of_all", 3}};
  OptionReader reader(object, "config.json");
  reader.Integer("width", 0, 0, 9);
  reader.Integer("layers", 0, 0, 9);
  reader.Integer("heads", 0, 0, 9);
  EXPECT_EQ(MessageOf([&] { reader.Done(); }),
            "config.json: unknown keys \"color_of_all\", \"colour\", \"widht\" (did you mean "
            "\"width\"?); expected only \"width\", \"layers\", \"heads\"");
}

TEST(OptionReaderTest, OnlyANearKeyIsSuggestedAndTheFirstOfEquals) {
  const json object = {{"wiabc", 1}, {"wiabh", 1}, {"key_", 1}};
  OptionReader reader(object, "here");
  for (const char* known : {"width", "key1", "key2"}) reader.Find(known);
  EXPECT_TRUE(Contains(MessageOf([&] { reader.Done(); }),
                       "unknown keys \"key_\" (did you mean \"key1\"?), \"wiabc\", \"wiabh\" (did "
                       "you mean \"width\"?); expected"));
}

TEST(OptionReaderTest, OneUnknownKeyIsASentenceOfItsOwn) {
  const json object = {{"anything", 1}};
  EXPECT_EQ(MessageOf([&] { OptionReader(object, "here").Done(); }),
            "here: unknown key \"anything\"; expected none");
}

TEST(OptionReaderTest, OnlyFindingCountsAsAsking) {
  const json object = {{"a", nullptr}, {"b", 1}};
  OptionReader reader(object, "here");
  EXPECT_TRUE(reader.Has("a"));
  EXPECT_FALSE(reader.Has("c"));
  EXPECT_TRUE(Contains(MessageOf([&] { reader.Done(); }), "unknown keys \"a\", \"b\""));
  EXPECT_NE(reader.Find("a"), nullptr);
  EXPECT_TRUE(Contains(MessageOf([&] { reader.Done(); }), "unknown key \"b\""));
}

TEST(OptionReaderTest, FormatsUpToTheNewestAreRead) {
  for (const json& object : {json::object(), json{{"format", 1}}, json{{"format", 3}}}) {
    OptionReader reader(object, "here");
    EXPECT_NO_THROW(reader.CheckFormat(3)) << object;
    EXPECT_NO_THROW(reader.Done()) << object;
  }
}

TEST(OptionReaderTest, AFormatOfALaterVersionIsNamedWithWhatToDo) {
  const auto complaint = [](const json& format, std::string_view instead) {
    const json object = {{"format", format}};
    return MessageOf([&] { OptionReader(object, "here").CheckFormat(3, instead); });
  };
  EXPECT_EQ(complaint(4, ""),
            "here is of format 4, which a later version of cosformer wrote; this one reads up to "
            "3: update cosformer");
  EXPECT_EQ(complaint(kMost, "remove the file"),
            "here is of format 9223372036854775807, which a later version of cosformer wrote; this "
            "one reads up to 3: update cosformer, or remove the file");
  EXPECT_EQ(complaint(0, ""), "here: \"format\" is 0; expected an integer of at least 1");
  EXPECT_EQ(complaint("1", ""),
            "here: \"format\" is the text \"1\"; expected an integer of at least 1");
}

TEST(OptionReaderTest, ManyOrLongKeysDoNotFloodTheSentence) {
  json object = json::object();
  for (int i = 0; i < 1000; ++i) object["key" + std::to_string(i)] = i;
  object[std::string(100000, 'a')] = std::string(100000, 'b');
  OptionReader reader(object, "here");
  const std::string message = MessageOf([&] { reader.Done(); });
  EXPECT_TRUE(Contains(message, "and 981 more"));
  EXPECT_LT(message.size(), 1000u);
  const std::string key(100000, 'a');
  EXPECT_LT(MessageOf([&] { OptionReader(object[key], "here"); }).size(), 200u);
}

}  // namespace
}  // namespace cosformer
