// The three inner loops with which machine.cc finds the machine's limits, for the best instruction
// set of this CPU.
#pragma once

#include <cstddef>

namespace cosformer::bench {

// Keeps the multiply-add units busy for 6 to 12 cycles an iteration; returns the operations done,
// counting a multiply-add as two. *sink receives a result that depends on all of them.
double MultiplyAdds(size_t iterations, float* sink);

// Reads `count` floats from cache-line aligned memory; returns their sum, so that no read is idle.
float ReadAll(const float* data, size_t count);

// Reads and writes each of `count` floats once, in order, from cache-line aligned memory.
void UpdateAll(float* data, size_t count);

}  // namespace cosformer::bench
