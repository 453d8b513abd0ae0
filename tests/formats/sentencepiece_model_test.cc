#include "formats/sentencepiece_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "contains.h"
#include "cosformer/error.h"
#include "folder.h"
#include "formats/tokenizer.h"
#include "sentencepiece_models.h"

namespace cosformer {
namespace {

using testing::Contains;
using testing::ForeignModel;
using testing::Lossless;
using testing::MessageOf;

class SentencePieceModelTest : public testing::FolderTest {
 protected:
  std::string LosslessModel() const {
    Lossless().Save(folder_.string());
    return Read(Path("tokenizer.model"));
  }
};

TEST_F(SentencePieceModelTest, TraitsAreThoseOfTheTraining) {
  const SentencePieceTraits own = ReadTraits(LosslessModel(), "model");
  EXPECT_TRUE(own.byte_pieces);
  EXPECT_FALSE(own.normalises);
  EXPECT_FALSE(own.blank_before);
  EXPECT_FALSE(own.removes_blanks);
  EXPECT_TRUE(own.escapes_blanks);
  EXPECT_TRUE(own.Lossless());

  const SentencePieceTraits foreign = ReadTraits(ForeignModel(), "model");
  EXPECT_FALSE(foreign.byte_pieces);
  EXPECT_TRUE(foreign.normalises);
  EXPECT_TRUE(foreign.blank_before);
  EXPECT_TRUE(foreign.removes_blanks);
  EXPECT_TRUE(foreign.escapes_blanks);
  EXPECT_FALSE(foreign.Lossless());
}

TEST_F(SentencePieceModelTest, EveryTraitCountsForWhatIsLossless) {
  const SentencePieceTraits own = ReadTraits(LosslessModel(), "model");
  for (bool SentencePieceTraits::*const trait :
       {&SentencePieceTraits::byte_pieces, &SentencePieceTraits::normalises,
        &SentencePieceTraits::blank_before, &SentencePieceTraits::removes_blanks,
        &SentencePieceTraits::escapes_blanks}) {
    SentencePieceTraits changed = own;
    changed.*trait = !(own.*trait);
    EXPECT_FALSE(changed.Lossless());
  }
}

TEST_F(SentencePieceModelTest, EveryNormalisationOfTheLibraryIsAccepted) {
  for (const char* rules : {"nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf", "identity"}) {
    const std::string model = ForeignModel({{"normalization_rule_name", rules}});
    EXPECT_EQ(MessageOf([&] { Tokenizer::SentencePiece(model).Encode("the attention"); }), "")
        << rules;
  }
}

TEST_F(SentencePieceModelTest, AModelCutOffAnywhereIsRefused) {
  const std::string model = LosslessModel();
  for (size_t size = 0; size < model.size(); ++size) {
    ASSERT_TRUE(Contains(MessageOf([&] { Tokenizer::SentencePiece(model.substr(0, size)); }),
                         "tokenizer.model is no SentencePiece model"))
        << size;
  }
}

TEST_F(SentencePieceModelTest, ChangedBytesAreRefusedOrHarmless) {
  std::mt19937 random(1);
  const std::string models[] = {LosslessModel(), ForeignModel()};
  for (int round = 0; round < 300; ++round) {
    std::string model = models[round % 2];
    for (size_t i = 1 + random() % 3; i > 0; --i) {
      model[random() % model.size()] = static_cast<char>(random());
    }
    try {
      const Tokenizer tokenizer = Tokenizer::SentencePiece(model);
      tokenizer.Decode(tokenizer.Encode("the attention\n \xEF\xBD\x81 caf\xC3\xA9 \xFF of"));
    } catch (const Error&) {
    }
  }
}

TEST_F(SentencePieceModelTest, OffsetsOutOfTheNormalisationTableAreRefused) {
  const std::string model = ForeignModel();
  // The table is a length, so many bytes of units, and a text that goes to the end of the field.
  const size_t name = model.find("nmt_nfkc");
  ASSERT_NE(name, std::string::npos);
  size_t table = name + 8 + 1;
  while (model[table++] & '\x80') {
  }
  uint32_t bytes = 0;
  std::memcpy(&bytes, model.data() + table, sizeof(bytes));
  ASSERT_LT(bytes, model.size());

  const auto with = [&](size_t at, uint32_t value) {
    std::string changed = model;
    std::memcpy(changed.data() + at, &value, sizeof(value));
    return MessageOf([&] { ReadTraits(changed, "m"); });
  };
  EXPECT_EQ(with(table, bytes), "");
  const std::string broken = "its normalisation table is broken";
  for (const uint32_t size : {uint32_t{0}, bytes + 1, bytes + 400000, ~uint32_t{0}}) {
    EXPECT_TRUE(Contains(with(table, size), broken)) << size;
  }
  // The root's offset, beyond the units, near and far.
  EXPECT_TRUE(Contains(with(table + 4, (bytes / 4) << 10), broken));
  EXPECT_TRUE(Contains(with(table + 4, (bytes / 4) << 2 | 1 << 9), broken));
  // A leaf that points behind the text.
  uint32_t root = 0;
  std::memcpy(&root, model.data() + table + 4, sizeof(root));
  bool found = false;
  for (uint32_t i = 0; i < bytes / 4 && !found; ++i) {
    uint32_t unit = 0;
    std::memcpy(&unit, model.data() + table + 4 + 4 * i, sizeof(unit));
    if (unit >> 31 || !(unit & 1 << 8)) continue;
    const uint32_t leaf = i ^ ((unit >> 10) << (unit & 1 << 9 ? 8 : 0));
    EXPECT_TRUE(Contains(with(table + 4 + 4 * leaf, 0x80FFFFFF), broken));
    found = true;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace cosformer
