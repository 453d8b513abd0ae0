#include "data/task.h"

#include <gtest/gtest.h>

#include "contains.h"
#include "formats/task_card.h"

namespace cosformer::data {
namespace {

using testing::MessageOf;

TEST(Task, SplitsHaveNames) {
  EXPECT_EQ(Name(Split::kTrain), "train");
  EXPECT_EQ(Name(Split::kValid), "valid");
  EXPECT_EQ(Name(Split::kTest), "test");
}

TEST(Task, TasksAreWhatTheyAreKnownAs) {
  const struct {
    const char* name;
    Objective objective;
    const char* tokenizer;
    int64_t length;
  } cases[] = {
      {"lm", Objective::kCausal, "sentencepiece", 512},
      {"mlm", Objective::kMasked, "sentencepiece", 512},
      {"classify", Objective::kClassify, "sentencepiece", 512},
      {"translate", Objective::kTranslate, "sentencepiece", 256},
      {"listops", Objective::kClassify, "words", 2000},
      {"text", Objective::kClassify, "bytes", 4096},
      {"retrieval", Objective::kRetrieve, "bytes", 4000},
      {"image", Objective::kClassify, "bytes", 1024},
      {"pathfinder", Objective::kClassify, "bytes", 1024},
  };
  ASSERT_EQ(Tasks().size(), std::size(cases));
  for (size_t i = 0; i < std::size(cases); ++i) {
    const TaskDescription& task = Tasks()[i]->description();
    EXPECT_EQ(task.name, cases[i].name);
    EXPECT_EQ(task.objective, cases[i].objective) << task.name;
    EXPECT_EQ(task.tokenizer, cases[i].tokenizer) << task.name;
    EXPECT_EQ(task.length, cases[i].length) << task.name;
    EXPECT_EQ(task.stream, task.name == "lm" || task.name == "mlm") << task.name;
    EXPECT_FALSE(task.summary.empty() || task.layouts.empty()) << task.name;
    const bool fixed = Tasks()[i]->FixedTokenizer() != nullptr;
    EXPECT_EQ(task.vocabulary, fixed ? 0 : 8192) << task.name;
    EXPECT_EQ(&FindTask(task.name), Tasks()[i].get());
    // As a trained model's directory has it, where there is nothing but the name.
    TaskCard card;
    card.task = task.name;
    EXPECT_EQ(card.images(), task.image.height > 0) << task.name;
  }
}

TEST(Task, AnUnknownNameIsAnsweredWithTheNearest) {
  const std::string names =
      "there are lm, mlm, classify, translate, listops, text, retrieval, image, pathfinder";
  EXPECT_EQ(MessageOf([] { FindTask("clasify"); }),
            "there is no task \"clasify\" (did you mean \"classify\"?); " + names);
  EXPECT_EQ(MessageOf([] { FindTask("cooking"); }), "there is no task \"cooking\"; " + names);
}

TEST(Task, EveryTaskSaysWhatItReadsWhenThereIsNothing) {
  for (const auto& task : Tasks()) {
    const TaskDescription& known = task->description();
    EXPECT_EQ(MessageOf([&] { task->Files({}, Split::kTrain); }),
              "task " + known.name + " has nothing to read; give --data: " + known.layouts);
  }
}

}  // namespace
}  // namespace cosformer::data
