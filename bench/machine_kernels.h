// The three inner loops with which machine.cc finds the machine's limits, for the best instruction
// set of this CPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cosformer::bench {

// Keeps the multiply-add units busy for 6 to 12 cycles an iteration; returns the operations done,
// counting a multiply-add as two. *sink receives a result that depends on all of them.
double MultiplyAdds(size_t iterations, float* sink);

// Reads memory of any kind; returns the exclusive or of its bytes, so that no read is idle.
uint8_t ReadAll(const uint8_t* data, size_t bytes);

// Reads and writes each of `count` floats once, in order, from cache-line aligned memory.
void UpdateAll(float* data, size_t count);

}  // namespace cosformer::bench
