// Softmax attention over a pattern in one call: the pattern is checked, the heads are shared out.

#include "attention/pattern.h"

#include <algorithm>
#include <cmath>

#include "attention/operands.h"
#include "attention/pattern_kernels.h"
#include "base/parallel.h"

namespace cosformer {
namespace {

void CheckRows(const char* side, const std::vector<int32_t>& rows, const char* name,
               int64_t length) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= length) {
      Fail("attention: the pattern's ", side, "_rows[", i, "] is ", rows[i], ", but ", name,
           " has the length ", length, "; rows go from 0 to the length - 1");
    }
  }
}

void CheckLabels(const char* side, const std::vector<int32_t>& labels, size_t rows) {
  if (labels.size() != rows) {
    Fail("attention: the pattern has ", labels.size(), " ", side, "_labels for ", rows, " ", side,
         "_rows; give one a row on both sides, or none at all");
  }
}

void CheckRange(const char* side, size_t tile, int64_t begin, int64_t count, size_t entries) {
  const int64_t size = static_cast<int64_t>(entries);
  if (begin < 0 || count < 0 || count > size - begin) {
    Fail("attention: tile ", tile, " of the pattern has ", count, " entries of ", side,
         "_rows from ", begin, " on, but there are ", size);
  }
}

void CheckPattern(const AttentionPattern& pattern, const ConstView& q, const ConstView& k) {
  CheckRows("query", pattern.query_rows, "q", q.length);
  CheckRows("key", pattern.key_rows, "k", k.length);
  if (!pattern.query_labels.empty() || !pattern.key_labels.empty()) {
    CheckLabels("query", pattern.query_labels, pattern.query_rows.size());
    CheckLabels("key", pattern.key_labels, pattern.key_rows.size());
  }
  if (!std::isfinite(pattern.self_penalty)) {
    Fail("attention: the pattern's self_penalty is ", pattern.self_penalty,
         "; it must be a finite number: leave pairs out with min_distance = 1");
  }
  for (size_t t = 0; t < pattern.tiles.size(); ++t) {
    const AttentionPattern::Tile& tile = pattern.tiles[t];
    CheckRange("query", t, tile.query_begin, tile.query_count, pattern.query_rows.size());
    CheckRange("key", t, tile.key_begin, tile.key_count, pattern.key_rows.size());
    if (tile.min_distance < 0 || tile.max_distance < tile.min_distance) {
      Fail("attention: tile ", t, " of the pattern sees distances from ", tile.min_distance, " to ",
           tile.max_distance, "; they must be at least 0, and the second at least the first");
    }
  }
}

// The patterns as one a batch entry and head.
class Patterns {
 public:
  Patterns(std::span<const AttentionPattern* const> patterns, const ConstView& q,
           const ConstView& k)
      : patterns_(patterns) {
    const int64_t count = static_cast<int64_t>(patterns.size());
    if (count != 1 && count != q.batch && count != q.batch * q.heads) {
      Fail("attention: there are ", count, " patterns for q of shape ", ShapeOf(q),
           "; give 1, one a batch entry (", q.batch, ") or one a batch entry and head (",
           q.batch * q.heads, ")");
    }
    std::vector<const AttentionPattern*> distinct(patterns.begin(), patterns.end());
    std::sort(distinct.begin(), distinct.end(), std::less<>());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (const AttentionPattern* pattern : distinct) {
      if (pattern == nullptr) Fail("attention: one of the ", count, " patterns is null");
      CheckPattern(*pattern, q, k);
    }
    batch_stride_ = count == 1 ? 0 : count == q.batch ? 1 : q.heads;
    head_stride_ = count == 1 || count == q.batch ? 0 : 1;
  }

  const AttentionPattern* At(int64_t batch, int64_t head) const {
    return patterns_[static_cast<size_t>(batch * batch_stride_ + head * head_stride_)];
  }

 private:
  std::span<const AttentionPattern* const> patterns_;
  int64_t batch_stride_ = 0;
  int64_t head_stride_ = 0;
};

float ScaleOf(const PatternOptions& options, const ConstView& q) {
  CheckScale(options.scale);
  return options.scale != 0 ? options.scale : 1.0f / std::sqrt(static_cast<float>(q.dim));
}

PatternHead HeadOf(const ConstView& q, const ConstView& k, const ConstView& v,
                   const Patterns& patterns, int64_t batch, int64_t head, float scale) {
  const int64_t kv_head = head / (q.heads / k.heads);
  PatternHead result;
  result.pattern = patterns.At(batch, head);
  result.query = OperandOf(q, batch, head, {0, q.length, false});
  result.key = OperandOf(k, batch, kv_head, {0, k.length, false});
  result.value = OperandOf(v, batch, kv_head, {0, k.length, false});
  result.query_length = q.length;
  result.key_length = k.length;
  result.scale = scale;
  return result;
}

// Runs body(job, scratch) for all jobs, each thread with scratch of its own.
template <class Body>
void ForJobs(int64_t jobs, int threads, double flops, int64_t scratch_size, const Body& body) {
  const Team team(threads, jobs, {.flops = flops});
  const int64_t size = RoundUp(scratch_size, kMaxLanes);
  AlignedFloats scratch(static_cast<size_t>(team.size() * size));
  team.Run(jobs, [&](int64_t j, int thread) { body(j, scratch.data() + thread * size); });
}

// Of a forward pass; a backward pass has 2.5 times as many.
double FlopsOf(const PatternHead& head) {
  double pairs = 0;
  for (const AttentionPattern::Tile& tile : head.pattern->tiles) {
    pairs += static_cast<double>(tile.query_count) * static_cast<double>(tile.key_count);
  }
  return 2 * pairs * static_cast<double>(head.key.dim + head.value.dim);
}

}  // namespace

void PatternAttentionForward(const ConstView& q, const ConstView& k, const ConstView& v,
                             std::span<const AttentionPattern* const> patterns, const View& o,
                             std::span<float> log_sum_exp, const PatternOptions& options) {
  CheckAttention(q, k, v, o);
  CheckThreads(options.threads);
  CheckSums("log_sum_exp", log_sum_exp.size(), true, q);
  const float scale = ScaleOf(options, q);
  const Patterns all(patterns, q, k);

  struct Job {
    PatternHead head;
    Output output;
  };
  std::vector<Job> jobs;
  int64_t scratch_size = 0;
  double flops = 0;
  for (int64_t b = 0; b < q.batch; ++b) {
    for (int64_t h = 0; h < q.heads; ++h) {
      Job job{HeadOf(q, k, v, all, b, h, scale), OutputOf(o, b, h, {0, q.length, false})};
      if (!log_sum_exp.empty()) {
        job.output.sums = log_sum_exp.data() + b * q.length * q.heads + h;
        job.output.sums_stride = q.heads;
      }
      scratch_size = std::max(scratch_size, PatternScratch(job.head, job.output));
      flops += FlopsOf(job.head);
      jobs.push_back(job);
    }
  }
  ForJobs(static_cast<int64_t>(jobs.size()), options.threads, flops, scratch_size,
          [&](int64_t j, float* scratch) {
            const Job& job = jobs[static_cast<size_t>(j)];
            RunPattern(job.head, job.output, scratch);
          });
}

void PatternAttentionBackward(const ConstView& q, const ConstView& k, const ConstView& v,
                              std::span<const AttentionPattern* const> patterns, const ConstView& o,
                              std::span<const float> log_sum_exp, const ConstView& d_o,
                              const View& dq, const View& dk, const View& dv,
                              const PatternOptions& options) {
  CheckGradients(q, k, v, o, d_o, dq, dk, dv);
  CheckThreads(options.threads);
  CheckSums("log_sum_exp", log_sum_exp.size(), false, q);
  const float scale = ScaleOf(options, q);
  const Patterns all(patterns, q, k);

  // One key/value head of one batch entry, with the lists that its task refers to.
  struct Job {
    std::vector<PatternHead> heads;
    std::vector<Operand> o;
    std::vector<Operand> d_o;
    std::vector<const float*> log_sum_exp;
    std::vector<Output> dq;
    Output dk;
    Output dv;

    PatternBackward Task(int64_t side_stride) const {
      return {heads, o, d_o, log_sum_exp, side_stride, dq, dk, dv};
    }
  };
  const int64_t group = q.heads / k.heads;
  const Rows queries{0, q.length, false};
  const Rows keys{0, k.length, false};
  std::vector<Job> jobs;
  int64_t scratch_size = 0;
  double flops = 0;
  for (int64_t b = 0; b < q.batch; ++b) {
    for (int64_t h = 0; h < k.heads; ++h) {
      Job& job = jobs.emplace_back();
      for (int64_t g = h * group; g < (h + 1) * group; ++g) {
        job.heads.push_back(HeadOf(q, k, v, all, b, g, scale));
        job.o.push_back(OperandOf(o, b, g, queries));
        job.d_o.push_back(OperandOf(d_o, b, g, queries));
        job.log_sum_exp.push_back(log_sum_exp.data() + b * q.length * q.heads + g);
        job.dq.push_back(OutputOf(dq, b, g, queries));
      }
      job.dk = OutputOf(dk, b, h, keys);
      job.dv = OutputOf(dv, b, h, keys);
      scratch_size = std::max(scratch_size, PatternBackwardScratch(job.Task(q.heads)));
      for (const PatternHead& head : job.heads) flops += 2.5 * FlopsOf(head);
    }
  }
  ForJobs(static_cast<int64_t>(jobs.size()), options.threads, flops, scratch_size,
          [&](int64_t j, float* scratch) {
            RunPatternBackward(jobs[static_cast<size_t>(j)].Task(q.heads), scratch);
          });
}

}  // namespace cosformer
