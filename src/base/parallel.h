// Threads: how many a piece of work is worth, and the loops that share it out.
//
// A team of threads pays where it saves more time than it costs to start and to wait for. Teams are
// OpenMP's, so that they are those of libtorch and of its BLAS as well. No result depends on how
// many threads there are: pieces are cut by the size of the work alone.
#pragma once

#include <omp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>

namespace cosformer {

// What a region computes and moves, all threads together. Rough figures will do.
struct Work {
  double flops = 0;
  double bytes = 0;
};

// `threads`, or all cores for 0.
int ThreadsOr(int threads);

// The threads that share a region, while it runs. Most regions make one, call Run() once and drop
// it.
//
//   Team team(threads, tasks, {.flops = 2.0 * rows * columns});
//   std::vector<float> scratch(team.size() * each);
//   team.Run(tasks, [&](int64_t task, int thread) { ... });
class Team {
 public:
  // At most `threads` (0: all cores) and one per piece; one thread where the work is too small for
  // more, or where teams were lately slower than one thread, as they are when
  // other processes keep the cores busy. With COSFORMER_TEAMS=always in the environment, teams are
  // used untried.
  Team(int threads, int64_t pieces, Work work);
  // Takes note of how long the region took.
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  // Calls body(piece, thread) for pieces 0 to n - 1, each on whichever thread is free. Throws what
  // a body threw, one of them if several did; once one has, no more are begun.
  template <class Body>
  void Run(int64_t n, const Body& body) const {
    // Never a parallel region of one thread: OpenMP would take regions inside of it for nested
    // ones, and start and end threads for each.
    if (size_ == 1) {
      for (int64_t i = 0; i < n; ++i) body(i, 0);
      return;
    }
    std::exception_ptr failure;
    std::atomic<bool> failed = false;
#pragma omp parallel for schedule(dynamic, 1) num_threads(size_)
    for (int64_t i = 0; i < n; ++i) {
      if (failed.load(std::memory_order_relaxed)) continue;
      try {
        body(i, omp_get_thread_num());
      } catch (...) {
        failed = true;
#pragma omp critical(cosformer_team_run)
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

  // The same with pieces of equal work: neighbours go to one thread.
  template <class Body>
  void RunEvenly(int64_t n, const Body& body) const {
    Run(size_, [&](int64_t part, int thread) {
      for (int64_t i = n * part / size_; i < n * (part + 1) / size_; ++i) body(i, thread);
    });
  }

 private:
  using Clock = std::chrono::steady_clock;

  int size_ = 1;
  bool timed_ = false;  // so that the next teams learn from it
  size_t kind_ = 0;
  Clock::time_point begin_;
};

// Calls body(i) for i = 0 to n - 1 where each takes so long that threads are worth it in any case.
template <class Body>
void ParallelFor(int64_t n, int threads, const Body& body) {
  constexpr Work kLong = {.flops = 1e12};
  Team(threads, n, kLong).Run(n, [&](int64_t i, int) { body(i); });
}

}  // namespace cosformer
