// What `cosformer bench generate` sets times against: the operations and bytes that the mathematics
// asks for. What an implementation does beyond them does not count.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/machine.h"
#include "runtime/network.h"

namespace cosformer::bench {

struct GenerateWork {
  double operations = 0;  // two a multiply-add
  double bytes = 0;
};

// A prompt of so many tokens, through all weights but the output layer.
GenerateWork PrefillWork(const runtime::Network& network, int64_t tokens);

// A token each for `batch` texts with `context` tokens behind it.
GenerateWork StepWork(const runtime::Network& network, int64_t context, int64_t batch);

// The memory of the weights that a step reads, scales left out.
std::vector<Bytes> WeightMemory(const runtime::Network& network);

}  // namespace cosformer::bench
