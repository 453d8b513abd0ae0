// The Performer (Choromanski et al., 2021): FAVOR+, positive orthogonal random features whose
// products estimate exp(q . k / sqrt(dim)), so that softmax attention becomes linear attention.
#include <cmath>

#include "zoo/feature_attention.h"
#include "zoo/random_features.h"

namespace cosformer::zoo {
namespace {

using torch::Tensor;

struct PerformerOptions {
  int64_t features = 0;      // m; 0: the multiple of 16 nearest to dim * ln(dim)
  bool orthogonal = true;    // in blocks of dim features; otherwise independent
  bool equal_norms = false;  // features of length sqrt(dim) instead of that of a Gaussian row
  int64_t redraw = 1000;     // training passes from one draw to the next; 0: the first is kept
};

// What published codes take: enough for a small error with high probability.
int64_t DefaultFeatures(int64_t dim) {
  const double wanted = static_cast<double>(dim) * std::log(static_cast<double>(dim));
  return std::max<int64_t>(16, 16 * std::llround(wanted / 16));
}

LinearKernel PerformerKernel() {
  LinearKernel kernel;
  kernel.feature_map = FeatureMap::kGiven;
  kernel.reweighting = Reweighting::kNone;
  // Features of keys may all be as small as exp(-dim / 2), and their quotients still be right.
  kernel.epsilon = 1e-30f;
  return kernel;
}

class PerformerStream final : public Stream {
 public:
  PerformerStream(const Geometry& features, Tensor w, int64_t batch)
      : w_(std::move(w)),
        state_(features, PerformerKernel(), /*endless=*/false, /*forgets=*/false, batch) {}

  int64_t position() const override { return state_.position(); }
  size_t bytes() const override { return state_.bytes(); }
  Tensor Step(const Inputs& inputs) override {
    return state_.Step(RandomFeatures(inputs.q, w_, RandomFeature::kPositiveQuery),
                       RandomFeatures(inputs.k, w_, RandomFeature::kPositiveKey), inputs.v);
  }

 private:
  Tensor w_;
  LinearStream state_;
};

class Performer final : public System {
 public:
  Performer(const Geometry& geometry, const PerformerOptions& options)
      : geometry_(geometry), options_(options) {
    projection_ = register_buffer("projection", Draw());
    passes_ = register_buffer("passes", torch::zeros({1}, torch::kInt64));
  }

  Tensor Forward(const Inputs& inputs) override {
    const Tensor w = Projection();
    LinearOptions call;
    call.kernel = PerformerKernel();
    call.causal = geometry_.causal();
    call.sequences = inputs.layout.View();
    return LinearAttention(RandomFeatures(inputs.q, w, RandomFeature::kPositiveQuery),
                           RandomFeatures(inputs.k, w, RandomFeature::kPositiveKey), inputs.v,
                           call);
  }

  std::unique_ptr<Stream> NewStream(int64_t batch) override {
    Geometry features = geometry_;
    features.dim = options_.features;
    return std::make_unique<PerformerStream>(features, projection_.clone(), batch);
  }

 private:
  Tensor Draw() const {
    const int64_t m = options_.features, dim = geometry_.dim;
    return (options_.orthogonal ? DrawOrthogonal(m, dim, options_.equal_norms)
                                : DrawGaussian(m, dim))
        .unsqueeze(0);
  }

  // A copy in training: the buffer changes at a redraw, which may come before the backward pass.
  Tensor Projection() {
    if (!is_training()) return projection_;
    const torch::NoGradGuard no_grad;
    if (options_.redraw > 0) {
      passes_ += 1;
      if (passes_.item<int64_t>() % options_.redraw == 0) projection_.copy_(Draw());
    }
    return projection_.clone();
  }

  Geometry geometry_;
  PerformerOptions options_;
  Tensor projection_;  // [1, features, dim]: one for all heads
  Tensor passes_;      // [1] of training, so that a resumed run redraws when it would have
};

}  // namespace

void AddPerformer(std::vector<Entry>& entries) {
  Entry entry;
  entry.name = "performer";
  entry.summary = "FAVOR+: softmax estimated with positive orthogonal random features, O(N)";
  entry.abilities = kFeatureAbilities;
  entry.rotary = RotaryUse::kBefore;
  entry.stochastic_positions = true;
  entry.make = [](const Geometry& geometry, OptionReader& options) {
    PerformerOptions read;
    read.features = options.Integer("features", DefaultFeatures(geometry.dim), 1, 65536);
    read.orthogonal = options.Flag("orthogonal", true);
    read.equal_norms = options.Choice("norms", "gaussian", {"gaussian", "equal"}) == "equal";
    read.redraw = options.Integer("redraw", 1000, 0, int64_t{1} << 40);
    return std::make_shared<Performer>(geometry, read);
  };
  entries.push_back(std::move(entry));
}

}  // namespace cosformer::zoo
