// The file of a run: every bit comes back, power cuts and full disks leave whole lines.
#include "runs/metrics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "contains.h"
#include "folder.h"
#include "full_disk.h"

namespace cosformer {
namespace {

using testing::Contains;
using testing::MessageOf;

constexpr const char* kTrainLine =
    R"({"kind":"train","step":100,"loss":5.43,"learning_rate":0.0003,"gradient":0.8,"tokens":409600,)"
    R"("seconds":12.3,"tokens_per_second":33000.0})";
constexpr const char* kEvalLine =
    R"({"kind":"eval","step":100,"split":"valid","loss":5.2,"perplexity":181.3,"accuracy":0.5,)"
    R"("tokens":409600,"seconds":12.5})";

TrainMetrics TrainAt(int64_t step) {
  return {.step = step,
          .loss = 5.43,
          .learning_rate = 3e-4,
          .gradient = 0.8,
          .tokens = 4096 * step,
          .seconds = 12.3,
          .tokens_per_second = 33000};
}

EvalMetrics EvalAt(int64_t step, double loss = 5.2) {
  return {.step = step, .split = "valid", .loss = loss, .tokens = 4096 * step, .seconds = 12.5};
}

class MetricsTest : public testing::FolderTest {
 protected:
  std::string Path() const { return FolderTest::Path("metrics.jsonl"); }
  std::string Complaint(const std::string& text) const {
    Write("metrics.jsonl", text);
    return MessageOf([this] { ReadMetrics(Path()); });
  }
};

TEST_F(MetricsTest, ALineIsAnObjectWithItsKeysInOrder) {
  MetricsFile file(Path(), -1);
  file.Add(TrainAt(100));
  EvalMetrics eval = EvalAt(100);
  file.Add(eval);
  eval.perplexity = 181.3;
  eval.accuracy = 0.5;
  file.Add(eval);
  EXPECT_EQ(
      Read(Path()),
      std::string(kTrainLine) + "\n" +
          R"({"kind":"eval","step":100,"split":"valid","loss":5.2,"tokens":409600,"seconds":12.5})"
          "\n" +
          kEvalLine + "\n");
}

TEST_F(MetricsTest, EveryBitOfANumberComesBack) {
  std::mt19937_64 random(1);
  std::vector<double> values = {0.0,  -0.0, 0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308,
                                1e22, 1e23};
  while (values.size() < 3000) {
    const double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) values.push_back(value);
  }
  {
    MetricsFile file(Path(), -1);
    for (size_t i = 0; i < values.size(); ++i) {
      TrainMetrics metrics = TrainAt(static_cast<int64_t>(i));
      metrics.loss = metrics.learning_rate = metrics.gradient = values[i];
      metrics.seconds = metrics.tokens_per_second = values[i];
      metrics.tokens = std::numeric_limits<int64_t>::max() - static_cast<int64_t>(i);
      file.Add(metrics);
      EvalMetrics eval = EvalAt(static_cast<int64_t>(i), values[i]);
      eval.perplexity = eval.accuracy = values[i];
      eval.seconds = values[i];
      file.Add(eval);
    }
  }
  const History history = ReadMetrics(Path());
  ASSERT_EQ(history.train.size(), values.size());
  ASSERT_EQ(history.evals.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const TrainMetrics& train = history.train[i];
    const EvalMetrics& eval = history.evals[i];
    EXPECT_EQ(train.step, static_cast<int64_t>(i));
    EXPECT_EQ(eval.step, static_cast<int64_t>(i));
    EXPECT_EQ(train.tokens, std::numeric_limits<int64_t>::max() - static_cast<int64_t>(i));
    for (const double back :
         {train.loss, train.learning_rate, train.gradient, train.seconds, train.tokens_per_second,
          eval.loss, *eval.perplexity, *eval.accuracy, eval.seconds}) {
      EXPECT_EQ(std::bit_cast<uint64_t>(back), std::bit_cast<uint64_t>(values[i]));
    }
  }
}

TEST_F(MetricsTest, WhatIsNotFiniteIsNullAndNan) {
  {
    MetricsFile file(Path(), -1);
    TrainMetrics metrics = TrainAt(1);
    metrics.loss = std::numeric_limits<double>::quiet_NaN();
    metrics.gradient = std::numeric_limits<double>::infinity();
    file.Add(metrics);
  }
  EXPECT_TRUE(Contains(Read(Path()), R"("loss":null)"));
  const History history = ReadMetrics(Path());
  EXPECT_TRUE(std::isnan(history.train[0].loss));
  EXPECT_TRUE(std::isnan(history.train[0].gradient));
}

TEST_F(MetricsTest, ASplitMayHaveAnyName) {
  {
    MetricsFile file(Path(), -1);
    EvalMetrics eval = EvalAt(1);
    eval.split = "a \"b\"\n\xFF é";
    file.Add(eval);
  }
  EXPECT_EQ(ReadMetrics(Path()).evals[0].split, "a \"b\"\n\xEF\xBF\xBD é");
}

TEST_F(MetricsTest, LaterVersionsMayAddKeysAndKinds) {
  std::string line = kTrainLine;
  line.insert(line.size() - 1, R"(,"colour":[1,{"a":null}])");
  Write("metrics.jsonl", line + "\n{\"kind\":\"note\"}\n" + kEvalLine + "\n");
  const History history = ReadMetrics(Path());
  EXPECT_EQ(history.train.size(), 1u);
  EXPECT_EQ(history.evals.size(), 1u);
  EXPECT_EQ(history.train[0].learning_rate, 3e-4);
}

TEST_F(MetricsTest, ALastLineCutAnywhereIsLeftOut) {
  const std::string first = std::string(kEvalLine) + "\n";
  const std::string second = kTrainLine;
  for (size_t size = 0; size < second.size(); ++size) {
    Write("metrics.jsonl", first + second.substr(0, size));
    const History history = ReadMetrics(Path());
    EXPECT_EQ(history.evals.size(), 1u);
    EXPECT_EQ(history.train.size(), 0u);
    if (size % 16 != 1) continue;  // writing waits for the disk each time
    MetricsFile file(Path(), 1000);
    EXPECT_EQ(Read(Path()), first);
  }
  // Some file systems put zeros where the data did not arrive.
  Write("metrics.jsonl", first + std::string(50, '\0'));
  EXPECT_EQ(ReadMetrics(Path()).evals.size(), 1u);
  // Whole but for its end, as an editor may leave it.
  Write("metrics.jsonl", first + second);
  EXPECT_EQ(ReadMetrics(Path()).train.size(), 1u);
  MetricsFile file(Path(), 1000);
  file.Add(TrainAt(101));
  EXPECT_EQ(ReadMetrics(Path()).train.size(), 2u);
}

TEST_F(MetricsTest, AResumedRunForgetsWhatComesAfter) {
  {
    MetricsFile file(Path(), -1);
    for (int64_t step = 0; step <= 50; ++step) {
      file.Add(TrainAt(step));
      if (step % 10 == 0) file.Add(EvalAt(step));
    }
  }
  {
    MetricsFile file(Path(), 30);
    file.Add(TrainAt(31));
  }
  const History history = ReadMetrics(Path());
  ASSERT_EQ(history.train.size(), 32u);
  EXPECT_EQ(history.train.back().step, 31);
  ASSERT_EQ(history.evals.size(), 4u);
  EXPECT_EQ(history.evals.back().step, 30);
  EXPECT_EQ(FilesInFolder(), 1);
  MetricsFile(Path(), -1);
  EXPECT_EQ(Read(Path()), "");
}

TEST_F(MetricsTest, TheTestSplitIsReportedOnceHoweverOftenTheEndIsReached) {
  for (int session = 0; session < 3; ++session) {
    MetricsFile file(Path(), session == 0 ? -1 : 100);
    if (session == 0) file.Add(EvalAt(100));
    EvalMetrics test = EvalAt(100);
    test.split = "test";
    test.loss = session;
    file.Add(test);
  }
  const History history = ReadMetrics(Path());
  ASSERT_EQ(history.evals.size(), 2u);
  EXPECT_EQ(history.evals[0].split, "valid");
  EXPECT_EQ(history.evals[1].split, "test");
  EXPECT_EQ(history.evals[1].loss, 2);
}

TEST_F(MetricsTest, ResumingKeepsLinesAsTheyAre) {
  std::string line = kTrainLine;
  line.insert(line.size() - 1, R"( , "colour":1.50 )");
  const std::string text = line + "\n{\"kind\":\"note\", \"text\":\"lasts\"}\n";
  Write("metrics.jsonl", text + R"({"kind":"note","step":101})"
                                "\n");
  MetricsFile(Path(), 100);
  EXPECT_EQ(Read(Path()), text);
}

TEST_F(MetricsTest, ABadLineIsNamedByItsNumber) {
  const std::string good = std::string(kTrainLine) + "\n";
  const auto with = [](const char* line, const std::string& part, const std::string& other) {
    std::string text = line;
    return text.replace(text.find(part), part.size(), other) + "\n";
  };
  struct Case {
    std::string line;
    const char* mentions;
  };
  const Case cases[] = {
      {"nonsense\n", "not valid JSON"},
      {"\n", "not valid JSON"},
      {"[1]\n", "expected a JSON object"},
      {"{}\n", "\"kind\" is missing"},
      {"{\"kind\":1}\n", "\"kind\" is 1; expected a text"},
      {with(kTrainLine, "\"loss\":5.43,", ""), "\"loss\" is missing"},
      {with(kTrainLine, "5.43", "\"5.43\""), "\"loss\" is \"5.43\"; expected a number"},
      {with(kTrainLine, "5.43", "1e999"), "not valid JSON"},
      {with(kTrainLine, "\"step\":100", "\"step\":1.5"), "\"step\" is 1.5; expected an integer"},
      {with(kTrainLine, "\"step\":100", "\"step\":-1"), "\"step\" is -1"},
      {with(kTrainLine, "\"step\":100", "\"step\":18446744073709551615"), "\"step\" is 18446744"},
      {with(kTrainLine, "\"step\":100", "\"step\":null"), "\"step\" is null"},
      {with(kTrainLine, "\"step\":100,", "\"step\":100,\"step\":200,"), "twice"},
      {with(kTrainLine, "409600", "true"), "\"tokens\" is true"},
      {with(kEvalLine, "\"valid\"", "7"), "\"split\" is 7"},
      {with(kEvalLine, "181.3", "{}"), "\"perplexity\" is {}"},
      {with(kEvalLine, "0.5", "\"high\""), "\"accuracy\" is \"high\""},
  };
  for (const Case& bad : cases) {
    const std::string complaint = Complaint(good + bad.line + good);
    EXPECT_TRUE(Contains(complaint, bad.mentions));
    EXPECT_TRUE(Contains(complaint, "line 2 of \"" + Path() + "\""));
  }
}

TEST_F(MetricsTest, AFileOfAnotherKindIsLeftAlone) {
  for (const std::string text : {"hello\nworld\n", "[1]\n{\n", "{\"a\":1}\n"}) {
    Write("metrics.jsonl", text);
    EXPECT_TRUE(Contains(MessageOf([this] { MetricsFile(Path(), 0); }), "line 1 of"));
    EXPECT_EQ(Read(Path()), text);
  }
}

TEST_F(MetricsTest, WhatIsNoFileIsASentence) {
  EXPECT_TRUE(Contains(MessageOf([this] { ReadMetrics(Path()); }), "No such file"));
  const std::string folder = folder_.string();
  EXPECT_TRUE(Contains(MessageOf([&] { ReadMetrics(folder); }), "it is not a file"));
  EXPECT_TRUE(Contains(MessageOf([&] { MetricsFile(folder, 0); }), "it is not a file"));
  EXPECT_TRUE(Contains(MessageOf([&] { ReadMetrics("/dev/zero"); }), "it is not a file"));
  EXPECT_TRUE(Contains(MessageOf([&] { MetricsFile(folder + "/no/m.jsonl", 0); }), "cannot write"));
}

TEST_F(MetricsTest, AFullDiskIsASentenceAndLeavesWholeLines) {
  MetricsFile file(Path(), -1);
  file.Add(TrainAt(1));
  const std::string before = Read(Path());
  for (const size_t room : {0, 10}) {  // some bytes into the next line
    const std::string complaint = MessageOf([&] {
      const testing::FullDisk disk(before.size() + room);
      file.Add(TrainAt(2));
    });
    EXPECT_TRUE(Contains(complaint, "cannot write the metrics \"" + Path() + "\""));
    EXPECT_EQ(Read(Path()), before);
  }
  file.Add(TrainAt(3));
  EXPECT_EQ(ReadMetrics(Path()).train.size(), 2u);
}

TEST_F(MetricsTest, TheBestIsOfTheFigureThatMattersMost) {
  History history;
  EXPECT_FALSE(BestOf(history));
  for (const double loss : {3.0, 2.0, 2.5, 2.0}) {
    history.evals.push_back(EvalAt(static_cast<int64_t>(history.evals.size()), loss));
  }
  EXPECT_EQ(BestOf(history)->figure, "loss");
  EXPECT_EQ(BestOf(history)->value, 2.0);
  EXPECT_EQ(BestOf(history)->step, 1);
  history.evals[2].perplexity = 12;
  history.evals[3].perplexity = 13;
  EXPECT_EQ(BestOf(history)->figure, "perplexity");
  EXPECT_EQ(BestOf(history)->step, 2);
  history.evals[0].accuracy = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(BestOf(history)->figure, "perplexity");
  history.evals[1].accuracy = 0.5;
  history.evals[3].accuracy = 0.75;
  EXPECT_EQ(BestOf(history)->figure, "accuracy");
  EXPECT_EQ(BestOf(history)->value, 0.75);
  EXPECT_EQ(BestOf(history)->step, 3);
}

TEST_F(MetricsTest, TheBestIsOfTheValidationIfThereIsOne) {
  History history;
  for (const char* split : {"test", "other", "test"}) {
    EvalMetrics eval = EvalAt(1, *split == 't' ? 4 : 1);
    eval.split = split;
    history.evals.push_back(eval);
  }
  EXPECT_EQ(BestOf(history)->split, "test");
  EXPECT_EQ(BestOf(history)->value, 4);
  history.evals.push_back(EvalAt(2, 9));
  EXPECT_EQ(BestOf(history)->split, "valid");
  EXPECT_EQ(BestOf(history)->value, 9);
}

}  // namespace
}  // namespace cosformer
