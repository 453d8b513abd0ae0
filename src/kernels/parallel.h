// Work of unlike pieces, shared out among threads, which may throw.
#pragma once

#include <cstdint>
#include <exception>

namespace cosformer {

// Calls body(i) for i = 0 to n - 1, each on whichever thread is free. Throws what a body threw, one
// of them if several did.
template <class Body>
void ParallelFor(int64_t n, int threads, const Body& body) {
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
  for (int64_t i = 0; i < n; ++i) {
    try {
      body(i);
    } catch (...) {
#pragma omp critical(cosformer_parallel_for)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace cosformer
