// Linear attention in one call: what each sweep of the forward and the backward pass takes in its
// three roles.

#include <algorithm>
#include <cmath>

#include "attention/checks.h"
#include "attention/operands.h"
#include "attention/sweep_jobs.h"
#include "base/parallel.h"
#include "cosformer/attention.h"

namespace cosformer {
namespace {

// What the backward pass knows of each query and head besides its rows, as [batch, n, heads].
struct QueryFactors {
  std::vector<float> scale;  // 1 / normaliser
  std::vector<float> slope;  // gradient of the loss with respect to the normaliser
};

QueryFactors FactorsOf(const ConstView& q, const ConstView& o, std::span<const float> normaliser,
                       const ConstView& d_o, const LinearOptions& options) {
  QueryFactors factors;
  factors.scale.resize(normaliser.size());
  factors.slope.resize(normaliser.size());
  const float epsilon = options.kernel.epsilon;
  // Blocks of rows, and all heads of a block: they share pages.
  constexpr int64_t kRowsATask = 256;
  const int64_t blocks = (q.length + kRowsATask - 1) / kRowsATask;
  const int64_t tasks = q.batch * blocks;
  const double bytes = 4.0 * static_cast<double>(q.batch * q.length * q.heads * (o.dim + d_o.dim));
  Team(options.threads, tasks, {.bytes = bytes}).RunEvenly(tasks, [&](int64_t t, int) {
    const int64_t b = t / blocks;
    const int64_t begin = t % blocks * kRowsATask;
    const Rows rows{begin, std::min(kRowsATask, q.length - begin), false};
    const int64_t first = (b * q.length + begin) * q.heads;
    for (int64_t h = 0; h < q.heads; ++h) {
      DotRows(OperandOf(o, b, h, rows), OperandOf(d_o, b, h, rows), rows.count,
              factors.slope.data() + first + h, q.heads);
    }
    for (int64_t i = first; i < first + rows.count * q.heads; ++i) {
      const size_t at = static_cast<size_t>(i);
      const float sum = normaliser[at];
      const bool moved = std::abs(sum) < epsilon;
      factors.scale[at] = 1.0f / (moved ? std::copysign(epsilon, sum) : sum);
      factors.slope[at] = moved ? 0.0f : -factors.slope[at] * factors.scale[at];
    }
  });
  return factors;
}

// The sums that go with the outputs: empty without a normaliser, however the caller has it.
void CheckNormaliser(size_t size, bool optional, const ConstView& q, const LinearKernel& kernel) {
  if (kernel.normaliser == Normaliser::kSum) return CheckSums("normaliser", size, optional, q);
  if (size != 0) {
    Fail("attention: normaliser has ", size, " numbers; without normalisation it is left empty");
  }
}

// Gives op the factor and, where wanted, the extra column of its query and head.
Operand WithFactors(Operand op, const QueryFactors& factors, const ConstView& q, int64_t batch,
                    int64_t head, const Rows& rows, bool with_slope) {
  if (factors.scale.empty()) return op;  // nothing was divided
  const int64_t first = (batch * q.length + rows.First()) * q.heads + head;
  op.factor = factors.scale.data() + first;
  op.side_stride = rows.Stride(q.heads);
  if (with_slope) {
    op.extra = Operand::Extra::kColumn;
    op.column = factors.slope.data() + first;
  }
  return op;
}

// What the keys of one sequence and head keep, as a sweep along time takes it.
void SetKeep(std::span<const float> keep, const ConstView& k, const Span& span, int64_t head,
             Sweep& sweep) {
  if (keep.empty()) return;
  sweep.keep = keep.data() + (span.batch * k.length + span.key_begin) * k.heads + head;
  sweep.keep_stride = k.heads;
}

// The same for sweeps against time. What lies between key j and query i is kept by j + 1 to i: seen
// from the other end, a step later than by the token that is met.
std::vector<float> AgainstTime(std::span<const float> keep, const ConstView& k,
                               const std::vector<Span>& spans) {
  std::vector<float> reversed(keep.size(), 1.0f);
  if (keep.empty()) return reversed;
  for (const Span& span : spans) {
    const int64_t row = span.batch * k.length + span.key_begin;
    for (int64_t p = 1; p < span.key_count; ++p) {
      std::copy_n(keep.begin() + (row + span.key_count - p) * k.heads, k.heads,
                  reversed.begin() + (row + p) * k.heads);
    }
  }
  return reversed;
}

// The gradient with respect to log g of every key. With w_ij the weight of key j for query i, and
// a_i the sum of log g up to i, log w_ij contains a_i - a_j: so a_i has the gradient
//
//   sum_j w_ij dw_ij - sum_l w_li dw_li,
//
// what all weights of query i would give if they were raised together, which is nothing where they
// are divided by their sum and otherwise d_o . o, less the same for key i, phi(k_i) . dphi(k_i).
// And log g_t is part of every a_i from t on.
void KeepGradients(const ConstView& q, const ConstView& k, const ConstView& o,
                   std::span<const float> normaliser, const ConstView& d_o, const ConstView& dk,
                   const std::vector<Span>& spans, const LinearOptions& options,
                   std::span<float> d_log_keep) {
  std::fill(d_log_keep.begin(), d_log_keep.end(), 0.0f);
  const int64_t group = q.heads / k.heads;
  const int64_t tasks = static_cast<int64_t>(spans.size()) * k.heads;
  const double bytes = 4.0 * static_cast<double>(k.batch * k.length * k.heads * 2 * k.dim +
                                                 q.batch * q.length * q.heads * 2 * o.dim);
  Team(options.threads, tasks, {.bytes = bytes}).Run(tasks, [&](int64_t t, int) {
    const Span& span = spans[static_cast<size_t>(t / k.heads)];
    const int64_t h = t % k.heads;
    const Rows keys{span.key_begin, span.key_count, false};
    float* out = d_log_keep.data() + (span.batch * k.length + span.key_begin) * k.heads + h;
    DotGradients(FeaturesOf(k, span.batch, h, keys, options.kernel),
                 OperandOf(dk, span.batch, h, keys), span.key_count, out, k.heads);
    const auto of_query = [&](int64_t i, int64_t g) -> float {
      const int64_t row = span.query_begin + i;
      const bool divided = options.kernel.normaliser == Normaliser::kSum;
      if (divided &&
          std::abs(normaliser[static_cast<size_t>((span.batch * q.length + row) * q.heads + g)]) >=
              options.kernel.epsilon) {
        return 0;
      }
      float dot = 0;
      const Rows one{row, 1, false};
      DotRows(OperandOf(o, span.batch, g, one), OperandOf(d_o, span.batch, g, one), 1, &dot, 1);
      return dot;
    };
    double sum = 0;
    for (int64_t p = span.key_count; p-- > 0;) {
      const int64_t i = p - (span.key_count - span.query_count);
      for (int64_t g = h * group; i >= 0 && g < (h + 1) * group; ++g) sum += of_query(i, g);
      sum -= out[p * k.heads];
      out[p * k.heads] = p == 0 ? 0.0f : static_cast<float>(sum);  // nothing was before the first
    }
  });
}

Operand WithOnes(Operand op) {
  op.extra = Operand::Extra::kOnes;
  return op;
}

}  // namespace

void LinearAttentionForward(const ConstView& q, const ConstView& k, const ConstView& v,
                            const View& o, std::span<float> normaliser,
                            const LinearOptions& options) {
  CheckAttention(q, k, v, o);
  CheckKernel(options.kernel);
  CheckThreads(options.threads);
  CheckNormaliser(normaliser.size(), true, q, options.kernel);
  CheckKeep(options.keep.size(), k, options.causal);
  const std::vector<Span> spans = CheckSequences(options.sequences, q, k, options.causal);
  CheckHorizon(options.kernel, spans);

  const LinearKernel& kernel = options.kernel;
  const Rotation rotation(kernel);
  const StateLayout layout(q.dim, v.dim, kernel.reweighting == Reweighting::kCos);
  const int64_t group = q.heads / k.heads;
  std::vector<SweepJob> jobs;
  for (const Span& span : spans) {
    if (span.query_count == 0) continue;
    const Rows queries{span.query_begin, span.query_count, false};
    const Rows keys{span.key_begin, span.key_count, false};
    for (int64_t h = 0; h < k.heads; ++h) {
      SweepJob& job = jobs.emplace_back(layout);
      job.sweep.rotation = &rotation;
      job.sweep.causal = options.causal;
      job.sweep.normalise = kernel.normaliser == Normaliser::kSum;
      job.sweep.epsilon = kernel.epsilon;
      job.sweep.query_count = span.query_count;
      job.sweep.key_count = span.key_count;
      job.sweep.query_offset = options.causal ? span.key_count - span.query_count : 0;
      SetKeep(options.keep, k, span, h, job.sweep);
      for (int64_t g = h * group; g < (h + 1) * group; ++g) {
        job.queries.push_back(FeaturesOf(q, span.batch, g, queries, kernel));
        Output& output = job.outputs.emplace_back(OutputOf(o, span.batch, g, queries));
        if (!normaliser.empty()) {
          output.sums =
              normaliser.data() + (span.batch * q.length + span.query_begin) * q.heads + g;
          output.sums_stride = q.heads;
        }
      }
      job.keys.push_back(FeaturesOf(k, span.batch, h, keys, kernel));
      job.values.push_back(OperandOf(v, span.batch, h, keys));
    }
  }
  ZeroQueryPadding(o, spans);
  ZeroSumsPadding(normaliser, q, spans);
  RunJobs(jobs, options.threads);
}

// With D the normaliser, g = d_o / D and e = -(g . o), every gradient is a sweep (without one,
// D = 1 and there is no e):
//
//   dphi(q_i) = sum_j c_ij (g_i . v_j + e_i) phi(k_j)     queries [g, e], keys [v, 1], values
//   phi(k) dv_j      = sum_i c_ij (phi(k_j) . phi(q_i)) g_i      queries phi(k), keys phi(q),
//   values g dphi(k_j) = sum_i c_ij (v_j . g_i + e_i) phi(q_i)     queries [v, 1], keys [g, e],
//   values phi(q)
//
// with c_ij = cos(theta (i - j)) times what query i keeps of key j. In the last two a key gathers
// from the queries after it: they run against time.
void LinearAttentionBackward(const ConstView& q, const ConstView& k, const ConstView& v,
                             const ConstView& o, std::span<const float> normaliser,
                             const ConstView& d_o, const View& dq, const View& dk, const View& dv,
                             const LinearOptions& options, std::span<float> d_log_keep) {
  CheckGradients(q, k, v, o, d_o, dq, dk, dv);
  CheckKernel(options.kernel);
  CheckThreads(options.threads);
  CheckNormaliser(normaliser.size(), false, q, options.kernel);
  CheckKeep(options.keep.size(), k, options.causal);
  if (!d_log_keep.empty() && d_log_keep.size() != options.keep.size()) {
    Fail("attention: d_log_keep has ", d_log_keep.size(), " numbers, but keep has ",
         options.keep.size());
  }
  if (!d_log_keep.empty() && dk.dtype != DType::kFloat32) {
    Fail("attention: the gradient of what is kept is taken from dk, which must be float32");
  }
  const std::vector<Span> spans = CheckSequences(options.sequences, q, k, options.causal);
  CheckHorizon(options.kernel, spans);

  const LinearKernel& kernel = options.kernel;
  const Rotation rotation(kernel);
  const bool cos = kernel.reweighting == Reweighting::kCos;
  const bool divided = kernel.normaliser == Normaliser::kSum;
  const StateLayout by_values(v.dim + (divided ? 1 : 0), q.dim, cos);
  const StateLayout by_features(q.dim, v.dim, cos);
  const int64_t group = q.heads / k.heads;
  const QueryFactors factors = divided ? FactorsOf(q, o, normaliser, d_o, options) : QueryFactors();
  const std::vector<float> reversed = AgainstTime(options.keep, k, spans);
  const auto with_ones = [&](Operand op) { return divided ? WithOnes(op) : op; };

  std::vector<SweepJob> jobs;
  int group_index = 0;
  const auto add_job = [&](const StateLayout& layout, int64_t query_count, int64_t key_count,
                           int64_t query_offset) -> SweepJob& {
    SweepJob& job = jobs.emplace_back(layout);
    job.group = group_index;
    job.sweep.rotation = &rotation;
    job.sweep.causal = options.causal;
    job.sweep.query_count = query_count;
    job.sweep.key_count = key_count;
    job.sweep.query_offset = query_offset;
    return job;
  };
  // Two groups a sequence: the sweep along time, and the two against it, which share their rows.
  for (const Span& span : spans) {
    const int64_t b = span.batch;
    ++group_index;
    const auto for_heads = [&](const auto& body) {
      for (int64_t h = 0; h < k.heads; ++h) body(h, h * group, (h + 1) * group);
    };
    if (span.query_count > 0) {
      const Rows queries{span.query_begin, span.query_count, false};
      const Rows keys{span.key_begin, span.key_count, false};
      for_heads([&](int64_t h, int64_t begin, int64_t end) {
        SweepJob& job = add_job(by_values, span.query_count, span.key_count,
                                options.causal ? span.key_count - span.query_count : 0);
        SetKeep(options.keep, k, span, h, job.sweep);
        for (int64_t g = begin; g < end; ++g) {
          job.queries.push_back(
              WithFactors(OperandOf(d_o, b, g, queries), factors, q, b, g, queries, true));
          Output& output = job.outputs.emplace_back(OutputOf(dq, b, g, queries));
          output.derivative = FeaturesOf(q, b, g, queries, kernel);
        }
        job.keys.push_back(with_ones(OperandOf(v, b, h, keys)));
        job.values.push_back(FeaturesOf(k, b, h, keys, kernel));
      });
    }
    if (span.key_count > 0) {
      const Rows queries{span.query_begin, span.query_count, options.causal};
      const Rows keys{span.key_begin, span.key_count, options.causal};
      ++group_index;
      for_heads([&](int64_t h, int64_t begin, int64_t end) {
        SweepJob& for_values = add_job(by_features, span.key_count, span.query_count, 0);
        SetKeep(reversed, k, span, h, for_values.sweep);
        for_values.queries.push_back(FeaturesOf(k, b, h, keys, kernel));
        for_values.outputs.push_back(OutputOf(dv, b, h, keys));
        for (int64_t g = begin; g < end; ++g) {
          for_values.keys.push_back(FeaturesOf(q, b, g, queries, kernel));
          for_values.values.push_back(
              WithFactors(OperandOf(d_o, b, g, queries), factors, q, b, g, queries, false));
        }
        SweepJob& for_keys = add_job(by_values, span.key_count, span.query_count, 0);
        SetKeep(reversed, k, span, h, for_keys.sweep);
        for_keys.queries.push_back(with_ones(OperandOf(v, b, h, keys)));
        Output& output = for_keys.outputs.emplace_back(OutputOf(dk, b, h, keys));
        output.derivative = FeaturesOf(k, b, h, keys, kernel);
        for (int64_t g = begin; g < end; ++g) {
          for_keys.keys.push_back(
              WithFactors(OperandOf(d_o, b, g, queries), factors, q, b, g, queries, true));
          for_keys.values.push_back(FeaturesOf(q, b, g, queries, kernel));
        }
      });
    }
  }
  ZeroQueryPadding(dq, spans);
  ZeroKeyPadding(dk, spans);
  ZeroKeyPadding(dv, spans);
  RunJobs(jobs, options.threads);
  if (!d_log_keep.empty()) {
    KeepGradients(q, k, o, normaliser, d_o, dk, spans, options, d_log_keep);
  }
}

}  // namespace cosformer
