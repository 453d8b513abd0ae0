#include "data/loader.h"

#include <chrono>
#include <utility>

namespace cosformer::data {

Loader::Loader(const Batches& batches, Place place)
    : batches_(batches), thread_([this, place] { Run(place); }) {}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::Run(Place place) {
  try {
    for (;; place = {place.epoch + 1, 0}) {
      const Batches::Plan plan = batches_.PlanOf(place.epoch);
      for (; place.batch < plan.batches(); ++place.batch) {
        Loaded loaded{batches_.Make(plan, place.batch), {place.epoch, place.batch + 1}};
        if (loaded.next.batch == plan.batches()) loaded.next = {place.epoch + 1, 0};
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || ready_.size() < kAhead; });
        if (stop_) return;
        ready_.push_back(std::move(loaded));
        changed_.notify_all();
      }
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

Loader::Loaded Loader::Next() {
  std::unique_lock lock(mutex_);
  if (ready_.empty() && !failure_) {
    const auto begin = std::chrono::steady_clock::now();
    changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  if (ready_.empty()) std::rethrow_exception(failure_);
  Loaded loaded = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return loaded;
}

}  // namespace cosformer::data
