#include "attention/sweep_jobs.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/parallel.h"

namespace cosformer {
namespace {

// Below this, splitting a job costs more in barriers (some 2 us each) than it saves.
constexpr int64_t kShortestSplit = 8 * kChunk;

bool ReadsLast(const SweepJob& job) {
  return job.action == SweepAction::kReadAndAbsorb && !job.sweep.causal;
}

// Positions that an action goes through.
int64_t EndOf(const SweepJob& job, SweepAction action) {
  const int64_t queries = job.sweep.query_offset + job.sweep.query_count;
  if (action == SweepAction::kAbsorb) return job.sweep.key_count;
  if (action == SweepAction::kRead) return queries;
  return std::max(job.sweep.key_count, queries);
}

int64_t BeginOf(const SweepJob& job, SweepAction action) {
  return action == SweepAction::kRead ? job.sweep.query_offset : 0;
}

// Jobs that one thread runs in step, chunk by chunk: neighbouring heads of a sequence, whose rows
// lie on the same pages. One after the other, each would miss the TLB on every other row again
// (measured: a quarter of the time at 8 heads of 64).
struct Unit {
  std::span<const SweepJob> jobs;

  const SweepJob& front() const { return jobs.front(); }
  int64_t Cost() const {
    return static_cast<int64_t>(jobs.size()) *
           (front().sweep.query_count * static_cast<int64_t>(front().queries.size()) +
            front().sweep.key_count * static_cast<int64_t>(front().keys.size()));
  }
};

// The states of a unit stay in the second cache level.
constexpr int64_t kUnitFloats = int64_t{80} << 10;

bool InStep(const SweepJob& a, const SweepJob& b) {
  return a.group == b.group && a.action == b.action && a.sweep.query_count == b.sweep.query_count &&
         a.sweep.key_count == b.sweep.key_count && a.sweep.query_offset == b.sweep.query_offset &&
         a.sweep.origin == b.sweep.origin && a.queries.size() == b.queries.size() &&
         a.keys.size() == b.keys.size();
}

// Floats, on cache lines.
int64_t LargestState(std::span<const SweepJob> jobs) {
  int64_t size = 0;
  for (const SweepJob& job : jobs) {
    size = std::max(size, RoundUp(job.sweep.layout.Size(), kMaxLanes));
  }
  return size;
}

// Runs of consecutive jobs of one group, each run cut so that every thread gets its share.
std::vector<Unit> UnitsOf(const std::vector<SweepJob>& jobs, int threads) {
  const size_t teams = static_cast<size_t>(threads);
  std::vector<Unit> units;
  for (size_t begin = 0; begin < jobs.size();) {
    size_t end = begin + 1;
    while (end < jobs.size() && InStep(jobs[begin], jobs[end])) ++end;
    const int64_t fit = std::max<int64_t>(
        1, kUnitFloats / LargestState(std::span(jobs).subspan(begin, end - begin)));
    const size_t most = std::min((end - begin + teams - 1) / teams, static_cast<size_t>(fit));
    for (; begin < end; begin += most) {
      units.push_back({std::span(jobs).subspan(begin, std::min(most, end - begin))});
    }
    begin = end;
  }
  return units;
}

void RunUnit(const Unit& unit, float* own_states, float* scratch) {
  const int64_t size = LargestState(unit.jobs);
  const auto state_of = [&](size_t j) {
    return unit.jobs[j].state != nullptr ? unit.jobs[j].state
                                         : own_states + static_cast<int64_t>(j) * size;
  };
  for (size_t j = 0; j < unit.jobs.size(); ++j) {
    if (unit.jobs[j].state == nullptr) {
      std::fill_n(state_of(j), unit.jobs[j].sweep.layout.Size(), 0.0f);
    }
  }
  std::vector<SweepRun> runs;
  for (size_t j = 0; j < unit.jobs.size(); ++j) {
    runs.push_back({&unit.jobs[j].sweep, state_of(j), unit.jobs[j].distant});
  }
  const auto run = [&](SweepAction action) {
    RunSweeps(runs, BeginOf(unit.front(), action), EndOf(unit.front(), action), action, scratch);
  };
  if (ReadsLast(unit.front())) {
    run(SweepAction::kAbsorb);
    run(SweepAction::kRead);
  } else {
    run(unit.front().action);
  }
}

// One job over all threads: window by window, the chunks are absorbed side by side, each from zero;
// their running sums make buffers[c] the state before chunk c; the chunks are read side by side.
void RunSplit(const SweepJob& job, SweepAction action, const Team& team, float* state,
              AlignedFloats& scratch, int64_t scratch_size, AlignedFloats& buffers) {
  const int64_t size = job.sweep.layout.Size();
  const int64_t begin = BeginOf(job, action);
  const int64_t end = EndOf(job, action);
  const int64_t window = std::max<int64_t>(32, int64_t{8} * team.size()) * kChunk;
  const bool absorbs = action != SweepAction::kRead;
  const bool reads = action != SweepAction::kAbsorb;
  if (absorbs) buffers.resize(static_cast<size_t>(window / kChunk * size));
  const int64_t stripe = RoundUp((size + team.size() - 1) / team.size(), kMaxLanes);

  const auto own = [&](int thread) { return scratch.data() + thread * scratch_size; };
  for (int64_t p = begin; p < end; p += window) {
    const int64_t chunks = (std::min(end - p, window) + kChunk - 1) / kChunk;
    if (absorbs) {
      team.RunEvenly(chunks, [&](int64_t c, int thread) {
        const int64_t first = p + c * kChunk;
        float* buffer = buffers.data() + c * size;
        std::fill_n(buffer, size, 0.0f);
        const SweepRun run{&job.sweep, buffer, nullptr};
        RunSweeps({&run, 1}, first, std::min(end, first + kChunk), SweepAction::kAbsorb,
                  own(thread));
      });
      team.RunEvenly((size + stripe - 1) / stripe, [&](int64_t n, int) {
        const int64_t i = n * stripe;
        for (int64_t c = 0; c < chunks; ++c) {
          const int64_t first = p + c * kChunk;
          TakeIn(KeptAfter(job.sweep, first, std::min(end, first + kChunk)), state + i,
                 buffers.data() + c * size + i, std::min(size - i, stripe));
        }
      });
    }
    if (reads) {
      team.RunEvenly(chunks, [&](int64_t c, int thread) {
        const int64_t first = p + c * kChunk;
        float* before = absorbs ? buffers.data() + c * size : state;
        const SweepRun run{&job.sweep, before, job.distant};
        RunSweeps({&run, 1}, first, std::min(end, first + kChunk), SweepAction::kRead, own(thread));
      });
    }
  }
}

// The time of the busiest thread over the mean, when units are handed out longest first.
double Imbalance(std::span<const Unit> units, int threads) {
  std::vector<int64_t> load(static_cast<size_t>(threads), 0);
  int64_t total = 0;
  for (const Unit& unit : units) {
    *std::min_element(load.begin(), load.end()) += unit.Cost();
    total += unit.Cost();
  }
  if (total == 0) return 1;
  return static_cast<double>(*std::max_element(load.begin(), load.end())) * threads /
         static_cast<double>(total);
}

// How many of the units, longest first, to split along the length: those without which the rest
// keeps the threads busy.
size_t UnitsToSplit(std::span<const Unit> units, int threads) {
  // Split, a job takes some 0.8 of its time on two threads: not worth less than that.
  constexpr double kTolerated = 1.6;
  if (threads == 1) return 0;
  for (size_t split = 0; split < units.size(); ++split) {
    if (units[split].Cost() < kShortestSplit) return split;
    if (Imbalance(units.subspan(split), threads) <= kTolerated) return split;
  }
  return units.size();
}

// The job for the columns begin to end - 1 of values and outputs. What concerns queries and keys is
// done again for each part, some 15 % of the work at 64 columns.
SweepJob ColumnsOf(const SweepJob& job, int64_t begin, int64_t end) {
  const StateLayout& layout = job.sweep.layout;
  SweepJob part(StateLayout(layout.features, end - begin, layout.parts == 2));
  const StateLayout own = part.sweep.layout;
  part.sweep = job.sweep;
  part.sweep.layout = own;
  part.action = job.action;
  part.group = job.group;
  part.queries = job.queries;
  part.outputs = job.outputs;
  part.keys = job.keys;
  part.values = job.values;
  const auto narrow = [&](auto& rows) {
    if (rows.data == nullptr) return;
    rows.data = ElementAt(rows.data, rows.dtype, begin);
    rows.dim = end - begin;
  };
  for (Operand& value : part.values) narrow(value);
  for (Output& output : part.outputs) {
    narrow(output);
    narrow(output.derivative);
    if (begin > 0) output.sums = nullptr;  // once is enough
  }
  return part;
}

// Cuts the columns of all jobs in halves until they keep the threads busy. Not where a state
// outlives the call: its columns stay together.
void CutColumns(std::vector<SweepJob>& jobs, int threads) {
  constexpr double kTolerated = 1.2;
  const auto divisible = [](const SweepJob& job) {
    return job.state == nullptr && job.distant == nullptr &&
           job.sweep.layout.values >= 2 * kMaxLanes;
  };
  while (threads > 1 && std::all_of(jobs.begin(), jobs.end(), divisible) &&
         Imbalance(UnitsOf(jobs, threads), threads) > kTolerated) {
    std::vector<SweepJob> halves;
    for (const SweepJob& job : jobs) {
      const int64_t values = job.sweep.layout.values;
      const int64_t middle = RoundUp(values / 2, kMaxLanes);
      halves.push_back(ColumnsOf(job, 0, middle));
      halves.push_back(ColumnsOf(job, middle, values));
    }
    jobs = std::move(halves);
  }
}

}  // namespace

void RunJobs(std::vector<SweepJob>& jobs, int most_threads) {
  if (jobs.empty()) return;
  double flops = 0;
  for (const SweepJob& job : jobs) {
    flops += 2 * static_cast<double>(Unit{{&job, 1}}.Cost() * job.sweep.layout.Matrix());
  }
  // A job can be split into as many pieces as there are threads.
  const Team team(most_threads, std::numeric_limits<int64_t>::max(), {.flops = flops});
  const int threads = team.size();
  CutColumns(jobs, threads);
  int64_t scratch_size = 0;
  for (SweepJob& job : jobs) {
    job.sweep.queries = job.queries;
    job.sweep.outputs = job.outputs;
    job.sweep.keys = job.keys;
    job.sweep.values = job.values;
    scratch_size = std::max(scratch_size, RoundUp(SweepScratch(job.sweep), kMaxLanes));
  }
  std::vector<Unit> units = UnitsOf(jobs, threads);
  std::stable_sort(units.begin(), units.end(),
                   [](const Unit& a, const Unit& b) { return a.Cost() > b.Cost(); });
  int64_t state_size = 0;
  for (const Unit& unit : units) {
    state_size =
        std::max(state_size, static_cast<int64_t>(unit.jobs.size()) * LargestState(unit.jobs));
  }
  const int64_t splits = static_cast<int64_t>(UnitsToSplit(units, threads));
  const int64_t count = static_cast<int64_t>(units.size());
  AlignedFloats scratch(static_cast<size_t>(threads * scratch_size));
  AlignedFloats states(static_cast<size_t>(threads * state_size));

  AlignedFloats buffers;
  for (int64_t n = 0; n < splits; ++n) {
    for (const SweepJob& job : units[static_cast<size_t>(n)].jobs) {
      float* state = job.state;
      if (state == nullptr) {
        state = states.data();
        std::fill_n(state, job.sweep.layout.Size(), 0.0f);
      }
      const auto run = [&](SweepAction action) {
        RunSplit(job, action, team, state, scratch, scratch_size, buffers);
      };
      if (ReadsLast(job)) {
        run(SweepAction::kAbsorb);
        run(SweepAction::kRead);
      } else {
        run(job.action);
      }
    }
  }

  team.Run(count - splits, [&](int64_t n, int thread) {
    RunUnit(units[static_cast<size_t>(splits + n)], states.data() + thread * state_size,
            scratch.data() + thread * scratch_size);
  });
}

}  // namespace cosformer
