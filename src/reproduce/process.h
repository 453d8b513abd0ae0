// One child process: its output in a log, its time and memory limited, watched until it ends.
// Signals that reach this program are passed on, and the child is waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/interrupt.h"

namespace cosformer::reproduce {

struct Process {
  std::string program;             // a path
  std::vector<std::string> words;  // its arguments
  std::string log;                 // standard output and error are appended here
  // Bytes that may be resident; 0: any number. It is looked at fifty times a second and killed when
  // it has more. Not with RLIMIT_AS or RLIMIT_DATA: libtorch reserves gigabytes that it never
  // touches, and OpenBLAS, when an allocation fails, crashes or tries again for ever.
  int64_t memory = 0;
  // It is stopped after so many: first SIGTERM, ten seconds later SIGKILL; 0: never.
  double seconds = 0;
};

struct Ending {
  int code = 0;                // of its exit, if no signal ended it
  int signal = 0;              // that ended it
  bool out_of_time = false;    // stopped after Process::seconds
  bool out_of_memory = false;  // killed for having more than Process::memory
  int interrupted = 0;         // the signal that this program got meanwhile, and passed on
  double seconds = 0;
  int64_t peak_bytes = 0;  // resident
};

// `watch` is called four times a second. Throws Error if the log can't be written or no process
// can be started; a program that isn't there ends with code 127, as in a shell.
Ending RunProcess(const Process& process, const Interrupt& interrupt,
                  const std::function<void()>& watch);

}  // namespace cosformer::reproduce
