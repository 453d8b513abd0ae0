// `cosformer generate --chat`: lines in, text out, with all that was said as context.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>

#include "cli/generate_options.h"
#include "formats/utf8.h"
#include "report/clock.h"
#include "report/interrupt.h"

namespace cosformer::cli {
namespace {

constexpr const char* kHelp =
    "/undo takes the last turn back, /reset forgets all, /save FILE and /load FILE keep the "
    "text's\n"
    "state, /stats shows speed and memory, /quit or Ctrl-D ends; Ctrl-C stops an answer. A line\n"
    "that is to begin with / is typed with two.\n";

// "{}" becomes the line, and the two characters \n a new line.
std::string Filled(const std::string& turn, const std::string& line) {
  std::string text;
  for (size_t i = 0; i < turn.size(); ++i) {
    if (turn.compare(i, 2, "{}") == 0) {
      text += line;
      ++i;
    } else if (turn.compare(i, 2, "\\n") == 0) {
      text += '\n';
      ++i;
    } else {
      text += turn[i];
    }
  }
  return text;
}

// On a terminal: the signal that came before a line did, or 0.
int WaitForLine() {
  constexpr int kMilliseconds = 200;  // a signal between asking and waiting is seen then
  const Interrupt interrupt;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (interrupt.Signal() == 0 && poll(&input, 1, kMilliseconds) <= 0) {
  }
  return interrupt.Signal();
}

class Conversation {
 public:
  Conversation(const runtime::Model& model, runtime::Session& session,
               const GenerateArguments& arguments, const GenerateStats& begun)
      : model_(model), session_(session), arguments_(arguments), turns_{session}, stats_(begun) {}

  // False: the end.
  bool Take(const std::string& line) {
    const bool escaped = line.starts_with("//");
    if (line.starts_with("/") && !escaped) return Command(line);
    try {
      Answer(escaped ? line.substr(1) : line);
    } catch (const Error&) {
      session_ = turns_.back();  // of a line without an answer nothing stays
      throw;
    }
    return true;
  }

 private:
  bool Command(const std::string& line) {
    const size_t blank = line.find(' ');
    const std::string word = line.substr(0, blank);
    const std::string rest = blank == std::string::npos ? "" : line.substr(blank + 1);
    if (word == "/quit") return false;
    if (word == "/undo") {
      Undo();
    } else if (word == "/reset") {
      session_.Reset();
      turns_ = {session_};
    } else if (word == "/save" && !rest.empty()) {
      session_.Save(rest);
      fmt::print(stderr, "saved after {} tokens\n", session_.position());
    } else if (word == "/load" && !rest.empty()) {
      session_ = runtime::Session::Load(model_, rest);
      turns_ = {session_};
    } else if (word == "/stats") {
      std::fputs(DescribeStats(session_, stats_).c_str(), stderr);
    } else {
      std::fputs(kHelp, stderr);
    }
    return true;
  }

  void Undo() {
    if (turns_.size() == 1) {
      fmt::print(stderr,
                 "nothing earlier is kept; of a long chat, the last {} turns can be taken back\n",
                 kTurns);
      return;
    }
    turns_.pop_back();
    session_ = turns_.back();
  }

  void Answer(const std::string& line) {
    CheckUtf8(line, "the line");
    const std::vector<int32_t> tokens = model_.Encode(Filled(arguments_.turn, line));
    if (tokens.empty() && session_.position() == 0) return;
    auto start = std::chrono::steady_clock::now();
    FeedWithProgress(session_, tokens);
    stats_.prompt_tokens = static_cast<int64_t>(tokens.size());
    stats_.prompt_seconds = report::SecondsSince(start);
    runtime::GenerateOptions options = arguments_.options;
    options.before.clear();  // the session knows them
    // Another text for the same line, also where the first was taken back; the same conversation
    // for the same seed.
    options.sampling.seed += asked_++;
    const Interrupt interrupt;
    start = std::chrono::steady_clock::now();
    const runtime::Generated result =
        Generate(session_, options, [&](const runtime::GeneratedToken& token) {
          std::fputs(token.text.c_str(), stdout);
          return std::fflush(stdout) == 0 && interrupt.Signal() == 0;
        });
    stats_.tokens = static_cast<int64_t>(result.tokens.size());
    stats_.seconds = report::SecondsSince(start);
    std::fputs("\n", stdout);
    std::fflush(stdout);
    if (arguments_.stats) std::fputs(DescribeStats(session_, stats_).c_str(), stderr);
    EndTurn(result.tokens.back());
  }

  void EndTurn(int32_t last) {
    if (HasRoom(session_)) {
      session_.Feed(last);
    } else {
      // No Error: the line had its answer.
      fmt::print(stderr,
                 "cosformer: the conversation is as long as the model can read ({} tokens); "
                 "/undo or /reset{}\n",
                 session_.position(),
                 arguments_.endless.no_endless ? ", or begin without --no-endless" : "");
    }
    turns_.push_back(session_);
    // Linear layers make them cheap; still they are not to pile up.
    if (turns_.size() > kTurns + 1) turns_.erase(turns_.begin());
  }

  static constexpr size_t kTurns = 32;  // that can be taken back

  const runtime::Model& model_;
  runtime::Session& session_;
  const GenerateArguments& arguments_;
  // What the session was before the first turn that can be taken back, and after each.
  std::vector<runtime::Session> turns_;
  uint64_t asked_ = 0;  // answers, those taken back too
  GenerateStats stats_;
};

}  // namespace

int Chat(const runtime::Model& model, runtime::Session& session, const GenerateArguments& arguments,
         const GenerateStats& begun) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) std::fputs(kHelp, stderr);
  Conversation conversation(model, session, arguments, begun);
  std::string line;
  int wrong = 0;
  int signal = 0;
  for (;;) {
    if (terminal) {
      std::fputs("> ", stderr);
      std::fflush(stderr);
      signal = WaitForLine();
      if (signal != 0) {
        std::fputs("\n", stderr);
        break;
      }
    }
    if (!std::getline(std::cin, line)) break;
    try {
      if (!conversation.Take(line)) break;
    } catch (const Error& error) {
      // One line was wrong; the text before it stands.
      fmt::print(stderr, "cosformer: {}\n", error.what());
      ++wrong;
    }
    if (std::ferror(stdout) != 0) break;
  }
  if (!arguments.save_session.empty()) session.Save(arguments.save_session);
  if (std::ferror(stdout) != 0) throw Error("the text could not be written to standard output");
  // On a terminal it was seen.
  if (wrong > 0 && !terminal) {
    throw Error(fmt::format("{} of the lines had no answer: see above", wrong));
  }
  return signal;
}

}  // namespace cosformer::cli
