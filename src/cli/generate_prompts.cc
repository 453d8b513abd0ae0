// `cosformer generate --prompts`: a text for every line of a file.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/generate_options.h"
#include "cli/generate_output.h"
#include "cli/text_input.h"
#include "cosformer/error.h"
#include "formats/utf8.h"
#include "report/clock.h"
#include "report/interrupt.h"
#include "report/progress.h"
#include "report/units.h"

namespace cosformer::cli {
namespace {

struct PromptLine {
  std::string prompt;
  std::vector<int32_t> tokens;
};

// All that is wrong with any of them is said before the first text is begun.
std::vector<PromptLine> ReadPrompts(const runtime::Model& model, const std::string& path) {
  std::vector<PromptLine> lines;
  const std::string name = path == "-" ? "standard input" : fmt::format("\"{}\"", path);
  const runtime::Session empty(model);
  for (std::string& prompt : SplitLines(ReadText(path))) {
    const std::string where = fmt::format("line {} of {}", lines.size() + 1, name);
    CheckUtf8(prompt, where);
    try {
      std::vector<int32_t> tokens = FirstTokens(model, prompt);
      empty.Check(tokens);
      lines.push_back({std::move(prompt), std::move(tokens)});
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", where, error.what()));
    }
  }
  if (lines.empty()) throw Error(fmt::format("{} is empty: give a prompt a line", name));
  return lines;
}

}  // namespace

int WriteForPrompts(const runtime::Model& model, const GenerateArguments& arguments,
                    GenerateStats stats) {
  // Together in a pass over the weights. More would hardly be faster, and each has a state.
  constexpr size_t kTogether = 32;
  const std::vector<PromptLine> lines = ReadPrompts(model, arguments.prompts);
  std::FILE* out = TextOutput(arguments);
  JsonLines json_lines(arguments.json_lines);
  nlohmann::json texts = nlohmann::json::array();
  size_t state_bytes = 0;
  int64_t context = 0;
  report::Progress progress;
  const Interrupt interrupt;
  for (size_t begin = 0; begin < lines.size() && interrupt.Signal() == 0; begin += kTogether) {
    const size_t count = std::min(kTogether, lines.size() - begin);
    std::vector<runtime::Session> sessions(count, runtime::Session(model, {.checkpoints = 0}));
    std::vector<runtime::GenerateOptions> options(count, arguments.options);
    std::vector<runtime::Session*> batch;
    std::vector<std::span<const int32_t>> prompts;
    std::vector<nlohmann::json> tokens(count, nlohmann::json::array());
    for (size_t i = 0; i < count; ++i) {
      batch.push_back(&sessions[i]);
      prompts.emplace_back(lines[begin + i].tokens);
      options[i].before = lines[begin + i].tokens;
      options[i].sampling.seed += begin + i;
      stats.prompt_tokens += std::ssize(prompts[i]);
    }
    auto start = report::Clock::now();
    runtime::Session::FeedBatch(batch, prompts);
    stats.prompt_seconds += report::SecondsSince(start);
    start = report::Clock::now();
    const auto results =
        GenerateBatch(batch, options, [&](size_t i, const runtime::GeneratedToken& token) {
          ++stats.tokens;
          progress.Show(fmt::format("texts {} to {} of {}: {} tokens", begin + 1, begin + count,
                                    lines.size(), report::FormatInteger(stats.tokens)));
          if (!arguments.json.empty()) tokens[i].push_back(TokenJson(model, token));
          if (json_lines.wanted()) {
            nlohmann::json line = LineJson(model, token);
            line["line"] = begin + i + 1;
            json_lines.Write(line);
          }
          return interrupt.Signal() == 0;
        });
    stats.seconds += report::SecondsSince(start);
    progress.Clear();
    for (size_t i = 0; i < count; ++i) {
      const size_t number = begin + i + 1;
      const PromptLine& line = lines[begin + i];
      PrintText(fmt::format("{}==> {} <==\n{}{}\n", number > 1 ? "\n" : "", number,
                            arguments.no_echo ? "" : line.prompt, results[i].text),
                out);
      if (results[i].reason == runtime::StopReason::kLimit) {
        fmt::print(stderr, "cosformer: text {} ends here, as {}\n", number, WhyItEnds(sessions[i]));
      }
      nlohmann::json text = ResultJson(results[i], options[i].sampling.seed, line.tokens.size());
      text["line"] = number;
      text["prompt"] = line.prompt;
      json_lines.Write(text);
      text["tokens"] = std::move(tokens[i]);
      if (!arguments.json.empty()) texts.push_back(std::move(text));
      state_bytes += sessions[i].state_bytes();
      context += sessions[i].position();
    }
  }
  json_lines.Write({{"texts", lines.size()}, {"stats", StatsJson(stats)}});
  if (arguments.stats) {
    fmt::print(stderr, "\n{}seed      {}, and those after it\n",
               DescribeStats(model, state_bytes, context, stats), arguments.options.sampling.seed);
  }
  WriteJson({{"texts", std::move(texts)}, {"stats", StatsJson(stats)}}, arguments.json);
  return interrupt.Signal();
}

}  // namespace cosformer::cli
