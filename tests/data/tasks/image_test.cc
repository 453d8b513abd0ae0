// image and pathfinder: records of pixels.
#include <gtest/gtest.h>

#include <random>

#include "data/tasks/reading.h"

namespace cosformer::data {
namespace {

using Names = std::vector<std::string>;
using ImageTest = ReadingTest;
using PathfinderTest = ReadingTest;

std::string RandomBytes(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST_F(ImageTest, GreyPixelsComeAsTheyAre) {
  const std::string a = RandomBytes(1024, 1), b = RandomBytes(1024, 2);
  Write("train.bin", '\3' + a + '\11' + b);
  EXPECT_EQ(ReadAll("image", Here()),
            (std::vector<Example>{{a, "", "3", "train.bin", 1}, {b, "", "9", "train.bin", 2}}));
  EXPECT_EQ(FilesOf("image", Here(), Split::kValid), Names{});
}

TEST_F(ImageTest, ColoursBecomeTheRoundedLuma) {
  const std::string colours = RandomBytes(3072, 3);
  const std::string file = Write("test_batch.bin", '\7' + colours);
  const std::vector<Example> examples = ReadAll("image", Here(), Split::kTest);
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_EQ(examples[0].label, "7");
  ASSERT_EQ(examples[0].first.size(), 1024u);
  for (size_t i = 0; i < 1024; ++i) {
    const auto colour = [&](size_t plane) {
      return static_cast<double>(static_cast<uint8_t>(colours[plane * 1024 + i]));
    };
    const double luma = 0.299 * colour(0) + 0.587 * colour(1) + 0.114 * colour(2);
    EXPECT_NEAR(static_cast<uint8_t>(examples[0].first[i]), luma, 0.5 + 1e-9) << i;
  }
  const std::string white(3072, '\xFF');
  Write("test_batch.bin", '\0' + white);
  EXPECT_EQ(ReadAll("image", Here(), Split::kTest).at(0).first, std::string(1024, '\xFF'));
}

TEST_F(ImageTest, CifarsBatchesFollowOneAnother) {
  for (char i = 1; i <= 5; ++i) {
    Write("data_batch_" + std::to_string(i) + ".bin", i + std::string(3072, i));
  }
  Write("test_batch.bin", '\0' + std::string(3072, '\0'));
  const std::vector<Example> examples = ReadAll("image", Here());
  ASSERT_EQ(examples.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(examples[i].label, std::to_string(i + 1));
    EXPECT_EQ(examples[i].first, std::string(1024, static_cast<char>(i + 1)));
    EXPECT_EQ(examples[i].line, 1);
  }
  EXPECT_EQ(FilesOf("image", Here(), Split::kTest), Names{"test_batch.bin"});
  std::filesystem::remove(Path("data_batch_3.bin"));
  EXPECT_EQ(Sentence("image", Here()),
            "\"FOLDER/data_batch_3.bin\" is missing; CIFAR-10 has data_batch_1.bin to "
            "data_batch_5.bin");
}

TEST_F(ImageTest, ASizeThatFitsBothIsReadByItsName) {
  const std::string bytes(1025 * 3073, '\1');
  EXPECT_EQ(ReadAll("image", {.data = Write("data_batch_1.bin", bytes)}).size(), 1025u);
  EXPECT_EQ(ReadAll("image", {.data = Write("train.bin", bytes)}).size(), 3073u);
}

TEST_F(ImageTest, OtherFilesAreRefusedWithASentence) {
  EXPECT_EQ(Sentence("image", {.data = Write("a.bin", std::string(2000, '\0'))}),
            "\"FOLDER/a.bin\" has 2,000 bytes, which is neither a multiple of 1025 (a label and "
            "1024 grey pixels) nor of 3073 (a label and as many red, green and blue ones); is it "
            "whole?");
  EXPECT_EQ(Sentence("image", {.data = Write("a.bin", "")}), "\"FOLDER/a.bin\" is empty");
  EXPECT_EQ(Sentence("image", {.data = Write("a.bin", std::string(1025, '\12'))}),
            "\"FOLDER/a.bin\", record 1: the label is 10, expected 0 to 9; are these records of "
            "1025 bytes, the label first?");
}

TEST_F(PathfinderTest, RecordsAreReadFromEverySplit) {
  const std::string pixels = RandomBytes(1024, 4);
  for (const char* name : {"train.bin", "valid.bin", "test.bin"}) {
    Write(name, '\1' + pixels + '\0' + pixels);
  }
  for (const Split split : kSplits) {
    const std::string name = std::string(Name(split)) + ".bin";
    EXPECT_EQ(ReadAll("pathfinder", Here(), split),
              (std::vector<Example>{{pixels, "", "1", name, 1}, {pixels, "", "0", name, 2}}));
  }
  EXPECT_EQ(ReadAll("pathfinder", {.train = Path("test.bin")}).size(), 2u);
}

TEST_F(PathfinderTest, OtherFilesAreRefusedWithASentence) {
  EXPECT_EQ(Sentence("pathfinder", {.data = Write("a.bin", std::string(3073, '\0'))}),
            "\"FOLDER/a.bin\" has 3,073 bytes, which is not a multiple of 1025: a label and 1024 "
            "pixels a record; is it whole?");
  EXPECT_EQ(Sentence("pathfinder", {.data = Write("a.bin", std::string(1025, '\2'))}),
            "\"FOLDER/a.bin\", record 1: the label is 2, expected 0 to 1; are these records of "
            "1025 bytes, the label first?");
}

TEST(ImageTasks, TheirTokensAreBytes) {
  for (const char* name : {"image", "pathfinder"}) {
    const auto tokenizer = FindTask(name).FixedTokenizer();
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->kind(), TokenizerKind::kBytes);
    EXPECT_EQ(FindTask(name).description().image.height, 32);
    EXPECT_EQ(FindTask(name).description().image.width, 32);
    EXPECT_EQ(FindTask(name).description().length, 1024);
  }
}

}  // namespace
}  // namespace cosformer::data
