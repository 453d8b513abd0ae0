// Names of runs that are shown together.
#include "runs/run_names.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace cosformer {
namespace {

using Texts = std::vector<std::string>;

TEST(RunNamesTest, WhatAllPathsShareIsLeftOut) {
  EXPECT_EQ(RunNames(Texts{"runs/cosformer/seed1", "runs/softmax/seed1"}),
            (Texts{"cosformer", "softmax"}));
  EXPECT_EQ(RunNames(Texts{"a/1", "b/1", "a/2"}), (Texts{"a/1", "b/1", "a/2"}));
  EXPECT_EQ(RunNames(Texts{"x/a", "y/b"}), (Texts{"x/a", "y/b"}));
  EXPECT_EQ(RunNames(Texts{"/x/a/", "/x/./c/../b"}), (Texts{"a", "b"}));
}

TEST(RunNamesTest, SomethingIsAlwaysLeft) {
  EXPECT_EQ(RunNames(Texts{"runs/a"}), (Texts{"a"}));
  EXPECT_EQ(RunNames(Texts{"runs/a/"}), (Texts{"a"}));
  EXPECT_EQ(RunNames(Texts{"runs/a", "runs/a/b"}), (Texts{"a", "a/b"}));
  EXPECT_EQ(RunNames(Texts{"/b", "/a/b"}), (Texts{"b", "a/b"}));
  EXPECT_EQ(RunNames(Texts{"/"}), (Texts{"/"}));
  EXPECT_EQ(RunNames(Texts{}), Texts{});
}

TEST(RunNamesTest, DifferentPathsHaveDifferentNames) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::set<std::string> paths;
    while (paths.size() < 2 + random() % 3) {
      std::string path;
      for (int j = 1 + static_cast<int>(random() % 4); j > 0; --j)
        path += random() % 2 ? "/a" : "/b";
      paths.insert(path);
    }
    const Texts names = RunNames(Texts(paths.begin(), paths.end()));
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), paths.size());
    for (const std::string& name : names) EXPECT_NE(name, "");
  }
}

}  // namespace
}  // namespace cosformer
