// Feeding the tensors of a problem to a streaming state, cut anywhere.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "problem.h"

namespace cosformer::testing {

// Rows begin to begin + count - 1 of a view.
template <class V>
V Rows(V view, int64_t begin, int64_t count) {
  const int64_t size = view.dtype == DType::kFloat32 ? sizeof(float) : sizeof(BFloat16);
  using Byte = std::conditional_t<std::is_same_v<V, View>, char, const char>;
  view.data = static_cast<Byte*>(view.data) + begin * view.length_stride * size;
  view.length = count;
  return view;
}

inline LinearStateConfig ConfigOf(const Case& c, bool endless = false) {
  return {c.batch, c.kv_heads, c.dim, c.value_dim, c.kernel, endless, c.forgets};
}

// What those rows keep, where the problem forgets.
inline std::vector<float> KeepOf(const Problem<Linear>& p, int64_t begin, int64_t count) {
  std::vector<float> keep;
  for (int64_t b = 0; b < p.c.batch && p.c.forgets; ++b) {
    const auto first = Floats(p.keep).begin() + (b * p.c.keys + begin) * p.c.kv_heads;
    keep.insert(keep.end(), first, first + count * p.c.kv_heads);
  }
  return keep;
}

// Steps through the next `count` tokens of the problem, and writes their rows of p.o.
inline void StepThrough(LinearState& state, Problem<Linear>& p, int64_t count) {
  const int64_t at = state.position();
  state.Step(Rows<ConstView>(p.q.view(), at, count), Rows<ConstView>(p.k.view(), at, count),
             Rows<ConstView>(p.v.view(), at, count), Rows<View>(p.o.view(), at, count), p.c.threads,
             KeepOf(p, at, count));
}

inline void AbsorbThrough(LinearState& state, const Problem<Linear>& p, int64_t begin,
                          int64_t count) {
  state.Absorb(Rows<ConstView>(p.k.view(), begin, count), Rows<ConstView>(p.v.view(), begin, count),
               p.c.threads, KeepOf(p, begin, count));
}

// Sizes that add up to `total`, each at most `largest`; sometimes zero.
inline std::vector<int64_t> RandomCuts(Random& random, int64_t total, int64_t largest) {
  std::vector<int64_t> cuts;
  while (total > 0) {
    cuts.push_back(std::min(total, Uniform(random, 0, largest)));
    total -= cuts.back();
  }
  return cuts;
}

inline std::string Saved(const LinearState& state) {
  std::ostringstream out(std::ios::binary);
  state.Save(out);
  return out.str();
}

inline LinearState Loaded(const std::string& bytes) {
  std::istringstream in(bytes, std::ios::binary);
  return LinearState::Load(in);
}

// Token by token, a term passes through one sum a token.
inline double StreamGrowth(const Case& c) { return Growth(c.dim + c.keys); }

// The rows of p.o, a causal self attention, against the reference.
inline void ExpectStreamed(const Problem<Linear>& p) {
  const auto exact = reference::LinearForward(p.q.view(), p.k.view(), p.v.view(), p.Options());
  ExpectClose("o", p.o, exact.o, exact.magnitude, StreamGrowth(p.c));
  p.o.ExpectGuardsIntact("o");
}

inline void ExpectEndless(const Problem<Linear>& p) {
  std::vector<double> exact, magnitude;
  for (int64_t b = 0; b < p.c.batch; ++b) {
    for (int64_t i = 0; i < p.c.queries; ++i) {
      for (int64_t h = 0; h < p.c.heads; ++h) {
        const auto row = reference::EndlessRow(p.q.view(), p.k.view(), p.v.view(), p.c.kernel, b, i,
                                               h, Floats(p.keep));
        exact.insert(exact.end(), row.output.begin(), row.output.end());
        magnitude.insert(magnitude.end(), row.magnitude.begin(), row.magnitude.end());
      }
    }
  }
  // No sum is longer than the horizon, however long the stream is.
  const double growth = Growth(p.c.dim + std::min(p.c.keys, p.c.kernel.horizon));
  ExpectClose("o", p.o, exact, magnitude, growth);
}

}  // namespace cosformer::testing
