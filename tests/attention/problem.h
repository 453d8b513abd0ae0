// A case with its tensors, run by the library and held against the reference. `System` is Linear or
// Softmax, so that what both promise is tested by one text.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "attention/linear_kernels.h"
#include "attention/reference.h"
#include "cases.h"
#include "tensor.h"
#include "tolerance.h"

namespace cosformer::testing {

#ifdef COSFORMER_SANITIZED
inline constexpr bool kSanitized = true;  // some ten times slower: the heavy tests do less
#else
inline constexpr bool kSanitized = false;
#endif

struct Linear {
  static bool HasSums(const Case& c) { return c.kernel.normaliser == Normaliser::kSum; }
  // Without what is kept, which a Problem has.
  static LinearOptions OptionsOf(const Case& c) {
    return {c.kernel, c.causal, c.SequencesView(), c.threads, {}};
  }
  static constexpr auto Forward = LinearAttentionForward;
  // With d_log_keep or without.
  static constexpr auto Backward = [](const auto&... arguments) {
    LinearAttentionBackward(arguments...);
  };
  static constexpr auto ReferenceForward = reference::LinearForward;
  static constexpr auto ReferenceBackward = reference::LinearBackward;
  static constexpr auto ReferenceRow = reference::LinearRow;
  // A score's dot product, the sum inside a chunk, and the sum over the chunks.
  static double ForwardGrowth(const Case& c) { return Growth(c.dim + kChunk + c.keys / kChunk); }
  // dq sums over keys, dk and dv over the queries of every head that shares them; each has a dot
  // product over the values besides. The errors of o and the normaliser are in the magnitudes.
  static double BackwardGrowth(const Case& c) {
    const int64_t summed = std::max(c.keys, c.queries * c.heads / c.kv_heads);
    return Growth(c.dim + c.value_dim + kChunk + summed / kChunk);
  }
};

struct Softmax {
  static bool HasSums(const Case&) { return true; }
  static SoftmaxOptions OptionsOf(const Case& c) {
    return {c.causal, c.scale, c.SequencesView(), c.threads};
  }
  static constexpr auto Forward = SoftmaxAttentionForward;
  static constexpr auto Backward = SoftmaxAttentionBackward;
  static constexpr auto ReferenceForward = reference::SoftmaxForward;
  static constexpr auto ReferenceBackward = reference::SoftmaxBackward;
  static constexpr auto ReferenceRow = reference::SoftmaxRow;
  // A score's dot product, then the keys one after the other.
  static double ForwardGrowth(const Case& c) { return Growth(c.dim + c.keys); }
  static double BackwardGrowth(const Case& c) {
    const int64_t summed = std::max(c.keys, c.queries * c.heads / c.kv_heads);
    return Growth(c.dim + c.value_dim + summed);
  }
};

// How many elements were compared, and how many were not because their exact value is unsure.
struct Compared {
  int64_t sure = 0, unsure = 0;
  Compared& operator+=(const Compared& other) {
    sure += other.sure;
    unsure += other.unsure;
    return *this;
  }
};

// Each element within growth * 2^-24 * its magnitude of the exact one; names the worst if not.
Compared ExpectClose(const char* name, const Tensor& actual, const std::vector<double>& exact,
                     const std::vector<double>& magnitude, double growth);

// The same elements to the bit, where `compare(batch, row, head)` is true.
void ExpectSameBits(const char* name, const Tensor& a, const Tensor& b,
                    const std::function<bool(int64_t, int64_t, int64_t)>& compare);
void ExpectSameBits(const char* name, const Tensor& a, const Tensor& b);

// A dense tensor of floats, or nothing of one that was not made.
std::span<float> Floats(const Tensor& tensor);

// Mostly a little is forgotten; sometimes nothing, much or all.
float RandomKeep(Random& random);

template <class System>
struct Problem {
  explicit Problem(const Case& wanted) : c(wanted), random(wanted.seed) {
    q = Make(c.inputs, c.queries, c.heads, c.dim);
    k = Make(c.inputs, c.keys, c.kv_heads, c.dim);
    v = Make(c.inputs, c.keys, c.kv_heads, c.value_dim);
    o = Make(c.outputs, c.queries, c.heads, c.value_dim);
    d_o = Make(c.outputs, c.queries, c.heads, c.value_dim);
    dq = Make(c.gradients, c.queries, c.heads, c.dim);
    dk = Make(c.gradients, c.keys, c.kv_heads, c.dim);
    dv = Make(c.gradients, c.keys, c.kv_heads, c.value_dim);
    normaliser = Tensor(DType::kFloat32, c.batch, c.queries, c.heads, 1);
    if (std::is_same_v<System, Softmax>) c.forgets = false;
    if (c.forgets) {
      keep = Tensor(DType::kFloat32, c.batch, c.keys, c.kv_heads, 1);
      d_log_keep = keep;
      keep.Fill([this] { return RandomKeep(random); });
      if (c.gradients != DType::kFloat32) dk = Make(DType::kFloat32, c.keys, c.kv_heads, c.dim);
    }
    q.FillNormal(random, c.mean);
    k.FillNormal(random, c.mean);
    v.FillNormal(random);
    d_o.FillNormal(random);
    if (c.kernel.feature_map == FeatureMap::kGiven) {
      for (Tensor* features : {&q, &k}) {
        features->ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
          features->Set(b, i, h, e, std::abs(features->At(b, i, h, e)));
        });
      }
    }
  }

  std::span<float> Sums() {
    if (!System::HasSums(c)) return {};
    return {static_cast<float*>(normaliser.view().data),
            static_cast<size_t>(c.batch * c.queries * c.heads)};
  }

  auto Options() const {
    auto options = System::OptionsOf(c);
    if constexpr (std::is_same_v<System, Linear>) options.keep = Floats(keep);
    return options;
  }

  void Forward() {
    o.Poison();
    normaliser.Poison();
    System::Forward(q.view(), k.view(), v.view(), o.view(), Sums(), Options());
  }

  // After Forward.
  void Backward() {
    for (Tensor* gradient : {&dq, &dk, &dv}) gradient->Poison();
    if constexpr (std::is_same_v<System, Linear>) {
      if (c.forgets) d_log_keep.Poison();
      LinearAttentionBackward(q.view(), k.view(), v.view(), o.view(), Sums(), d_o.view(), dq.view(),
                              dk.view(), dv.view(), Options(), Floats(d_log_keep));
    } else {
      System::Backward(q.view(), k.view(), v.view(), o.view(), Sums(), d_o.view(), dq.view(),
                       dk.view(), dv.view(), Options());
    }
  }

  Compared CheckForward() {
    Forward();
    const auto exact = System::ReferenceForward(q.view(), k.view(), v.view(), Options());
    const double growth = System::ForwardGrowth(c);
    Compared compared = ExpectClose("o", o, exact.o, exact.magnitude, growth);
    if (System::HasSums(c)) {
      compared += ExpectClose("normaliser", normaliser, exact.normaliser,
                              exact.normaliser_magnitude, growth);
    }
    o.ExpectGuardsIntact("o");
    return compared;
  }

  Compared CheckBackward() {
    Backward();
    const auto exact =
        System::ReferenceBackward(q.view(), k.view(), v.view(), d_o.view(), Options());
    double growth = System::BackwardGrowth(c);
    // The o that the gradient is told was rounded when it was stored.
    if (c.outputs == DType::kBFloat16) growth += kBFloat16Unit / kUnit;
    Compared compared = ExpectClose("dq", dq, exact.dq, exact.mq, growth);
    compared += ExpectClose("dk", dk, exact.dk, exact.mk, growth);
    compared += ExpectClose("dv", dv, exact.dv, exact.mv, growth);
    if (c.forgets) {
      compared += ExpectClose("d_log_keep", d_log_keep, exact.d_log_keep, exact.m_log_keep, growth);
    }
    dq.ExpectGuardsIntact("dq");
    dk.ExpectGuardsIntact("dk");
    dv.ExpectGuardsIntact("dv");
    return compared;
  }

  Compared Check() {
    SCOPED_TRACE(Describe(c));
    Compared compared = CheckForward();
    compared += CheckBackward();
    return compared;
  }

  Case c;
  Random random;
  Tensor q, k, v, o, d_o, dq, dk, dv;
  Tensor normaliser;        // [batch, queries, heads, 1]
  Tensor keep, d_log_keep;  // [batch, keys, kv_heads, 1], where the case forgets

 private:
  Tensor Make(DType dtype, int64_t length, int64_t heads, int64_t dim) {
    return c.strided ? Tensor(dtype, c.batch, length, heads, dim, random)
                     : Tensor(dtype, c.batch, length, heads, dim);
  }
};

// Row `row` of every batch entry and head against the reference, which pays O(keys) for it.
template <class System>
void ExpectRow(const Problem<System>& p, int64_t row) {
  for (int64_t b = 0; b < p.c.batch; ++b) {
    for (int64_t h = 0; h < p.c.heads; ++h) {
      const auto exact =
          System::ReferenceRow(p.q.view(), p.k.view(), p.v.view(), p.Options(), b, row, h);
      for (int64_t e = 0; e < p.c.value_dim; ++e) {
        EXPECT_NEAR(
            p.o.At(b, row, h, e), exact.output[e],
            Tolerance(System::ForwardGrowth(p.c), exact.magnitude[e], exact.output[e], p.c.outputs))
            << "o[" << b << ", " << row << ", " << h << ", " << e << "]";
      }
    }
  }
}

// Random cases first_seed, first_seed + 1, ...; all results, all gradients.
template <class System>
void CheckRandomCases(
    uint64_t first_seed, int count, const std::function<void(Case&)>& adjust = [](Case&) {}) {
  Compared compared;
  for (int n = 0; n < count && !::testing::Test::HasFailure(); ++n) {
    Case c = RandomCase(first_seed + n);
    adjust(c);
    compared += Problem<System>(c).Check();
  }
  // Features that may cancel leave some sums unsure; were it many, the test would be empty.
  EXPECT_LE(compared.unsure, compared.sure / 10);
}

}  // namespace cosformer::testing
