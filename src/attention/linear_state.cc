// The streaming state: which spans take in a token and which are read, and the passage between
// them. The file form is in linear_state_file.cc.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "attention/operands.h"
#include "attention/sweep_jobs.h"
#include "cosformer/attention.h"

namespace cosformer {
namespace {

// Tokens after which the recent sum is folded into the distant one, which from then on has to be
// read as well. A float32 sum of n terms of one sign errs by some sqrt(n) roundings, which average
// out over the features: up to here the result is as exact as that of a few tokens (a test).
constexpr int64_t kFold = 3 << 15;

StateLayout LayoutOf(const LinearStateConfig& config) {
  return {config.dim, config.value_dim, config.kernel.reweighting == Reweighting::kCos};
}

void CheckField(const char* name, const char* field, int64_t value, int64_t expected) {
  if (value != expected) {
    Fail("attention: ", name, " has ", field, " ", value, ", but the state has ", expected);
  }
}

void CheckKeysAndValues(const LinearStateConfig& config, const ConstView& k, const ConstView& v) {
  CheckView("k", k);
  CheckView("v", v);
  CheckField("k", "batch", k.batch, config.batch);
  CheckField("k", "heads", k.heads, config.heads);
  CheckField("k", "dim", k.dim, config.dim);
  CheckField("v", "batch", v.batch, config.batch);
  CheckField("v", "heads", v.heads, config.heads);
  CheckField("v", "dim", v.dim, config.value_dim);
  if (k.length != v.length) {
    Fail("attention: k has length ", k.length, ", but v has length ", v.length);
  }
  if (k.dtype != v.dtype) Fail("attention: k and v must have one dtype");
}

void CheckQueries(const LinearStateConfig& config, const ConstView& q, const ConstView& o) {
  CheckView("q", q);
  CheckView("o", o);
  CheckField("q", "batch", q.batch, config.batch);
  CheckField("q", "dim", q.dim, config.dim);
  CheckField("o", "batch", o.batch, config.batch);
  CheckField("o", "dim", o.dim, config.value_dim);
  if (q.length != o.length || q.heads != o.heads) {
    Fail("attention: q has the shape ", ShapeOf(q), ", but o has ", ShapeOf(o));
  }
  if (q.heads % config.heads != 0) {
    Fail("attention: q has ", q.heads, " heads, which is not a multiple of the state's ",
         config.heads, " key/value heads");
  }
}

}  // namespace

struct LinearState::Tokens {
  const ConstView* q;
  const ConstView& k;
  const ConstView& v;
  const View* o;
  std::span<const float> keep;  // [batch, length, heads], or empty

  // Of the token in `row`, null where nothing is forgotten. From one token to the next: heads.
  const float* Keep(int64_t batch, int64_t head, int64_t row) const {
    return keep.empty() ? nullptr : keep.data() + (batch * k.length + row) * k.heads + head;
  }
};

struct LinearState::Reach {
  int64_t tokens = 0;  // that can be taken in before something is folded or dropped
  bool absorb_first = false;
  bool absorb_second = false;
  bool read_first = false;
  bool read_second = false;
  int64_t first_position = 0;  // of the next token since each span began
  int64_t second_position = 0;
};

LinearState::LinearState(const LinearStateConfig& config) : config_(config) {
  CheckKernel(config.kernel);
  if (config.batch < 1 || config.heads < 1 || config.dim < 1 || config.value_dim < 1) {
    Fail("attention: a state needs batch, heads, dim and value_dim of at least 1, not ",
         config.batch, ", ", config.heads, ", ", config.dim, " and ", config.value_dim);
  }
  if (config.endless && config.kernel.reweighting != Reweighting::kCos) {
    Fail(
        "attention: an endless state is for cos re-weighting; without it no horizon is in the way");
  }
  if (config.endless && config.kernel.horizon < 2) {
    Fail("attention: an endless state needs a horizon of at least 2, not ", config.kernel.horizon);
  }
  Reset();
}

void LinearState::Reset() {
  position_ = 0;
  first_begin_ = 0;
  second_begin_ = config_.endless ? config_.kernel.horizon / 2 : 0;
  const size_t size = static_cast<size_t>(config_.batch * config_.heads * LayoutOf(config_).Size());
  second_.assign(size, 0.0f);
  first_.assign(config_.endless ? size : 0, 0.0f);
}

bool LinearState::finite() const {
  const auto all = [](const AlignedFloats& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
  };
  return all(first_) && all(second_);
}

LinearState::Reach LinearState::NextReach() const {
  Reach reach;
  if (config_.endless) {
    const int64_t half = config_.kernel.horizon / 2;
    reach.absorb_first = true;
    reach.read_first = true;
    reach.absorb_second = position_ >= second_begin_;
    reach.tokens = (reach.absorb_second ? second_begin_ + half : second_begin_) - position_;
    reach.first_position = position_ - first_begin_;
    reach.second_position = position_ - second_begin_;
  } else {
    reach.absorb_second = true;
    reach.read_second = true;
    reach.read_first = !first_.empty();
    reach.tokens =
        config_.forgets ? std::numeric_limits<int64_t>::max() : second_begin_ + kFold - position_;
    reach.first_position = position_;
    reach.second_position = position_;
  }
  return reach;
}

// Folds or drops what has reached its end; tokens are about to be absorbed.
void LinearState::Turnover() {
  if (config_.endless) {
    const int64_t half = config_.kernel.horizon / 2;
    if (position_ < second_begin_ + half) return;
    std::swap(first_, second_);
    std::fill(second_.begin(), second_.end(), 0.0f);
    first_begin_ = second_begin_;
    second_begin_ += half;
  } else {
    // What is forgotten does not pile up.
    if (config_.forgets || position_ < second_begin_ + kFold) return;
    if (first_.empty()) first_.assign(second_.size(), 0.0f);
    for (size_t i = 0; i < first_.size(); ++i) first_[i] += second_[i];
    std::fill(second_.begin(), second_.end(), 0.0f);
    second_begin_ = position_;
  }
}

void LinearState::CheckRoom(int64_t tokens) const {
  if (config_.endless || config_.kernel.reweighting == Reweighting::kNone) return;
  if (position_ + tokens > config_.kernel.horizon) {
    Fail("attention: ", tokens, " tokens after position ", position_, " go past the horizon ",
         config_.kernel.horizon, "; make the state endless, or raise the horizon");
  }
}

void LinearState::CheckKeep(std::span<const float> keep, const ConstView& k) const {
  if (config_.forgets && keep.empty() && k.length > 0) {
    Fail("attention: this state forgets, and needs to be told what each token keeps");
  }
  if (!config_.forgets && !keep.empty()) {
    Fail("attention: keep was given, but this state does not forget");
  }
  cosformer::CheckKeep(keep.size(), k, /*causal=*/true);
}

void LinearState::Absorb(const ConstView& k, const ConstView& v, int threads,
                         std::span<const float> keep) {
  CheckKeysAndValues(config_, k, v);
  CheckKeep(keep, k);
  CheckThreads(threads);
  CheckRoom(k.length);
  Take({nullptr, k, v, nullptr, keep}, threads);
}

void LinearState::Step(const ConstView& q, const ConstView& k, const ConstView& v, const View& o,
                       int threads, std::span<const float> keep) {
  CheckKeysAndValues(config_, k, v);
  CheckKeep(keep, k);
  CheckQueries(config_, q, o);
  if (q.length != k.length) {
    Fail("attention: a step needs a query for each key, but q has length ", q.length,
         " and k has length ", k.length);
  }
  if (q.dtype != k.dtype) Fail("attention: q, k and v must have one dtype");
  CheckThreads(threads);
  CheckRoom(k.length);
  Take({&q, k, v, &o, keep}, threads);
}

void LinearState::Take(const Tokens& tokens, int threads) {
  for (int64_t done = 0; done < tokens.k.length;) {
    Turnover();
    const Reach reach = NextReach();
    const int64_t count = std::min(reach.tokens, tokens.k.length - done);
    if (count == 1) {
      TakeToken(tokens, reach, done, threads);
    } else {
      TakeChunk(tokens, reach, done, count, threads);
    }
    position_ += count;
    done += count;
  }
}

void LinearState::TakeToken(const Tokens& tokens, const Reach& reach, int64_t row, int threads) {
  const ConstView* q = tokens.q;
  const StateLayout layout = LayoutOf(config_);
  const double theta = AngleOf(config_.kernel);
  const double first_angle = theta * static_cast<double>(reach.first_position);
  const double second_angle = theta * static_cast<double>(reach.second_position);
  const std::array cos = {static_cast<float>(std::cos(first_angle)),
                          static_cast<float>(std::cos(second_angle))};
  const std::array sin = {static_cast<float>(std::sin(first_angle)),
                          static_cast<float>(std::sin(second_angle))};
  const Rows rows{row, 1, false};
  const int64_t group = q == nullptr ? 0 : q->heads / config_.heads;
  const int64_t slices = config_.batch * config_.heads;
  // Both states are read and, where something is absorbed, written.
  const Team team(threads, slices, {.bytes = 8.0 * static_cast<double>(slices * layout.Size())});
  const int64_t scratch_size = RoundUp(TokenStepScratch(layout), kMaxLanes);
  AlignedFloats scratch(static_cast<size_t>(team.size() * scratch_size));
  std::vector<Operand> queries(static_cast<size_t>(slices * group));
  std::vector<Output> outputs(queries.size());
  for (int64_t n = 0; n < slices * group; ++n) {
    const int64_t b = n / (config_.heads * group);
    const int64_t h = n % (config_.heads * group);
    queries[static_cast<size_t>(n)] = FeaturesOf(*q, b, h, rows, config_.kernel);
    outputs[static_cast<size_t>(n)] = OutputOf(*tokens.o, b, h, rows);
  }

  team.RunEvenly(slices, [&](int64_t n, int thread) {
    const int64_t b = n / config_.heads;
    const int64_t h = n % config_.heads;
    TokenStep step(layout);
    step.normalise = config_.kernel.normaliser == Normaliser::kSum;
    step.epsilon = config_.kernel.epsilon;
    step.queries =
        std::span(queries).subspan(static_cast<size_t>(n * group), static_cast<size_t>(group));
    step.outputs =
        std::span(outputs).subspan(static_cast<size_t>(n * group), static_cast<size_t>(group));
    step.key = FeaturesOf(tokens.k, b, h, rows, config_.kernel);
    step.value = OperandOf(tokens.v, b, h, rows);
    if (const float* kept = tokens.Keep(b, h, row)) step.keep = *kept;
    step.states = {first_.empty() ? nullptr : first_.data() + n * layout.Size(),
                   second_.data() + n * layout.Size()};
    step.cos = cos;
    step.sin = sin;
    step.absorb = {reach.absorb_first, reach.absorb_second};
    step.read = {reach.read_first, reach.read_second};
    RunTokenStep(step, scratch.data() + thread * scratch_size);
  });
}

void LinearState::TakeChunk(const Tokens& tokens, const Reach& reach, int64_t begin, int64_t count,
                            int threads) {
  const ConstView* q = tokens.q;
  const StateLayout layout = LayoutOf(config_);
  const Rotation rotation(config_.kernel);
  const Rows rows{begin, count, false};
  const int64_t group = q == nullptr ? 0 : q->heads / config_.heads;
  std::vector<SweepJob> jobs;
  for (int64_t b = 0; b < config_.batch; ++b) {
    for (int64_t h = 0; h < config_.heads; ++h) {
      const int64_t at = (b * config_.heads + h) * layout.Size();
      const auto add_job = [&](SweepAction action, float* state, int64_t position) -> SweepJob& {
        SweepJob& job = jobs.emplace_back(layout);
        job.action = action;
        job.state = state + at;
        job.sweep.rotation = &rotation;
        job.sweep.origin = position;
        job.sweep.normalise = config_.kernel.normaliser == Normaliser::kSum;
        job.sweep.epsilon = config_.kernel.epsilon;
        job.sweep.key_count = rows.count;
        job.sweep.keep = tokens.Keep(b, h, begin);
        job.sweep.keep_stride = tokens.k.heads;
        job.keys.push_back(FeaturesOf(tokens.k, b, h, rows, config_.kernel));
        job.values.push_back(OperandOf(tokens.v, b, h, rows));
        return job;
      };
      const bool first_leads = reach.read_first && reach.absorb_first;
      SweepJob& job = add_job(q == nullptr ? SweepAction::kAbsorb : SweepAction::kReadAndAbsorb,
                              first_leads ? first_.data() : second_.data(),
                              first_leads ? reach.first_position : reach.second_position);
      if (q != nullptr) {
        job.sweep.query_count = rows.count;
        for (int64_t g = h * group; g < (h + 1) * group; ++g) {
          job.queries.push_back(FeaturesOf(*q, b, g, rows, config_.kernel));
          job.outputs.push_back(OutputOf(*tokens.o, b, g, rows));
        }
        if (!first_leads && reach.read_first) job.distant = first_.data() + at;
      }
      if (first_leads && reach.absorb_second) {
        add_job(SweepAction::kAbsorb, second_.data(), reach.second_position);
      }
    }
  }
  RunJobs(jobs, threads);
}

void LinearState::Attend(const ConstView& q, const View& o, int64_t position, int threads) const {
  CheckQueries(config_, q, o);
  CheckThreads(threads);
  if (config_.forgets) {
    Fail("attention: a state that forgets is read as tokens come, by Step, and not otherwise");
  }
  const Reach reach = NextReach();
  const bool cos = config_.kernel.reweighting == Reweighting::kCos;
  const int64_t begin = config_.endless ? first_begin_ : 0;
  const int64_t last = begin + config_.kernel.horizon;
  if (cos && q.length > 0 && (position < begin || position > last - q.length + 1)) {
    Fail("attention: queries at positions ", position, " to ", position + q.length - 1,
         " are outside what the state can weigh, ", begin, " to ", last);
  }
  const StateLayout layout = LayoutOf(config_);
  const Rotation rotation(config_.kernel);
  const int64_t group = q.heads / config_.heads;
  const Rows rows{0, q.length, false};
  std::vector<SweepJob> jobs;
  for (int64_t b = 0; b < config_.batch; ++b) {
    for (int64_t h = 0; h < config_.heads; ++h) {
      const int64_t at = (b * config_.heads + h) * layout.Size();
      SweepJob& job = jobs.emplace_back(layout);
      job.action = SweepAction::kRead;
      // A sweep that only reads leaves its state as it is.
      job.state = const_cast<float*>((reach.read_second ? second_ : first_).data()) + at;
      if (reach.read_second && reach.read_first) job.distant = first_.data() + at;
      job.sweep.rotation = &rotation;
      job.sweep.causal = false;
      job.sweep.normalise = config_.kernel.normaliser == Normaliser::kSum;
      job.sweep.epsilon = config_.kernel.epsilon;
      job.sweep.origin = position - begin;
      job.sweep.query_count = q.length;
      for (int64_t g = h * group; g < (h + 1) * group; ++g) {
        job.queries.push_back(FeaturesOf(q, b, g, rows, config_.kernel));
        job.outputs.push_back(OutputOf(o, b, g, rows));
      }
    }
  }
  RunJobs(jobs, threads);
}

void LinearState::Merge(const LinearState& next) {
  CheckSameConfig(config_, next.config_, "the state to merge");
  if (config_.endless || config_.forgets) {
    Fail(
        "attention: states that are endless or forget cannot merge: they do not know what would be "
        "left of the first after the second");
  }
  CheckRoom(next.position_);
  const StateLayout layout = LayoutOf(config_);
  const double angle = AngleOf(config_.kernel) * static_cast<double>(position_);
  const float cos = static_cast<float>(std::cos(angle));
  const float sin = static_cast<float>(std::sin(angle));

  // to += the state `from`, turned. cos(a + b) and sin(a + b) by the addition theorem.
  const auto add_turned = [&](const AlignedFloats& from, AlignedFloats& to) {
    if (layout.parts == 1) {
      for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
      return;
    }
    const int64_t half = layout.part_rows * layout.row;
    for (int64_t n = 0; n < config_.batch * config_.heads; ++n) {
      const auto turn = [&](int64_t begin, int64_t count) {
        const float* c = from.data() + n * layout.Size() + begin;
        float* to_c = to.data() + n * layout.Size() + begin;
        for (int64_t i = 0; i < count; ++i) {
          const float s = c[count + i];
          to_c[i] += cos * c[i] - sin * s;
          to_c[count + i] += sin * c[i] + cos * s;
        }
      };
      turn(0, half);
      turn(layout.Matrix(), layout.sums);
    }
  };

  if (next.first_.empty() && position_ + next.position_ - second_begin_ <= kFold) {
    add_turned(AlignedFloats(next.second_), second_);  // a copy: next may be *this
    position_ += next.position_;
    return;
  }
  AlignedFloats sum = first_;
  sum.resize(second_.size(), 0.0f);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += second_[i];
  if (!next.first_.empty()) add_turned(next.first_, sum);
  add_turned(next.second_, sum);
  position_ += next.position_;
  first_ = std::move(sum);
  std::fill(second_.begin(), second_.end(), 0.0f);
  second_begin_ = position_;
}

}  // namespace cosformer
