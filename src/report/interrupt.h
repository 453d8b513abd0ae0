// SIGINT and SIGTERM as a question that the loop asks between steps.
#pragma once

namespace cosformer {

// While it lives, the first signal is remembered; a second one ends the process at once, as without
// it. One at a time.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  // The signal that came, or 0.
  int Signal() const;
};

}  // namespace cosformer
