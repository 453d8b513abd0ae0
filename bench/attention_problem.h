// One attention problem as the benchmark poses it: its tensors, and the call of each system on
// them.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/tensor.h"
#include "cosformer/attention.h"

namespace cosformer::bench {

enum class System { kCosformer, kLinear, kSoftmax };
enum class Pass { kForward, kForwardBackward, kStep };

// As options and JSON spell them: "cosformer", "forward_backward".
const char* NameOf(System system);
const char* NameOf(Pass pass);
// As a table or a plot shows them: "cosFormer", "forward + backward".
const char* TitleOf(System system);
const char* TitleOf(Pass pass);

// What stays the same over a benchmark.
struct AttentionShape {
  int64_t batch = 1;
  int64_t heads = 8;
  int64_t kv_heads = 8;
  int64_t dim = 64;
  int64_t value_dim = 64;
  DType dtype = DType::kFloat32;
};

LinearKernel KernelOf(System system, int64_t horizon);

// Operations and bytes that the mathematics asks for; what an implementation does beyond them does
// not count. With H query heads, G key/value heads, d = dim, e = value_dim, for each token:
//   cosFormer, forward    4 d e (H + G): two states (cos and sin) absorb a key a key/value head,
//                         and are read by a query a query head; 8 d e a head where H = G
//   cosFormer, backward   4 d e (2 H + 3 G): dq reads the states, which absorb k and v again; the
//                         reverse states absorb q and d_o, and are read for dk and for dv
//   linear                half of both: one state
// and for each pair of a query and a key that it attends to, a query head:
//   softmax, forward      2 d + 2 e: the score, and the sum of values
//   softmax, backward     6 d + 4 e: the score again, dp, dv, dq, dk; 2.5 times the forward where
//                         d = e
double UsefulOperations(System system, Pass pass, const AttentionShape& shape, int64_t length,
                        bool causal);

// A decoding step is bound by bytes. Linear: the state [2 or 1, d, e + 1] of each key/value head in
// float32, read and written once, also where ReLU's zeros spare writing rows. Softmax: the keys and
// values of `length` tokens, read once.
double UsefulStepBytes(System system, const AttentionShape& shape, int64_t length);

class AttentionProblem {
 public:
  // `gradients`: also allocate what a backward pass reads and writes.
  AttentionProblem(const AttentionShape& shape, int64_t length, uint64_t seed, bool gradients);

  // Bytes that the constructor will allocate.
  static double Bytes(const AttentionShape& shape, int64_t length, bool gradients);

  const AttentionShape& shape() const { return shape_; }
  int64_t length() const { return length_; }
  uint64_t seed() const { return seed_; }

  // With a horizon of `length`.
  void Forward(System system, bool causal, int threads);
  // After Forward of the same system.
  void Backward(System system, bool causal, int threads);

  // Inputs: d_o is random like q, k and v until someone fills it otherwise.
  Tensor q, k, v, d_o;
  // Outputs.
  Tensor o, dq, dk, dv;
  AlignedFloats normaliser;  // [batch, length, heads]; log-sum-exp for softmax

  void FillGradientOfOutput() { d_o.FillRandom(seed_ + 3); }
  void PoisonOutputs();

 private:
  LinearOptions LinearOptionsOf(System system, bool causal, int threads) const;
  static SoftmaxOptions SoftmaxOptionsOf(bool causal, int threads);

  AttentionShape shape_;
  int64_t length_;
  uint64_t seed_;
};

// Decoding: the tokens before the problem's last are behind a state or cache, the last is the step
// to take, again and again.
class Decoder {
 public:
  // A linear state may take this many steps after Rewind.
  static constexpr int64_t kMostSteps = int64_t{1} << 20;

  Decoder(System system, const AttentionProblem& problem);

  System system() const { return system_; }
  int64_t horizon() const { return horizon_; }
  // Of the state or cache.
  size_t bytes() const { return state_ ? state_->bytes() : cache_->bytes(); }

  // Back to before the last token.
  void Rewind();
  // Takes the step and writes o [batch, 1, heads, value_dim]. A linear state goes on from there, a
  // cache goes back, so that its length stays the same.
  void Step(const AttentionProblem& problem, Tensor& o, int threads);

 private:
  System system_;
  int64_t horizon_;
  std::optional<LinearState> before_;  // after all tokens but the last
  std::optional<LinearState> state_;
  std::optional<SoftmaxCache> cache_;
};

}  // namespace cosformer::bench
