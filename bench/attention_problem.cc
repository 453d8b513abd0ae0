#include "bench/attention_problem.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace cosformer::bench {

const char* NameOf(System system) {
  switch (system) {
    case System::kCosformer:
      return "cosformer";
    case System::kLinear:
      return "linear";
    case System::kSoftmax:
      return "softmax";
  }
  return "";
}

const char* NameOf(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kForwardBackward:
      return "forward_backward";
    case Pass::kStep:
      return "step";
  }
  return "";
}

const char* TitleOf(System system) {
  switch (system) {
    case System::kCosformer:
      return "cosFormer";
    case System::kLinear:
      return "Linear Transformer";
    case System::kSoftmax:
      return "softmax";
  }
  return "";
}

const char* TitleOf(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kForwardBackward:
      return "forward + backward";
    case Pass::kStep:
      return "decoding step";
  }
  return "";
}

LinearKernel KernelOf(System system, int64_t horizon) {
  LinearKernel kernel;
  if (system == System::kLinear) {
    kernel.feature_map = FeatureMap::kEluPlusOne;
    kernel.reweighting = Reweighting::kNone;
  } else {
    kernel.horizon = horizon;
  }
  return kernel;
}

double UsefulOperations(System system, Pass pass, const AttentionShape& shape, int64_t length,
                        bool causal) {
  assert(pass != Pass::kStep);
  const double n = static_cast<double>(length);
  const double d = static_cast<double>(shape.dim);
  const double e = static_cast<double>(shape.value_dim);
  const double heads = static_cast<double>(shape.heads);
  const double kv_heads = static_cast<double>(shape.kv_heads);
  const double batch = static_cast<double>(shape.batch);
  const bool backward = pass == Pass::kForwardBackward;
  if (system == System::kSoftmax) {
    const double pairs = batch * heads * (causal ? n * (n + 1) / 2 : n * n);
    return pairs * (2 * d + 2 * e + (backward ? 6 * d + 4 * e : 0));
  }
  const double states = system == System::kCosformer ? 2 : 1;
  const double visits = heads + kv_heads + (backward ? 2 * heads + 3 * kv_heads : 0);
  return batch * n * 2 * states * d * e * visits;
}

double UsefulStepBytes(System system, const AttentionShape& shape, int64_t length) {
  const double d = static_cast<double>(shape.dim);
  const double e = static_cast<double>(shape.value_dim);
  const double streams = static_cast<double>(shape.batch * shape.kv_heads);
  if (system == System::kSoftmax) {
    return streams * static_cast<double>(length) * (d + e) *
           static_cast<double>(BytesOf(shape.dtype));
  }
  const double states = system == System::kCosformer ? 2 : 1;
  return 2 * streams * states * d * (e + 1) * sizeof(float);
}

AttentionProblem::AttentionProblem(const AttentionShape& shape, int64_t length, uint64_t seed,
                                   bool gradients)
    : q(shape.dtype, shape.batch, length, shape.heads, shape.dim),
      k(shape.dtype, shape.batch, length, shape.kv_heads, shape.dim),
      v(shape.dtype, shape.batch, length, shape.kv_heads, shape.value_dim),
      o(shape.dtype, shape.batch, length, shape.heads, shape.value_dim),
      normaliser(static_cast<size_t>(shape.batch * length * shape.heads)),
      shape_(shape),
      length_(length),
      seed_(seed) {
  q.FillRandom(seed);
  k.FillRandom(seed + 1);
  v.FillRandom(seed + 2);
  if (!gradients) return;
  d_o = Tensor(shape.dtype, shape.batch, length, shape.heads, shape.value_dim);
  dq = Tensor(shape.dtype, shape.batch, length, shape.heads, shape.dim);
  dk = Tensor(shape.dtype, shape.batch, length, shape.kv_heads, shape.dim);
  dv = Tensor(shape.dtype, shape.batch, length, shape.kv_heads, shape.value_dim);
  FillGradientOfOutput();
}

double AttentionProblem::Bytes(const AttentionShape& shape, int64_t length, bool gradients) {
  // In floating point: absurd lengths must give a large number, not an overflow.
  const double rows = static_cast<double>(shape.batch) * static_cast<double>(length);
  const double queries = static_cast<double>(shape.heads) * static_cast<double>(shape.dim);
  const double outputs = static_cast<double>(shape.heads) * static_cast<double>(shape.value_dim);
  const double keys = static_cast<double>(shape.kv_heads) * static_cast<double>(shape.dim);
  const double values = static_cast<double>(shape.kv_heads) * static_cast<double>(shape.value_dim);
  const double tensors = (queries + keys + values + outputs) * (gradients ? 2 : 1);
  return rows * (tensors * static_cast<double>(BytesOf(shape.dtype)) +
                 static_cast<double>(shape.heads) * sizeof(float));
}

LinearOptions AttentionProblem::LinearOptionsOf(System system, bool causal, int threads) const {
  LinearOptions options;
  options.kernel = KernelOf(system, length_);
  options.causal = causal;
  options.threads = threads;
  return options;
}

SoftmaxOptions AttentionProblem::SoftmaxOptionsOf(bool causal, int threads) {
  SoftmaxOptions options;
  options.causal = causal;
  options.threads = threads;
  return options;
}

void AttentionProblem::Forward(System system, bool causal, int threads) {
  if (system == System::kSoftmax) {
    SoftmaxAttentionForward(q.view(), k.view(), v.view(), o.view(), normaliser,
                            SoftmaxOptionsOf(causal, threads));
  } else {
    LinearAttentionForward(q.view(), k.view(), v.view(), o.view(), normaliser,
                           LinearOptionsOf(system, causal, threads));
  }
}

void AttentionProblem::Backward(System system, bool causal, int threads) {
  if (system == System::kSoftmax) {
    SoftmaxAttentionBackward(q.view(), k.view(), v.view(), o.view(), normaliser, d_o.view(),
                             dq.view(), dk.view(), dv.view(), SoftmaxOptionsOf(causal, threads));
  } else {
    LinearAttentionBackward(q.view(), k.view(), v.view(), o.view(), normaliser, d_o.view(),
                            dq.view(), dk.view(), dv.view(),
                            LinearOptionsOf(system, causal, threads));
  }
}

void AttentionProblem::PoisonOutputs() {
  for (Tensor* output : {&o, &dq, &dk, &dv}) output->FillNan();
  std::fill(normaliser.begin(), normaliser.end(), std::numeric_limits<float>::quiet_NaN());
}

Decoder::Decoder(System system, const AttentionProblem& problem)
    : system_(system), horizon_(problem.length() + kMostSteps) {
  const AttentionShape& shape = problem.shape();
  const int64_t past = problem.length() - 1;
  if (system != System::kSoftmax) {
    LinearStateConfig config;
    config.batch = shape.batch;
    config.heads = shape.kv_heads;
    config.dim = shape.dim;
    config.value_dim = shape.value_dim;
    config.kernel = KernelOf(system, horizon_);
    before_.emplace(config);
    if (past > 0) before_->Absorb(problem.k.Rows(0, past), problem.v.Rows(0, past));
    Rewind();
    return;
  }
  SoftmaxCacheConfig config;
  config.batch = shape.batch;
  config.heads = shape.kv_heads;
  config.dim = shape.dim;
  config.value_dim = shape.value_dim;
  config.dtype = shape.dtype;
  cache_.emplace(config);
  cache_->Append(problem.k.Rows(0, past), problem.v.Rows(0, past));
}

void Decoder::Rewind() {
  if (before_) state_ = before_;
}

void Decoder::Step(const AttentionProblem& problem, Tensor& o, int threads) {
  const int64_t last = problem.length() - 1;
  const ConstView q = problem.q.Rows(last, 1);
  const ConstView k = problem.k.Rows(last, 1);
  const ConstView v = problem.v.Rows(last, 1);
  if (state_) {
    state_->Step(q, k, v, o.view(), threads);
    return;
  }
  SoftmaxOptions options;
  options.threads = threads;
  cache_->Step(q, k, v, o.view(), options);
  cache_->Truncate(last);
}

}  // namespace cosformer::bench
