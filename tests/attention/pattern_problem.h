// A case of attention over a pattern with its tensors, run by the library and held against a
// reference that writes every pair down.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/pattern.h"
#include "problem.h"

namespace cosformer::testing {

struct PatternCase {
  int64_t batch = 1, queries = 0, keys = 0, heads = 1, kv_heads = 1, dim = 1, value_dim = 1;
  DType inputs = DType::kFloat32, outputs = DType::kFloat32, gradients = DType::kFloat32;
  bool strided = false;
  int threads = 1;
  float scale = 0;
  uint64_t seed = 0;
  std::vector<AttentionPattern> patterns;  // 1, batch or batch * heads

  const AttentionPattern& At(int64_t b, int64_t h) const {
    if (patterns.size() == 1) return patterns[0];
    return static_cast<int64_t>(patterns.size()) == batch ? patterns[b] : patterns[b * heads + h];
  }
};

// The keys that each query sees, as often as it does.
using Pairs = std::vector<std::vector<int64_t>>;

Pairs PairsOf(const AttentionPattern& pattern, int64_t queries);

struct Exact {
  reference::Output forward;
  reference::Gradients backward;
  int64_t longest = 0;  // pairs of one query or, over all heads that share it, of one key
};

// The definition, with the magnitudes of reference.h.
Exact ExactOf(const PatternCase& c, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& d_o);

struct PatternProblem {
  explicit PatternProblem(const PatternCase& wanted) : c(wanted), random(wanted.seed) {
    q = Make(c.inputs, c.queries, c.heads, c.dim);
    k = Make(c.inputs, c.keys, c.kv_heads, c.dim);
    v = Make(c.inputs, c.keys, c.kv_heads, c.value_dim);
    o = Make(c.outputs, c.queries, c.heads, c.value_dim);
    d_o = Make(c.outputs, c.queries, c.heads, c.value_dim);
    dq = Make(c.gradients, c.queries, c.heads, c.dim);
    dk = Make(c.gradients, c.keys, c.kv_heads, c.dim);
    dv = Make(c.gradients, c.keys, c.kv_heads, c.value_dim);
    log_sum_exp = Tensor(DType::kFloat32, c.batch, c.queries, c.heads, 1);
    for (Tensor* input : {&q, &k, &v, &d_o}) input->FillNormal(random);
  }

  Tensor Make(DType dtype, int64_t length, int64_t heads, int64_t dim) {
    return c.strided ? Tensor(dtype, c.batch, length, heads, dim, random)
                     : Tensor(dtype, c.batch, length, heads, dim);
  }

  std::vector<const AttentionPattern*> Patterns() const {
    std::vector<const AttentionPattern*> all;
    for (const AttentionPattern& pattern : c.patterns) all.push_back(&pattern);
    return all;
  }

  std::span<float> LogSumExp() {
    return {static_cast<float*>(log_sum_exp.view().data),
            static_cast<size_t>(c.batch * c.queries * c.heads)};
  }

  void Forward() {
    o.Poison();
    log_sum_exp.Poison();
    PatternAttentionForward(q.view(), k.view(), v.view(), Patterns(), o.view(), LogSumExp(),
                            {c.scale, c.threads});
  }

  void Backward() {
    for (Tensor* gradient : {&dq, &dk, &dv}) gradient->Poison();
    PatternAttentionBackward(q.view(), k.view(), v.view(), Patterns(), o.view(), LogSumExp(),
                             d_o.view(), dq.view(), dk.view(), dv.view(), {c.scale, c.threads});
  }

  void Check() {
    Forward();
    Backward();
    CheckAgainst(ExactOf(c, q, k, v, d_o));
  }

  void CheckAgainst(const Exact& exact) const {
    // A score's dot product, the pairs one after the other, and the joining of tiles besides.
    const double forward = Growth(c.dim + exact.longest);
    const double storing = c.outputs == DType::kBFloat16 ? kBFloat16Unit / kUnit : 0;
    const double backward = Growth(c.dim + c.value_dim + exact.longest) + storing;
    ExpectClose("o", o, exact.forward.o, exact.forward.magnitude, forward);
    ExpectClose("log_sum_exp", log_sum_exp, exact.forward.normaliser,
                exact.forward.normaliser_magnitude, forward);
    ExpectClose("dq", dq, exact.backward.dq, exact.backward.mq, backward);
    ExpectClose("dk", dk, exact.backward.dk, exact.backward.mk, backward);
    ExpectClose("dv", dv, exact.backward.dv, exact.backward.mv, backward);
    o.ExpectGuardsIntact("o");
    dq.ExpectGuardsIntact("dq");
    dk.ExpectGuardsIntact("dk");
    dv.ExpectGuardsIntact("dv");
  }

  PatternCase c;
  Random random;
  Tensor q, k, v, o, d_o, dq, dk, dv;
  Tensor log_sum_exp;  // [batch, queries, heads, 1]
};

}  // namespace cosformer::testing
