#include "zoo/feature_attention.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <optional>

#include "zoo/operators.h"
#include "zoo/positions.h"

namespace cosformer::zoo {
namespace {

using torch::Tensor;

// What the operator does to each element, as torch functions: rotated features have to
// exist outside of it.
Tensor Features(const Tensor& x, const LinearKernel& kernel) {
  switch (kernel.feature_map) {
    case FeatureMap::kRelu:
      return torch::relu(x);
    case FeatureMap::kLeakyRelu:
      return torch::leaky_relu(x, kernel.leaky_slope);
    case FeatureMap::kEluPlusOne:
      return torch::elu(x) + 1;
    case FeatureMap::kIdentity:
    case FeatureMap::kGiven:
      break;
  }
  return x;
}

// Away from zero as the operator keeps its normaliser.
Tensor KeptFromZero(const Tensor& sums, float epsilon) {
  return torch::where(
      sums.abs() < epsilon,
      torch::where(sums < 0, sums.new_full({}, -epsilon), sums.new_full({}, epsilon)), sums);
}

LinearKernel OfFeatures(LinearKernel kernel) {
  kernel.feature_map = FeatureMap::kIdentity;
  kernel.normaliser = Normaliser::kNone;
  return kernel;
}

// Rotary positions in linear attention (RoFormer): the features are rotated in the numerator alone,
// so that the normaliser remains a sum of weights that are not negative. `attend(q, k, v, rotated)`
// computes a sum without normaliser.
template <class Attend>
Tensor RotatedAttention(const Inputs& inputs, const FeatureOptions& options, const Attend& attend) {
  const Tensor q = Features(inputs.q, options.kernel);
  const Tensor k = Features(inputs.k, options.kernel);
  const Tensor sum = attend(Rotate(q, *inputs.rotary, inputs.position, inputs.layout.query_offsets),
                            Rotate(k, *inputs.rotary, inputs.key_position,
                                   inputs.layout.key_offsets.empty() ? inputs.layout.query_offsets
                                                                     : inputs.layout.key_offsets),
                            inputs.v, true);
  if (options.norm) return sum;
  const Tensor ones = inputs.v.new_ones({inputs.v.size(0), inputs.v.size(1), inputs.v.size(2), 1});
  return sum / KeptFromZero(attend(q, k, ones, false), options.kernel.epsilon);
}

Tensor UnitRootMeanSquare(const Tensor& o, const Tensor& gain) {
  return o * torch::rsqrt(o.square().mean(-1, /*keepdim=*/true) + kHeadNormEpsilon) * gain;
}

// One state, or with rotary positions two: of the numerator, and of the normaliser.
class FeatureStream final : public Stream {
 public:
  FeatureStream(const Geometry& geometry, const FeatureOptions& options, Tensor gain, Gate gate,
                int64_t batch)
      : geometry_(geometry),
        options_(options),
        gain_(std::move(gain)),
        gate_(std::move(gate)),
        batch_(batch) {}

  int64_t position() const override { return sums_ ? sums_->position() : 0; }
  size_t bytes() const override {
    return (sums_ ? sums_->bytes() : 0) + (normaliser_ ? normaliser_->bytes() : 0);
  }

  Tensor Step(const Inputs& inputs) override {
    const Tensor log_keep = gate_.LogKeep(inputs.x);
    Tensor o;
    if (inputs.rotary == nullptr) {
      LinearKernel kernel = options_.kernel;
      if (options_.norm) kernel.normaliser = Normaliser::kNone;
      o = In(sums_, kernel, geometry_.value_dim).Step(inputs.q, inputs.k, inputs.v, log_keep);
    } else {
      const LinearKernel kernel = OfFeatures(options_.kernel);
      o = RotatedAttention(
          inputs, options_, [&](const Tensor& q, const Tensor& k, const Tensor& v, bool rotated) {
            return In(rotated ? sums_ : normaliser_, kernel, v.size(3)).Step(q, k, v, log_keep);
          });
    }
    return options_.norm ? UnitRootMeanSquare(o, gain_) : o;
  }

 private:
  // Made when it is first stepped through: only then is it known whether positions rotate.
  LinearStream& In(std::optional<LinearStream>& stream, const LinearKernel& kernel,
                   int64_t value_dim) {
    Geometry geometry = geometry_;
    geometry.value_dim = value_dim;
    if (!stream) stream.emplace(geometry, kernel, options_.endless, gate_.defined(), batch_);
    return *stream;
  }

  Geometry geometry_;
  FeatureOptions options_;
  Tensor gain_;
  Gate gate_;
  int64_t batch_;
  std::optional<LinearStream> sums_;
  std::optional<LinearStream> normaliser_;
};

// Cross attention from the middle of a stream: the distance to a key counts from where the queries
// stand. One state an entry, since sources differ in length. No gradients.
Tensor AttendAt(const Inputs& inputs, const LinearKernel& kernel) {
  torch::NoGradGuard no_grad;
  const Tensor &q = inputs.q, &k = inputs.k, &v = inputs.v;
  Tensor o = torch::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
  for (int64_t b = 0; b < q.size(0); ++b) {
    LinearState state({1, k.size(2), k.size(3), v.size(3), kernel, false});
    const auto& lengths = inputs.layout.key_lengths;
    const int64_t keys = lengths.empty() ? k.size(1) : lengths[static_cast<size_t>(b)];
    state.Absorb(ViewOf(k.narrow(0, b, 1).narrow(1, 0, keys)),
                 ViewOf(v.narrow(0, b, 1).narrow(1, 0, keys)), at::get_num_threads());
    Tensor to = o.narrow(0, b, 1);
    state.Attend(ViewOf(q.narrow(0, b, 1)), MutableViewOf(to), inputs.position,
                 at::get_num_threads());
  }
  return o;
}

}  // namespace

LinearStream::LinearStream(const Geometry& geometry, const LinearKernel& kernel, bool endless,
                           bool forgets, int64_t batch)
    : state_({batch, geometry.kv_heads, geometry.dim, geometry.value_dim, kernel,
              endless && kernel.reweighting == Reweighting::kCos, forgets}) {}

Tensor LinearStream::Step(const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& log_keep) {
  Tensor o = torch::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
  const Tensor keep = log_keep.defined() ? log_keep.exp().contiguous() : Tensor();
  std::span<const float> numbers;
  if (keep.defined()) numbers = {keep.data_ptr<float>(), static_cast<size_t>(keep.numel())};
  state_.Step(ViewOf(q), ViewOf(k), ViewOf(v), MutableViewOf(o), at::get_num_threads(), numbers);
  return o;
}

Gate Gate::Of(torch::nn::Module& system, const Geometry& geometry, double bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(geometry.width));
  const Tensor weight = torch::empty({geometry.kv_heads, geometry.width}).uniform_(-bound, bound);
  return {system.register_parameter("gate_weight", weight),
          system.register_parameter("gate_bias", torch::full({geometry.kv_heads}, bias))};
}

Tensor Gate::Logits(const Tensor& x) const { return torch::linear(x, weight, bias); }

Tensor Gate::LogKeep(const Tensor& x) const {
  return defined() ? torch::log_sigmoid(Logits(x)) : Tensor();
}

FeatureAttention::FeatureAttention(const Geometry& geometry, const FeatureOptions& options)
    : geometry_(geometry), options_(options) {
  if (options.norm) {
    gain_ = register_parameter("gain", torch::ones({geometry.heads, geometry.value_dim}));
  }
  if (options.gate) gate_ = Gate::Of(*this, geometry, options.gate_bias);
}

Tensor FeatureAttention::Forward(const Inputs& inputs) {
  // Cross attention in the middle of a stream.
  const bool moved = inputs.position > 0 && options_.kernel.reweighting == Reweighting::kCos;
  if (moved && inputs.rotary != nullptr) {
    throw Error(
        "attention: cross attention with both the cosine and rotary positions does not stream; "
        "take "
        "it without one of them");
  }
  LinearOptions call;
  call.kernel = options_.kernel;
  call.causal = geometry_.causal();
  call.sequences = inputs.layout.View();
  if (options_.norm) call.kernel.normaliser = Normaliser::kNone;
  const Tensor log_keep = gate_.LogKeep(inputs.x);
  Tensor o;
  if (inputs.rotary == nullptr) {
    o = moved ? AttendAt(inputs, call.kernel)
              : LinearAttention(inputs.q, inputs.k, inputs.v, call, log_keep);
  } else {
    call.kernel = OfFeatures(options_.kernel);
    o = RotatedAttention(inputs, options_,
                         [&](const Tensor& q, const Tensor& k, const Tensor& v, bool) {
                           return LinearAttention(q, k, v, call, log_keep);
                         });
  }
  return options_.norm ? UnitRootMeanSquare(o, gain_) : o;
}

std::unique_ptr<Stream> FeatureAttention::NewStream(int64_t batch) {
  return std::make_unique<FeatureStream>(geometry_, options_, gain_, gate_, batch);
}

void AddFeatureAttention(std::vector<Entry>& entries) {
  for (const FeatureSystem& system : FeatureSystems()) {
    Entry entry;
    entry.name = system.name;
    entry.summary = system.summary;
    entry.abilities = system.gate ? kGatedAbilities : kFeatureAbilities;
    entry.rotary = RotaryUse::kInside;
    entry.stochastic_positions = true;
    entry.make = [&system](const Geometry& geometry, OptionReader& options) {
      return std::make_shared<FeatureAttention>(
          geometry, ReadFeatureOptions(system, geometry.max_length, options));
    };
    entries.push_back(std::move(entry));
  }
}

}  // namespace cosformer::zoo
