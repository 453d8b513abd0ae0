// Signals, in processes of their own.
#include "report/interrupt.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace cosformer {
namespace {

constexpr int kFine = 17;  // an exit code that nothing else gives

// How a process ended that did this and then left with kFine.
int StatusOf(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(kFine);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

void Require(bool holds) {
  if (!holds) _exit(1);
}

#define EXPECT_FINE(status) EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kFine) << status
#define EXPECT_ENDED_BY(status, signal) \
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == (signal)) << status

TEST(InterruptTest, TheFirstSignalIsRemembered) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_FINE(StatusOf([&] {
      const Interrupt interrupt;
      Require(interrupt.Signal() == 0);
      raise(signal);
      Require(interrupt.Signal() == signal);
    }));
  }
}

TEST(InterruptTest, TheSecondEndsTheProcessWhicheverItIs) {
  for (const int first : {SIGINT, SIGTERM}) {
    for (const int second : {SIGINT, SIGTERM}) {
      EXPECT_ENDED_BY(StatusOf([&] {
                        const Interrupt interrupt;
                        raise(first);
                        raise(second);
                      }),
                      second);
    }
  }
}

TEST(InterruptTest, AfterwardsSignalsDoAsBefore) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_ENDED_BY(StatusOf([&] {
                      { const Interrupt interrupt; }
                      raise(signal);
                    }),
                    signal);
  }
}

TEST(InterruptTest, EachBeginsAnew) {
  EXPECT_FINE(StatusOf([] {
    {
      const Interrupt interrupt;
      raise(SIGINT);
      Require(interrupt.Signal() == SIGINT);
    }
    const Interrupt interrupt;
    Require(interrupt.Signal() == 0);
    raise(SIGINT);
    Require(interrupt.Signal() == SIGINT);
  }));
}

TEST(InterruptTest, OtherSignalsAreNotItsBusiness) {
  EXPECT_ENDED_BY(StatusOf([] {
                    const Interrupt interrupt;
                    raise(SIGHUP);
                  }),
                  SIGHUP);
}

}  // namespace
}  // namespace cosformer
