// Training as a user meets it: small sets of every task's data, models that take a second, and
// processes that can be stopped at any moment.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "command.h"

namespace cosformer::testing {

// One layer of width 16, on one thread.
inline constexpr const char* kTiny =
    " --layers 1 --width 16 --heads 2 --length 16 --batch-tokens 128 --threads 1 --cache cache ";

class TrainingTest : public CommandTest {
 protected:
  void Put(const std::string& name, const std::string& contents) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << contents;
  }

  static std::string Words(int count, std::mt19937& random) {
    constexpr const char* kWords[] = {"the", "sea",  "was",  "grey", "and", "old",
                                      "man", "went", "down", "to",   "it",  "harbour"};
    std::string text;
    for (int word = 0; word < count; ++word) {
      if (word > 0) text += ' ';
      text += kWords[random() % 12];
    }
    return text;
  }

  static std::string Lines(int count, uint32_t seed = 1) {
    std::mt19937 random(seed);
    std::string text;
    for (int line = 0; line < count; ++line) text += Words(7, random) + ".\n";
    return text;
  }

  // Examples whose class is the word that they begin with.
  static std::string Rows(int count, uint32_t seed = 1) {
    std::mt19937 random(seed);
    std::string text = "sentence\tlabel\n";
    for (int row = 0; row < count; ++row) {
      const bool good = random() % 3 != 0;
      text += (good ? "good " : "bad ") + Words(1 + static_cast<int>(random() % 5), random) +
              (good ? "\tyes\n" : "\tno\n");
    }
    return text;
  }

  // text/, table/, pairs/, images/, paths/, papers/, lists/: a set for each kind of task.
  void PutText() const {
    Put("text/train.txt", Lines(300));
    Put("text/valid.txt", Lines(30, 2));
    Put("text/test.txt", Lines(30, 3));
  }
  void PutTable() const {
    Put("table/train.tsv", Rows(200));
    Put("table/dev.tsv", Rows(40, 2));
    Put("table/test.tsv", Rows(40, 3));
  }
  void PutPairs() const {
    std::mt19937 random(1);
    std::string text;
    for (int row = 0; row < 60; ++row) {
      const std::string source = Words(2, random);
      text += source + "\t" + std::string(source.rbegin(), source.rend()) + "\n";
    }
    Put("pairs/train.tsv", text);
  }
  void PutPapers() const {
    std::mt19937 random(1);
    for (const char* split : {"train", "eval", "test"}) {
      std::string text;
      for (int row = 0; row < 12; ++row) {
        text += std::to_string(row % 2) + "\ta\tb\t" + Words(4, random) + "\t" + Words(4, random) +
                "\n";
      }
      Put(std::string("papers/new_aan_pairs.") + split + ".tsv", text);
    }
  }
  void PutImages() const {
    Put("images/data_batch_1.bin", Images(24, 10));
    for (int batch = 2; batch <= 5; ++batch) {
      Put("images/data_batch_" + std::to_string(batch) + ".bin", Images(2, 10));
    }
    Put("images/test_batch.bin", Images(4, 10));
    for (const char* split : {"train", "valid", "test"}) {
      Put(std::string("paths/") + split + ".bin", Images(6, 2));
    }
  }
  void PutLists() const {
    const Outcome made =
        Run("data generate listops --out lists --train 40 --valid 10 --test 10 --least-length 5 "
            "--most-length 30 --threads 1");
    EXPECT_EQ(made.code, 0) << made.err;
  }

  Outcome Train(const std::string& arguments) const { return Run("train" + (kTiny + arguments)); }
  Outcome Eval(const std::string& arguments) const {
    return Run("eval --threads 1 --cache cache " + arguments);
  }
  static void ExpectDone(const Outcome& outcome) { EXPECT_EQ(outcome.code, 0) << outcome.err; }
  // With lines about the run before the sentence, which is the last.
  static void ExpectSentence(const Outcome& outcome, const std::string& mentions) {
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(Contains(outcome.err, mentions));
    const size_t line = outcome.err.rfind('\n', outcome.err.size() - 2);
    EXPECT_EQ(outcome.err.find("cosformer: "), line == std::string::npos ? 0 : line + 1)
        << outcome.err;
  }

  // The lines of a run's metrics.
  std::vector<nlohmann::json> Metrics(const std::string& run, const std::string& kind) const {
    std::ifstream file(folder_ / run / "metrics.jsonl");
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object["kind"] == kind) lines.push_back(object);
    }
    return lines;
  }
  int64_t Steps(const std::string& run) const {
    return static_cast<int64_t>(Metrics(run, "train").size());
  }
  std::string Model(const std::string& run) const {
    return ReadFile(folder_ / run / "model/model.safetensors");
  }
  nlohmann::json Config(const std::string& run) const {
    return nlohmann::json::parse(ReadFile(folder_ / run / "model/config.json"));
  }
  std::vector<std::string> CheckpointsOf(const std::string& run) const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_ / run / "checkpoints", none)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-") && name.ends_with(".safetensors")) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Starts the command without a shell, so that signals reach it; its output goes to .stdout and
  // .stderr as Run's does.
  pid_t Start(const std::vector<std::string>& words) const {
    const pid_t child = fork();
    if (child != 0) return child;
    if (chdir(folder_.c_str()) != 0) _exit(126);
    const auto redirect = [](const char* file, int descriptor) {
      dup2(open(file, O_WRONLY | O_CREAT | O_TRUNC, 0666), descriptor);
    };
    redirect(".stdout", 1);
    redirect(".stderr", 2);
    std::vector<char*> pointers = {const_cast<char*>("cosformer")};
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    execv(COSFORMER_COMMAND, pointers.data());
    _exit(127);
  }
  static std::vector<std::string> SplitWords(const std::string& text) {
    std::vector<std::string> words;
    std::string word;
    for (const char c : text + " ") {
      if (c != ' ') {
        word += c;
      } else if (!word.empty()) {
        words.push_back(std::exchange(word, ""));
      }
    }
    return words;
  }

 private:
  // Records of a label and 32 x 32 grey pixels.
  static std::string Images(int count, int classes) {
    std::mt19937 random(1);
    std::string bytes;
    for (int image = 0; image < count; ++image) {
      bytes += static_cast<char>(image % classes);
      for (int pixel = 0; pixel < 1024; ++pixel) bytes += static_cast<char>(random() % 256);
    }
    return bytes;
  }
};

}  // namespace cosformer::testing
