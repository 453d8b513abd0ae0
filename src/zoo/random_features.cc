// Random Feature Attention (Peng et al., 2021), with and without its gate, and the random features
// that it shares with the Performer.
#include "zoo/random_features.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/torch.h>

#include <cmath>
#include <numbers>

#include "zoo/feature_attention.h"
#include "zoo/operators.h"

namespace cosformer::zoo {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Features of a chunk stay in the L2 cache from the product to the last pass over them.
constexpr int64_t kChunkFloats = 65536;

bool Positive(RandomFeature kind) {
  return kind == RandomFeature::kPositiveQuery || kind == RandomFeature::kPositiveKey;
}

// Tokens [begin, end) of one batch entry, and the heads that share one group of w.
struct Chunk {
  int64_t batch, begin, end, group;
};

// Calls work(chunk) for all chunks of x. in_order: those of one group one after the other.
template <class Work>
void ForChunks(const Tensor& x, int64_t groups, int64_t features, bool in_order, const Work& work) {
  const int64_t batch = x.size(0), n = x.size(1), shared = x.size(2) / groups;
  const int64_t tokens = std::max<int64_t>(1, kChunkFloats / (shared * features));
  const int64_t pieces = (n + tokens - 1) / tokens;
  const auto run = [&](int64_t group, int64_t piece) {
    const int64_t begin = piece % pieces * tokens;
    work(Chunk{piece / pieces, begin, std::min(n, begin + tokens), group});
  };
  const int64_t jobs = batch * pieces;
  at::parallel_for(0, in_order ? groups : groups * jobs, 1, [&](int64_t first, int64_t last) {
    const torch::NoGradGuard no_grad;  // a setting of the thread
    for (int64_t job = first; job < last; ++job) {
      if (in_order) {
        for (int64_t piece = 0; piece < jobs; ++piece) run(job, piece);
      } else {
        run(job / jobs, job % jobs);
      }
    }
  });
}

// The chunk's part of x [batch, n, heads, any]: [tokens, shared heads, any].
Tensor PartOf(const Tensor& x, const Chunk& chunk, int64_t groups) {
  const int64_t shared = x.size(2) / groups;
  return x.select(0, chunk.batch)
      .slice(0, chunk.begin, chunk.end)
      .slice(1, chunk.group * shared, (chunk.group + 1) * shared);
}

// The rows that meet w, [rows, dim], and for unit length what they were multiplied by, [rows, 1].
struct Rows {
  Tensor x, factor;
};

Rows RowsOf(const Tensor& part, RandomFeature kind) {
  const int64_t dim = part.size(2);
  const Tensor x = part.reshape({-1, dim});
  if (Positive(kind)) return {x * std::pow(static_cast<double>(dim), -0.25), {}};
  const Tensor factor = (x.square().sum(1, true) + kUnitLengthEpsilon).rsqrt();
  return {x * factor, factor};
}

// Forward and backward go over the tokens in the same chunks. d_ is the gradient with respect to
// what follows it.
struct RandomFeaturesFunction : torch::autograd::Function<RandomFeaturesFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w,
                        int64_t kind_number) {
    const auto kind = static_cast<RandomFeature>(kind_number);
    const int64_t batch = x.size(0), n = x.size(1), heads = x.size(2), dim = x.size(3);
    const int64_t groups = w.size(0), rows_of_w = w.size(1);
    const int64_t features = kind == RandomFeature::kSineCosine ? 2 * rows_of_w : rows_of_w;
    const double scale = 1 / std::sqrt(static_cast<double>(rows_of_w));
    Tensor phi = torch::empty({batch, n, heads, features}, x.options());
    ForChunks(x, groups, rows_of_w, false, [&](const Chunk& chunk) {
      const Rows rows = RowsOf(PartOf(x, chunk, groups), kind);
      Tensor product = torch::mm(rows.x, w[chunk.group].t());
      Tensor out = PartOf(phi, chunk, groups);
      const auto as_out = [&](const Tensor& y) { return y.view({out.size(0), out.size(1), -1}); };
      switch (kind) {
        case RandomFeature::kPositiveQuery:
          // |x|^2 / 2 goes with the maximum.
          product.sub_(product.amax(1, true));
          torch::exp_out(out, as_out(product));
          break;
        case RandomFeature::kPositiveKey:
          product.sub_(
              rows.x.square().sum(1, true).mul_(0.5).add_(0.25 * static_cast<double>(dim)));
          torch::exp_out(out, as_out(product));
          break;
        case RandomFeature::kSineCosine: {
          Tensor sines = out.slice(2, 0, rows_of_w), cosines = out.slice(2, rows_of_w);
          torch::sin_out(sines, as_out(product));
          torch::cos_out(cosines, as_out(product));
          out.mul_(scale);
          break;
        }
        case RandomFeature::kArcCosine:
          product.mul_(scale);
          torch::clamp_min_out(out, as_out(product), 0);
          break;
      }
    });
    ctx->save_for_backward({x, w, phi});
    ctx->saved_data["kind"] = kind_number;
    return phi;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    RequireFirstDerivative();
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1], &phi = saved[2], &d_phi = gradients[0];
    const auto kind = static_cast<RandomFeature>(ctx->saved_data["kind"].toInt());
    const int64_t groups = w.size(0), rows_of_w = w.size(1), dim = x.size(3);
    const double scale = 1 / std::sqrt(static_cast<double>(rows_of_w));
    const bool of_w = w.requires_grad() && !Positive(kind);
    Tensor d_x = torch::empty(x.sizes(), x.options());
    Tensor d_w = of_w ? torch::zeros(w.sizes(), w.options()) : Tensor();
    ForChunks(x, groups, rows_of_w, of_w, [&](const Chunk& chunk) {
      const Rows rows = RowsOf(PartOf(x, chunk, groups), kind);
      const Tensor f = PartOf(phi, chunk, groups), d_f = PartOf(d_phi, chunk, groups);
      Tensor d_product;
      switch (kind) {
        case RandomFeature::kPositiveQuery:
        case RandomFeature::kPositiveKey:
          d_product = d_f * f;
          break;
        case RandomFeature::kSineCosine: {
          // The derivatives are each other, up to the sign.
          const Tensor sines = f.slice(2, 0, rows_of_w), cosines = f.slice(2, rows_of_w);
          d_product = d_f.slice(2, 0, rows_of_w) * cosines;
          d_product.sub_(d_f.slice(2, rows_of_w) * sines);
          break;
        }
        case RandomFeature::kArcCosine:
          d_product = torch::where(f > 0, d_f * scale, torch::zeros({}, f.options()));
          break;
      }
      d_product = d_product.reshape({-1, rows_of_w});
      Tensor d_rows = torch::mm(d_product, w[chunk.group]);
      if (of_w) d_w[chunk.group].addmm_(d_product.t(), rows.x);
      if (kind == RandomFeature::kPositiveKey) d_rows.sub_(d_product.sum(1, true) * rows.x);
      if (Positive(kind)) {
        d_rows.mul_(std::pow(static_cast<double>(dim), -0.25));
      } else {
        d_rows.sub_(rows.x * (rows.x * d_rows).sum(1, true)).mul_(rows.factor);
      }
      Tensor out = PartOf(d_x, chunk, groups);
      out.copy_(d_rows.view(out.sizes()));
    });
    return {d_x, d_w, {}};
  }
};

}  // namespace

Tensor RandomFeatures(const Tensor& x, const Tensor& w, RandomFeature kind) {
  return RandomFeaturesFunction::apply(x, w, static_cast<int64_t>(kind));
}

Tensor DrawGaussian(int64_t rows, int64_t dim) { return torch::randn({rows, dim}); }

Tensor DrawOrthogonal(int64_t rows, int64_t dim, bool equal_lengths) {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> blocks;
  for (int64_t row = 0; row < rows; row += dim) {
    const auto [q, r] = torch::linalg_qr(torch::randn({dim, dim}));
    // The signs of the diagonal make q uniform over all rotations and reflections.
    blocks.push_back((q * r.diagonal().sign()).t());
  }
  const Tensor directions = torch::cat(blocks).slice(0, 0, rows);
  if (equal_lengths) return directions * std::sqrt(static_cast<double>(dim));
  return directions * torch::randn({rows, dim}).norm(2, 1, true);
}

namespace {

struct RfaOptions {
  RandomFeature kind = RandomFeature::kSineCosine;
  int64_t features = 64;   // D, the rows of w; sines and cosines are 2 D features
  int64_t redraw = 1;      // training passes from one draw of w to the next; 0: the first is kept
  double temperature = 1;  // of the scores q . k of unit length, where sigma is 1
  double epsilon = 0;      // the least normaliser
  double gate_bias = kGateBias;
};

// w = sigma * (what was drawn), with sigma learned for each head and dim: Random Feature
// Attention's part that is the same with and without gate.
class RfaProjection : public torch::nn::Module {
 public:
  RfaProjection(const Geometry& geometry, const RfaOptions& options) : options_(options) {
    const auto shape = std::vector<int64_t>{geometry.kv_heads, options.features, geometry.dim};
    drawn_ = register_buffer("drawn", torch::randn(shape));
    passes_ = register_buffer("passes", torch::zeros({1}, torch::kInt64));
    sigma_ = register_parameter("sigma", torch::ones({geometry.kv_heads, 1, geometry.dim}));
  }

  // For a pass; draws anew when it is time.
  Tensor Next() {
    if (!is_training()) return Scaled(drawn_);
    Tensor drawn;
    {
      const torch::NoGradGuard no_grad;
      if (options_.redraw > 0) {
        passes_ += 1;
        if (passes_.item<int64_t>() % options_.redraw == 0) drawn_.copy_(torch::randn_like(drawn_));
      }
      // The buffer may change before the backward pass.
      drawn = drawn_.clone();
    }
    return Scaled(drawn);
  }

  // For a stream.
  Tensor Present() const {
    const torch::NoGradGuard no_grad;
    return Scaled(drawn_);
  }

 private:
  Tensor Scaled(const Tensor& drawn) const {
    return drawn * (sigma_ * (1 / std::sqrt(options_.temperature)));
  }

  RfaOptions options_;
  Tensor drawn_;   // [kv_heads, D, dim]
  Tensor passes_;  // [1] of training
  Tensor sigma_;   // [kv_heads, 1, dim]
};

int64_t FeaturesOf(const RfaOptions& options) {
  return options.kind == RandomFeature::kSineCosine ? 2 * options.features : options.features;
}

LinearKernel RfaKernel(const RfaOptions& options) {
  LinearKernel kernel;
  kernel.feature_map =
      options.kind == RandomFeature::kSineCosine ? FeatureMap::kIdentity : FeatureMap::kGiven;
  kernel.reweighting = Reweighting::kNone;
  kernel.epsilon = static_cast<float>(options.epsilon);
  return kernel;
}

// What the operator attends with: features, and with a gate g = sigmoid(logits) the recurrence
// S_t = g_t S_(t-1) + (1 - g_t) phi(k_t) [v_t, 1]^T.
struct RfaTerms {
  Tensor q, k, log_keep;
};

RfaTerms TermsOf(const Inputs& inputs, const Tensor& w, RandomFeature kind, const Gate& gate) {
  RfaTerms terms{RandomFeatures(inputs.q, w, kind), RandomFeatures(inputs.k, w, kind), {}};
  if (!gate.defined()) return terms;
  const Tensor logits = gate.Logits(inputs.x);
  terms.k = terms.k * torch::sigmoid(-logits).unsqueeze(3);
  terms.log_keep = torch::log_sigmoid(logits);
  return terms;
}

class RfaStream final : public Stream {
 public:
  RfaStream(const Geometry& features, const RfaOptions& options, Tensor w, Gate gate, int64_t batch)
      : kind_(options.kind),
        w_(std::move(w)),
        gate_(std::move(gate)),
        state_(features, RfaKernel(options), false, gate_.defined(), batch) {}

  int64_t position() const override { return state_.position(); }
  size_t bytes() const override { return state_.bytes(); }
  Tensor Step(const Inputs& inputs) override {
    const RfaTerms terms = TermsOf(inputs, w_, kind_, gate_);
    return state_.Step(terms.q, terms.k, inputs.v, terms.log_keep);
  }

 private:
  RandomFeature kind_;
  Tensor w_;
  Gate gate_;
  LinearStream state_;
};

class RandomFeatureAttention final : public System {
 public:
  RandomFeatureAttention(const Geometry& geometry, const RfaOptions& options, bool gated)
      : geometry_(geometry), options_(options) {
    projection_ = register_module("projection", std::make_shared<RfaProjection>(geometry, options));
    if (gated) gate_ = Gate::Of(*this, geometry, options.gate_bias);
  }

  Tensor Forward(const Inputs& inputs) override {
    const Tensor w = projection_->Next();
    LinearOptions call;
    call.kernel = RfaKernel(options_);
    call.causal = geometry_.causal();
    call.sequences = inputs.layout.View();
    const RfaTerms terms = TermsOf(inputs, w, options_.kind, gate_);
    return LinearAttention(terms.q, terms.k, inputs.v, call, terms.log_keep);
  }

  std::unique_ptr<Stream> NewStream(int64_t batch) override {
    Geometry features = geometry_;
    features.dim = FeaturesOf(options_);
    return std::make_unique<RfaStream>(features, options_, projection_->Present(), gate_, batch);
  }

 private:
  Geometry geometry_;
  RfaOptions options_;
  std::shared_ptr<RfaProjection> projection_;
  Gate gate_;
};

Entry RfaEntry(std::string name, std::string summary, RandomFeature kind, bool gated) {
  Entry entry;
  entry.name = std::move(name);
  entry.summary = std::move(summary);
  entry.abilities = gated ? kGatedAbilities : kFeatureAbilities;
  entry.rotary = RotaryUse::kBefore;
  entry.stochastic_positions = true;
  entry.make = [kind, gated](const Geometry& geometry,
                             OptionReader& options) -> std::shared_ptr<System> {
    RfaOptions read;
    read.kind = kind;
    read.features = options.Integer("features", 64, 1, 65536);
    read.redraw = options.Integer("redraw", 1, 0, int64_t{1} << 40);
    read.temperature = options.Number("temperature", 1, 1e-3, 1e3);
    // The exact Gaussian normaliser is at least exp(-2) = 0.135 a key at temperature 1: an estimate
    // below that, or below zero, is noise. With a gate the first keys count less than 1. Arc-cosine
    // features are not negative: their quotients are means whatever their sum.
    const double least = kind == RandomFeature::kArcCosine ? 1e-6 : gated ? 0.01 : 0.1;
    read.epsilon = options.Number("epsilon", least, 1e-30, 1);
    if (gated) read.gate_bias = options.Number("gate_bias", kGateBias, -20, 20);
    return std::make_shared<RandomFeatureAttention>(geometry, read, gated);
  };
  return entry;
}

}  // namespace

void AddRandomFeatures(std::vector<Entry>& entries) {
  entries.push_back(RfaEntry("rfa-gaussian",
                             "Random Feature Attention, sines and cosines of unit rows, O(N)",
                             RandomFeature::kSineCosine, false));
  entries.push_back(RfaEntry("rfa-arccos",
                             "Random Feature Attention, the arc-cosine kernel of unit rows, O(N)",
                             RandomFeature::kArcCosine, false));
  entries.push_back(RfaEntry("rfa-gate-gaussian",
                             "rfa-gaussian with a learned gate that forgets, causal, O(N)",
                             RandomFeature::kSineCosine, true));
  entries.push_back(RfaEntry("rfa-gate-arccos",
                             "rfa-arccos with a learned gate that forgets, causal, O(N)",
                             RandomFeature::kArcCosine, true));
}

}  // namespace cosformer::zoo
