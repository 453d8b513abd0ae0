// What one call of an attention is told, as a value that a test can write down, draw at random and
// print. Both systems read it: linear attention takes the kernel, softmax attention the scale.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cosformer/attention.h"
#include "tensor.h"

namespace cosformer::testing {

struct Case {
  int64_t batch = 1;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t dim = 1;
  int64_t value_dim = 1;
  bool causal = true;
  std::vector<int64_t> query_lengths, key_lengths;
  std::vector<int64_t> query_offsets, key_offsets;
  DType inputs = DType::kFloat32;     // q, k, v
  DType outputs = DType::kFloat32;    // o, d_o
  DType gradients = DType::kFloat32;  // dq, dk, dv
  bool strided = false;               // else dense
  int threads = 1;
  LinearKernel kernel;
  bool forgets = false;  // linear, causal
  float scale = 0;
  float mean = 0;  // of the elements of q and k, which are normal with deviation 1
  uint64_t seed = 0;

  Sequences SequencesView() const {
    return {query_lengths, key_lengths, query_offsets, key_offsets};
  }
};

// As many queries as keys, one sequence a batch entry, a horizon that suffices.
Case SelfAttention(int64_t length, int64_t dim, bool causal = true);

// Over all options, with lengths around chunk boundaries. Reproducible by the seed.
Case RandomCase(uint64_t seed);

// Causal self attention over one whole sequence a batch entry, else at random.
Case RandomStream(uint64_t seed, int64_t length);

std::string Describe(const Case& c);

const std::vector<FeatureMap>& AllFeatureMaps();
const char* Name(FeatureMap map);

}  // namespace cosformer::testing
