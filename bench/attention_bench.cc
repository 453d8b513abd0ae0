// The run: which points there are, how a point is timed, what its times are set against.
#include "bench/attention_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#include "bench/attention_check.h"
#include "bench/memory.h"
#include "cosformer/error.h"
#include "report/clock.h"
#include "report/statistics.h"
#include "report/units.h"

namespace cosformer::bench {
namespace {

using report::Clock;
using report::Median;
using report::SecondsSince;

// Keeps the first of equal values: each length or system is measured once.
template <class T>
void RemoveRepeats(std::vector<T>& values) {
  std::vector<T> kept;
  for (const T value : values) {
    if (std::find(kept.begin(), kept.end(), value) == kept.end()) kept.push_back(value);
  }
  values = kept;
}

// The upper end lies far beyond any machine, and keeps products of two within 64 bits.
void RequirePositive(const char* option, int64_t value) {
  constexpr int64_t kMost = 1'000'000'000;
  if (value >= 1 && value <= kMost) return;
  throw Error(fmt::format("{} is {}: it must be at least 1 and at most {}", option, value, kMost));
}

bool Has(const std::vector<Pass>& passes, Pass pass) {
  return std::find(passes.begin(), passes.end(), pass) != passes.end();
}

// The reference holds its gradients of one head in double precision, with a magnitude each.
double CheckBytes(const AttentionShape& shape, int64_t length) {
  return static_cast<double>(length) * static_cast<double>(2 * shape.dim + shape.value_dim) * 2 *
         sizeof(double);
}

void RequireMemory(const AttentionBenchConfig& config) {
  const int64_t longest = *std::max_element(config.lengths.begin(), config.lengths.end());
  const bool gradients = Has(config.passes, Pass::kForwardBackward);
  const double cache =
      UsefulStepBytes(System::kSoftmax, config.shape, std::min(longest, config.max_softmax_length));
  const double states = UsefulStepBytes(System::kCosformer, config.shape, longest);
  const double needed = AttentionProblem::Bytes(config.shape, longest, gradients) + states +
                        (gradients ? CheckBytes(config.shape, longest) : 0) +
                        (Has(config.passes, Pass::kStep) ? cache : 0);
  const double available = static_cast<double>(AvailableMemory());
  if (needed > available) {
    throw Error(fmt::format(
        "length {} with batch {}, {} heads of {} needs {} of memory, and {} are available: take a "
        "shorter length or a smaller batch",
        longest, config.shape.batch, config.shape.heads, config.shape.dim,
        report::FormatBytes(needed), report::FormatBytes(available)));
  }
}

// One system's call, and how long it took each time.
struct Candidate {
  System system = System::kCosformer;
  std::function<void()> prepare;  // before a sample, untimed
  std::function<void()> call;
  std::optional<int64_t> extra_bytes;
  int calls_per_sample = 1;
  double spent = 0;
  std::vector<double> samples;  // seconds of one call

  void Sample() {
    prepare();
    const auto start = Clock::now();
    for (int i = 0; i < calls_per_sample; ++i) call();
    const double elapsed = SecondsSince(start);
    samples.push_back(elapsed / calls_per_sample);
    spent += elapsed;
  }

  // Enough time and a median worth its name; a call that alone takes many times the budget is
  // timed once.
  bool Done(double seconds) const {
    return (spent >= seconds && samples.size() >= 3) || spent >= 10 * seconds;
  }
};

// Rounds over all candidates rather than one after the other: what disturbs the machine for a while
// then disturbs them alike. Calls sample() once a round, for what they are set against.
void TimeInterleaved(std::vector<Candidate>& candidates, double seconds,
                     const std::function<void()>& sample) {
  // Short calls are sampled in groups: a group is far above the clock's grain, and most of its
  // calls find in cache what the previous one left there.
  const double sample_seconds = std::min(2e-3, seconds / 5);
  for (Candidate& candidate : candidates) {
    // The fastest of a few, since one call may be unlucky; a long call isn't asked twice.
    double fastest = std::numeric_limits<double>::infinity();
    while (candidate.samples.size() < 3 && candidate.spent < seconds) {
      candidate.Sample();
      fastest = std::min(fastest, candidate.samples.back());
    }
    const double calls = sample_seconds / std::max(fastest, 1e-9);
    if (calls < 2) continue;
    candidate.calls_per_sample =
        static_cast<int>(std::min(calls, 0.5 * static_cast<double>(Decoder::kMostSteps)));
    candidate.samples.clear();
    candidate.spent = 0;
  }
  for (bool more = true; more;) {
    more = false;
    sample();
    for (Candidate& candidate : candidates) {
      if (candidate.Done(seconds)) continue;
      candidate.Sample();
      more = true;
    }
  }
}

// What is measured together: all systems at one point.
struct Point {
  bool causal;
  int threads;
  int64_t length;
  Pass pass;
};

class Run {
 public:
  Run(const AttentionBenchConfig& config, report::Progress& progress)
      : config_(config), progress_(progress) {
    result_.config = config;
  }

  AttentionBench Measure() {
    const auto state_bytes =
        static_cast<int64_t>(UsefulStepBytes(System::kCosformer, config_.shape, 1)) / 2;
    result_.machine = DescribeMachine(config_.threads, state_bytes, config_.seconds);
    MeasureLimits(result_.machine, config_.seconds, progress_);
    CheckGradientsInFull();
    progress_.SetTotal(CountPoints());
    for (const int64_t length : config_.lengths) MeasureLength(length);
    MeasureLimits(result_.machine, config_.seconds, progress_);
    SustainedPeaks();
    for (AttentionRow& row : result_.rows) SetAgainstLimit(row);
    SortRows();
    return std::move(result_);
  }

 private:
  // A decoding step has no bidirectional form.
  static bool Exists(Pass pass, bool causal) { return pass != Pass::kStep || causal; }

  int CountPoints() const {
    int points = 0;
    for (const bool causal : config_.causal) {
      for (const Pass pass : config_.passes) points += Exists(pass, causal) ? 1 : 0;
    }
    return points * static_cast<int>(config_.threads.size() * config_.lengths.size());
  }

  void CheckGradientsInFull() {
    if (!Has(config_.passes, Pass::kForwardBackward)) return;
    const int64_t longest = *std::max_element(config_.lengths.begin(), config_.lengths.end());
    for (const System system : config_.systems) {
      progress_.Show(fmt::format("checking the gradients of {}", TitleOf(system)));
      for (const bool causal : config_.causal) {
        for (const int threads : config_.threads) {
          CheckShortGradients(config_.shape, longest, system, causal, threads);
        }
      }
    }
  }

  void MeasureLength(int64_t length) {
    AttentionProblem problem(config_.shape, length, static_cast<uint64_t>(length),
                             Has(config_.passes, Pass::kForwardBackward));
    // A decoder with its past serves all thread counts.
    std::vector<std::unique_ptr<Decoder>> decoders;
    for (const bool causal : config_.causal) {
      for (const int threads : config_.threads) {
        for (const Pass pass : config_.passes) {
          if (Exists(pass, causal))
            MeasurePoint(problem, decoders, {causal, threads, length, pass});
        }
      }
    }
  }

  void MeasurePoint(AttentionProblem& problem, std::vector<std::unique_ptr<Decoder>>& decoders,
                    const Point& point) {
    const std::string where =
        fmt::format("{}, {}, length {}, {} thread{}", TitleOf(point.pass),
                    point.causal ? "causal" : "bidirectional", report::FormatInteger(point.length),
                    point.threads, point.threads == 1 ? "" : "s");
    progress_.Next(where);
    std::vector<Candidate> candidates;
    Tensor step_output(config_.shape.dtype, config_.shape.batch, 1, config_.shape.heads,
                       config_.shape.value_dim);
    for (const System system : config_.systems) {
      if (system == System::kSoftmax && point.length > config_.max_softmax_length) {
        result_.skipped.push_back(
            {system, point.pass, point.causal, point.length, point.threads,
             fmt::format("longer than --max-softmax-length {}", config_.max_softmax_length)});
        continue;
      }
      progress_.Show(fmt::format("{}: checking {}", where, TitleOf(system)));
      candidates.push_back(point.pass == Pass::kStep
                               ? StepCandidate(problem, decoders, step_output, system, point)
                               : PassCandidate(problem, system, point));
    }
    progress_.Show(where + ": timing");
    TimeInterleaved(candidates, config_.seconds, [&] {
      if (point.pass != Pass::kStep) {
        fma_samples_[point.threads].push_back(SampleMultiplyAdds(point.threads));
      }
    });
    AddRows(candidates, point);
  }

  // A check that fails throws, so that what can be timed is right.
  static Candidate PassCandidate(AttentionProblem& problem, System system, const Point& point) {
    Candidate candidate;
    candidate.system = system;
    candidate.prepare = [] {};
    const bool causal = point.causal;
    const int threads = point.threads;
    if (point.pass == Pass::kForward) {
      candidate.extra_bytes = CheckForward(problem, system, causal, threads);
      candidate.call = [=, &problem] { problem.Forward(system, causal, threads); };
    } else {
      candidate.extra_bytes = CheckForwardBackward(problem, system, causal, threads);
      candidate.call = [=, &problem] {
        problem.Forward(system, causal, threads);
        problem.Backward(system, causal, threads);
      };
    }
    return candidate;
  }

  static Candidate StepCandidate(const AttentionProblem& problem,
                                 std::vector<std::unique_ptr<Decoder>>& decoders, Tensor& output,
                                 System system, const Point& point) {
    auto found = std::find_if(decoders.begin(), decoders.end(), [system](const auto& decoder) {
      return decoder->system() == system;
    });
    if (found == decoders.end()) {
      decoders.push_back(std::make_unique<Decoder>(system, problem));
      found = decoders.end() - 1;
    }
    Decoder& decoder = **found;
    CheckStep(problem, decoder, point.threads);
    const int threads = point.threads;
    Candidate candidate;
    candidate.system = system;
    candidate.prepare = [&decoder] { decoder.Rewind(); };
    candidate.call = [&, threads] { decoder.Step(problem, output, threads); };
    candidate.extra_bytes = static_cast<int64_t>(decoder.bytes());
    return candidate;
  }

  void AddRows(const std::vector<Candidate>& candidates, const Point& point) {
    std::optional<double> softmax_seconds;
    for (const Candidate& candidate : candidates) {
      if (candidate.system == System::kSoftmax) softmax_seconds = Median(candidate.samples);
    }
    for (const Candidate& candidate : candidates) {
      const double seconds = Median(candidate.samples);
      AttentionRow row;
      row.system = candidate.system;
      row.pass = point.pass;
      row.causal = point.causal;
      row.length = point.length;
      row.threads = point.threads;
      row.seconds = seconds;
      row.seconds_min = *std::min_element(candidate.samples.begin(), candidate.samples.end());
      row.samples = static_cast<int>(candidate.samples.size());
      const int64_t tokens = config_.shape.batch * (point.pass == Pass::kStep ? 1 : point.length);
      row.tokens_per_second = static_cast<double>(tokens) / seconds;
      row.extra_bytes = candidate.extra_bytes;
      if (softmax_seconds) row.ratio_to_softmax = *softmax_seconds / seconds;
      result_.rows.push_back(row);
    }
  }

  // Clocks move by several percent with what the neighbours do. Times are medians, so the peak that
  // they are set against is the median of the samples taken between them, not the best moment.
  void SustainedPeaks() {
    double fewer_threads = 0;
    for (auto& [threads, limits] : result_.machine.limits) {
      const auto samples = fma_samples_.find(threads);
      if (samples != fma_samples_.end()) limits.fma_gflops = Median(samples->second);
      limits.fma_gflops = std::max(limits.fma_gflops, fewer_threads);
      fewer_threads = limits.fma_gflops;
    }
  }

  void SetAgainstLimit(AttentionRow& row) const {
    const Limits& limits = result_.machine.For(row.threads);
    double work = 0;
    if (row.pass != Pass::kStep) {
      row.limit = Limit::kFmaPeak;
      row.limit_value = limits.fma_gflops;
      work = UsefulOperations(row.system, row.pass, config_.shape, row.length, row.causal);
    } else {
      const bool cache = row.system == System::kSoftmax;
      row.limit = cache ? Limit::kReadBandwidth : Limit::kL2Bandwidth;
      row.limit_value = cache ? limits.read_gbps : limits.update_gbps;
      work = UsefulStepBytes(row.system, config_.shape, row.length);
    }
    row.peak_share = work / row.seconds / (1e9 * row.limit_value);
  }

  // Measured length by length, for the sake of memory; read mode by mode.
  void SortRows() {
    const auto order = [](const auto& row) {
      return std::tuple(!row.causal, row.threads, row.pass, row.length, row.system);
    };
    const auto before = [&order](const auto& a, const auto& b) { return order(a) < order(b); };
    std::stable_sort(result_.rows.begin(), result_.rows.end(), before);
    std::stable_sort(result_.skipped.begin(), result_.skipped.end(), before);
  }

  const AttentionBenchConfig& config_;
  report::Progress& progress_;
  AttentionBench result_;
  std::map<int, std::vector<double>> fma_samples_;  // GFLOP/s by number of threads
};

}  // namespace

const char* NameOf(Limit limit) {
  switch (limit) {
    case Limit::kFmaPeak:
      return "fma_peak";
    case Limit::kL2Bandwidth:
      return "l2_bandwidth";
    case Limit::kReadBandwidth:
      return "read_bandwidth";
  }
  return "";
}

AttentionBenchConfig Checked(AttentionBenchConfig config) {
  if (config.lengths.empty()) throw Error("--lengths is empty: give at least one length");
  for (const int64_t length : config.lengths) RequirePositive("--lengths", length);
  RequirePositive("--batch", config.shape.batch);
  RequirePositive("--heads", config.shape.heads);
  RequirePositive("--kv-heads", config.shape.kv_heads);
  RequirePositive("--dim", config.shape.dim);
  RequirePositive("--value-dim", config.shape.value_dim);
  RequirePositive("--max-softmax-length", config.max_softmax_length);
  if (config.shape.heads % config.shape.kv_heads != 0) {
    throw Error(fmt::format(
        "--heads {} is no multiple of --kv-heads {}: each key/value head serves equally many heads",
        config.shape.heads, config.shape.kv_heads));
  }
  if (!(config.seconds > 0 && config.seconds <= 3600)) {
    throw Error(
        fmt::format("--seconds is {}: it must be above 0 and at most 3600", config.seconds));
  }
  const int all = AllThreads();
  if (config.threads.empty()) config.threads = {1, all};
  for (const int threads : config.threads) {
    RequirePositive("--threads", threads);
    if (threads > all) {
      throw Error(
          fmt::format("--threads is {}, and this process may use {} cores: take at most "
                      "that many",
                      threads, all));
    }
  }
  if (config.systems.empty() || config.passes.empty() || config.causal.empty()) {
    throw Error("--systems, --passes and --mode must name at least one each");
  }
  if (config.passes == std::vector<Pass>{Pass::kStep} &&
      std::find(config.causal.begin(), config.causal.end(), true) == config.causal.end()) {
    throw Error("--mode bidirectional has no decoding step: take --mode causal for --passes step");
  }
  RemoveRepeats(config.lengths);
  RemoveRepeats(config.threads);
  RemoveRepeats(config.causal);
  RemoveRepeats(config.systems);
  RemoveRepeats(config.passes);
  std::sort(config.lengths.begin(), config.lengths.end());
  RequireMemory(config);
  return config;
}

AttentionBench RunAttentionBench(const AttentionBenchConfig& config, report::Progress& progress) {
  return Run(config, progress).Measure();
}

}  // namespace cosformer::bench
