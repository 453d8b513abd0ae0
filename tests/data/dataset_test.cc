#include "data/dataset.h"

#include <gtest/gtest.h>

#include <numeric>

#include "cosformer/error.h"
#include "data/make_dataset.h"
#include "formats/folder.h"
#include "kernels/random.h"

namespace cosformer::data {
namespace {

using testing::MakeDataset;

class DatasetTest : public cosformer::testing::FolderTest {
 protected:
  // What Open says about such bytes; empty if nothing.
  std::string Complaint(const std::string& bytes) {
    const std::string path = Write("broken.tokens", bytes);
    try {
      Dataset::Open(path);
      return "";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      return error.what();
    }
  }
};

TEST_F(DatasetTest, GivesBackWhatWasWritten) {
  for (const int64_t vocabulary : {200, 65536, 65537, 300000}) {
    SCOPED_TRACE(vocabulary);
    Random random(static_cast<uint64_t>(vocabulary));
    std::vector<std::vector<std::vector<int32_t>>> texts;
    std::vector<int32_t> labels, stream;
    for (int i = 0; i < 50; ++i) {
      std::vector<std::vector<int32_t>> example(2);
      for (auto& text : example) {
        text.resize(random.Below(9));  // also empty ones
        for (int32_t& token : text) {
          token = static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocabulary)));
          stream.push_back(token);
        }
      }
      texts.push_back(example);
      labels.push_back(static_cast<int32_t>(random.Below(7)));
    }
    const Dataset set = MakeDataset(Path("set.tokens"), texts, labels, vocabulary);
    ASSERT_EQ(set.examples(), 50);
    ASSERT_EQ(set.tokens(), static_cast<int64_t>(stream.size()));
    std::vector<int64_t> all(stream.size());
    set.Copy(0, set.tokens(), all.data());
    EXPECT_EQ(all, std::vector<int64_t>(stream.begin(), stream.end()));
    for (int64_t i = 0; i < 50; ++i) {
      EXPECT_EQ(set.Label(i), labels[static_cast<size_t>(i)]);
      for (int64_t part = 0; part < 2; ++part) {
        const auto& text = texts[static_cast<size_t>(i)][static_cast<size_t>(part)];
        ASSERT_EQ(set.Length(i, part), static_cast<int64_t>(text.size()));
        std::vector<int64_t> copy(text.size());
        set.CopyText(i, part, set.Length(i, part), copy.data());
        EXPECT_EQ(copy, std::vector<int64_t>(text.begin(), text.end()));
      }
    }
  }
}

TEST_F(DatasetTest, CarriesWhatIsSaidAboutIt) {
  DatasetInfo info;
  info.task = "classify";
  info.tokenizer = "0123456789abcdef";
  info.vocabulary = 10;
  DatasetWriter writer(Path("a.tokens"), info);
  writer.AddText(std::vector<int32_t>{1, 2, 3});
  writer.Count(100, 20);
  writer.Count(5, 1);
  writer.Finish();
  const Dataset set = Dataset::Open(Path("a.tokens"));
  EXPECT_EQ(set.info().task, "classify");
  EXPECT_EQ(set.info().tokenizer, "0123456789abcdef");
  EXPECT_EQ(set.info().vocabulary, 10);
  EXPECT_EQ(set.info().bytes, 105);
  EXPECT_EQ(set.info().words, 21);
  EXPECT_EQ(set.info().checksum.size(), 8u);
}

TEST_F(DatasetTest, TheChecksumFollowsTheContents) {
  const auto checksum = [&](const std::vector<int32_t>& tokens, std::vector<int32_t> labels) {
    return MakeDataset(Path("c.tokens"), {{tokens}}, labels).info().checksum;
  };
  EXPECT_EQ(checksum({1, 2, 3}, {0}), checksum({1, 2, 3}, {0}));
  EXPECT_NE(checksum({1, 2, 3}, {0}), checksum({1, 2, 4}, {0}));
  EXPECT_NE(checksum({1, 2, 3}, {0}), checksum({1, 2, 3}, {1}));
}

TEST_F(DatasetTest, NothingIsThereUntilItIsFinished) {
  {
    DatasetInfo info;
    info.vocabulary = 10;
    DatasetWriter writer(Path("a.tokens"), info);
    writer.AddText(std::vector<int32_t>(1 << 20, 1));
  }
  EXPECT_EQ(FilesInFolder(), 0);
}

TEST_F(DatasetTest, EveryCutIsNoticed) {
  MakeDataset(Path("whole.tokens"), {{{1, 2, 3}}, {{4, 5}}}, {0, 1});
  const std::string whole = Read(Path("whole.tokens"));
  EXPECT_EQ(Complaint(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(Complaint(whole.substr(0, size)), "") << size;
  }
  EXPECT_NE(Complaint(whole.substr(1)), "");
  EXPECT_NE(Complaint(whole + whole.substr(whole.size() - 8)), "");
}

TEST_F(DatasetTest, EveryChangedByteIsNoticedOrHarmless) {
  MakeDataset(Path("whole.tokens"), {{{1, 2, 3}}, {{4, 5}}}, {0, 1});
  const std::string whole = Read(Path("whole.tokens"));
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      const std::string path = Write("changed.tokens", bytes);
      try {
        const Dataset set = Dataset::Open(path);
        std::vector<int64_t> all(static_cast<size_t>(set.tokens()));
        set.Copy(0, set.tokens(), all.data());
        for (const int64_t token : all) EXPECT_LT(token, set.info().vocabulary);
        for (int64_t i = 0; i < set.examples(); ++i) EXPECT_GE(set.Length(i), 0);
      } catch (const Error&) {
      }
    }
  }
}

TEST_F(DatasetTest, ATokenOutsideTheVocabularyIsNoticedWhenItIsRead) {
  const Dataset set = MakeDataset(Path("bad.tokens"), {{{1, 99, 3}}}, {}, 50);
  std::vector<int64_t> out(3);
  EXPECT_NO_THROW(set.Copy(0, 1, out.data()));
  EXPECT_THROW(set.Copy(0, 3, out.data()), Error);
}

TEST_F(DatasetTest, ASetOfALaterVersionIsNamedWithWhatToDo) {
  MakeDataset(Path("whole.tokens"), {{{1, 2, 3}}, {{4, 5}}}, {0, 1});
  std::string later = Read(Path("whole.tokens"));
  const std::string format = "\"format\":1";
  const size_t at = later.find(format);
  ASSERT_NE(at, std::string::npos);
  later.replace(at, format.size(), "\"format\":2");
  const std::string complaint = Complaint(later);
  EXPECT_NE(complaint.find("is of format 2, which a later version of cosformer wrote"),
            std::string::npos);
  EXPECT_NE(complaint.find("update cosformer, or remove the file"), std::string::npos);
}

TEST_F(DatasetTest, OtherFilesAreNoSets) {
  EXPECT_NE(Complaint("hello"), "");
  EXPECT_NE(Complaint(std::string(1000, 'x')), "");
  EXPECT_NE(Complaint("COSFTOKN" + std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8) + "COSFTOKN"),
            "");
  EXPECT_THROW(Dataset::Open(Path("missing")), Error);
}

}  // namespace
}  // namespace cosformer::data
