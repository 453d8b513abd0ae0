// The cache of prepared data: what goes from it and what stays, whoever uses it meanwhile.
#include "data/cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "contains.h"
#include "data/prepare.h"
#include "data/tasks/reading.h"

namespace cosformer::data {
namespace {

namespace fs = std::filesystem;
using testing::Contains;

class CacheTest : public ReadingTest {
 protected:
  // A set of so many lines from a file of that name.
  TaskData Make(const std::string& name, int lines = 3000) const {
    if (!fs::exists(Path(name))) {
      std::string text;
      for (int i = 0; i < lines; ++i) text += "line " + std::to_string(i) + " of some text\n";
      Write(name, text);
    }
    PrepareOptions options;
    options.cache = cache_;
    options.tokenizer = "bytes";
    options.threads = 1;
    return Prepare(FindTask("lm"), {.data = Path(name)}, options, [](const std::string&) {});
  }
  // The same, not used any more, and for so many hours.
  std::string Unused(const std::string& name, int hours, int lines = 3000) const {
    const std::string path = Make(name, lines).directory;
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
    return path;
  }
  std::vector<std::string> Sets() const {
    std::vector<std::string> paths;
    for (const CachedSet& set : CachedSets(cache_)) paths.push_back(set.path);
    return paths;
  }
  static CachedSet At(const std::string& path) {
    const std::vector<CachedSet> sets = CachedSets(fs::path(path).parent_path());
    const auto found = std::find_if(sets.begin(), sets.end(),
                                    [&](const CachedSet& set) { return set.path == path; });
    return found == sets.end() ? CachedSet{} : *found;
  }

  const std::string cache_ = Path("cache");
};

TEST_F(CacheTest, SetsAreListedWithTheirSizeLongestUnusedFirst) {
  const std::string b = Unused("b", 20), a = Unused("a", 30), c = Unused("c", 10);
  EXPECT_EQ(Sets(), (std::vector<std::string>{a, b, c}));
  int64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(a)) {
    bytes += static_cast<int64_t>(file.file_size());
  }
  EXPECT_EQ(At(a).bytes, bytes);
  EXPECT_EQ(At(a).task, "lm");
  EXPECT_EQ(WhyUseless(At(a)), "");
  Make("a");  // there it is, and it was used now
  EXPECT_EQ(Sets(), (std::vector<std::string>{b, c, a}));
}

TEST_F(CacheTest, ItShrinksByWhatWasUnusedForLongest) {
  const std::string a = Unused("a", 30), b = Unused("b", 20), c = Unused("c", 10);
  const int64_t two = At(b).bytes + At(c).bytes;
  EXPECT_TRUE(ShrinkCache(cache_, two + At(a).bytes).empty());
  const std::vector<CachedSet> removed = ShrinkCache(cache_, two);
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].path, a);
  EXPECT_FALSE(fs::exists(a));
  EXPECT_EQ(Sets(), (std::vector<std::string>{b, c}));
  EXPECT_EQ(ShrinkCache(cache_, 0).size(), 2u);
  EXPECT_TRUE(fs::is_empty(cache_));
  EXPECT_GT(Make("a").train->tokens(), 1000);
}

TEST_F(CacheTest, WhatNobodyCanUseGoesFirst) {
  const std::string a = Unused("a", 30), changed = Unused("b", 20), gone = Unused("c", 10),
                    stopped = Unused("d", 5), damaged = Unused("e", 3);
  Write("b", "another text");
  fs::remove(Path("c"));
  fs::remove(stopped + "/prepared.json");
  Write("cache/" + fs::path(damaged).filename().string() + "/prepared.json", "{}");
  EXPECT_EQ(WhyUseless(At(a)), "");
  EXPECT_EQ(WhyUseless(At(changed)), "\"" + Path("b") + "\" has changed");
  EXPECT_EQ(WhyUseless(At(gone)), "\"" + Path("c") + "\" is gone");
  EXPECT_EQ(WhyUseless(At(stopped)), "it was never finished");
  EXPECT_EQ(WhyUseless(At(damaged)), "it is damaged, or of another version");
  ShrinkCache(cache_, At(a).bytes);
  EXPECT_EQ(Sets(), std::vector<std::string>{a});
}

TEST_F(CacheTest, WhatIsUsedStays) {
  const std::string a = Unused("a", 30);
  {
    const TaskData used = Make("a");
    const TaskData again = Make("a");
    EXPECT_TRUE(IsUsed(At(a)));
    EXPECT_FALSE(RemoveCached(At(a)));
    EXPECT_TRUE(ShrinkCache(cache_, 0).empty());
    EXPECT_TRUE(fs::exists(a + "/prepared.json"));
  }
  const CachedSet set = At(a);
  EXPECT_FALSE(IsUsed(set));
  EXPECT_TRUE(RemoveCached(set));
  EXPECT_FALSE(RemoveCached(set));  // somebody else was faster
}

TEST_F(CacheTest, WhatIsNotOfThisProgramIsNotTouched) {
  const std::string set = Unused("a", 30);
  fs::create_directories(cache_ + "/lm-0123456789abcdeg");  // no digit
  fs::create_directories(cache_ + "/photos");
  fs::create_directories(cache_ + "/holiday-0123456789abcdef");
  Write("cache/holiday-0123456789abcdef/sea.jpg", "x");
  fs::create_directories(cache_ + "/lm-0123456789abcdef/train.tokens");
  Write("cache/lm-00000000aaaaaaaa", "a file");
  // Others may be beside those of a set, and a set may lie elsewhere.
  const std::string noted = Unused("b", 20);
  Write("cache/" + fs::path(noted).filename().string() + "/notes.txt", "mine");
  const std::string moved = Unused("c", 10);
  fs::rename(moved, Path("elsewhere"));
  fs::create_directory_symlink(Path("elsewhere"), moved);
  const std::string linked = Unused("d", 10);
  fs::rename(linked + "/train.tokens", Path("tokens"));
  fs::create_symlink(Path("tokens"), linked + "/train.tokens");

  EXPECT_EQ(Sets(), std::vector<std::string>{set});
  EXPECT_EQ(ShrinkCache(cache_, 0).size(), 1u);
  for (const char* file :
       {"cache/holiday-0123456789abcdef/sea.jpg", "cache/lm-00000000aaaaaaaa", "cache/photos",
        "cache/lm-0123456789abcdeg", "cache/lm-0123456789abcdef/train.tokens",
        "elsewhere/prepared.json", "tokens"}) {
    EXPECT_TRUE(fs::exists(Path(file))) << file;
  }
  EXPECT_TRUE(fs::exists(noted + "/prepared.json"));
  EXPECT_TRUE(fs::exists(linked + "/prepared.json"));
  EXPECT_TRUE(CachedSets(Path("nowhere")).empty());
}

TEST_F(CacheTest, ASetThatGotAnotherFileBeforeItsRemovalStays) {
  const std::string a = Unused("a", 30);
  const CachedSet set = At(a);
  Write("cache/" + fs::path(a).filename().string() + "/notes.txt", "mine");
  EXPECT_FALSE(RemoveCached(set));
  EXPECT_TRUE(fs::exists(a + "/prepared.json"));
}

// One prepares and reads its set all the time, another removes whatever it can.
TEST_F(CacheTest, AProcessThatCleansDoesNotDisturbOnesThatPrepare) {
  Make("a");
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    children.push_back(fork());
    ASSERT_GE(children.back(), 0);
    if (children.back() != 0) continue;
    int code = 0;
    for (int round = 0; round < 40 && code == 0; ++round) {
      try {
        const TaskData data = Make("a");
        std::vector<int64_t> tokens(10);
        data.train->Copy(0, 10, tokens.data());
        if (tokens[0] != 'l' || !fs::exists(data.directory + "/prepared.json")) code = 2;
      } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        code = 1;
      }
    }
    _exit(code);
  }
  int removed = 0;
  for (const pid_t child : children) {
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      removed += static_cast<int>(ShrinkCache(cache_, 0).size());
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_GT(removed, 0);
}

}  // namespace
}  // namespace cosformer::data
