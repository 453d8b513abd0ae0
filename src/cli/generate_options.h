// Options of commands that write text with a model, and what they write.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cosformer/generate.h"

namespace cosformer::cli {

struct GenerateArguments {
  std::string model;
  std::optional<std::string> prompt;
  std::string file;
  std::vector<int32_t> prompt_tokens;

  runtime::GenerateOptions options;
  std::vector<std::string> bias;  // TOKEN=VALUE
  std::optional<uint64_t> seed;   // none: a new one every time
  bool ignore_end = false;
  int64_t beams = 0;
  double length_penalty = 1;

  bool echo = false;
  bool chat = false;
  std::string turn = "{}";
  std::string session;  // to go on with
  std::string save_session;
  bool endless = false;
  int threads = 0;
  bool stats = false;
  std::string json;
};

// What a run took.
struct GenerateStats {
  double load_seconds = 0;
  int64_t prompt_tokens = 0;
  double prompt_seconds = 0;
  int64_t tokens = 0;  // written
  double seconds = 0;
};

// The model's answer to lines on standard input, until there are no more, or a signal comes while a
// terminal waits for one. `begun` is what it took to come so far. Returns the signal, or 0.
int Chat(const runtime::Model& model, runtime::Session& session, const GenerateArguments& arguments,
         const GenerateStats& begun);

// Reads tokens with a line of progress, where it takes long.
void FeedWithProgress(runtime::Session& session, std::span<const int32_t> tokens);

// Whether the session can be fed another token.
bool HasRoom(const runtime::Session& session);

std::string DescribeStats(const runtime::Session& session, const GenerateStats& stats);

}  // namespace cosformer::cli
