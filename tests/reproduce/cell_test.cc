#include "reproduce/cell.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace cosformer::reproduce {
namespace {

Cell SampleCell() {
  Cell cell{.id = "one", .label = "One"};
  cell.files = {{"recipe.toml", "steps = 1\n"}};
  cell.commands = {{{"train", "--recipe", "{cell}/recipe.toml"}, "train.json", "run"},
                   {{"eval", "{cell}/run"}, "eval.json"}};
  return cell;
}

TEST(CellTest, EverySettingChangesTheFingerprint) {
  std::set<std::string> seen = {FingerprintOf(SampleCell())};
  const auto expect_new = [&](const char* what, auto change) {
    Cell cell = SampleCell();
    change(cell);
    EXPECT_TRUE(seen.insert(FingerprintOf(cell)).second) << what;
  };
  expect_new("contents", [](Cell& cell) { cell.files[0].contents = "steps = 2\n"; });
  expect_new("file name", [](Cell& cell) { cell.files[0].name = "other.toml"; });
  expect_new("word", [](Cell& cell) { cell.commands[1].words[1] = "{cell}/other"; });
  expect_new("more words", [](Cell& cell) { cell.commands[1].words.push_back("--tokens"); });
  expect_new("fewer commands", [](Cell& cell) { cell.commands.pop_back(); });
  expect_new("memory", [](Cell& cell) { cell.memory = 1; });
  expect_new("words that join", [](Cell& cell) { cell.commands[1].words = {"eval{cell}/run"}; });
  expect_new("commands that join", [](Cell& cell) {
    cell.commands[0].words.insert(cell.commands[0].words.end(), {"eval", "{cell}/run"});
    cell.commands.pop_back();
  });
}

TEST(CellTest, WhatChangesNoResultIsNotInTheFingerprint) {
  Cell cell = SampleCell();
  cell.label = "Another name";
  cell.weight = 7;
  cell.needs = {"zero"};
  cell.commands[0].also = {"--force"};
  EXPECT_EQ(FingerprintOf(cell), FingerprintOf(SampleCell()));
  EXPECT_EQ(DirectoryOf(cell), "cells/one." + FingerprintOf(cell).substr(0, 8));
}

TEST(CellTest, PlaceholdersAreFilledWhereverTheyStand) {
  const Places places{"/out", "/out/cells/one", "/sets", "/out/cells/one/x.json", 3};
  EXPECT_EQ(Fill("{cell}/a:{out}:{cell}", places), "/out/cells/one/a:/out:/out/cells/one");
  EXPECT_EQ(Fill("{data}/imdb", places), "/sets/imdb");
  EXPECT_EQ(Fill("{json}", places), "/out/cells/one/x.json");
  EXPECT_EQ(Fill("{threads}", places), "3");
  EXPECT_EQ(Fill("{eval_tokens}", places), "0");
  EXPECT_EQ(Fill("{other}", places), "{other}");
  // What is filled in is not filled again.
  EXPECT_EQ(Fill("{out}", {"/a{out}b", ""}), "/a{out}b");
}

TEST(CellTest, CommandsCanBePastedIntoAShell) {
  EXPECT_EQ(ShellText({"train", "--data", "my sets/a'b", ""}),
            R"(train --data 'my sets/a'\''b' '')");
}

}  // namespace
}  // namespace cosformer::reproduce
