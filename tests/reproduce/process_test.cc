#include "reproduce/process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "contains.h"
#include "folder.h"

namespace cosformer::reproduce {
namespace {

using testing::Contains;
using testing::MessageOf;

class ProcessTest : public testing::FolderTest {
 protected:
  Process Stub(std::vector<std::string> words) const {
    return {COSFORMER_STUB, std::move(words), Path("log.txt")};
  }
};

TEST_F(ProcessTest, ItsExitIsReportedAndItsOutputLogged) {
  const Interrupt interrupt;
  EXPECT_EQ(RunProcess(Stub({"write", Path("a"), "text"}), interrupt, nullptr).code, 0);
  EXPECT_EQ(Read(Path("a")), "text");
  const Ending ending = RunProcess(Stub({"fail", "a sentence", "7"}), interrupt, nullptr);
  EXPECT_EQ(ending.code, 7);
  EXPECT_EQ(ending.signal, 0);
  EXPECT_EQ(ending.interrupted, 0);
  EXPECT_GT(ending.peak_bytes, 0);
  EXPECT_EQ(Read(Path("log.txt")), "working\ncosformer: a sentence\n");
}

TEST_F(ProcessTest, ASignalThatEndsItIsReported) {
  const Ending ending = RunProcess(Stub({"crash"}), Interrupt(), nullptr);
  EXPECT_EQ(ending.signal, SIGSEGV);
  EXPECT_FALSE(ending.out_of_memory);
}

TEST_F(ProcessTest, AProgramThatIsNotThereEndsAsInAShell) {
  Process process = Stub({});
  process.program = Path("nothing");
  EXPECT_EQ(RunProcess(process, Interrupt(), nullptr).code, 127);
  EXPECT_TRUE(Contains(Read(process.log), "cosformer: the program cannot be started"));
}

TEST_F(ProcessTest, ALogThatCannotBeWrittenIsAnError) {
  Process process = Stub({"crash"});
  process.log = Path("nowhere/log.txt");
  EXPECT_TRUE(Contains(MessageOf([&] { RunProcess(process, Interrupt(), nullptr); }), "log.txt"));
}

TEST_F(ProcessTest, MoreMemoryThanAllowedEndsIt) {
  Process process = Stub({"swallow", "400"});
  process.memory = int64_t{100} << 20;
  const Ending ending = RunProcess(process, Interrupt(), nullptr);
  EXPECT_TRUE(ending.out_of_memory);
  EXPECT_EQ(ending.signal, SIGKILL);
}

TEST_F(ProcessTest, LessMemoryThanAllowedDoesNot) {
  Process process = Stub({"write", Path("a"), "text"});
  process.memory = int64_t{8} << 30;
  const Ending ending = RunProcess(process, Interrupt(), nullptr);
  EXPECT_FALSE(ending.out_of_memory);
  EXPECT_EQ(ending.code, 0);
}

TEST_F(ProcessTest, ItIsAskedToEndWhenItsTimeIsOver) {
  Process process = Stub({"wait", Path("waiting")});
  process.seconds = 0.2;
  const Ending ending = RunProcess(process, Interrupt(), nullptr);
  EXPECT_TRUE(ending.out_of_time);
  EXPECT_EQ(ending.interrupted, 0);
  EXPECT_EQ(Read(Path("waiting")), std::to_string(SIGTERM));
}

TEST_F(ProcessTest, SignalsArePassedOnOnceAndTheChildIsWaitedFor) {
  for (const int number : {SIGTERM, SIGINT}) {
    std::filesystem::remove(Path("waiting"));
    const Interrupt interrupt;
    bool sent = false;
    const Ending ending = RunProcess(Stub({"wait", Path("waiting")}), interrupt, [&] {
      if (sent || !std::filesystem::exists(Path("waiting"))) return;
      sent = true;
      raise(number);
    });
    EXPECT_EQ(ending.interrupted, number);
    EXPECT_EQ(ending.code, 128 + number);
    EXPECT_EQ(Read(Path("waiting")), std::to_string(number));
  }
}

}  // namespace
}  // namespace cosformer::reproduce
