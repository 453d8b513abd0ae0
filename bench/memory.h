// What a call needs in memory beyond what it was given, and what the machine has left.
#pragma once

#include <cstdint>
#include <optional>

namespace cosformer::bench {

// Bytes that can be allocated without swapping: the system's figure, or the container's limit where
// that is lower.
int64_t AvailableMemory();

// From here on an allocation beyond what is available fails, instead of the process being killed
// when it touches what it was given.
void RefuseMoreThanAvailable();

// Watches how far the process's resident memory rises. The kernel counts pages in batches a thread,
// so a reading is right to some hundred KiB.
class PeakMemory {
 public:
  // Gives freed memory back to the system first, so that a call that reuses it is seen to need it.
  PeakMemory();

  // The rise since construction at its highest; nothing where the kernel does not let a process
  // reset its peak (a hardened /proc).
  std::optional<int64_t> Rise() const;
  // The process's resident memory at its highest since construction.
  std::optional<int64_t> Peak() const;

 private:
  std::optional<int64_t> resident_;
};

}  // namespace cosformer::bench
