// The command as a user meets it: run as a process, judged by its exit, its output and its files.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "contains.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ReadFile;

// Small and short: what is tried here is the command, not the speed.
constexpr const char* kQuick =
    " --lengths 64 --seconds 0.001 --heads 2 --dim 8 --threads 1 --passes forward";

class CliTest : public testing::CommandTest {};

TEST_F(CliTest, VersionAndHelpGoToStandardOutput) {
  EXPECT_EQ(Run("--version").out, "cosformer " COSFORMER_VERSION "\n");
  for (const char* command : {"--help", "bench --help", "bench attention --help", "plot --help"}) {
    const Outcome outcome = Run(command);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_TRUE(Contains(outcome.out, "Usage:"));
  }
  // With its default, as =16384 or [16384] by the version of CLI11.
  const std::string help = Run("bench attention --help").out;
  const size_t option = help.find("--max-softmax-length INT");
  ASSERT_NE(option, std::string::npos);
  EXPECT_TRUE(Contains(help.substr(option, help.find('\n', option) - option), "16384"));
}

TEST_F(CliTest, JsonOnStandardOutputIsAloneThere) {
  const Outcome outcome = Run(
      "bench attention --json - --lengths 64,33 --seconds 0.001 --heads 4 --kv-heads 2 --dim 16 "
      "--mode both --systems cosformer,linear,softmax");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.err, "FMA peak"));
  const auto json = nlohmann::json::parse(outcome.out);
  for (const char* key :
       {"fma_peak_gflops_1", "fma_peak_gflops_all", "read_gbps_1", "read_gbps_all"}) {
    EXPECT_GT(json["machine"][key].get<double>(), 0) << key;
  }
  ASSERT_FALSE(json["rows"].empty());
  for (const auto& row : json["rows"]) {
    for (const char* key :
         {"system", "pass", "causal", "length", "batch", "heads", "dim", "threads", "seconds",
          "tokens_per_second", "peak_share", "extra_bytes", "ratio_to_softmax"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
    EXPECT_EQ(row["kv_heads"], 2);
    EXPECT_GT(row["seconds"].get<double>(), 0);
  }
}

TEST_F(CliTest, BenchGenerateHasARowForEverythingThatItTimes) {
  const std::string small =
      "bench generate --layers 1 --width 32 --heads 2 --vocabulary 64 --weights float32,int4 "
      "--seconds 0.001 --threads 1 --json - ";
  const Outcome outcome =
      Run(small + "--prompts 5,9000 --contexts 0,3000 --batches 1,3 --attention softmax");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json["limits"].size(), 2u);
  for (const auto& limits : json["limits"]) {
    EXPECT_GT(limits["read_gbps"].get<double>(), 0);
    EXPECT_GT(limits["fma_gflops"].get<double>(), 0);
  }
  std::vector<std::string> rows;
  for (const auto& row : json["rows"]) {
    rows.push_back(row["weights"].get<std::string>() + " " + row["phase"].get<std::string>() + " " +
                   row["context"].dump() + " " + row["batch"].dump());
    EXPECT_GT(row["tokens_per_second"].get<double>(), 0) << rows.back();
    if (row["phase"] == "start") continue;
    EXPECT_GT(row["limit_share"].get<double>(), 0) << rows.back();
    // A softmax layer keeps a key and a value for every token: those before, and those since.
    const int64_t context = row["context"].get<int64_t>();
    const int64_t kept = row["state_bytes"].get<int64_t>() / (2 * 32 * 4);
    EXPECT_GE(kept, context) << rows.back();
    if (row["phase"] == "prefill") {
      EXPECT_LT(kept, 2 * context + 64) << rows.back();
    }
    if (!row["peak_bytes"].is_null()) {
      EXPECT_GT(row["peak_bytes"], row["state_bytes"]) << rows.back();
    }
  }
  const std::vector<std::string> expected = {
      "float32 prefill 5 1", "float32 prefill 9000 1", "int4 prefill 5 1", "int4 prefill 9000 1",
      "float32 decode 0 1",  "float32 decode 3000 1",  "int4 decode 0 1",  "int4 decode 3000 1",
      "float32 batch 16 1",  "float32 batch 16 3",     "int4 batch 16 1",  "int4 batch 16 3",
      "float32 start 0 1",   "int4 start 0 1"};
  EXPECT_EQ(rows, expected);
  const Outcome gated =
      Run(small + "--prompts 5 --contexts 40 --batches 3 --attention cosformer-gate");
  EXPECT_EQ(gated.code, 0) << gated.err;
  // The models that training makes by default.
  const auto positions = nlohmann::json::parse(gated.out)["model"]["positions"];
  EXPECT_EQ(positions.is_object() ? positions["kind"] : positions, "none");
  const auto plain = [&](const std::string& options) {
    const Outcome done = Run(small + "--prompts 5 --phases prefill " + options);
    EXPECT_EQ(done.code, 0) << done.err;
    auto model = nlohmann::json::parse(done.out)["model"];
    if (model["positions"].is_object()) model["positions"] = model["positions"]["kind"];
    return model;
  };
  EXPECT_EQ(plain("")["positions"], "rotary");
  EXPECT_EQ(plain("")["bias"], true);
  EXPECT_EQ(plain("--positions none --bias false")["positions"], "none");
  ExpectRefusal(small + "--positions spe-sine", "it takes none, learned, sinusoidal, rotary");
  ExpectRefusal(small + "--prompts 0", "--prompts has 0; give 1 or more");
  ExpectRefusal(small + "--attention performer", "performer");
}

TEST_F(CliTest, TableJsonFileAndPlotAreWritten) {
  const Outcome outcome = Run(std::string("bench attention --json r.json --plot r.svg") + kQuick);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(Contains(outcome.out, "Causal, 1 thread"));
  EXPECT_EQ(nlohmann::json::parse(ReadFile(folder_ / "r.json"))["rows"].size(), 2u);
  EXPECT_TRUE(Contains(ReadFile(folder_ / "r.svg"), "</svg>"));
}

TEST_F(CliTest, ListsTakeCommasAndSpaces) {
  for (const char* lengths : {"--lengths 8,16", "--lengths 8 16"}) {
    const Outcome outcome = Run(std::string("bench attention --json -") + kQuick + " " + lengths);
    // The option was given twice, so the three lengths add up.
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["rows"].size(), 6u);
  }
}

TEST_F(CliTest, BFloat16IsMeasuredToo) {
  const Outcome outcome = Run(std::string("bench attention --json - --dtype bfloat16") + kQuick);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["rows"][0]["dtype"], "bfloat16");
}

TEST_F(CliTest, ACommandThatIsNotUnderstoodGetsASentence) {
  ExpectRefusal("", "subcommand");
  ExpectRefusal("bench", "subcommand");
  ExpectRefusal("fly", "fly");
  ExpectRefusal("bench attention --lenghts 64", "--lenghts");
  ExpectRefusal("bench attention 64", "64");
  ExpectRefusal("bench attention --lengths", "--lengths");
  ExpectRefusal("bench attention --lengths many", "many");
  ExpectRefusal("bench attention --heads 99999999999999999999", "--heads");
}

TEST_F(CliTest, ImpossibleValuesGetASentence) {
  ExpectRefusal("bench attention --lengths 0", "--lengths is 0");
  ExpectRefusal("bench attention --lengths=-5", "--lengths is -5");
  ExpectRefusal("bench attention --dim 0", "--dim is 0");
  ExpectRefusal("bench attention --value-dim 0", "--value-dim is 0");
  ExpectRefusal("bench attention --batch 0", "--batch is 0");
  ExpectRefusal("bench attention --kv-heads 0", "--kv-heads is 0");
  ExpectRefusal("bench attention --heads 8 --kv-heads 3", "--kv-heads 3");
  ExpectRefusal("bench attention --threads 0", "--threads is 0");
  ExpectRefusal("bench attention --seconds nan", "--seconds");
  ExpectRefusal("bench attention --lengths 1000000000", "memory");
  ExpectRefusal("bench attention --mode sideways", "causal");
  ExpectRefusal("bench attention --systems performer", "softmax");
  ExpectRefusal("bench attention --passes backward", "forward_backward");
  ExpectRefusal("bench attention --dtype int8", "bfloat16");
  ExpectRefusal("bench attention --mode bidirectional --passes step", "step");
}

TEST_F(CliTest, APlaceThatCanNotBeWrittenIsFoundBeforeMeasuring) {
  // With these lengths, measuring first would take minutes and not a moment.
  const std::string slow = "bench attention --seconds 1000 ";
  ExpectRefusal(slow + "--json missing/r.json", "missing/r.json");
  ExpectRefusal(slow + "--plot missing/r.svg", "missing/r.svg");
  ExpectRefusal(slow + "--plot .", "directory");
  ExpectRefusal(slow + "--plot -", "--plot");
  ExpectRefusal(slow + "--json same --plot same", "same");
}

TEST_F(CliTest, OutputThatCanNotBeWrittenIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const std::string command = "'" COSFORMER_COMMAND "' bench attention --json -" +
                              std::string(kQuick) + " >/dev/full 2>/dev/null";
  EXPECT_NE(std::system(command.c_str()), 0);
}

TEST_F(CliTest, WithoutTheProgramThatHasLibtorchItSaysHowToGetIt) {
  // The command alone, as it may be deployed.
  fs::copy_file(COSFORMER_COMMAND, folder_ / "alone");
  std::string command = "cd '";
  command.append(folder_.string()).append("' && ./alone bench model 2>err");
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(Contains(ReadFile(folder_ / "err"), "COSFORMER_TORCH=ON"));
}

#ifdef COSFORMER_HAS_TORCH
constexpr const char* kTinyModel =
    "bench model --layers 1 --width 16 --heads 2 --vocabulary 20 --lengths 8 --tokens 16 --seconds "
    "0.001 ";

TEST_F(CliTest, WholeModelsAreTimedByTheSameCommand) {
  const Outcome outcome = Run(std::string(kTinyModel) + "--attention cosformer,softmax --json -");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["rows"].size(), 4u);
  EXPECT_TRUE(Contains(outcome.err, "tokens/s"));
  const Outcome help = Run("bench model --help");
  EXPECT_EQ(help.code, 0);
  for (const char* word : {"--attention", "cosformer", "sinkhorn", "Examples"}) {
    EXPECT_TRUE(Contains(help.out, word));
  }
}

TEST_F(CliTest, WhatFindsNoRoomIsASentenceWithTheBytesAndACode) {
  const std::string long_text =
      " && ulimit -v 4000000 && '" COSFORMER_COMMAND
      "' bench model --attention cosformer --width 256 --passes forward --threads 1 --lengths ";
  const Outcome none = Run("--version" + long_text + "100000000");
  EXPECT_EQ(none.code, 3);
  EXPECT_TRUE(Contains(none.err, "out of memory: there is no room for another 95.4 GiB"));
  const Outcome some =
      Run("--version" + long_text + "8,100000000 --tokens 8 --seconds 0.001 --json r.json");
  EXPECT_EQ(some.code, 0) << some.err;
  const auto json = nlohmann::json::parse(ReadFile(folder_ / "r.json"));
  ASSERT_EQ(json["rows"].size(), 1u);
  ASSERT_EQ(json["skipped"].size(), 1u);
  EXPECT_TRUE(
      Contains(json["skipped"][0]["reason"].get<std::string>(), "no room for another 95.4 GiB"));
}

TEST_F(CliTest, WhatBenchModelCannotDoIsOneSentence) {
  ExpectRefusal(std::string(kTinyModel) + "--attention bigbird",
                "does not do causal attention; these do: softmax");
  ExpectRefusal(std::string(kTinyModel) + "--attention cosfromer", "did you mean \"cosformer\"");
  ExpectRefusal("bench model --lengths 0", "--lengths is 0");
  ExpectRefusal("bench model --passes backward", "forward, train");
  ExpectRefusal("bench model --heads 7", "7");
  ExpectRefusal("bench model --atention softmax", "--atention");
  ExpectRefusal("bench model --json /nowhere/at/all.json", "/nowhere/at/all.json");
}
#endif

}  // namespace
}  // namespace cosformer
