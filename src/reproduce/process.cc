#include "reproduce/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include "cosformer/error.h"

namespace cosformer::reproduce {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll{20};
constexpr std::chrono::milliseconds kWatch{250};  // what is shown need not be that new
constexpr std::chrono::seconds kGrace{10};        // between asking to end and ending

int OpenLog(const std::string& path) {
  const int log = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log < 0) throw Error(fmt::format("cannot write \"{}\": {}", path, std::strerror(errno)));
  return log;
}

// Resident bytes of a process; 0 once it has ended.
int64_t ResidentBytes(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/statm", process));
  int64_t all = 0, resident = 0;
  if (!(file >> all >> resident)) return 0;
  return resident * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

// Between fork and exec: nothing that allocates or throws.
[[noreturn]] void Become(char** argv, int log, pid_t parent) {
  // A group of its own: Ctrl-C on a terminal reaches the whole group, and what is then passed on
  // would be a second signal, which ends a training without saving.
  setpgid(0, 0);
  // Who kills this program outright shall not leave a training behind.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  execv(argv[0], argv);
  constexpr char kSaid[] = "cosformer: the program cannot be started\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kSaid, sizeof(kSaid) - 1);
  _exit(127);
}

}  // namespace

Ending RunProcess(const Process& process, const Interrupt& interrupt,
                  const std::function<void()>& watch) {
  const int log = OpenLog(process.log);
  std::vector<char*> argv = {const_cast<char*>(process.program.c_str())};
  for (const std::string& word : process.words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const auto start = Clock::now();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) Become(argv.data(), log, parent);
  const int error = errno;
  close(log);
  if (child < 0) {
    throw Error(fmt::format("cannot start {}: {}", process.program, std::strerror(error)));
  }

  Ending ending;
  std::optional<Clock::time_point> kill_at;
  auto watched = start - kWatch;
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t ended = wait4(child, &status, WNOHANG, &usage);
    const auto now = Clock::now();
    if (ended == child) {
      ending.seconds = std::chrono::duration<double>(now - start).count();
      ending.peak_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
      if (WIFSIGNALED(status)) {
        ending.signal = WTERMSIG(status);
      } else {
        ending.code = WEXITSTATUS(status);
      }
      return ending;
    }
    if (ended < 0 && errno != EINTR) {
      throw Error(fmt::format("lost the process {}: {}", process.program, std::strerror(errno)));
    }
    if (ending.interrupted == 0 && interrupt.Signal() != 0) {
      ending.interrupted = interrupt.Signal();
      kill(child, ending.interrupted);
    }
    if (process.seconds > 0 && !kill_at &&
        now - start > std::chrono::duration<double>(process.seconds)) {
      ending.out_of_time = true;
      kill_at = now + kGrace;
      kill(child, SIGTERM);
    }
    if (kill_at && now > *kill_at) kill(child, SIGKILL);
    if (process.memory > 0 && ResidentBytes(child) > process.memory) {
      ending.out_of_memory = true;
      kill(child, SIGKILL);
    }
    if (watch && now - watched >= kWatch) {
      watch();
      watched = now;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace cosformer::reproduce
