// The command as a user meets it: run as a process in a folder of its own, judged by its exit, its
// output and its files.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "contains.h"

namespace cosformer::testing {

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "cosformer_cli_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  struct Outcome {
    int code;
    std::string out;
    std::string err;
  };

  // Through a shell, in the test's folder; `input` is a file for its standard input.
  Outcome Run(const std::string& arguments, const std::string& input = "/dev/null") const {
    const std::string command = "cd '" + folder_.string() + "' && '" COSFORMER_COMMAND "' " +
                                arguments + " >.stdout 2>.stderr <'" + input + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(folder_ / ".stdout"),
            ReadFile(folder_ / ".stderr")};
  }

  // Nothing on stdout, one line on stderr that begins with the command's name.
  void ExpectRefusal(const std::string& arguments, const std::string& mentions) const {
    SCOPED_TRACE(arguments);
    const Outcome outcome = Run(arguments);
    EXPECT_NE(outcome.code, 0);
    EXPECT_NE(outcome.code, -1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(Contains(outcome.err, mentions));
    EXPECT_EQ(outcome.err.rfind("cosformer: ", 0), 0u) << outcome.err;
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  }

  std::filesystem::path folder_;
};

}  // namespace cosformer::testing
