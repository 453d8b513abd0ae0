// Batches made beside the computation, in a thread of their own, a few ahead.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "data/batches.h"

namespace cosformer::data {

// The next batch to take: where a run is in its data.
struct Place {
  int64_t epoch = 0;
  int64_t batch = 0;

  bool operator==(const Place&) const = default;
};

class Loader {
 public:
  // Epoch after epoch, without end, from `place` on. `batches` must outlive the loader.
  Loader(const Batches& batches, Place place);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  struct Loaded {
    Batch batch;
    Place next;  // the place after it
  };
  // Waits if there is none yet. What went wrong in making it is thrown here.
  Loaded Next();

  // Time spent in Next() for want of a batch.
  double waited_seconds() const { return waited_; }

 private:
  void Run(Place place);

  static constexpr size_t kAhead = 8;

  const Batches& batches_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Loaded> ready_;
  std::exception_ptr failure_;
  bool stop_ = false;
  double waited_ = 0;
  std::thread thread_;
};

}  // namespace cosformer::data
