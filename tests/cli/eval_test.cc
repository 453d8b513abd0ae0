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
  ExpectSentence(Eval("run none.txt"), "none.txt");
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
