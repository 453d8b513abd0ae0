// Options of commands that write text with a model, and what they write.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/endless.h"
#include "cosformer/generate.h"

namespace cosformer::cli {

struct GenerateArguments {
  std::string model;
  std::optional<std::string> prompt;
  std::string file;
  std::string prompts;  // a file with one a line
  std::vector<int32_t> prompt_tokens;

  runtime::GenerateOptions options;
  std::vector<std::string> bias;  // TOKEN=VALUE
  std::optional<uint64_t> seed;   // none: a new one every time
  bool ignore_end = false;
  int64_t beams = 0;
  double length_penalty = 1;

  bool no_echo = false;
  bool chat = false;
  std::string turn = "{}";
  std::string session;  // to go on with
  std::string save_session;
  EndlessOptions endless;
  int threads = 0;
  bool stats = false;
  std::string json;
  std::string json_lines;

  bool WantsJson() const { return !json.empty() || !json_lines.empty(); }
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

// A text for each line of arguments.prompts. Returns the signal that stopped it, or 0.
int WriteForPrompts(const runtime::Model& model, const GenerateArguments& arguments,
                    GenerateStats stats);

// Those that a text begins with: of an empty prompt, the one that ends a text.
std::vector<int32_t> FirstTokens(const runtime::Model& model, const std::string& prompt);

// Reads tokens with a line of progress, where it takes long.
void FeedWithProgress(runtime::Session& session, std::span<const int32_t> tokens);

// Whether the session can be fed another token.
bool HasRoom(const runtime::Session& session);

// Why it can't, to go on with "as": "its learned positions end at 96".
std::string WhyItEnds(const runtime::Session& session);

std::string DescribeStats(const runtime::Session& session, const GenerateStats& stats);
// Of several texts: their states together, and their tokens.
std::string DescribeStats(const runtime::Model& model, size_t state_bytes, int64_t context,
                          const GenerateStats& stats);

}  // namespace cosformer::cli
