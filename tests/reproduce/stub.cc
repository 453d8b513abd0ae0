// Stands in for `cosformer` in tests of what runs it: the first word says what to do.
//
//   write FILE TEXT        leaves a file
//   fail SENTENCE [CODE]   says it as the program does, and ends with the code
//   crash                  ends by SIGSEGV
//   swallow MIB            takes so much memory, and waits
//   wait FILE              makes the file, waits for SIGTERM or SIGINT, writes its number there
//   train ...              as cosformer train: a checkpoint half way, metrics, results
//
// With STUB_LOG every call is appended to that file. With STUB_KILL_AT=N and STUB_KILL=before|half|
// after, call N kills the process that started it, before doing anything, half way or at the end,
// and itself.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t got = 0;

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string Option(const std::vector<std::string>& words, const std::string& name) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == name) return words[i + 1];
  }
  return "";
}

// The number of this call, counted in the log.
int Count(const std::string& log, const std::vector<std::string>& words) {
  {
    std::ofstream file(log, std::ios::app);
    for (const std::string& word : words) file << word << ' ';
    file << '\n';
  }
  std::ifstream file(log);
  return static_cast<int>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

class Killer {
 public:
  explicit Killer(const std::vector<std::string>& words) {
    const char* log = std::getenv("STUB_LOG");
    const char* at = std::getenv("STUB_KILL_AT");
    const char* where = std::getenv("STUB_KILL");
    const int call = log != nullptr ? Count(log, words) : 0;
    if (at != nullptr && where != nullptr && std::atoi(at) == call) where_ = where;
  }
  void Here(const char* where) const {
    if (where_ != where) return;
    kill(getppid(), SIGKILL);
    kill(getpid(), SIGKILL);
  }

 private:
  std::string where_;
};

int Train(const std::vector<std::string>& words, const Killer& killer) {
  const std::string resumed = Option(words, "--resume");
  const std::string run = resumed.empty() ? Option(words, "--out") : resumed;
  const std::string checkpoint = run + "/checkpoints/step-00000001.safetensors";
  if (resumed.empty() && fs::exists(checkpoint)) {
    std::cerr << "cosformer: holds a run already\n";
    return 1;
  }
  fs::create_directories(run + "/checkpoints");
  Write(run + "/recipe.toml", "steps=2\n");
  Write(run + "/metrics.jsonl",
        R"({"kind":"train","step":1,"loss":2.5,"learning_rate":0.1,"gradient":1,"tokens":8,)"
        R"("seconds":1,"tokens_per_second":8})"
        "\n");
  Write(checkpoint, "");
  killer.Here("half");
  const std::string minutes = Option(words, "--minutes");
  Write(Option(words, "--json"),
        R"({"parameters":10,"step":2,"tokens":16,"seconds":2,"tokens_per_second":8,)"
        R"("peak_bytes":1,"minutes":")" +
            minutes + R"(","test":{"loss":2.0},"best":{"loss":2.0}})");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "train" && words.size() > 1 && words[1] == "--help") return 0;
  alarm(100);  // a test that is broken shall not wait for ever
  const Killer killer(words);
  killer.Here("before");
  int code = 0;
  if (verb == "write") {
    Write(words.at(1), words.at(2));
    killer.Here("half");
  } else if (verb == "fail") {
    std::cerr << "working\ncosformer: " << words.at(1) << "\n";
    code = words.size() > 2 ? std::stoi(words[2]) : 1;
  } else if (verb == "crash") {
    std::cerr << "working" << std::endl;
    signal(SIGSEGV, SIG_DFL);  // a sanitizer would make an exit of it
    raise(SIGSEGV);
  } else if (verb == "swallow") {
    const size_t bytes = std::stoul(words.at(1)) << 20;
    volatile char* memory = static_cast<char*>(std::malloc(bytes));
    for (size_t i = 0; i < bytes; i += 4096) memory[i] = 1;  // volatile: or nothing is touched
    for (;;) pause();
  } else if (verb == "wait") {
    struct sigaction action {};
    action.sa_handler = [](int number) { got = number; };
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
    Write(words.at(1), "");
    while (got == 0) usleep(1000);
    Write(words.at(1), std::to_string(got));
    code = 128 + got;
  } else if (verb == "train") {
    code = Train(words, killer);
  } else {
    std::cerr << "cosformer: the stub does not know " << verb << "\n";
    code = 2;
  }
  killer.Here("after");
  return code;
}
