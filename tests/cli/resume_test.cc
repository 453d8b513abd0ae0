// Runs that are stopped, at any moment and in any way, and go on: the same figures and the same
// model, to the bit, as without a stop.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "training.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::kTiny;
using testing::ReadFile;

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

class ResumeTest : public testing::TrainingTest {
 protected:
  // All that a run reports, but how long it took.
  std::string Timeless(const std::string& run) const {
    static const std::regex kTimes(",\"(seconds|tokens_per_second)\":[^,}]*");
    return std::regex_replace(ReadFile(folder_ / run / "metrics.jsonl"), kTimes, "");
  }

  // Lets the process run until it has reported so many lines more, then for another moment; now and
  // then for a second at most, most likely while it starts. False if it ended by itself.
  bool WaitForAMoment(pid_t child, const std::string& run, std::mt19937& random,
                      int& status) const {
    const auto chance = [&] { return static_cast<double>(random()) / 4294967296.0; };
    const auto ended = [&] { return waitpid(child, &status, WNOHANG) == child; };
    const auto size = [&] {
      std::error_code none;
      const auto bytes = fs::file_size(folder_ / run / "metrics.jsonl", none);
      return none ? uintmax_t{0} : bytes;
    };
    using Clock = std::chrono::steady_clock;
    const std::chrono::duration<double> most(random() % 5 == 0 ? chance() : 1000.0);
    const auto begin = Clock::now();
    // A line has some 150 bytes. What was past the checkpoint is dropped at the start.
    const uintmax_t enough = 150 * (1 + random() % 40);
    for (uintmax_t least = size(); size() < least + enough && Clock::now() - begin < most;) {
      least = std::min(least, size());
      if (ended()) return false;
      Sleep(0.0005);
    }
    Sleep(0.008 * chance());
    return !ended();
  }

  // Signals that stop a run at a step leave a checkpoint of that step and a way to go on.
  void ExpectOrderlyStop(int signal, int status, const std::string& run) const {
    if (WIFSIGNALED(status)) {
      // While it still reads and prepares, there is nothing to save.
      EXPECT_EQ(WTERMSIG(status), signal);
      return;
    }
    if (WEXITSTATUS(status) == 0) return;  // in the last step
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal) << ReadFile(folder_ / ".stderr");
    EXPECT_TRUE(Contains(ReadFile(folder_ / ".stdout"), "cosformer train --resume " + run));
    const auto steps = Metrics(run, "train");
    ASSERT_FALSE(steps.empty());
    char name[64];
    std::snprintf(name, sizeof name, "step-%08d.safetensors", steps.back()["step"].get<int>());
    ASSERT_FALSE(CheckpointsOf(run).empty());
    EXPECT_EQ(CheckpointsOf(run).back(), name);
  }

  void ExpectTheSameHoweverOftenItIsStopped(const std::string& options, uint32_t seed) {
    const std::string arguments = "train" + (kTiny + options) +
                                  " --dropout 0.2 --accumulate 2 --steps 150 --eval-every 7"
                                  " --save-every 5 --lr 0.01 --out ";
    ExpectDone(Run(arguments + "whole"));
    std::mt19937 random(seed);
    int stops = 0, status = 0;
    for (;; ++stops) {
      ASSERT_LT(stops, 100) << "it gets nowhere";
      const pid_t child =
          Start(CheckpointsOf("pieces").empty() ? SplitWords(arguments + "pieces")
                                                : SplitWords("train --resume pieces"));
      if (!WaitForAMoment(child, "pieces", random, status)) break;
      const int signal = std::vector{SIGKILL, SIGTERM, SIGINT}[random() % 3];
      kill(child, signal);
      waitpid(child, &status, 0);
      if (signal != SIGKILL) ExpectOrderlyStop(signal, status, "pieces");
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    }
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << ReadFile(folder_ / ".stderr");
    EXPECT_GE(stops, 3);
    EXPECT_EQ(Timeless("pieces"), Timeless("whole"));
    EXPECT_EQ(Steps("pieces"), 150);
    EXPECT_TRUE(Model("pieces") == Model("whole"));
    // One that was stopped just before the end has that step's where the other has one of its own.
    const auto pieces = CheckpointsOf("pieces"), whole = CheckpointsOf("whole");
    ASSERT_EQ(pieces.size(), whole.size());
    EXPECT_EQ(pieces.back(), whole.back());
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "pieces")) {
      if (std::find(pieces.begin(), pieces.end(), entry.path().filename()) != pieces.end())
        continue;
      EXPECT_TRUE(fs::exists(folder_ / "whole" / fs::relative(entry, folder_ / "pieces")))
          << "left behind: " << entry.path();
    }
  }
};

TEST_F(ResumeTest, ALanguageModelIsTheSameHoweverOftenItIsStopped) {
  PutText();
  ExpectTheSameHoweverOftenItIsStopped("--task lm --data text --tokenizer bytes", 1);
}

TEST_F(ResumeTest, PackedExamplesAreTheSameHoweverOftenTheyAreStopped) {
  PutTable();
  ExpectTheSameHoweverOftenItIsStopped("--task classify --data table --tokenizer words", 2);
}

TEST_F(ResumeTest, MasksAndRandomFeaturesAreTheSameHoweverOftenTheyAreStopped) {
  PutText();
  ExpectTheSameHoweverOftenItIsStopped(
      "--task mlm --data text --tokenizer words --attention performer", 3);
}

TEST_F(ResumeTest, AFinishedRunStaysAsItIs) {
  PutText();
  ExpectDone(Train("--task lm --data text --tokenizer bytes --steps 6 --out run"));
  const std::string metrics = ReadFile(folder_ / "run/metrics.jsonl");
  const std::string model = Model("run");
  const Outcome again = Run("train --resume run");
  ExpectDone(again);
  EXPECT_TRUE(Contains(again.out, "Done: 6 steps."));
  EXPECT_EQ(Timeless("run"),
            std::regex_replace(metrics, std::regex(",\"(seconds|tokens_per_second)\":[^,}]*"), ""));
  EXPECT_TRUE(Model("run") == model);
  // More steps than it had are a longer run.
  ExpectDone(Run("train --resume run --steps 9"));
  EXPECT_EQ(Steps("run"), 9);
}

TEST_F(ResumeTest, ARunThatBeganWithAnotherModelGoesOn) {
  PutText();
  const std::string options = "--task lm --data text --cache cache --threads 1 ";
  ExpectDone(
      Train("--task lm --data text --tokenizer bytes --attention softmax --positions rotary "
            "--steps 2 --out base"));
  ExpectDone(
      Run("train " + options + "--length 16 --batch-tokens 128 --from base --steps 4 --out tuned"));
  EXPECT_EQ(Config("tuned"), Config("base"));
  ExpectDone(Run("train --resume tuned --steps 6"));
  EXPECT_EQ(Steps("tuned"), 6);
  ExpectDone(Run("train " + options +
                 "--tokenizer bytes --length 16 --batch-tokens 128 --config base/model/config.json "
                 "--steps 4 --out shaped"));
  EXPECT_EQ(Config("shaped"), Config("base"));
  ExpectDone(Run("train --resume shaped --steps 5"));
  EXPECT_EQ(Steps("shaped"), 5);
}

TEST_F(ResumeTest, WhatDoesNotFitTheRunIsASentence) {
  PutText();
  const std::string run = "--task lm --data text --tokenizer bytes --steps 4 --out run";
  ExpectDone(Train(run));
  const std::string metrics = ReadFile(folder_ / "run/metrics.jsonl");
  ExpectSentence(Train(run),
                 "\"run\" holds a run already; go on with it: cosformer train --resume");
  ExpectSentence(Run("train --resume run --layers 2"),
                 "is a checkpoint of another model: layers is 1 there and 2 here");
  ExpectSentence(Run("train --resume nothing"), "\"nothing\" is no run");
  ExpectSentence(Run("train --resume run --out elsewhere"), "leave --out out");
  const std::string recipe = ReadFile(folder_ / "run/recipe.toml");
  ExpectSentence(Run("train --resume run --lr 0.5"),
                 "\"run\" is finished, at step 4: --lr would change nothing; with --steps above 4 "
                 "it goes on");
  ExpectSentence(Run("train --resume run --steps 2"), "--steps is 2, but \"run\" has done 4 steps");
  ExpectSentence(Run("train --resume run --steps 8 --seed 2"),
                 "--seed is 2, but the run began with 1");
  EXPECT_EQ(ReadFile(folder_ / "run/recipe.toml"), recipe);
  fs::create_directories(folder_ / "young");
  fs::copy(folder_ / "run/recipe.toml", folder_ / "young/recipe.toml");
  ExpectSentence(Run("train --resume young"), "\"young\" has no checkpoint to go on from");
  fs::create_directories(folder_ / "young/model");
  fs::copy(folder_ / "run/model/config.json", folder_ / "young/model/config.json");
  ExpectSentence(Run("generate young --prompt a"), "\"young\" has no model yet");
  ExpectSentence(Run("eval young"), "go on with cosformer train --resume young");
  Put("text/train.txt", Lines(301));
  ExpectSentence(Run("train --resume run"), "was trained on other data than these");
  EXPECT_EQ(ReadFile(folder_ / "run/metrics.jsonl"), metrics);
}

TEST_F(ResumeTest, WhatChangesIsSaidAndDone) {
  PutText();
  ExpectDone(
      Train("--task lm --data text --tokenizer bytes --steps 4 --schedule constant --warmup "
            "0 --lr 0.01 --out run"));
  const Outcome longer = Run("train --resume run --steps 6 --lr 0.5");
  ExpectDone(longer);
  EXPECT_TRUE(Contains(longer.err, "changed: --lr is 0.5, and was 0.01\n"));
  EXPECT_EQ(Metrics("run", "train")[5]["learning_rate"], 0.5);
  EXPECT_TRUE(Contains(ReadFile(folder_ / "run/recipe.toml"), "lr = 0.5\n"));
  // What does not decide what the run becomes may change at its end too.
  ExpectDone(Run("train --resume run --test-tokens 64"));
  // One that has run out of patience is finished before its last step.
  ExpectDone(
      Train("--task lm --data text --tokenizer bytes --steps 100 --eval-every 2 --patience "
            "2 --lr 1e-30 --weight-decay 0 --out patient"));
  ExpectSentence(Run("train --resume patient --lr 1"),
                 "--lr would change nothing; with a larger --patience, or 0, it goes on");
}

TEST_F(ResumeTest, ADamagedCheckpointNamesTheOneBefore) {
  PutText();
  ExpectDone(
      Train("--task lm --data text --tokenizer bytes --steps 4 --save-every 2 --eval-every 4 "
            "--out run"));
  const fs::path last = folder_ / "run/checkpoints" / CheckpointsOf("run").back();
  fs::resize_file(last, fs::file_size(last) / 2);
  const Outcome cut = Run("train --resume run");
  ExpectSentence(cut, "is it cut off?");
  EXPECT_TRUE(Contains(cut.err, "remove it, and the run goes on from step 2"));
  fs::remove(last);
  const fs::path first = folder_ / "run/checkpoints" / CheckpointsOf("run").back();
  fs::resize_file(first, 100);
  ExpectSentence(Run("train --resume run"), "there is none before it: begin again");
}

TEST_F(ResumeTest, TwoProcessesDoNotTrainInOneDirectory) {
  PutText();
  const std::string options = "train" + (kTiny + std::string("--task lm --data text --tokenizer "
                                                             "bytes --steps 1000000 --out run"));
  const pid_t child = Start(SplitWords(options));
  int status = 0;
  while (!fs::exists(folder_ / "run/metrics.jsonl")) {
    ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << ReadFile(folder_ / ".stderr");
    Sleep(0.01);
  }
  // Not Run, which would write over the output of the other.
  const std::string second = "cd '" + folder_.string() + "' && '" COSFORMER_COMMAND "' " + options +
                             " >second.out 2>second.err";
  const int code = std::system(second.c_str());
  EXPECT_EQ(WEXITSTATUS(code), 1);
  EXPECT_TRUE(Contains(ReadFile(folder_ / "second.err"), "another process"));
  kill(child, SIGTERM);
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
}

TEST_F(ResumeTest, AFullDiskLeavesACheckpointToGoOnFrom) {
  PutText();
  const std::string run =
      "--task lm --data text --tokenizer bytes --dropout 0.2 --eval-every 100 --save-every 1 "
      "--out run";
  ExpectDone(Train(run + " --steps 10"));
  // The limit on the size of files stands for a full disk: the metrics grow until they reach it.
  const auto bytes = fs::file_size(folder_ / "run/checkpoints" / CheckpointsOf("run").back());
  const std::string limited = "cd '" + folder_.string() + "' && trap '' XFSZ; ulimit -f " +
                              std::to_string(bytes / 512 - 8) +
                              "; '" COSFORMER_COMMAND
                              "' train --resume run --steps 30 >.stdout 2>.stderr";
  const int status = std::system(limited.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(Contains(ReadFile(folder_ / ".stderr"), "cannot write"));
  EXPECT_TRUE(Contains(ReadFile(folder_ / ".stderr"), "checkpoints/step-00000011.safetensors"));
  EXPECT_EQ(CheckpointsOf("run").back(), "step-00000010.safetensors");
  ExpectDone(Run("train --resume run --steps 30"));
  EXPECT_EQ(Steps("run"), 30);
}

}  // namespace
}  // namespace cosformer
