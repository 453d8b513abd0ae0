#include "reproduce/results.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "contains.h"
#include "folder.h"

namespace cosformer::reproduce {
namespace {

using testing::Contains;
using testing::MessageOf;

class ResultsTest : public testing::FolderTest {
 protected:
  static Result Sample(const std::string& cell, const std::string& fingerprint) {
    Result result;
    result.cell = cell;
    result.key = {{"system", "cosformer"}, {"seed", 1}};
    result.fingerprint = fingerprint;
    result.values = {{"accuracy", 0.625}, {"text", "a \"b\"\n\xff"}};
    result.seconds = 1.5;
    result.peak_bytes = int64_t{1} << 40;
    result.share_seconds = 60;
    result.directory = "cells/one";
    result.version = "0.1.0";
    result.machine = "a machine";
    result.started = "2026-01-31T11:00:00Z";
    result.finished = "2026-01-31T12:00:00Z";
    return result;
  }
};

TEST_F(ResultsTest, WhatIsAddedIsReadBack) {
  {
    Results results(Path("results.jsonl"));
    EXPECT_TRUE(results.all().empty());
    results.Add(Sample("one", "aa"));
    Result failed = Sample("two", "bb");
    failed.state = State::kFailed;
    failed.reason = "out of memory";
    results.Add(failed);
    failed.state = State::kRefused;
    failed.cell = "three";
    results.Add(failed);
  }
  const Results results(Path("results.jsonl"));
  EXPECT_EQ(results.Remark(), "");
  ASSERT_EQ(results.all().size(), 3u);
  const Result& one = results.all()[0];
  EXPECT_EQ(one.values["accuracy"], 0.625);
  EXPECT_EQ(one.key["seed"], 1);
  EXPECT_EQ(one.peak_bytes, int64_t{1} << 40);
  EXPECT_EQ(one.seconds, 1.5);
  EXPECT_EQ(one.share_seconds, 60);
  EXPECT_EQ(one.directory, "cells/one");
  EXPECT_EQ(one.machine, "a machine");
  EXPECT_EQ(one.started, "2026-01-31T11:00:00Z");
  EXPECT_EQ(one.finished, "2026-01-31T12:00:00Z");
  EXPECT_EQ(results.all()[1].state, State::kFailed);
  EXPECT_EQ(results.all()[1].reason, "out of memory");
  EXPECT_EQ(results.all()[2].state, State::kRefused);
}

TEST_F(ResultsTest, ALineWithoutItsStartHasTheOneThatItsSecondsGive) {
  Write("results.jsonl",
        R"({"cell":"one","key":{},"state":"done","reason":"","values":{},"seconds":90.5,)"
        R"("peak_bytes":1,"share_seconds":0,"directory":"d","fingerprint":"0","version":"0",)"
        R"("machine":"m","finished":"2026-03-01T00:01:00Z"})"
        "\n");
  EXPECT_EQ(Results(Path("results.jsonl")).all().at(0).started, "2026-02-28T23:59:30Z");
}

TEST_F(ResultsTest, TheLatestOfTheSameSettingsCounts) {
  Results results(Path("results.jsonl"));
  results.Add(Sample("one", "aa"));
  results.Add(Sample("one", "bb"));
  Result again = Sample("one", "aa");
  again.seconds = 9;
  results.Add(again);
  EXPECT_EQ(results.Find("one", "aa")->seconds, 9);
  EXPECT_EQ(results.Find("one", "bb")->seconds, 1.5);
  EXPECT_EQ(results.Find("one", "cc"), nullptr);
  EXPECT_EQ(results.Latest("one")->seconds, 9);
  EXPECT_EQ(results.Latest("two"), nullptr);
}

TEST_F(ResultsTest, ALastLineThatWasCutAnywhereIsLeftOutAndReplaced) {
  {
    Results results(Path("whole"));
    results.Add(Sample("one", "aa"));
    results.Add(Sample("two", "bb"));
  }
  const std::string text = Read(Path("whole"));
  const size_t first = text.find('\n') + 1;
  for (size_t size = first; size < text.size(); ++size) {
    Write("cut", text.substr(0, size));
    Results results(Path("cut"));
    ASSERT_EQ(results.all().size(), 1u) << size;
    EXPECT_EQ(results.Remark().empty(), size == first) << size;
    results.Add(Sample("three", "cc"));
    const Results again(Path("cut"));
    ASSERT_EQ(again.all().size(), 2u) << size;
    EXPECT_EQ(again.all()[1].cell, "three");
  }
}

TEST_F(ResultsTest, AnotherLineThatIsWrongIsNamed) {
  for (const char* line : {"{", "[]", "{}", R"({"cell":"x"})", "",
                           R"({"cell":"one","key":{},"state":"odd","reason":"","values":{},)"
                           R"("fingerprint":"a"})"}) {
    Results(Path("fine")).Add(Sample("one", "aa"));
    Write("bad", Read(Path("fine")) + line + "\n");
    const std::string message = MessageOf([&] { Results results(Path("bad")); });
    EXPECT_TRUE(Contains(message, "line ")) << line;
    EXPECT_TRUE(Contains(message, "bad\"")) << line;
    std::filesystem::remove(Path("fine"));
  }
}

TEST_F(ResultsTest, AFileThatCannotBeWrittenIsNamed) {
  Results results(Path("nothing/results.jsonl"));
  EXPECT_TRUE(Contains(MessageOf([&] { results.Add(Sample("one", "aa")); }), "cannot write"));
}

}  // namespace
}  // namespace cosformer::reproduce
