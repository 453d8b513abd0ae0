// `cosformer generate`: a prompt in, text out as it comes.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <utility>

#include "cli/commands.h"
#include "cli/generate_options.h"
#include "cli/generate_output.h"
#include "cli/model_facts.h"
#include "cli/output.h"
#include "cli/text_input.h"
#include "formats/json.h"
#include "formats/tokenizer.h"
#include "formats/utf8.h"
#include "report/clock.h"
#include "report/files.h"
#include "report/interrupt.h"
#include "report/progress.h"
#include "report/units.h"
#include "runtime/network.h"
#include "runtime/text_stream.h"

namespace cosformer::cli {
namespace {

using report::Clock;
using report::SecondsSince;

constexpr const char* kGenerateDescription =
    R"(Writes text with a trained model, as it comes: after a prompt, a file, or standard input.

The model is a directory that `cosformer train` made, or the run around it. It needs no libtorch, and
memory that does not grow with the text as far as its layers are linear. A text may be longer than
the model's horizon: past it, layers of cosFormer attend to the last half of it at least.)";

constexpr const char* kGenerateFooter = R"(
Without --seed every run is another; with it, the same text comes every time.
With a model of masked tokens, <mask> in the prompt is filled in; options that are for writing are
refused.
One line break at the end of a file or of standard input is not part of the prompt. After an empty
prompt, the text begins after the token that ends another.
A saved session holds the token that completed the text of --stop, although it is not shown; at the
end of what the model can read, it lacks the last token shown. It keeps to what it began with: one
that was to end with the horizon does.

--prompts writes a text for every line of a file, many at a time: the first with --seed, the next
with the seed after it, and so on; each is the text that its prompt has alone with its seed.

In a chat, /undo takes the last turn back, /reset forgets all, /save FILE and /load FILE keep the
text's state, /stats shows speed and memory, /quit or the end of input ends it; Ctrl-C stops an answer.
A line that is to begin with / is typed with two.

Examples
  cosformer generate runs/lm-cosformer --prompt "Attention is"
  cosformer generate runs/lm-cosformer --file chapter.txt --max-tokens 500 --temperature 0.7 --top-p 0.9
  echo "Once upon a time" | cosformer generate runs/lm-cosformer --seed 7 --stats
  cosformer generate runs/lm-cosformer --prompt "The" --beams 5 --max-tokens 20
  cosformer generate runs/lm-cosformer --file book.txt --max-tokens 1 --save-session book.session
  cosformer generate runs/lm-cosformer --session book.session --prompt " And then"
  cosformer generate runs/lm-cosformer --prompt "The" --max-tokens 0 --json-lines - | my-program
  cosformer generate runs/lm-cosformer --prompts questions.txt --stop "?" --json answers.json
  cosformer generate runs/lm-cosformer --chat)";

// The prompt, from wherever it is to come; none where a session is gone on with as it is, and where
// there are many. It is UTF-8 also where the model's tokens are bytes: what is written after half a
// character can't be shown.
std::optional<std::string> PromptOf(const GenerateArguments& arguments) {
  const int sources = (arguments.prompt ? 1 : 0) + (arguments.file.empty() ? 0 : 1) +
                      (arguments.prompts.empty() ? 0 : 1) +
                      (arguments.prompt_tokens.empty() ? 0 : 1);
  if (sources > 1) throw Error("give one of --prompt, --file, --prompts and --prompt-tokens");
  if (!arguments.prompts.empty()) return std::nullopt;
  if (arguments.prompt) {
    CheckUtf8(*arguments.prompt, "the prompt");
    return arguments.prompt;
  }
  if (!arguments.file.empty()) {
    std::string text = ReadText(arguments.file);
    CheckUtf8(text, fmt::format("\"{}\"", arguments.file));
    return text;
  }
  if (!arguments.prompt_tokens.empty() || !arguments.session.empty()) return std::nullopt;
  if (isatty(STDIN_FILENO) != 0) {
    throw Error("there is no prompt; give --prompt TEXT, --file FILE, or text on standard input");
  }
  std::string text = ReadText("-");
  CheckUtf8(text, "standard input");
  return text;
}

// Whether somebody has put a text there.
bool StandardInputHasText() {
  int bytes = 0;
  return isatty(STDIN_FILENO) == 0 && ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 && bytes > 0;
}

std::vector<int32_t> TokensOf(const runtime::Model& model, const GenerateArguments& arguments,
                              const std::optional<std::string>& prompt) {
  if (!arguments.prompt_tokens.empty()) return arguments.prompt_tokens;
  if (!prompt) return {};
  std::vector<int32_t> tokens = model.Encode(*prompt);
  if (!tokens.empty() || !arguments.session.empty()) return tokens;
  tokens = FirstTokens(model, *prompt);
  if (!arguments.chat) {
    fmt::print(stderr, "cosformer: the prompt is empty: the text begins after the end token\n");
  }
  return tokens;
}

// What of the prompt stands before the text.
std::string Echoed(const runtime::Model& model, const GenerateArguments& arguments,
                   const std::optional<std::string>& prompt) {
  if (arguments.no_echo) return "";
  if (prompt) return *prompt;
  if (arguments.prompt_tokens.empty() || model.tokenizer() == nullptr) return "";
  TextStream text(*model.tokenizer());
  std::string shown;
  for (const int32_t token : arguments.prompt_tokens) shown += text.Add(token);
  return shown + text.Finish();
}

std::vector<LogitBias> BiasOf(const std::vector<std::string>& texts) {
  std::vector<LogitBias> bias;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    try {
      size_t used = 0, value_used = 0;
      const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
      const int token = std::stoi(text.substr(0, equals), &used);
      const float number = std::stof(value, &value_used);
      if (used != std::min(equals, text.size()) || value_used != value.size()) throw 0;
      bias.push_back({token, number});
    } catch (...) {
      throw Error(fmt::format("--bias takes TOKEN=VALUE, as 13=-inf or 42=1.5, not \"{}\"", text));
    }
  }
  return bias;
}

void FillBlanks(const runtime::Model& model, const std::string& prompt,
                const GenerateArguments& arguments) {
  const int64_t count = arguments.options.likeliest > 0 ? arguments.options.likeliest : 5;
  const auto blanks = model.Fill(prompt, count);
  const Tokenizer& tokenizer = *model.tokenizer();
  // The text with the likeliest token in each blank.
  std::string filled, rest = prompt, table;
  nlohmann::json json = {{"blanks", nlohmann::json::array()}};
  for (size_t i = 0; i < blanks.size(); ++i) {
    const size_t at = rest.find("<mask>");
    const int32_t token = blanks[i][0].token;
    std::string before = rest.substr(0, at);
    const bool hides_blank = tokenizer.kind() == TokenizerKind::kSentencePiece;
    if (hides_blank && before.ends_with(' ')) before.pop_back();  // as Model::EncodeMasked() does
    filled += before + tokenizer.Decode({&token, 1});
    rest = rest.substr(at + 6);
    table += fmt::format("blank {}", i + 1);
    nlohmann::json list = nlohmann::json::array();
    for (const runtime::Prediction& one : blanks[i]) {
      table += fmt::format("   {} {:.1f} %", tokenizer.Piece(one.token),
                           100 * std::exp(one.log_probability));
      list.push_back({{"token", one.token},
                      {"text", tokenizer.Piece(one.token)},
                      {"log_probability", one.log_probability}});
    }
    table += "\n";
    json["blanks"].push_back(std::move(list));
  }
  filled += rest;
  json["text"] = filled;
  // A token may be half a character.
  PrintResults(filled + "\n\n" + table, JsonText(json, 2) + "\n", arguments.json);
}

std::string OnOneLine(const std::string& text) {
  std::string line;
  for (const char c : text) c == '\n' ? line += "\\n" : line += c;
  return line;
}

void SearchBeams(const runtime::Session& session, const GenerateArguments& arguments,
                 const std::string& echoed) {
  runtime::BeamOptions options;
  options.beams = arguments.beams;
  options.max_tokens = arguments.options.max_tokens;
  options.length_penalty = arguments.length_penalty;
  options.stop_at_end = !arguments.ignore_end;
  options.before = arguments.options.before;
  const std::vector<runtime::Beam> beams = BeamSearch(session, options);
  std::string table;
  nlohmann::json json = {{"beams", nlohmann::json::array()}};
  for (const runtime::Beam& beam : beams) {
    table += fmt::format("{:8.3f}  {}\n", beam.score, OnOneLine(echoed + beam.text));
    json["beams"].push_back({{"text", beam.text},
                             {"tokens", beam.tokens},
                             {"log_probability", beam.log_probability},
                             {"score", beam.score},
                             {"ended", beam.ended}});
  }
  PrintResults(table, JsonText(json, 2) + "\n", arguments.json);
}

// What a way of writing has no use for is refused, not ignored.
void CheckTogether(const GenerateArguments& arguments, const CLI::App& command) {
  const auto refuse = [&](const char* way, std::initializer_list<const char*> options) {
    for (const char* option : options) {
      if (command.get_option(option)->count() > 0) {
        throw Error(fmt::format("{} does not go with {}: leave one of them out", way, option));
      }
    }
  };
  const auto need = [&](const char* option, bool holds, const char* other) {
    if (command.get_option(option)->count() > 0 && !holds) {
      throw Error(fmt::format("{} is for {}: give that too, or leave it out", option, other));
    }
  };
  for (const char* option :
       {"--file", "--prompts", "--session", "--save-session", "--json", "--json-lines"}) {
    const CLI::Option* given = command.get_option(option);
    if (given->count() > 0 && given->as<std::string>().empty()) {
      throw Error(fmt::format("{} is empty: give a file's name", option));
    }
  }
  if (arguments.beams < 0)
    throw Error(fmt::format("--beams is {}; give 1 or more", arguments.beams));
  if (arguments.options.likeliest < 0) {
    throw Error(fmt::format("--likeliest is {}; give 0 or more", arguments.options.likeliest));
  }
  need("--turn", arguments.chat, "--chat");
  need("--length-penalty", arguments.beams > 0, "--beams");
  if (arguments.turn.find("{}") == std::string::npos) {
    throw Error(fmt::format("--turn is \"{}\", which leaves out what was typed: put {{}} there",
                            arguments.turn));
  }
  if (arguments.beams > 0) {
    refuse("--beams", {"--chat", "--stats", "--save-session", "--likeliest", "--stop", "--bias",
                       "--seed", "--temperature", "--top-k", "--top-p", "--min-p",
                       "--repetition-penalty", "--repetition-window", "--json-lines"});
  }
  if (!arguments.prompts.empty()) {
    refuse("--prompts", {"--chat", "--beams", "--session", "--save-session"});
  }
  if (!arguments.json_lines.empty()) refuse("--json-lines", {"--json"});
  if (arguments.chat) {
    refuse("--chat", {"--file", "--json", "--json-lines", "--no-echo", "--likeliest"});
  }
}

// The same of a model that fills in blanks: of all options these alone are of use to it.
void CheckForBlanks(const CLI::App& command) {
  const std::set<std::string> useful = {"MODEL",       "--prompt", "--file",
                                        "--likeliest", "--json",   "--threads"};
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || useful.contains(option->get_name())) continue;
    throw Error(
        fmt::format("{} is for models that write text, and this one fills in blanks: leave it out",
                    option->get_name()));
  }
}

void CheckBias(const runtime::Model& model, const std::vector<LogitBias>& biases) {
  for (const LogitBias& bias : biases) {
    if (bias.token >= 0 && bias.token < model.vocabulary()) continue;
    throw Error(fmt::format(
        "--bias is given for token {}, and the model's vocabulary has {}, 0 to {}; leave it out",
        bias.token, model.vocabulary(), model.vocabulary() - 1));
  }
}

// Returns the signal that stopped it, or 0.
int RunGenerate(GenerateArguments& arguments, const CLI::App& command) {
  CheckJsonOutput(arguments.json);
  CheckJsonOutput(arguments.json_lines);
  CheckThreads(arguments.threads);
  if (!arguments.save_session.empty()) report::CheckWritable(arguments.save_session);
  arguments.options.sampling.logit_bias = BiasOf(arguments.bias);
  arguments.options.sampling.seed = arguments.seed.value_or(std::random_device()());
  arguments.options.stop_at_end = !arguments.ignore_end;
  const std::optional<std::string> prompt = arguments.chat ? arguments.prompt : PromptOf(arguments);

  GenerateStats stats;
  auto start = Clock::now();
  RequireKnownTask(arguments.model);
  const runtime::Model model =
      runtime::Model::Load(arguments.model, LoadOptionsFor(arguments.endless, arguments.threads));
  stats.load_seconds = SecondsSince(start);
  if (model.use() == runtime::Use::kMaskedModel) {
    CheckForBlanks(command);
    FillBlanks(model, prompt.value(), arguments);
    return 0;
  }
  if (model.use() != runtime::Use::kLanguageModel) {
    throw Error("this model does not write text: it tells classes; see cosformer score");
  }

  if (arguments.options.likeliest > 0 && !arguments.chat && !arguments.WantsJson()) {
    throw Error("--likeliest is for --json and --json-lines: give one too, or leave it out");
  }
  CheckEndless(arguments.endless, model);
  CheckBias(model, arguments.options.sampling.logit_bias);
  if (!arguments.prompts.empty()) return WriteForPrompts(model, arguments, stats);
  if (!arguments.chat && !arguments.session.empty() && !prompt && StandardInputHasText()) {
    fmt::print(stderr, "cosformer: with --session standard input is not read; --file - reads it\n");
  }

  runtime::Session session = arguments.session.empty()
                                 ? runtime::Session(model)
                                 : runtime::Session::Load(model, arguments.session);
  if (arguments.endless.endless && session.max_tokens()) {
    throw Error(
        fmt::format("--endless is not for \"{}\", as {}", arguments.session, WhyItEnds(session)));
  }
  const std::vector<int32_t> tokens = TokensOf(model, arguments, prompt);
  // Of a long prompt the session alone would know the latest.
  std::vector<int32_t>& before = arguments.options.before;
  before = session.recent();
  before.insert(before.end(), tokens.begin(), tokens.end());
  start = Clock::now();
  FeedWithProgress(session, tokens);
  stats.prompt_tokens = static_cast<int64_t>(tokens.size());
  stats.prompt_seconds = SecondsSince(start);
  if (arguments.chat) return Chat(model, session, arguments, stats);

  std::FILE* out = TextOutput(arguments);
  std::string echoed = Echoed(model, arguments, prompt);
  if (arguments.beams > 0) {
    SearchBeams(session, arguments, echoed);
    return 0;
  }
  nlohmann::json tokens_json = nlohmann::json::array();
  JsonLines json_lines(arguments.json_lines);
  const Interrupt interrupt;
  start = Clock::now();
  const runtime::Generated result =
      Generate(session, arguments.options, [&](const runtime::GeneratedToken& token) {
        // Nothing before it is known that the options are in order.
        PrintText(
            std::exchange(echoed, "") +
                (model.tokenizer() == nullptr ? fmt::format("{}\n", token.token) : token.text),
            out);
        if (!arguments.json.empty()) tokens_json.push_back(TokenJson(model, token));
        if (json_lines.wanted()) json_lines.Write(LineJson(model, token));
        return interrupt.Signal() == 0;
      });
  stats.tokens = static_cast<int64_t>(result.tokens.size());
  stats.seconds = SecondsSince(start);
  PrintText(model.tokenizer() == nullptr ? "" : "\n", out);
  if (!arguments.save_session.empty()) {
    // All of the text, so that it can be gone on with.
    if (HasRoom(session)) session.Feed(result.tokens.back());
    session.Save(arguments.save_session);
  }
  if (arguments.stats) {
    fmt::print(stderr, "\n{}seed      {}\n", DescribeStats(session, stats),
               arguments.options.sampling.seed);
  }
  if (result.reason == runtime::StopReason::kLimit) {
    fmt::print(stderr, "cosformer: the text ends here, as {}\n", WhyItEnds(session));
  }
  if (arguments.WantsJson()) {
    nlohmann::json json = ResultJson(result, arguments.options.sampling.seed, tokens.size());
    json["stats"] = StatsJson(stats);
    json_lines.Write(json);
    json["tokens"] = std::move(tokens_json);
    WriteJson(json, arguments.json);
  }
  return interrupt.Signal();
}

}  // namespace

std::vector<int32_t> FirstTokens(const runtime::Model& model, const std::string& prompt) {
  std::vector<int32_t> tokens = model.Encode(prompt);
  if (!tokens.empty()) return tokens;
  // After the end of one text, another begins.
  const int32_t end = model.tokenizer()->special().end;
  if (end < 0) {
    throw Error(
        "the prompt is empty, and the model's tokenizer has no token that begins a text; "
        "give some text");
  }
  return {end};
}

void FeedWithProgress(runtime::Session& session, std::span<const int32_t> tokens) {
  constexpr size_t kPart = 8192;
  const size_t all = tokens.size();
  report::Progress progress;
  const auto start = Clock::now();
  for (size_t done = 0; done < all;) {
    const size_t count = std::min(kPart, all - done);
    // What can't be read is refused before anything is.
    if (done == 0) session.Check(tokens);
    session.Feed(tokens.subspan(done, count));
    done += count;
    const double seconds = SecondsSince(start);
    if (seconds > 1 && done < all) {
      progress.Show(fmt::format("reading the prompt: {} of {} tokens, {} left",
                                report::FormatInteger(static_cast<int64_t>(done)),
                                report::FormatInteger(static_cast<int64_t>(all)),
                                report::FormatDuration(seconds * static_cast<double>(all - done) /
                                                       static_cast<double>(done))));
    }
  }
  progress.Clear();
}

bool HasRoom(const runtime::Session& session) {
  const std::optional<int64_t> most = session.max_tokens();
  return !most || session.position() < *most;
}

std::string WhyItEnds(const runtime::Session& session) {
  const runtime::Model& model = session.model();
  const int64_t most = session.max_tokens().value();
  if (model.max_tokens() != most) {
    return fmt::format(
        "its session was begun to end with the horizon, {}; begin another session, which goes on",
        most);
  }
  return fmt::format("{} {}{}", model.network().LimitReason(), most,
                     model.network().endless() ? "" : "; without --no-endless it would go on");
}

std::string DescribeStats(const runtime::Session& session, const GenerateStats& stats) {
  return DescribeStats(session.model(), session.state_bytes(), session.position(), stats);
}

std::string DescribeStats(const runtime::Model& model, size_t state_bytes, int64_t context,
                          const GenerateStats& stats) {
  const auto rate = [](int64_t tokens, double seconds) {
    return tokens == 0 ? std::string("0 tokens")
                       : fmt::format("{} tokens in {}, {} tokens/s", report::FormatInteger(tokens),
                                     report::FormatSeconds(seconds),
                                     report::FormatCount(static_cast<double>(tokens) / seconds));
  };
  return fmt::format(
      "load      {}\nprompt    {}\ntext      {}\nmemory    {} of weights, {} for {} tokens of "
      "context, {} at its highest\n",
      report::FormatSeconds(stats.load_seconds), rate(stats.prompt_tokens, stats.prompt_seconds),
      rate(stats.tokens, stats.seconds),
      report::FormatBytes(static_cast<double>(model.weight_bytes())),
      report::FormatBytes(static_cast<double>(state_bytes)), report::FormatInteger(context),
      report::FormatBytes(static_cast<double>(PeakBytes())));
}

void AddGenerate(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("generate", kGenerateDescription);
  command->footer(kGenerateFooter);
  command->get_formatter()->column_width(36);
  command->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<GenerateArguments>();
  runtime::GenerateOptions& options = arguments->options;
  SamplingOptions& sampling = options.sampling;
  sampling.temperature = 0.8;

  command->add_option("MODEL", arguments->model, "A model's directory, or a run's")->required();
  const auto text = [&](const char* name, std::string& to, const char* help) {
    command->add_option(name, to, help)->default_str("");
  };
  CLI::Option* prompt =
      command->add_option("--prompt", arguments->prompt, "Text to go on after; may be empty");
  prompt->group("Prompt");
  command->add_option("--file", arguments->file, "The same from a file; - for standard input")
      ->default_str("")
      ->group("Prompt");
  command
      ->add_option("--prompt-tokens", arguments->prompt_tokens,
                   "The same as numbers of tokens, as 5,17,3")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->default_str("")
      ->group("Prompt");
  command
      ->add_option(
          "--prompts", arguments->prompts,
          "A file with a prompt a line, for each of which a text is written; - for standard "
          "input")
      ->default_str("")
      ->group("Prompt");
  command->add_flag("--no-echo", arguments->no_echo, "Leave out the prompt, write the text alone")
      ->group("Prompt");

  command
      ->add_option(
          "--max-tokens", options.max_tokens,
          "Tokens to write at most; 0: any number, until the text ends by itself, by --stop "
          "or by Ctrl-C")
      ->check(WholeNumber<int64_t>())
      ->group("Text");
  command->add_option("--temperature", sampling.temperature, "0: always the likeliest token")
      ->group("Text");
  command->add_option("--top-k", sampling.top_k, "Of the K likeliest tokens only; 0: of all")
      ->check(WholeNumber<int64_t>())
      ->group("Text");
  command
      ->add_option("--top-p", sampling.top_p, "Of the fewest likeliest that have this probability")
      ->group("Text");
  command
      ->add_option("--min-p", sampling.min_p,
                   "Of those at least this many times as likely as the likeliest")
      ->group("Text");
  command
      ->add_option("--repetition-penalty", sampling.repetition_penalty,
                   "Above 1: recent tokens become less likely")
      ->group("Text");
  command
      ->add_option("--repetition-window", sampling.repetition_window,
                   "How many tokens are recent; 0: all. Of a saved session, and in a chat, the "
                   "latest 1,024 are known")
      ->group("Text");
  command
      ->add_option(
          "--bias", arguments->bias,
          "TOKEN=VALUE, added to the token's logit; 13=-inf forbids it; may be given again")
      ->allow_extra_args(false)
      ->default_str("")
      ->group("Text");
  command->add_option("--stop", options.stop, "End before this text; may be given again")
      ->allow_extra_args(false)
      ->default_str("")
      ->group("Text");
  command->add_flag("--ignore-end", arguments->ignore_end, "Go on after the token that ends a text")
      ->group("Text");
  command->add_option("--seed", arguments->seed, "The same seed, the same text")
      ->check(WholeNumber<uint64_t>())
      ->group("Text");
  command->add_option("--beams", arguments->beams, "Search for so many of the likeliest texts")
      ->check(WholeNumber<int64_t>())
      ->group("Text");
  command
      ->add_option("--length-penalty", arguments->length_penalty,
                   "Beams: ranked by log-probability / length ^ this")
      ->group("Text");

  text("--session", arguments->session,
       "Go on with the text saved in this file, as it is or with --prompt or --file behind it");
  text("--save-session", arguments->save_session, "Save the text's state there, a few MB");
  AddEndlessOptions(*command, arguments->endless);
  command->add_flag("--chat", arguments->chat, "Line by line: yours, then the model's");
  command->add_option("--turn", arguments->turn,
                      "Chat: what is made of a line, {} being the line and \\n a new one");
  command->add_option(
      "--likeliest", options.likeliest,
      "Also give so many of the likeliest tokens at each place, with --json or --json-lines; of a "
      "<mask>, 0: five");
  command->add_option("--threads", arguments->threads, "Threads; 0: all cores");
  command->add_flag("--stats", arguments->stats,
                    "Tokens a second and memory, on stderr; in a chat after every answer");
  AddJsonOption(*command, arguments->json);
  command
      ->add_option("--json-lines", arguments->json_lines,
                   "Write every token to this file as it comes, an object a line, and what --json "
                   "has of the text as the last; - for standard output, the text then going to "
                   "standard error")
      ->default_str("");
  command->callback([arguments, command, &code] {
    CheckTogether(*arguments, *command);
    const int signal = RunGenerate(*arguments, *command);
    code = signal != 0 ? 128 + signal : 0;
  });
}

}  // namespace cosformer::cli
