// `cosformer eval`: figures with intervals, of runs and of models, on their own data and on other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "training.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::ReadFile;

class EvalCommandTest : public testing::TrainingTest {
 protected:
  json Figures(const std::string& arguments) const {
    const Outcome outcome = Eval(arguments + " --json -");
    ExpectDone(outcome);
    return outcome.code == 0 ? json::parse(outcome.out) : json();
  }
};

TEST_F(EvalCommandTest, PerplexityIsATokenAWordAndAByte) {
  PutText();
  ExpectDone(
      Train("--task lm --data text --tokenizer words --positions rotary --steps 40 --lr 0.02 "
            "--out run"));
  const std::string text = Lines(30, 3);
  const json cut = Figures("run --context cut");
  EXPECT_EQ(cut["split"], "test");
  EXPECT_EQ(cut["task"], "lm");
  // What the run itself reported at its end.
  const json reported = Metrics("run", "eval").back();
  ASSERT_EQ(reported["split"], "test");
  EXPECT_NEAR(cut["loss"].get<double>(), reported["loss"].get<double>(), 1e-6);
  const double sum = cut["loss"].get<double>() * cut["predictions"].get<double>();
  EXPECT_EQ(cut["predictions"], 30 * 8 - 1);
  EXPECT_NEAR(cut["per_token"]["perplexity"].get<double>(), std::exp(cut["loss"].get<double>()),
              1e-9);
  EXPECT_NEAR(cut["per_word"]["perplexity"].get<double>(), std::exp(sum / (30 * 8)), 1e-6);
  EXPECT_NEAR(cut["bits_per_byte"].get<double>(),
              sum / std::log(2.0) / static_cast<double>(text.size()), 1e-9);
  EXPECT_LT(cut["per_token"]["low"], cut["per_token"]["perplexity"]);
  EXPECT_GT(cut["per_token"]["high"], cut["per_token"]["perplexity"]);

  // Every token is predicted once, whatever its context.
  for (const char* context : {"sliding", "sliding --stride 3", "carried"}) {
    SCOPED_TRACE(context);
    const json other = Figures(std::string("run --context ") + context);
    EXPECT_EQ(other["predictions"], cut["predictions"]);
    EXPECT_NEAR(other["loss"].get<double>(), cut["loss"].get<double>(), 0.3);
    EXPECT_NE(other["loss"], cut["loss"]);
  }
  // A model without its run, on a file: the same text, the same figure.
  fs::rename(folder_ / "run/model", folder_ / "model");
  const json alone = Figures("model text/test.txt --context cut");
  EXPECT_EQ(alone["loss"], cut["loss"]);
  ExpectSentence(Eval("model"), "\"model\" is a model, not a run: say on what to evaluate it");
  ExpectSentence(Eval("model text/test.txt --split valid"), "has no valid split");
}

TEST_F(EvalCommandTest, CountsAreABaselineAndAModelWritesTheSameForASeed) {
  PutText();
  ExpectDone(Train("--task lm --data text --tokenizer words --steps 10 --out run"));
  const json first = Figures("run --baselines --write 12 --prompt 'the sea' --seed 5");
  // Of twelve words and the end of a line after every seven, no count does better than its entropy.
  EXPECT_GT(first["unigram"]["perplexity"].get<double>(), 5);
  EXPECT_LT(first["unigram"]["perplexity"].get<double>(), 30);
  EXPECT_GT(first["trigram"]["perplexity"].get<double>(), 2);
  const std::string sample = first["sample"];
  EXPECT_TRUE(sample.starts_with("the sea"));
  EXPECT_GT(sample.size(), 20u);
  EXPECT_EQ(Figures("run --write 12 --prompt 'the sea' --seed 5")["sample"], sample);
  EXPECT_NE(Figures("run --write 12 --prompt 'the sea' --seed 6")["sample"], sample);
  const Outcome table = Eval("run --split valid --baselines");
  ExpectDone(table);
  for (const char* part : {"run on its valid split", "perplexity a token", "perplexity a word",
                           "bits a byte", "unigram", "trigram", "95 %"}) {
    EXPECT_TRUE(Contains(table.out, part));
  }
  // By default there are no positions that could end.
  ExpectDone(Eval("run --context carried"));
  ExpectDone(
      Train("--task lm --data text --tokenizer words --positions learned --steps 2 --out "
            "learned"));
  ExpectSentence(Eval("learned --context carried"), "--context carried goes past the positions");
}

TEST_F(EvalCommandTest, BaselinesAreOfTheTokensThatTheModelPredicted) {
  // The last tenth of the text is of one word alone, which a count of the rest finds unlikely.
  std::string odd;
  for (int word = 0; word < 2400; ++word) odd += "zebra ";
  Put("text/train.txt", Lines(300) + "zebra\n");
  Put("text/valid.txt", Lines(30, 2));
  Put("text/test.txt", Lines(2700, 3) + odd);
  ExpectDone(Train("--task lm --data text --tokenizer words --steps 2 --test-tokens 64 --out run"));
  const json part = Figures("run --baselines --tokens 64 --batch-tokens 64 --context cut");
  EXPECT_EQ(part["predictions"], 64);  // of the beginning
  EXPECT_LT(part["part"], 0.01);
  EXPECT_LT(part["unigram"]["perplexity"], 25);
  const json all = Figures("run --baselines --context cut");
  EXPECT_EQ(all["part"], 1);
  EXPECT_GT(all["unigram"]["perplexity"].get<double>(),
            1.3 * part["unigram"]["perplexity"].get<double>());
}

TEST_F(EvalCommandTest, TwoModelsAreComparedOnTheSameText) {
  PutText();
  const std::string options = "--task lm --data text --tokenizer words --lr 0.02 --out ";
  ExpectDone(Train(options + "good --steps 60"));
  ExpectDone(Train(options + "poor --steps 1"));
  const json both = Figures("good poor");
  EXPECT_EQ(both["models"][0]["model"], "good");
  EXPECT_EQ(both["models"][1]["model"], "poor");
  EXPECT_EQ(both["models"][0]["predictions"], both["models"][1]["predictions"]);
  EXPECT_NEAR(both["models"][0]["loss"].get<double>(), Figures("good")["loss"].get<double>(), 1e-6);
  EXPECT_NEAR(both["models"][1]["loss"].get<double>(), Figures("poor")["loss"].get<double>(), 1e-6);
  const json& difference = both["difference"];
  const double nats =
      both["models"][1]["loss"].get<double>() - both["models"][0]["loss"].get<double>();
  EXPECT_NEAR(difference["nats_per_token"]["value"].get<double>(), nats, 1e-9);
  EXPECT_GT(difference["nats_per_token"]["low"], 0);
  EXPECT_LT(difference["nats_per_token"]["low"], nats);
  EXPECT_GT(difference["nats_per_token"]["high"], nats);
  EXPECT_NEAR(difference["perplexity_ratio"]["value"].get<double>(), std::exp(nats), 1e-9);
  EXPECT_NEAR(difference["bits_per_byte"]["value"].get<double>(),
              both["models"][1]["bits_per_byte"].get<double>() -
                  both["models"][0]["bits_per_byte"].get<double>(),
              1e-9);
  EXPECT_EQ(difference["stretch_tokens"], 16);
  EXPECT_EQ(difference["stretches"], (30 * 8 - 1 + 15) / 16);
  const Outcome table = Eval("good poor text/valid.txt");
  ExpectDone(table);
  EXPECT_TRUE(Contains(table.out, "poor on the same text: 239 predictions"));
  EXPECT_TRUE(Contains(table.out, "good predicts it better"));
  // A model beside itself: no difference, and the pairs leave nothing to chance.
  const json same = Figures("good good --context carried");
  EXPECT_EQ(same["difference"]["nats_per_token"],
            (json{{"value", 0.0}, {"low", 0.0}, {"high", 0.0}}));

  // Windows of another length: blocks are of the text.
  ExpectDone(Train(options + "long --steps 60 --length 40"));
  const json lengths = Figures("good long");
  EXPECT_EQ(lengths["difference"]["stretch_tokens"], 40);
  EXPECT_EQ(lengths["models"][0]["predictions"], 30 * 8 - 1);
  EXPECT_NEAR(lengths["models"][1]["loss"].get<double>(), Figures("long")["loss"].get<double>(),
              1e-6);
  const json sampled = Figures("good long --tokens 128 --batch-tokens 64");
  EXPECT_LT(sampled["models"][0]["predictions"], 30 * 8 - 1);
  EXPECT_EQ(sampled["models"][0]["predictions"], sampled["models"][1]["predictions"]);

  ExpectDone(
      Train("--task lm --data text --tokenizer bytes --steps 1 --test-tokens 64 --out bytes"));
  ExpectSentence(Eval("good bytes"),
                 "\"good\" and \"bytes\" have different tokenizers: evaluate each by itself");
  ExpectSentence(Eval("good poor --baselines"), "are of one model");
  ExpectSentence(Eval("good poor text table"),
                 "\"text\" is no model to compare with, and data can be at one place only");
}

TEST_F(EvalCommandTest, AccuracyHasAnIntervalAndTheMajorityBesideIt) {
  PutTable();
  ExpectDone(
      Train("--task classify --data table --tokenizer words --epochs 6 --lr 0.02 --out run"));
  const json figures = Figures("run");
  const double accuracy = figures["accuracy"].get<double>();
  EXPECT_EQ(figures["predictions"], 40);
  EXPECT_GT(accuracy, 0.9);
  EXPECT_LE(figures["low"].get<double>(), accuracy);
  EXPECT_GE(figures["high"].get<double>(), accuracy);
  const std::string test = Rows(40, 3);
  int yes = 0;
  for (size_t at = 0; (at = test.find("\tyes", at)) != std::string::npos; ++at) ++yes;
  EXPECT_EQ(figures["majority"], std::max(yes, 40 - yes) / 40.0);
  EXPECT_EQ(Figures("run table/dev.tsv")["predictions"], 40);
  EXPECT_EQ(Figures("run table --split train")["predictions"], 200);
  const Outcome shown = Eval("run table/test.tsv");
  EXPECT_TRUE(Contains(shown.out, "always \"yes\""));

  Put("unseen.tsv", "sentence\tlabel\ngood sea\tyes\nbad sea\tperhaps\n");
  ExpectSentence(
      Eval("run unseen.tsv"),
      "\"unseen.tsv\", line 3: the label \"perhaps\" was not seen in training, which has "
      "no, yes");
  ExpectSentence(Eval("run --baselines"), "--baselines are of language models");
}

TEST_F(EvalCommandTest, WhatCannotBeEvaluatedIsASentence) {
  Put("text.txt", Lines(400));
  ExpectDone(Train("--task lm --data text.txt --tokenizer words --steps 2 --out run"));
  ExpectRefusal("eval nowhere text.txt", "nowhere");
  ExpectSentence(Eval("run --split test"), "the data have no test split");
  ExpectSentence(Eval("run --split tset"), "--split is \"tset\"; it takes train, valid, test");
  ExpectSentence(Eval("run --context all"), "--context is \"all\"; it takes sliding, cut, carried");
  ExpectSentence(Eval("run none.txt"), "\"none.txt\" does not exist; give a model");
  ExpectSentence(Eval("run --write -5"), "--write is -5; it must be at least 0");
  ExpectSentence(Eval("run --top-k -1"), "--top-k is -1");
  ExpectRefusal("eval run --seed -1", "--seed: \"-1\" is no whole number from 0 up");
  Put("latin.txt", "caf\xe9\n");
  const Outcome latin = Eval("run latin.txt");
  ExpectSentence(latin, "byte 0xE9 is not UTF-8");
  EXPECT_TRUE(Contains(latin.err, "train a model with --tokenizer bytes"));
  const std::string card = ReadFile(folder_ / "run/model/task.json");
  Put("run/model/task.json", R"({"format": 1, "task": "lmm"})");
  for (const char* command :
       {"eval run", "inspect run", "generate run --prompt a", "score run a"}) {
    ExpectSentence(Run(command), "task.json\": there is no task \"lmm\" (did you mean \"lm\"?)");
  }
  Put("run/model/task.json", card);
  // Words of another text are another vocabulary.
  Put("text.txt", "zebra\n" + Lines(400, 9));
  ExpectSentence(Eval("run"), "they have changed since it was trained");
}

TEST_F(EvalCommandTest, MaskedAndTranslatingModelsHaveBothFigures) {
  PutText();
  PutPairs();
  ExpectDone(Train("--task mlm --data text --tokenizer words --steps 3 --out masked"));
  ExpectDone(Train("--task translate --data pairs --tokenizer bytes --steps 3 --out pairs_run"));
  for (const char* run : {"masked", "pairs_run"}) {
    const json figures = Figures(run);
    EXPECT_GT(figures["per_token"]["perplexity"].get<double>(), 1);
    EXPECT_GE(figures["accuracy"].get<double>(), 0);
    EXPECT_EQ(Figures(run)["loss"], figures["loss"]);  // the same masks every time
  }
}

}  // namespace
}  // namespace cosformer
