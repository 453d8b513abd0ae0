#include "data/records.h"

#include <gtest/gtest.h>

#include <vector>

#include "contains.h"
#include "formats/folder.h"

namespace cosformer::data {
namespace {

using testing::MessageOf;
using RecordsTest = testing::FolderTest;

TEST_F(RecordsTest, EveryRecordComesOnceWithItsNumber) {
  for (const int count : {1, 63, 64, 65, 200}) {
    std::string contents;
    for (int i = 0; i < 5 * count; ++i) contents += static_cast<char>(i * 7);
    std::string back;
    int64_t expected = 0;
    ReadRecords(Write("a.bin", contents), 5, [&](std::span<const uint8_t> record, int64_t number) {
      back.append(record.begin(), record.end());
      EXPECT_EQ(number, ++expected);
    });
    EXPECT_EQ(back, contents);
    EXPECT_EQ(expected, count);
  }
}

TEST_F(RecordsTest, FilesThatAreNotWholeAreRefusedBeforeAnythingIsRead) {
  const auto sentence = [&](const std::string& contents) {
    return MessageOf([&] {
      ReadRecords(Write("a.bin", contents), 5,
                  [](std::span<const uint8_t>, int64_t) { ADD_FAILURE(); });
    });
  };
  const std::string path = Path("a.bin"), file = "\"" + path + "\"";
  EXPECT_EQ(sentence(""), file + " is empty");
  EXPECT_EQ(sentence(std::string(1004, 'x')),
            file +
                " has 1,004 bytes, which is not a multiple of 5: a label and 4 pixels a record; "
                "is it whole?");
}

TEST_F(RecordsTest, LabelsAreBelowTheNumberOfClasses) {
  const uint8_t record[] = {9, 0, 0};
  EXPECT_EQ(LabelOf(record, 10, "a.bin", 3), "9");
  EXPECT_EQ(MessageOf([&] { LabelOf(record, 9, "a.bin", 3); }),
            "\"a.bin\", record 3: the label is 9, expected 0 to 8; are these records of 3 bytes, "
            "the label first?");
}

}  // namespace
}  // namespace cosformer::data
