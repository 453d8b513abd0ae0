// Tolerances are derived from the number of roundings; what the reference can't afford in full is
// sampled, and what is sampled is chosen so that an error anywhere in the length would reach it.
#include "bench/attention_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "attention/reference.h"
#include "bench/memory.h"
#include "cosformer/error.h"

namespace cosformer::bench {
namespace {

// The error that float32 may have, as a part of the reference's magnitude: 2^-24 for each rounding
// that a term passes through. These are a product of d features and one of d_v values, the sums
// within a chunk (of at most 128 tokens), and then one sum a chunk (of at least 64).
// bfloat16 rounds results to 8 bits, and with them the o that the backward pass reads.
double Tolerance(const AttentionShape& shape, int64_t length) {
  const double roundings =
      static_cast<double>(shape.dim + shape.value_dim) + 128 + static_cast<double>(length) / 64;
  return roundings * 0x1p-24 + (shape.dtype == DType::kBFloat16 ? 0x1p-8 : 0);
}

// Smaller numbers may be flushed to zero.
constexpr double kTiny = std::numeric_limits<float>::min();

// What is checked, for the calls of the reference and for the message.
struct Subject {
  System system;
  bool causal;
  int threads;
  int64_t length;
  int64_t horizon;
};

LinearOptions LinearOptionsOf(const Subject& subject) {
  LinearOptions options;
  options.kernel = KernelOf(subject.system, subject.horizon);
  options.causal = subject.causal;
  return options;
}

SoftmaxOptions SoftmaxOptionsOf(const Subject& subject) {
  SoftmaxOptions options;
  options.causal = subject.causal;
  return options;
}

[[noreturn]] void Fail(const Subject& subject, const std::string& complaint) {
  throw Error(fmt::format(
      "{} ({}, length {}, threads {}) is wrong, so it is not timed: {}; please report this with "
      "the command and the CPU",
      NameOf(subject.system), subject.causal ? "causal" : "bidirectional", subject.length,
      subject.threads, complaint));
}

[[noreturn]] void Fail(const Subject& subject, const std::string& where, double got, double wanted,
                       double allowed) {
  Fail(subject, fmt::format("{} is {:.9g}, the double-precision reference says {:.9g} +- {:.2g}",
                            where, got, wanted, allowed));
}

// Written so that NaN fails.
bool Near(double got, double wanted, double tolerance) {
  return std::abs(got - wanted) <= tolerance;
}

// Compares the output of one query, which begins at o's element `begin`.
void CompareOutput(const AttentionProblem& problem, const Subject& subject, int64_t batch,
                   int64_t row, int64_t head, const Tensor& o, int64_t begin) {
  const ConstView q = problem.q.view(), k = problem.k.view(), v = problem.v.view();
  const reference::Row expected =
      subject.system == System::kSoftmax
          ? reference::SoftmaxRow(q, k, v, SoftmaxOptionsOf(subject), batch, row, head)
          : reference::LinearRow(q, k, v, LinearOptionsOf(subject), batch, row, head);
  const double tolerance = Tolerance(problem.shape(), problem.length());
  for (size_t e = 0; e < expected.output.size(); ++e) {
    const double got = o.At(begin + static_cast<int64_t>(e));
    const double allowed = tolerance * expected.magnitude[e] + kTiny;
    if (!Near(got, expected.output[e], allowed)) {
      Fail(subject, fmt::format("o[{}, {}, {}, {}]", batch, row, head, e), got, expected.output[e],
           allowed);
    }
  }
}

void RequireFinite(const Tensor& tensor, const char* name, const Subject& subject) {
  const int64_t count = tensor.size();
  int64_t bad = count;
#pragma omp parallel for schedule(static) reduction(min : bad)
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(tensor.At(i))) bad = std::min(bad, i);
  }
  if (bad < count) {
    Fail(subject, fmt::format("element {} of {} is {}", bad, name, tensor.At(bad)));
  }
}

// The first, the last and some random ones of 0 to count - 1, ascending.
std::vector<int64_t> Sample(int64_t count, int between, std::mt19937_64& random) {
  std::vector<int64_t> chosen = {0};
  if (count > 1) chosen.push_back(count - 1);
  for (int i = 0; i < between; ++i) {
    chosen.push_back(std::uniform_int_distribution<int64_t>(0, count - 1)(random));
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

int64_t Pick(int64_t count, std::mt19937_64& random) {
  return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
}

// The view of one batch entry and one head.
ConstView OneHead(const Tensor& tensor, int64_t batch, int64_t head) {
  ConstView view = tensor.view();
  view.data = static_cast<const std::byte*>(view.data) +
              static_cast<size_t>(tensor.IndexOf(batch, 0, head)) * BytesOf(view.dtype);
  view.batch = 1;
  view.heads = 1;
  return view;
}

struct HeadOf {
  int64_t batch, head, kv_head;
};

reference::Gradients ReferenceGradients(const AttentionProblem& problem, const Subject& subject,
                                        const HeadOf& at) {
  const ConstView q = OneHead(problem.q, at.batch, at.head);
  const ConstView k = OneHead(problem.k, at.batch, at.kv_head);
  const ConstView v = OneHead(problem.v, at.batch, at.kv_head);
  const ConstView d_o = OneHead(problem.d_o, at.batch, at.head);
  if (subject.system == System::kSoftmax) {
    return reference::SoftmaxBackward(q, k, v, d_o, SoftmaxOptionsOf(subject));
  }
  return reference::LinearBackward(q, k, v, d_o, LinearOptionsOf(subject));
}

// Compares one head of a gradient at every position.
void CompareGradient(const AttentionProblem& problem, const Subject& subject, const Tensor& got,
                     const char* name, int64_t batch, int64_t head,
                     const std::vector<double>& expected, const std::vector<double>& magnitude) {
  const double tolerance = Tolerance(problem.shape(), problem.length());
  for (int64_t row = 0; row < problem.length(); ++row) {
    for (int64_t f = 0; f < got.dim(); ++f) {
      const auto dense = static_cast<size_t>(row * got.dim() + f);
      const double value = got.At(got.IndexOf(batch, row, head) + f);
      const double allowed = tolerance * magnitude[dense] + (magnitude[dense] > 0 ? kTiny : 0);
      if (!Near(value, expected[dense], allowed)) {
        Fail(subject, fmt::format("{}[{}, {}, {}, {}]", name, batch, row, head, f), value,
             expected[dense], allowed);
      }
    }
  }
}

// Exactly zero in all heads but those listed.
void RequireZeroElsewhere(const AttentionProblem& problem, const Subject& subject,
                          const Tensor& tensor, const char* name, int64_t heads,
                          const std::vector<std::pair<int64_t, int64_t>>& batch_and_head) {
  for (int64_t b = 0; b < problem.shape().batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      if (std::find(batch_and_head.begin(), batch_and_head.end(), std::pair(b, h)) !=
          batch_and_head.end()) {
        continue;
      }
      for (int64_t row = 0; row < problem.length(); ++row) {
        const int64_t begin = tensor.IndexOf(b, row, h);
        for (int64_t i = begin; i < begin + tensor.dim(); ++i) {
          if (tensor.At(i) != 0) {
            Fail(subject, fmt::format("{}[{}, {}, {}, {}]", name, b, row, h, i - begin),
                 tensor.At(i), 0, 0);
          }
        }
      }
    }
  }
}

}  // namespace

std::optional<int64_t> CheckForward(AttentionProblem& problem, System system, bool causal,
                                    int threads) {
  const Subject subject{system, causal, threads, problem.length(), problem.length()};
  problem.PoisonOutputs();
  const PeakMemory memory;
  problem.Forward(system, causal, threads);
  const std::optional<int64_t> rise = memory.Rise();

  RequireFinite(problem.o, "o", subject);
  std::mt19937_64 random(problem.seed());
  for (const int64_t row : Sample(problem.length(), 6, random)) {
    const int64_t batch = Pick(problem.shape().batch, random);
    const int64_t head = Pick(problem.shape().heads, random);
    CompareOutput(problem, subject, batch, row, head, problem.o,
                  problem.o.IndexOf(batch, row, head));
  }
  return rise;
}

std::optional<int64_t> CheckForwardBackward(AttentionProblem& problem, System system, bool causal,
                                            int threads) {
  const Subject subject{system, causal, threads, problem.length(), problem.length()};
  const AttentionShape& shape = problem.shape();
  const int64_t group = shape.heads / shape.kv_heads;
  std::mt19937_64 random(problem.seed() + 1);

  // Two heads that share nothing, so that each has its own dk and dv.
  std::vector<HeadOf> heads;
  for (const int64_t kv_head : Sample(shape.kv_heads, 0, random)) {
    heads.push_back({Pick(shape.batch, random), kv_head * group + Pick(group, random), kv_head});
  }
  problem.d_o.FillZero();
  for (const HeadOf& at : heads) {
    for (const int64_t row : Sample(problem.length(), 1, random)) {
      problem.d_o.FillRandomRow(problem.seed() + 3, at.batch, row, at.head);
    }
  }

  problem.PoisonOutputs();
  const PeakMemory memory;
  problem.Forward(system, causal, threads);
  problem.Backward(system, causal, threads);
  const std::optional<int64_t> rise = memory.Rise();

  std::vector<std::pair<int64_t, int64_t>> query_heads, key_heads;
  for (const HeadOf& at : heads) {
    const reference::Gradients expected = ReferenceGradients(problem, subject, at);
    CompareGradient(problem, subject, problem.dq, "dq", at.batch, at.head, expected.dq,
                    expected.mq);
    CompareGradient(problem, subject, problem.dk, "dk", at.batch, at.kv_head, expected.dk,
                    expected.mk);
    CompareGradient(problem, subject, problem.dv, "dv", at.batch, at.kv_head, expected.dv,
                    expected.mv);
    query_heads.emplace_back(at.batch, at.head);
    key_heads.emplace_back(at.batch, at.kv_head);
  }
  RequireZeroElsewhere(problem, subject, problem.dq, "dq", shape.heads, query_heads);
  RequireZeroElsewhere(problem, subject, problem.dk, "dk", shape.kv_heads, key_heads);
  RequireZeroElsewhere(problem, subject, problem.dv, "dv", shape.kv_heads, key_heads);
  problem.FillGradientOfOutput();
  return rise;
}

void CheckShortGradients(const AttentionShape& shape, int64_t longest, System system, bool causal,
                         int threads) {
  // Two chunks and a piece of a third.
  constexpr int64_t kLength = 150;
  AttentionShape part = shape;
  part.batch = 1;
  part.kv_heads = std::min<int64_t>(shape.kv_heads, 2);
  part.heads = part.kv_heads * (shape.heads / shape.kv_heads);
  AttentionProblem problem(part, std::min(longest, kLength), /*seed=*/7, /*gradients=*/true);
  const Subject subject{system, causal, threads, problem.length(), problem.length()};
  problem.PoisonOutputs();
  problem.Forward(system, causal, threads);
  problem.Backward(system, causal, threads);

  const int64_t group = part.heads / part.kv_heads;
  for (int64_t kv_head = 0; kv_head < part.kv_heads; ++kv_head) {
    reference::Gradients sum;  // over the query heads that share the key/value head
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const reference::Gradients one = ReferenceGradients(problem, subject, {0, head, kv_head});
      CompareGradient(problem, subject, problem.dq, "dq", 0, head, one.dq, one.mq);
      sum.dk.resize(one.dk.size());
      sum.mk.resize(one.mk.size());
      sum.dv.resize(one.dv.size());
      sum.mv.resize(one.mv.size());
      for (size_t i = 0; i < one.dk.size(); ++i) {
        sum.dk[i] += one.dk[i];
        sum.mk[i] += one.mk[i];
      }
      for (size_t i = 0; i < one.dv.size(); ++i) {
        sum.dv[i] += one.dv[i];
        sum.mv[i] += one.mv[i];
      }
    }
    CompareGradient(problem, subject, problem.dk, "dk", 0, kv_head, sum.dk, sum.mk);
    CompareGradient(problem, subject, problem.dv, "dv", 0, kv_head, sum.dv, sum.mv);
  }
}

void CheckStep(const AttentionProblem& problem, Decoder& decoder, int threads) {
  const AttentionShape& shape = problem.shape();
  const Subject subject{decoder.system(), true, threads, problem.length(), decoder.horizon()};
  Tensor o(shape.dtype, shape.batch, 1, shape.heads, shape.value_dim);
  o.FillNan();
  decoder.Rewind();
  decoder.Step(problem, o, threads);

  std::mt19937_64 random(problem.seed() + 2);
  for (const int64_t batch : Sample(shape.batch, 0, random)) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      CompareOutput(problem, subject, batch, problem.length() - 1, head, o,
                    o.IndexOf(batch, 0, head));
    }
  }
}

}  // namespace cosformer::bench
