#include "cli/generate_output.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "cosformer/error.h"
#include "formats/json.h"
#include "formats/tokenizer.h"
#include "report/files.h"

namespace cosformer::cli {

std::FILE* TextOutput(const GenerateArguments& arguments) {
  return arguments.json == "-" || arguments.json_lines == "-" ? stderr : stdout;
}

void PrintText(const std::string& text, std::FILE* out) {
  if (std::fwrite(text.data(), 1, text.size(), out) != text.size() || std::fflush(out) != 0) {
    throw Error("the text could not be written to standard output");
  }
}

nlohmann::json TokenJson(const runtime::Model& model, const runtime::GeneratedToken& token) {
  const Tokenizer* tokenizer = model.tokenizer();
  const auto object = [&](int32_t number, double log_probability) {
    return nlohmann::json{{"token", number},
                          {"text", tokenizer == nullptr ? nlohmann::json()
                                                        : nlohmann::json(tokenizer->Piece(number))},
                          {"log_probability", log_probability}};
  };
  nlohmann::json json = object(token.token, token.log_probability);
  for (const ScoredToken& other : token.likeliest) {
    json["likeliest"].push_back(object(other.token, other.log_probability));
  }
  return json;
}

nlohmann::json ResultJson(const runtime::Generated& result, uint64_t seed, size_t prompt_tokens) {
  return {{"text", result.text},
          {"reason", Name(result.reason)},
          {"seed", seed},
          {"prompt_tokens", prompt_tokens}};
}

nlohmann::json StatsJson(const GenerateStats& stats) {
  return {{"load_seconds", stats.load_seconds},
          {"prompt_seconds", stats.prompt_seconds},
          {"seconds", stats.seconds},
          {"peak_bytes", PeakBytes()}};
}

void WriteJson(const nlohmann::json& json, const std::string& path) {
  if (path.empty()) return;
  const std::string text = JsonText(json, 2) + "\n";
  path == "-" ? PrintText(text, stdout) : report::WriteFile(path, text);
}

JsonLines::~JsonLines() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void JsonLines::Write(const nlohmann::json& object) {
  if (!wanted()) return;
  if (file_ == nullptr) file_ = path_ == "-" ? stdout : std::fopen(path_.c_str(), "wb");
  if (file_ == nullptr) Fail();
  const std::string line = JsonText(object) + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0) {
    Fail();
  }
}

void JsonLines::Fail() const {
  throw Error(fmt::format("cannot write {}: {}",
                          path_ == "-" ? "to standard output" : fmt::format("\"{}\"", path_),
                          std::strerror(errno)));
}

nlohmann::json LineJson(const runtime::Model& model, const runtime::GeneratedToken& token) {
  nlohmann::json line = TokenJson(model, token);
  line["shown"] = token.text;
  return line;
}

int64_t PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace cosformer::cli
