// `cosformer train`: what a run leaves, and every task, system of positions, schedule and way to
// end it, with models that take a moment.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "training.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::kTiny;
using testing::ReadFile;

class TrainCommandTest : public testing::TrainingTest {};

TEST_F(TrainCommandTest, TheRecipeRecordsHowManyThreadsWereSettledOn) {
  PutText();
  ExpectDone(Train("--task lm --data text --tokenizer bytes --steps 2 --threads 0 --out run"));
  const std::string recipe = ReadFile(folder_ / "run/recipe.toml");
  EXPECT_TRUE(Contains(recipe, "\nthreads = ")) << recipe;
  EXPECT_FALSE(Contains(recipe, "\nthreads = 0\n")) << recipe;
}

TEST_F(TrainCommandTest, ARunLeavesAllThatWasUsed) {
  PutText();
  const Outcome outcome = Train(
      "--task lm --data text --tokenizer bytes --steps 120 --lr 0.02 --eval-every 40 --out run "
      "--json -");
  ExpectDone(outcome);
  for (const char* file :
       {"recipe.toml", "metrics.jsonl", "model/config.json", "model/model.safetensors",
        "model/checksums.json", "model/tokenizer.json", "model/task.json"}) {
    EXPECT_TRUE(fs::is_regular_file(folder_ / "run" / file)) << file;
  }
  EXPECT_EQ(CheckpointsOf("run"),
            (std::vector<std::string>{"step-00000080.safetensors", "step-00000120.safetensors"}));
  const auto steps = Metrics("run", "train");
  ASSERT_EQ(steps.size(), 120u);
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i]["step"], i + 1);
  EXPECT_GT(steps.front()["loss"].get<double>(), 5.3);  // of 260 tokens, log 260 = 5.56
  EXPECT_LT(steps.back()["loss"].get<double>(), 3.2);
  const auto evals = Metrics("run", "eval");
  ASSERT_EQ(evals.size(), 4u);
  EXPECT_EQ(evals[0]["step"], 40);
  EXPECT_EQ(evals[3]["split"], "test");

  const json summary = json::parse(outcome.out);
  EXPECT_EQ(summary["finished"], true);
  EXPECT_EQ(summary["step"], 120);
  EXPECT_EQ(summary["run"], "run");
  EXPECT_EQ(summary["best"]["step"], 120);
  EXPECT_EQ(summary["best"]["loss"], evals[2]["loss"]);
  EXPECT_EQ(summary["test"]["loss"], evals[3]["loss"]);
  EXPECT_EQ(summary["tokens"], steps.back()["tokens"]);
  EXPECT_TRUE(Contains(outcome.err, "Done: 120 steps."));
  // Its recipe gives the same run again.
  ExpectDone(Run("train --recipe run/recipe.toml --out again"));
  EXPECT_TRUE(Model("again") == Model("run"));
  EXPECT_TRUE(fs::exists(folder_ / "again/checkpoints/step-00000080.safetensors"));
}

TEST_F(TrainCommandTest, TheSeedDecides) {
  PutText();
  const std::string options = "--task lm --data text --tokenizer bytes --steps 3 --out ";
  ExpectDone(Train(options + "one"));
  ExpectDone(Train(options + "two"));
  ExpectDone(Train(options + "other --seed 2"));
  EXPECT_TRUE(Model("one") == Model("two"));
  EXPECT_FALSE(Model("one") == Model("other"));
}

TEST_F(TrainCommandTest, PositionsFollowFromTaskAndSystems) {
  PutText();
  PutTable();
  int runs = 0;
  const auto kind = [&](const std::string& options) {
    const std::string run = "run" + std::to_string(++runs);
    ExpectDone(
        Run("train --layers 2 --width 8 --heads 2 --length 16 --batch-tokens 64 --threads 1 "
            "--cache cache --tokenizer bytes --steps 1 --out " +
            run + " " + options));
    const json positions = Config(run).at("positions");
    return positions.is_object() ? positions.at("kind") : positions;
  };
  const std::string model = "--task lm --data text --attention ";
  EXPECT_EQ(kind(model + "cosformer"), "rotary");
  EXPECT_EQ(kind(model + "softmax,linear"), "rotary");
  EXPECT_EQ(kind(model + "cosformer-gate"), "none");
  EXPECT_EQ(kind(model + "softmax,linear-gate"), "rotary");
  EXPECT_EQ(kind(model + "softmax,synthesizer"), "learned");     // which has no queries to turn
  EXPECT_EQ(kind(model + "cosformer --head-dim 3"), "learned");  // rotary ones turn pairs
  EXPECT_EQ(kind(model + "cosformer --positions none"), "none");
  EXPECT_EQ(kind("--task classify --data table --attention cosformer"), "learned");
}

TEST_F(TrainCommandTest, ClassesAreLearned) {
  PutTable();
  const Outcome outcome = Train(
      "--task classify --data table --tokenizer words --epochs 8 --lr 0.02 --out run --json -");
  ExpectDone(outcome);
  const json summary = json::parse(outcome.out);
  EXPECT_GT(summary["best"]["accuracy"].get<double>(), 0.95);
  EXPECT_GT(summary["test"]["accuracy"].get<double>(), 0.95);
  EXPECT_EQ(json::parse(ReadFile(folder_ / "run/model/task.json"))["labels"], (json{"no", "yes"}));
  EXPECT_EQ(Config("run")["classes"], 2);
}

TEST_F(TrainCommandTest, EveryScheduleEndsWhereItShould) {
  PutText();
  for (const auto& [schedule, last] :
       {std::pair("constant", 0.01), std::pair("cosine", 0.002), std::pair("polynomial", 0.002)}) {
    SCOPED_TRACE(schedule);
    ExpectDone(Train(std::string("--task lm --data text --tokenizer bytes --steps 8 --warmup 2 "
                                 "--lr 0.01 --final-lr 0.2 --schedule ") +
                     schedule + " --out " + schedule));
    const auto steps = Metrics(schedule, "train");
    ASSERT_EQ(steps.size(), 8u);
    EXPECT_DOUBLE_EQ(steps[0]["learning_rate"].get<double>(), 0.005);
    EXPECT_DOUBLE_EQ(steps[1]["learning_rate"].get<double>(), 0.01);
    EXPECT_NEAR(steps[7]["learning_rate"].get<double>(), last, 1e-9);
  }
  ExpectDone(
      Train("--task lm --data text --tokenizer bytes --steps 8 --warmup 2 --lr 0.01 "
            "--schedule inverse-sqrt --out root"));
  EXPECT_DOUBLE_EQ(Metrics("root", "train")[7]["learning_rate"].get<double>(), 0.005);
}

TEST_F(TrainCommandTest, ItStopsWhenTimeOrPatienceIsOverOrTheEpochsAre) {
  PutText();
  const std::string options = "--task lm --data text --tokenizer bytes --out ";
  const Outcome patient = Train(
      options + "patient --steps 1000 --eval-every 2 --patience 2 --lr 1e-30 --weight-decay 0");
  ExpectDone(patient);
  EXPECT_TRUE(Contains(patient.out, "no better for 2 evaluations"));
  EXPECT_LT(Steps("patient"), 50);
  ExpectDone(Train(options + "timed --minutes 0.01"));
  EXPECT_GE(Steps("timed"), 1);
  EXPECT_LT(Steps("timed"), 10'000);
  // 128 tokens a batch, of some 10,000 bytes.
  ExpectDone(Train(options + "epochs --epochs 0.1 --eval-every 100"));
  ExpectDone(Train(options + "more --epochs 0.3 --eval-every 100"));
  EXPECT_GT(Steps("epochs"), 4);
  EXPECT_NEAR(static_cast<double>(Steps("more")), 3.0 * static_cast<double>(Steps("epochs")), 2);
}

TEST_F(TrainCommandTest, WhatIsEvaluatedFitsIntoTheMinutesOrTheNumberOfTokens) {
  // In no time at all there is one step, and a batch of each split.
  Put("text/train.txt", Lines(300));
  Put("text/valid.txt", Lines(3000, 2));
  Put("text/test.txt", Lines(3000, 3));
  const std::string options = "--task lm --data text --tokenizer bytes --json - --out ";
  const Outcome timed = Train(options + "timed --minutes 0.000001");
  ExpectDone(timed);
  const json summary = json::parse(timed.out);
  EXPECT_EQ(summary["step"], 1);
  for (const char* split : {"best", "test"}) {
    EXPECT_GT(summary[split]["part"], 0) << split;
    EXPECT_LT(summary[split]["part"], 0.1) << split;
  }
  EXPECT_EQ(summary["test"]["predictions"], 128);  // a batch
  EXPECT_TRUE(Contains(timed.err, " % of it"));
  // Its recipe says on how much it was evaluated.
  EXPECT_FALSE(Contains(ReadFile(folder_ / "timed/recipe.toml"), "eval-tokens = 0\n"));

  const Outcome capped = Train(options + "capped --steps 2 --eval-tokens 256 --test-tokens 500");
  ExpectDone(capped);
  const json figures = json::parse(capped.out);
  EXPECT_EQ(figures["test"]["predictions"], 512);  // four batches
  EXPECT_GT(figures["best"]["part"], figures["test"]["part"].get<double>() / 3);
  EXPECT_LT(figures["best"]["part"], figures["test"]["part"]);
  const Outcome whole = Train(options + "whole --steps 2");
  ExpectDone(whole);
  EXPECT_EQ(json::parse(whole.out)["test"]["part"], 1);
  EXPECT_EQ(json::parse(whole.out)["test"]["predictions"], Lines(3000, 3).size() - 1);
}

TEST_F(TrainCommandTest, DivergenceSaysWhatToTry) {
  PutText();
  ExpectSentence(
      Train("--task lm --data text --tokenizer bytes --steps 50 --lr 1e30 --clip 0 --out run"),
      "the model has diverged. Try a lower --lr");
}

TEST_F(TrainCommandTest, AModelBeginsWithAnother) {
  PutText();
  PutTable();
  ExpectDone(Train("--task mlm --data text --tokenizer words --norm rms --steps 4 --out masked"));
  const Outcome tuned =
      Run("train --task classify --data table --from masked --steps 4 --batch-tokens 128 "
          "--length 16 --threads 1 --cache cache --out tuned");
  ExpectDone(tuned);
  EXPECT_TRUE(Contains(tuned.err, "from masked: "));
  EXPECT_EQ(Config("tuned")["norm"], "rms");
  EXPECT_EQ(Config("tuned")["width"], 16);
  EXPECT_EQ(ReadFile(folder_ / "tuned/model/tokenizer.json"),
            ReadFile(folder_ / "masked/model/tokenizer.json"));
  ExpectDone(Run("eval tuned --cache cache --threads 1"));
  // A recipe's shape gives way, what is typed does not; another tokenizer is refused.
  Put("recipe.toml", "width = 8\nheads = 1\ntokenizer = \"bytes\"\ndropout = 0.5\n");
  const std::string again =
      "train --task classify --data table --from masked --steps 1 --batch-tokens 128 --length 16 "
      "--threads 1 --cache cache ";
  const Outcome by_recipe = Run(again + "--recipe recipe.toml --out by_recipe");
  ExpectDone(by_recipe);
  EXPECT_TRUE(Contains(by_recipe.err, "not as the recipe: --width, --heads, --tokenizer"));
  EXPECT_EQ(Config("by_recipe")["width"], 16);
  EXPECT_EQ(Config("by_recipe")["dropout"], 0.5);
  ExpectDone(Run(again + "--dropout 0 --out still"));
  EXPECT_EQ(Config("still")["dropout"], 0);
  // From another directory, where neither the model nor its tokenizer have their old names.
  fs::create_directories(folder_ / "elsewhere");
  ExpectDone(Run("--version && cd elsewhere && '" COSFORMER_COMMAND
                 "' eval ../tuned --cache ../cache --threads 1"));
  ExpectDone(Run(again + "--recipe recipe.toml --hidden 24 --out typed"));
  EXPECT_EQ(Config("typed")["hidden"], 24);
  // A recipe that begins with the model itself means its shape: that of a run gives the run again.
  ExpectDone(Run("train --recipe typed/recipe.toml --out same"));
  EXPECT_EQ(Config("same"), Config("typed"));
  ExpectSentence(Run(again + "--tokenizer bytes --out none"), "has another tokenizer than these");
  // Its weights are where it begins: it is elsewhere after as many steps from scratch.
  ExpectDone(
      Run("train --task classify --data table --config tuned/model/config.json --tokenizer "
          "masked/model --steps 4 --batch-tokens 128 --length 16 --threads 1 --cache cache "
          "--out scratch"));
  EXPECT_NE(Metrics("tuned", "train")[0]["loss"], Metrics("scratch", "train")[0]["loss"]);
  ExpectSentence(Train("--task lm --data text --from nowhere --out none"), "nowhere");
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_F(TrainCommandTest, LayersMayDifferAndLossesToo) {
  PutText();
  ExpectDone(
      Run("train --task lm --data text --tokenizer words --attention cosformer,softmax "
          "--layers 2 --width 16 --heads 2 --length 16 --batch-tokens 128 --threads 1 "
          "--cache cache --steps 3 --out hybrid"));
  EXPECT_EQ(Config("hybrid")["attention"].size(), 2u);
  ExpectDone(Run("train --resume hybrid --steps 4"));
  ExpectDone(
      Train("--task lm --data text --tokenizer words --loss one-vs-each --negatives 4 "
            "--steps 3 --out sampled"));
  EXPECT_EQ(Config("sampled")["loss"], "one-vs-each");
}

TEST_F(TrainCommandTest, EveryTaskTrains) {
  PutPairs();
  PutPapers();
  PutImages();
  PutLists();
  for (const char* options :
       {"--task translate --data pairs --tokenizer bytes", "--task retrieval --data papers",
        "--task listops --data lists", "--task pathfinder --data paths --length 1024",
        "--task image --data images --length 1024 --input tokens",
        "--task image --data images --length 1024 --input pixels",
        "--task image --data images --length 1024 --input patches --patch 8"}) {
    SCOPED_TRACE(options);
    const Outcome outcome =
        Run(std::string("train --layers 1 --width 16 --heads 2 --batch-tokens 1024 --threads 1 "
                        "--cache cache --steps 2 --out run ") +
            options);
    ExpectDone(outcome);
    EXPECT_EQ(Steps("run"), 2);
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(TrainCommandTest, WhatFindsNoRoomIsASentenceWithTheBytesAndACode) {
  PutText();
  const Outcome outcome =
      Run("--version && ulimit -v 3000000 && '" COSFORMER_COMMAND
          "' train --data text --tokenizer bytes --cache cache --threads 1 --layers 1 --width 1024 "
          "--hidden 1048576 --heads 2 --steps 1 --out run");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(Contains(outcome.err, "out of memory: there is no room for another 4.0 GiB"));
}

TEST_F(TrainCommandTest, ImpossibleOptionsAreSentencesBeforeAnyWork) {
  PutText();
  const std::pair<const char*, const char*> cases[] = {
      {"--steps -1", "--steps is -1; it must be at least 1"},
      {"--epochs 0", "--epochs is 0; it must be more than 0"},
      {"--minutes inf", "--minutes is inf"},
      {"--minutes 1e300", "--minutes is 1e+300; it must be more than 0 and below 1e9"},
      {"--layers 0 --heads 0 --width 0", "--layers is 0; it must be at least 1"},
      {"--pool x", "--pool is \"x\"; it takes mean, first, last"},
      {"--task classify --loss x", "--loss is \"x\"; it takes cross-entropy, one-vs-each"},
      {"--cross-attention cosfromer", "did you mean \"cosformer\""},
      {"--threads 100000", "--threads is 100000; it takes 1 to 1024"},
      {"--beta2 1", "--beta2 is 1"},
      {"--schedule linear", "linear"},
      {"--attention nonsense", "nonsense"},
      {"--heads 3", "heads"},
      {"--input pixels", "has no images"},
      {"--task nothing", "nothing"},
      {"--config a --from text", "--from and --config are both given"},
  };
  for (const auto& [option, mentions] : cases) {
    SCOPED_TRACE(option);
    const Outcome outcome =
        Run(std::string("train --data text --tokenizer bytes --cache cache --out run ") + option);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(Contains(outcome.err, mentions));
    EXPECT_FALSE(fs::exists(folder_ / "run"));
  }
  ExpectRefusal("train --data text --seed -1", "--seed: \"-1\" is no whole number from 0 up");
  ExpectRefusal("train", "there are no data: give --data PATH");
  ExpectRefusal("train --data nothing.txt", "nothing.txt");
}

}  // namespace
}  // namespace cosformer
