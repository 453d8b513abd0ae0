#include "data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cosformer/error.h"
#include "data/loader.h"
#include "data/make_dataset.h"
#include "formats/folder.h"
#include "kernels/random.h"

namespace cosformer::data {
namespace {

using testing::MakeDataset;

constexpr SpecialTokens kSpecial{
    .unknown = 95, .begin = 96, .end = 97, .separator = 98, .mask = 99};

class BatchesTest : public cosformer::testing::FolderTest {
 protected:
  // Tokens 0, 1, 2, ... in stretches: a text in which every place can be told.
  Dataset Stream(int64_t tokens) {
    std::vector<std::vector<std::vector<int32_t>>> texts;
    for (int64_t begin = 0; begin < tokens; begin += 7) {
      std::vector<int32_t> text;
      for (int64_t i = begin; i < std::min(tokens, begin + 7); ++i) {
        text.push_back(static_cast<int32_t>(i));
      }
      texts.push_back({text});
    }
    return MakeDataset(Path("stream.tokens"), texts, {}, std::max<int64_t>(tokens, 100));
  }

  // Example i has tokens of its own, and the label i % 3.
  Dataset Texts(int count, int parts, uint64_t seed, int longest = 20) {
    Random random(seed);
    std::vector<std::vector<std::vector<int32_t>>> texts;
    std::vector<int32_t> labels;
    for (int i = 0; i < count; ++i) {
      std::vector<std::vector<int32_t>> example;
      for (int part = 0; part < parts; ++part) {
        example.emplace_back(1 + random.Below(static_cast<uint64_t>(longest)), 2 * (i % 40) + part);
      }
      texts.push_back(example);
      labels.push_back(i % 3);
    }
    return MakeDataset(Path("texts.tokens"), texts, labels);
  }

  static BatchOptions Options(Objective objective) {
    BatchOptions options;
    options.objective = objective;
    options.special = kSpecial;
    return options;
  }
};

TEST_F(BatchesTest, AnEpochOfWindowsTakesEveryPlaceOnce) {
  const Dataset set = Stream(1000);
  BatchOptions options = Options(Objective::kCausal);
  options.length = 16;
  options.tokens = 70;
  const Batches batches(set, options);
  std::set<int64_t> shifts;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    const Batches::Plan plan = batches.PlanOf(epoch);
    shifts.insert(plan.shift);
    std::set<int64_t> seen;
    for (int64_t b = 0; b < plan.batches(); ++b) {
      const Batch batch = batches.Make(plan, b);
      EXPECT_EQ(batch.input.length, 16);
      EXPECT_LE(batch.input.rows, 4);
      EXPECT_EQ(batch.sequences, batch.input.rows);
      for (size_t i = 0; i < batch.targets.size(); ++i) {
        EXPECT_EQ(batch.targets[i], batch.input.tokens[i] + 1);
        EXPECT_TRUE(seen.insert(batch.targets[i]).second);
      }
    }
    EXPECT_GE(static_cast<int64_t>(seen.size()), 1000 - 1 - 2 * 16);
  }
  EXPECT_GT(shifts.size(), 1u);
}

TEST_F(BatchesTest, EvaluationPredictsEveryTokenButTheFirstOnceAtEveryStride) {
  for (const int64_t tokens : {2, 16, 17, 18, 33, 100, 101}) {
    const Dataset set = Stream(tokens);
    for (const int64_t stride : {0, 1, 3, 8, 15, 16}) {
      BatchOptions options = Options(Objective::kCausal);
      options.shuffle = false;
      options.length = 16;
      options.stride = stride;
      options.tokens = 50;
      const Batches batches(set, options);
      const Batches::Plan plan = batches.PlanOf(0);
      std::vector<int64_t> predicted;
      for (int64_t b = 0; b < plan.batches(); ++b) {
        const Batch batch = batches.Make(plan, b);
        for (size_t i = 0; i < batch.targets.size(); ++i) {
          if (batch.targets[i] < 0) continue;
          EXPECT_EQ(batch.targets[i], batch.input.tokens[i] + 1);
          predicted.push_back(batch.targets[i]);
        }
      }
      std::vector<int64_t> wanted;
      for (int64_t i = 1; i < tokens; ++i) wanted.push_back(i);
      EXPECT_EQ(predicted, wanted) << tokens << " tokens, stride " << stride;
    }
  }
}

TEST_F(BatchesTest, ASlidingWindowGivesEveryTokenItsContext) {
  const Dataset set = Stream(200);
  BatchOptions options = Options(Objective::kCausal);
  options.shuffle = false;
  options.length = 16;
  options.stride = 4;
  const Batches batches(set, options);
  const Batches::Plan plan = batches.PlanOf(0);
  for (int64_t b = 0; b < plan.batches(); ++b) {
    const Batch batch = batches.Make(plan, b);
    for (int64_t row = 0; row < batch.input.rows; ++row) {
      for (int64_t i = 0; i < batch.input.length; ++i) {
        const int64_t target = batch.targets[static_cast<size_t>(row * batch.input.length + i)];
        if (target < 0) continue;
        EXPECT_GE(i + 1, std::min<int64_t>(target, 13));
      }
    }
  }
}

TEST_F(BatchesTest, MasksFollowTheRecipe) {
  std::vector<std::vector<std::vector<int32_t>>> texts;
  for (int i = 0; i < 400; ++i) texts.push_back({std::vector<int32_t>(100, 5)});
  texts.push_back({std::vector<int32_t>(100, kSpecial.end)});
  const Dataset set = MakeDataset(Path("mlm.tokens"), texts);
  BatchOptions options = Options(Objective::kMasked);
  options.length = 100;
  options.shuffle = false;
  const Batches batches(set, options);
  const Batches::Plan plan = batches.PlanOf(0);
  int64_t all = 0, chosen = 0, masked = 0, kept = 0, other = 0;
  for (int64_t b = 0; b < plan.batches(); ++b) {
    const Batch batch = batches.Make(plan, b);
    for (size_t i = 0; i < batch.targets.size(); ++i) {
      const int64_t token = batch.input.tokens[i];
      if (token == kSpecial.end && batch.targets[i] < 0) continue;
      ++all;
      if (batch.targets[i] < 0) {
        EXPECT_EQ(token, 5);
        continue;
      }
      EXPECT_EQ(batch.targets[i], 5);
      ++chosen;
      masked += token == kSpecial.mask;
      kept += token == 5;
      other += token != kSpecial.mask && token != 5;
    }
  }
  // Four standard deviations of each count.
  const auto near = [](int64_t hits, int64_t trials, double p) {
    return std::abs(static_cast<double>(hits) - p * static_cast<double>(trials)) <
           4 * std::sqrt(p * (1 - p) * static_cast<double>(trials));
  };
  EXPECT_TRUE(near(chosen, all, 0.15)) << chosen << " of " << all;
  EXPECT_TRUE(near(masked, chosen, 0.8 + 0.1 / 100)) << masked << " of " << chosen;
  EXPECT_TRUE(near(kept, chosen, 0.1 + 0.1 / 100)) << kept << " of " << chosen;
  EXPECT_TRUE(near(other, chosen, 0.1 * 98 / 100)) << other << " of " << chosen;
}

TEST_F(BatchesTest, MasksDifferFromEpochToEpochAndAreTheSameAgain) {
  const Dataset set = Stream(90);
  BatchOptions options = Options(Objective::kMasked);
  options.length = 90;
  const Batches batches(set, options);
  const auto tokens = [&](int64_t epoch) {
    return batches.Make(batches.PlanOf(epoch), 0).input.tokens;
  };
  EXPECT_EQ(tokens(0), tokens(0));
  EXPECT_NE(tokens(0), tokens(1));
}

// Texts, labels and places of a batch, whatever its form.
std::vector<std::vector<int64_t>> TextsOf(const Side& side) {
  std::vector<std::vector<int64_t>> texts;
  if (!side.offsets.empty()) {
    for (size_t s = 0; s + 1 < side.offsets.size(); ++s) {
      texts.emplace_back(side.tokens.begin() + side.offsets[s],
                         side.tokens.begin() + side.offsets[s + 1]);
    }
    return texts;
  }
  for (int64_t row = 0; row < side.rows; ++row) {
    const int64_t length =
        side.lengths.empty() ? side.length : side.lengths[static_cast<size_t>(row)];
    const auto begin = side.tokens.begin() + row * side.length;
    texts.emplace_back(begin, begin + length);
  }
  return texts;
}

TEST_F(BatchesTest, EveryExampleComesOnceAnEpochWithItsLabelPackedOrInRows) {
  const Dataset set = Texts(300, 1, 7);
  for (const bool packing : {false, true}) {
    for (const bool shuffle : {false, true}) {
      BatchOptions options = Options(Objective::kClassify);
      options.packing = packing;
      options.shuffle = shuffle;
      options.length = 50;
      options.tokens = 100;
      const Batches batches(set, options);
      for (int64_t epoch = 0; epoch < (shuffle ? 3 : 1); ++epoch) {
        const Batches::Plan plan = batches.PlanOf(epoch);
        std::vector<int64_t> items = plan.items;
        std::sort(items.begin(), items.end());
        for (int64_t i = 0; i < 300; ++i) ASSERT_EQ(items[static_cast<size_t>(i)], i);
        for (int64_t b = 0; b < plan.batches(); ++b) {
          const Batch batch = batches.Make(plan, b);
          EXPECT_LE(static_cast<int64_t>(batch.input.tokens.size()), 100);
          const auto texts = TextsOf(batch.input);
          ASSERT_EQ(static_cast<int64_t>(texts.size()), batch.sequences);
          ASSERT_EQ(batch.targets.size(), texts.size());
          int64_t tokens = 0;
          for (size_t s = 0; s < texts.size(); ++s) {
            const int64_t item = plan.items[static_cast<size_t>(
                plan.begins[static_cast<size_t>(b)] + static_cast<int64_t>(s))];
            EXPECT_EQ(batch.targets[s], item % 3);
            EXPECT_EQ(static_cast<int64_t>(texts[s].size()), 1 + set.Length(item));
            EXPECT_EQ(texts[s].front(), kSpecial.begin);
            EXPECT_EQ(texts[s].back(), 2 * (item % 40));
            tokens += static_cast<int64_t>(texts[s].size());
          }
          EXPECT_EQ(batch.Tokens(), tokens);
        }
      }
    }
  }
}

TEST_F(BatchesTest, RowsOfABatchAreOfLikeLength) {
  const Dataset set = Texts(2000, 1, 3, 200);
  BatchOptions options = Options(Objective::kClassify);
  options.length = 400;
  options.tokens = 2000;
  const Batches batches(set, options);
  const Batches::Plan plan = batches.PlanOf(0);
  int64_t all = 0, used = 0;
  for (int64_t b = 0; b < plan.batches(); ++b) {
    const Batch batch = batches.Make(plan, b);
    all += static_cast<int64_t>(batch.input.tokens.size());
    used += batch.Tokens();
  }
  EXPECT_GT(used, all * 9 / 10);
}

TEST_F(BatchesTest, TheOrderFollowsFromSeedAndEpoch) {
  const Dataset set = Texts(200, 1, 5);
  for (const bool packing : {false, true}) {
    BatchOptions options = Options(Objective::kClassify);
    options.packing = packing;
    options.tokens = 60;
    const auto items = [&](uint64_t seed, int64_t epoch) {
      options.seed = seed;
      return Batches(set, options).PlanOf(epoch).items;
    };
    EXPECT_EQ(items(1, 0), items(1, 0));
    EXPECT_NE(items(1, 0), items(1, 1));
    EXPECT_NE(items(1, 0), items(2, 0));
  }
}

TEST_F(BatchesTest, PairsAreCutAtTheLongerText) {
  const Dataset set = MakeDataset(Path("pairs.tokens"),
                                  {{std::vector<int32_t>(30, 1), std::vector<int32_t>(4, 2)},
                                   {std::vector<int32_t>(3, 1), std::vector<int32_t>(40, 2)},
                                   {std::vector<int32_t>(30, 1), std::vector<int32_t>(40, 2)},
                                   {std::vector<int32_t>(3, 1), std::vector<int32_t>(4, 2)}},
                                  {0, 1, 0, 1});
  BatchOptions options = Options(Objective::kClassify);
  options.shuffle = false;
  options.length = 22;
  options.tokens = 22;
  const Batches batches(set, options);
  EXPECT_EQ(batches.CountCut(), 3);
  const Batches::Plan plan = batches.PlanOf(0);
  std::map<int64_t, std::pair<int64_t, int64_t>> kept;
  for (int64_t b = 0; b < plan.batches(); ++b) {
    for (const auto& text : TextsOf(batches.Make(plan, b).input)) {
      EXPECT_LE(text.size(), 22u);
      EXPECT_EQ(text.front(), kSpecial.begin);
      EXPECT_EQ(std::count(text.begin(), text.end(), kSpecial.separator), 1);
      kept[plan.items[static_cast<size_t>(b)]] = {std::count(text.begin(), text.end(), 1),
                                                  std::count(text.begin(), text.end(), 2)};
    }
  }
  EXPECT_EQ(kept[0], std::pair(int64_t{16}, int64_t{4}));
  EXPECT_EQ(kept[1], std::pair(int64_t{3}, int64_t{17}));
  EXPECT_EQ(kept[2], std::pair(int64_t{10}, int64_t{10}));
  EXPECT_EQ(kept[3], std::pair(int64_t{3}, int64_t{4}));
}

TEST_F(BatchesTest, ImagesHaveNoTokenBeforeThem) {
  const Dataset set = MakeDataset(Path("i.tokens"), {{{1, 2, 3, 4}}, {{5, 6, 7, 8}}}, {0, 1});
  BatchOptions options = Options(Objective::kClassify);
  options.images = true;
  options.shuffle = false;
  const Batches batches(set, options);
  EXPECT_EQ(batches.Make(batches.PlanOf(0), 0).input.tokens,
            (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(BatchesTest, ATranslationReadsFromTheBeginningAndPredictsTheEnd) {
  for (const bool packing : {false, true}) {
    const Dataset set = MakeDataset(Path("t.tokens"), {{{1, 2}, {3, 4, 5}}, {{6, 7, 8}, {9}}});
    BatchOptions options = Options(Objective::kTranslate);
    options.shuffle = false;
    options.packing = packing;
    const Batches batches(set, options);
    const Batches::Plan plan = batches.PlanOf(0);
    const Batch batch = batches.Make(plan, 0);
    std::map<int64_t, size_t> place = {{plan.items[0], 0}, {plan.items[1], 1}};
    const auto sources = TextsOf(batch.input), read = TextsOf(batch.second);
    Side predicted = batch.second;
    predicted.tokens = batch.targets;
    const auto targets = TextsOf(predicted);
    using Text = std::vector<int64_t>;
    EXPECT_EQ(sources[place[0]], (Text{1, 2}));
    EXPECT_EQ(read[place[0]], (Text{kSpecial.begin, 3, 4, 5}));
    EXPECT_EQ(targets[place[0]], (Text{3, 4, 5, kSpecial.end}));
    EXPECT_EQ(read[place[1]], (Text{kSpecial.begin, 9}));
    EXPECT_EQ(targets[place[1]], (Text{9, kSpecial.end}));
    EXPECT_EQ(batch.Targets(), 6);
  }
}

TEST_F(BatchesTest, TwoTowersHaveTheirTextsApart) {
  const Dataset set = Texts(20, 2, 9);
  BatchOptions options = Options(Objective::kRetrieve);
  options.packing = true;
  options.length = 10;
  const Batches batches(set, options);
  const Batches::Plan plan = batches.PlanOf(0);
  const Batch batch = batches.Make(plan, 0);
  const auto first = TextsOf(batch.input), second = TextsOf(batch.second);
  ASSERT_EQ(first.size(), second.size());
  for (size_t s = 0; s < first.size(); ++s) {
    const int64_t item = plan.items[s];
    EXPECT_EQ(first[s],
              std::vector<int64_t>(static_cast<size_t>(std::min<int64_t>(10, set.Length(item, 0))),
                                   2 * (item % 40)));
    EXPECT_EQ(second[s],
              std::vector<int64_t>(static_cast<size_t>(std::min<int64_t>(10, set.Length(item, 1))),
                                   2 * (item % 40) + 1));
  }
}

TEST_F(BatchesTest, WhatAllowsNoBatchIsRefused) {
  const Dataset set = Stream(10);
  BatchOptions options = Options(Objective::kCausal);
  options.length = 10;
  EXPECT_THROW(Batches(set, options), Error);
  options.length = 9;
  EXPECT_NO_THROW(Batches(set, options));
  options.length = 1;
  EXPECT_THROW(Batches(set, options), Error);
  options = Options(Objective::kMasked);
  options.length = 5;
  options.special.mask = -1;
  EXPECT_THROW(Batches(set, options), Error);
  options = Options(Objective::kTranslate);
  options.special.end = -1;
  EXPECT_THROW(Batches(set, options), Error);
}

TEST_F(BatchesTest, TheLoaderGivesTheSameBatchesFromAnyPlace) {
  const Dataset set = Texts(60, 1, 11);
  BatchOptions options = Options(Objective::kClassify);
  options.tokens = 60;
  const Batches batches(set, options);
  std::vector<Loader::Loaded> all;
  {
    Loader loader(batches, {});
    for (int i = 0; i < 40; ++i) all.push_back(loader.Next());
  }
  EXPECT_GT(all.back().next.epoch, 0);
  for (size_t i = 0; i + 1 < all.size(); i += 5) {
    Loader loader(batches, all[i].next);
    for (size_t j = i + 1; j < std::min(all.size(), i + 4); ++j) {
      const Loader::Loaded loaded = loader.Next();
      EXPECT_EQ(loaded.batch.input.tokens, all[j].batch.input.tokens);
      EXPECT_EQ(loaded.batch.targets, all[j].batch.targets);
      EXPECT_EQ(loaded.next, all[j].next);
    }
  }
}

TEST_F(BatchesTest, TheLoaderPassesOnWhatGoesWrong) {
  const Dataset set = MakeDataset(Path("bad.tokens"), {{{1, 2}}, {{77, 3}}}, {0, 1}, 50);
  const Batches batches(set, Options(Objective::kClassify));
  Loader loader(batches, {});
  EXPECT_THROW(loader.Next(), Error);
}

}  // namespace
}  // namespace cosformer::data
