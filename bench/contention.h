// Whether a measurement had the machine to itself.
#pragma once

#include <cstdint>
#include <optional>

namespace cosformer::bench {

// How long the threads of this process waited for a core while they had work to do: other programs
// had it. The kernel counts that to the nanosecond.
class Contention {
 public:
  Contention() : begin_(Read()) {}

  // Of the time since then that they ran or waited, the part in which they waited; nothing where
  // the kernel does not tell.
  std::optional<double> WaitedPart() const;

 private:
  struct Times {
    int64_t ran = 0, waited = 0;  // nanoseconds
  };
  static std::optional<Times> Read();

  std::optional<Times> begin_;
};

}  // namespace cosformer::bench
