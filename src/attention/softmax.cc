// Softmax attention in one call: heads, blocks and threads.

#include <algorithm>
#include <cmath>

#include "attention/operands.h"
#include "attention/softmax_kernels.h"
#include "base/parallel.h"
#include "cosformer/attention.h"

namespace cosformer {
namespace {

float ScaleOf(const SoftmaxOptions& options, const ConstView& q) {
  CheckScale(options.scale);
  return options.scale != 0 ? options.scale : 1.0f / std::sqrt(static_cast<float>(q.dim));
}

SoftmaxHead HeadOf(const ConstView& q, const ConstView& k, const ConstView& v, const Span& span,
                   int64_t head, float scale, bool causal) {
  const int64_t kv_head = head / (q.heads / k.heads);
  SoftmaxHead result;
  result.query = OperandOf(q, span.batch, head, {span.query_begin, span.query_count, false});
  result.key = OperandOf(k, span.batch, kv_head, {span.key_begin, span.key_count, false});
  result.value = OperandOf(v, span.batch, kv_head, {span.key_begin, span.key_count, false});
  result.query_count = span.query_count;
  result.key_count = span.key_count;
  result.query_offset = span.key_count - span.query_count;
  result.causal = causal;
  result.scale = scale;
  return result;
}

// Of a forward pass; a backward pass has 2.5 times as many.
double FlopsOf(const SoftmaxHead& head) {
  const double pairs = static_cast<double>(head.query_count) * static_cast<double>(head.key_count) *
                       (head.causal ? 0.5 : 1.0);
  return 2 * pairs * static_cast<double>(head.key.dim + head.value.dim);
}

struct Forward {
  SoftmaxHead head;
  Output output;
};

// A few queries over many keys, as in decoding.
void RunFew(const std::vector<Forward>& forwards, int threads) {
  struct Task {
    size_t forward;
    int64_t row;
    int64_t segment;
    int64_t segments;
    float* partials;  // of the row
  };
  size_t floats = 0;
  std::vector<Task> tasks;
  std::vector<size_t> offsets;
  int64_t work = 0;  // floats of keys and values
  for (size_t f = 0; f < forwards.size(); ++f) {
    const SoftmaxHead& head = forwards[f].head;
    for (int64_t row = 0; row < head.query_count; ++row) {
      const int64_t segments = std::max<int64_t>(1, (head.KeysOf(row) + kSegment - 1) / kSegment);
      for (int64_t s = 0; s < segments; ++s) {
        tasks.push_back({f, row, s, segments, nullptr});
        offsets.push_back(floats);
      }
      floats += static_cast<size_t>(segments * SegmentPartial(head));
      work += head.KeysOf(row) * (head.key.dim + head.value.dim);
    }
  }
  AlignedFloats partials(floats);
  for (size_t t = 0; t < tasks.size(); ++t) tasks[t].partials = partials.data() + offsets[t];
  const int64_t count = static_cast<int64_t>(tasks.size());
  const Team team(threads, count, {.bytes = 4.0 * static_cast<double>(work)});
  team.Run(count, [&](int64_t t, int) {
    const Task& task = tasks[static_cast<size_t>(t)];
    const SoftmaxHead& head = forwards[task.forward].head;
    RunSoftmaxSegment(head, task.row, task.segment,
                      task.partials + task.segment * SegmentPartial(head));
  });
  for (const Task& task : tasks) {
    if (task.segment > 0) continue;
    JoinSegments(forwards[task.forward].head, task.row, task.segments, task.partials,
                 forwards[task.forward].output);
  }
}

}  // namespace

void SoftmaxAttentionForward(const ConstView& q, const ConstView& k, const ConstView& v,
                             const View& o, std::span<float> log_sum_exp,
                             const SoftmaxOptions& options) {
  CheckAttention(q, k, v, o);
  CheckThreads(options.threads);
  CheckSums("log_sum_exp", log_sum_exp.size(), true, q);
  const float scale = ScaleOf(options, q);
  const std::vector<Span> spans = CheckSequences(options.sequences, q, k, options.causal);

  std::vector<Forward> many;
  std::vector<Forward> few;
  int64_t scratch_size = 0;
  for (const Span& span : spans) {
    if (span.query_count == 0) continue;
    for (int64_t h = 0; h < q.heads; ++h) {
      Forward forward{HeadOf(q, k, v, span, h, scale, options.causal),
                      OutputOf(o, span.batch, h, {span.query_begin, span.query_count, false})};
      if (!log_sum_exp.empty()) {
        forward.output.sums =
            log_sum_exp.data() + (span.batch * q.length + span.query_begin) * q.heads + h;
        forward.output.sums_stride = q.heads;
      }
      scratch_size = std::max(scratch_size, SoftmaxScratch(forward.head));
      (span.query_count < kFewQueries ? few : many).push_back(forward);
    }
  }
  ZeroQueryPadding(o, spans);
  ZeroSumsPadding(log_sum_exp, q, spans);
  RunFew(few, options.threads);

  struct Task {
    size_t forward;
    int64_t begin;
  };
  std::vector<Task> tasks;
  double flops = 0;
  for (size_t f = 0; f < many.size(); ++f) {
    flops += FlopsOf(many[f].head);
    for (int64_t i = 0; i < many[f].head.query_count; i += kQueryRows) tasks.push_back({f, i});
  }
  // The longest first: a causal block costs as many keys as stand before it.
  std::stable_sort(tasks.begin(), tasks.end(), [&](const Task& a, const Task& b) {
    return many[a.forward].head.KeysOf(a.begin) > many[b.forward].head.KeysOf(b.begin);
  });
  const int64_t count = static_cast<int64_t>(tasks.size());
  const Team team(options.threads, count, {.flops = flops});
  scratch_size = RoundUp(scratch_size, kMaxLanes);
  AlignedFloats scratch(static_cast<size_t>(team.size() * scratch_size));
  team.Run(count, [&](int64_t t, int thread) {
    const Task& task = tasks[static_cast<size_t>(t)];
    const Forward& forward = many[task.forward];
    RunSoftmax(forward.head, task.begin,
               std::min(forward.head.query_count, task.begin + kQueryRows), forward.output,
               scratch.data() + thread * scratch_size);
  });
}

void SoftmaxAttentionBackward(const ConstView& q, const ConstView& k, const ConstView& v,
                              const ConstView& o, std::span<const float> log_sum_exp,
                              const ConstView& d_o, const View& dq, const View& dk, const View& dv,
                              const SoftmaxOptions& options) {
  CheckGradients(q, k, v, o, d_o, dq, dk, dv);
  CheckThreads(options.threads);
  CheckSums("log_sum_exp", log_sum_exp.size(), false, q);
  const float scale = ScaleOf(options, q);
  const std::vector<Span> spans = CheckSequences(options.sequences, q, k, options.causal);

  std::vector<float> delta(log_sum_exp.size());
  const int64_t rows_of_heads = q.batch * q.heads;
  const double row_bytes = 4.0 * static_cast<double>(q.length * (o.dim + d_o.dim));
  Team(options.threads, rows_of_heads, {.bytes = static_cast<double>(rows_of_heads) * row_bytes})
      .Run(rows_of_heads, [&](int64_t t, int) {
        const int64_t b = t / q.heads;
        const int64_t h = t % q.heads;
        const Rows rows{0, q.length, false};
        DotRows(OperandOf(o, b, h, rows), OperandOf(d_o, b, h, rows), q.length,
                delta.data() + b * q.length * q.heads + h, q.heads);
      });

  // One key/value head of one sequence, with the lists that its task refers to.
  struct Job {
    std::vector<SoftmaxHead> heads;
    std::vector<Operand> d_o;
    std::vector<const float*> log_sum_exp;
    std::vector<const float*> delta;
    std::vector<Output> dq;
    SoftmaxBackward task;
  };
  const int64_t group = q.heads / k.heads;
  std::vector<Job> jobs;
  int64_t scratch_size = 0;
  int64_t longest = 0;
  double flops = 0;
  for (const Span& span : spans) {
    const Rows queries{span.query_begin, span.query_count, false};
    const Rows keys{span.key_begin, span.key_count, false};
    for (int64_t h = 0; h < k.heads; ++h) {
      Job& job = jobs.emplace_back();
      for (int64_t g = h * group; g < (h + 1) * group; ++g) {
        const int64_t side = (span.batch * q.length + span.query_begin) * q.heads + g;
        job.heads.push_back(HeadOf(q, k, v, span, g, scale, options.causal));
        flops += 2.5 * FlopsOf(job.heads.back());
        job.d_o.push_back(OperandOf(d_o, span.batch, g, queries));
        job.log_sum_exp.push_back(log_sum_exp.data() + side);
        job.delta.push_back(delta.data() + side);
        job.dq.push_back(OutputOf(dq, span.batch, g, queries));
      }
      job.task.dk = OutputOf(dk, span.batch, h, keys);
      job.task.dv = OutputOf(dv, span.batch, h, keys);
      job.task.side_stride = q.heads;
      scratch_size = std::max(scratch_size, SoftmaxBackwardScratch(job.heads.front()));
      longest = std::max(longest, span.query_count);
    }
  }
  for (Job& job : jobs) {
    job.task.heads = job.heads;
    job.task.d_o = job.d_o;
    job.task.log_sum_exp = job.log_sum_exp;
    job.task.delta = job.delta;
    job.task.dq = job.dq;
  }
  ZeroQueryPadding(dq, spans);
  ZeroKeyPadding(dk, spans);
  ZeroKeyPadding(dv, spans);

  scratch_size = RoundUp(scratch_size, kMaxLanes);
  const int64_t count = static_cast<int64_t>(jobs.size());
  const int64_t blocks = (longest + kBlock - 1) / kBlock;
  const Team team(options.threads, count * std::max<int64_t>(1, blocks), {.flops = flops});
  AlignedFloats scratch(static_cast<size_t>(team.size() * scratch_size));
  if (count >= team.size()) {
    const Output any{nullptr, dq.dtype, 0, dq.dim, nullptr, 0, {}};
    const int64_t sums_size = SumsInPlace(any) ? 0 : group * longest * RoundUp(q.dim, kMaxLanes);
    AlignedFloats sums(static_cast<size_t>(team.size() * sums_size));
    team.Run(count, [&](int64_t t, int thread) {
      RunSoftmaxBackward(jobs[static_cast<size_t>(t)].task,
                         sums.empty() ? nullptr : sums.data() + thread * sums_size,
                         scratch.data() + thread * scratch_size);
    });
    return;
  }
  // Fewer heads than threads: every block of queries and of keys for itself.
  struct Task {
    const SoftmaxBackward* backward;
    int64_t head;  // -1: a block of keys
    int64_t begin;
  };
  std::vector<Task> tasks;
  for (const Job& job : jobs) {
    const SoftmaxHead& head = job.heads.front();
    for (int64_t j = 0; j < head.key_count; j += kBlock) tasks.push_back({&job.task, -1, j});
    for (int64_t g = 0; g < group; ++g) {
      for (int64_t i = 0; i < head.query_count; i += kBlock) tasks.push_back({&job.task, g, i});
    }
  }
  team.Run(static_cast<int64_t>(tasks.size()), [&](int64_t t, int thread) {
    const Task& task = tasks[static_cast<size_t>(t)];
    float* own = scratch.data() + thread * scratch_size;
    if (task.head < 0) {
      RunSoftmaxBackwardKeys(*task.backward, task.begin, own);
    } else {
      RunSoftmaxBackwardQueries(*task.backward, task.head, task.begin, own);
    }
  });
}

}  // namespace cosformer
