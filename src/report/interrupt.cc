#include "report/interrupt.h"

#include <csignal>

namespace cosformer {
namespace {

volatile std::sig_atomic_t received = 0;

void LetSignalsEndTheProcess() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

// Both, since Ctrl-C after a SIGTERM means the same as after another Ctrl-C.
void Remember(int signal) {
  received = signal;
  LetSignalsEndTheProcess();
}

}  // namespace

Interrupt::Interrupt() {
  received = 0;
  struct sigaction action {};
  action.sa_handler = Remember;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Interrupt::~Interrupt() { LetSignalsEndTheProcess(); }

int Interrupt::Signal() const { return received; }

}  // namespace cosformer
