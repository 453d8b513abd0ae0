// What `cosformer generate` writes: the text for people, and for programs JSON, all at its end or a
// line as it comes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cli/generate_options.h"
#include "cosformer/generate.h"

namespace cosformer::cli {

// For people: standard output, unless that is for programs.
std::FILE* TextOutput(const GenerateArguments& arguments);
// Throws Error where it can't be written.
void PrintText(const std::string& text, std::FILE* out);

nlohmann::json TokenJson(const runtime::Model& model, const runtime::GeneratedToken& token);
// Of a text all but its tokens.
nlohmann::json ResultJson(const runtime::Generated& result, uint64_t seed, size_t prompt_tokens);
nlohmann::json StatsJson(const GenerateStats& stats);
// To a file, to standard output ("-"), or nowhere ("").
void WriteJson(const nlohmann::json& json, const std::string& path);

// The same places for objects as they come, each on a line that is written through. A file is begun
// with the first.
class JsonLines {
 public:
  explicit JsonLines(std::string path) : path_(std::move(path)) {}
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;
  ~JsonLines();

  bool wanted() const { return !path_.empty(); }
  void Write(const nlohmann::json& object);

 private:
  [[noreturn]] void Fail() const;

  std::string path_;
  std::FILE* file_ = nullptr;
};

// A token's line: beside the token itself, which may be half a character or the beginning of a stop
// string, what can be shown with it.
nlohmann::json LineJson(const runtime::Model& model, const runtime::GeneratedToken& token);

int64_t PeakBytes();

}  // namespace cosformer::cli
