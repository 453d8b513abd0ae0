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
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w, int64_t kind_number,
                        bool heads_first) {
    const auto kind = static_cast<RandomFeature>(kind_number);
    const int64_t batch = x.size(0), n = x.size(1), heads = x.size(2), dim = x.size(3);
    const int64_t groups = w.size(0), rows_of_w = w.size(1);
    const int64_t features = kind == RandomFeature::kSineCosine ? 2 * rows_of_w : rows_of_w;
    const double scale = 1 / std::sqrt(static_cast<double>(rows_of_w));
    Tensor phi = heads_first
                     ? torch::empty({batch, heads, n, features}, x.options()).transpose(1, 2)
                     : torch::empty({batch, n, heads, features}, x.options());
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
    return {d_x, d_w, {}, {}};
  }
};

}  // namespace

Tensor RandomFeatures(const Tensor& x, const Tensor& w, RandomFeature kind, bool heads_first) {
  return RandomFeaturesFunction::apply(x, w, static_cast<int64_t>(kind), heads_first);
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
  double gate_bias = 3;    // a gate of sigmoid(3) forgets with a time of 21 tokens: at 0, a time of
                           // 2, gradients would reach no further for a model to learn to remember
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

class RfaStream final : public Stream {
 public:
  RfaStream(const Geometry& features, const RfaOptions& options, Tensor w, int64_t batch)
      : kind_(options.kind), w_(std::move(w)), state_(features, RfaKernel(options), false, batch) {}

  int64_t position() const override { return state_.position(); }
  size_t bytes() const override { return state_.bytes(); }
  Tensor Step(const Inputs& inputs) override {
    return state_.Step(RandomFeatures(inputs.q, w_, kind_), RandomFeatures(inputs.k, w_, kind_),
                       inputs.v);
  }

 private:
  RandomFeature kind_;
  Tensor w_;
  LinearStream state_;
};

class RandomFeatureAttention final : public System {
 public:
  RandomFeatureAttention(const Geometry& geometry, const RfaOptions& options)
      : geometry_(geometry), options_(options) {
    projection_ = register_module("projection", std::make_shared<RfaProjection>(geometry, options));
  }

  Tensor Forward(const Inputs& inputs) override {
    const Tensor w = projection_->Next();
    LinearOptions call;
    call.kernel = RfaKernel(options_);
    call.causal = geometry_.causal();
    call.sequences = inputs.layout.View();
    return LinearAttention(RandomFeatures(inputs.q, w, options_.kind),
                           RandomFeatures(inputs.k, w, options_.kind), inputs.v, call);
  }

  std::unique_ptr<Stream> NewStream(int64_t batch) override {
    Geometry features = geometry_;
    features.dim = FeaturesOf(options_);
    return std::make_unique<RfaStream>(features, options_, projection_->Present(), batch);
  }

 private:
  Geometry geometry_;
  RfaOptions options_;
  std::shared_ptr<RfaProjection> projection_;
};

// a [batch, n, k] times b [batch, k, m], by threads over the batch: where torch has no batched
// product of its own BLAS, its bmm runs one small product after the other, each on all threads.
struct BatchProductFunction : torch::autograd::Function<BatchProductFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& a, const Tensor& b) {
    ctx->save_for_backward({a, b});
    const Tensor product = torch::empty({a.size(0), a.size(1), b.size(2)}, a.options());
    at::parallel_for(0, a.size(0), 1, [&](int64_t first, int64_t last) {
      const torch::NoGradGuard no_grad;
      for (int64_t i = first; i < last; ++i) {
        Tensor out = product[i];
        torch::mm_out(out, a[i], b[i]);
      }
    });
    return product;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor& d = gradients[0];
    return {BatchProductFunction::apply(d, saved[1].transpose(1, 2)),
            BatchProductFunction::apply(saved[0].transpose(1, 2), d)};
  }
};

Tensor BatchProduct(const Tensor& a, const Tensor& b) { return BatchProductFunction::apply(a, b); }

// Tokens whose pairs are computed at once; between chunks goes the state.
constexpr int64_t kGateChunk = 64;

struct Gated {
  Tensor o;      // [batch, n, heads, value_dim]
  Tensor state;  // [batch * kv_heads, features, value_dim + 1] after the last token
};

// The recurrence S_t = g_t S_(t-1) + (1 - g_t) phi(k_t) [v_t, 1]^T, o_t = phi(q_t) S_t without its
// last entry, divided by it. With a_t the sum of log g from the chunk's beginning to t, token j
// weighs exp(a_i - a_j) (1 - g_j) for token i, and the state from before the chunk exp(a_i): no
// exponent is above 0.
//   q [batch, n, heads, features], k [batch, n, kv_heads, features], v [batch, n, kv_heads,
//   value_dim], gate [batch, n, kv_heads] before its sigmoid; state undefined: nothing was before
Gated GatedAttention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& gate,
                     const Tensor& state, double epsilon) {
  const int64_t batch = q.size(0), n = q.size(1), heads = q.size(2), features = q.size(3);
  const int64_t kv_heads = k.size(2), shared = heads / kv_heads, value_dim = v.size(3);
  const int64_t c = std::clamp<int64_t>(n, 1, kGateChunk), chunks = (n + c - 1) / c,
                fill = chunks * c - n;
  const int64_t rows = batch * kv_heads;
  const double infinity = std::numeric_limits<double>::infinity();

  // [batch, n, heads, x] -> [batch, heads, chunks * c, x], filled with `value`.
  const auto filled = [&](const Tensor& x, double value) {
    const Tensor by_head = x.transpose(1, 2);
    return fill == 0 ? by_head : torch::constant_pad_nd(by_head, {0, 0, 0, fill}, value);
  };
  const auto chunked = [&](const Tensor& x, double value) {
    return filled(x, value).reshape({rows * chunks, c, x.size(3)});
  };
  // A row that fills up neither forgets nor remembers.
  const Tensor logits = gate.unsqueeze(3);
  const Tensor keep = chunked(torch::log_sigmoid(logits), 0).squeeze(2).cumsum(1);
  const Tensor take = chunked(torch::log_sigmoid(-logits), -infinity).squeeze(2);

  const Tensor queries = filled(q, 0)
                             .reshape({batch, kv_heads, shared, chunks, c, features})
                             .transpose(2, 3)
                             .reshape({rows * chunks, shared * c, features});
  const Tensor keys = chunked(k, 0);
  const Tensor values =
      chunked(torch::cat({v, torch::ones({batch, n, kv_heads, 1}, v.options())}, 3), 0);

  const Tensor later = torch::ones({c, c}, torch::kBool).triu(1);
  const Tensor weights = (keep.unsqueeze(2) - keep.unsqueeze(1) + take.unsqueeze(1))
                             .masked_fill(later, -infinity)
                             .exp();  // [rows * chunks, c, c]
  const Tensor scores = BatchProduct(queries, keys.transpose(1, 2))
                            .view({rows * chunks, shared, c, c})
                            .mul(weights.unsqueeze(1))
                            .view({rows * chunks, shared * c, c});
  Tensor sums = BatchProduct(scores, values);  // [rows * chunks, shared * c, value_dim + 1]

  const Tensor last = keep.select(1, c - 1);  // [rows * chunks]
  const Tensor until_end = (last.unsqueeze(1) - keep + take).exp().unsqueeze(2);
  const Tensor gains = BatchProduct((keys * until_end).transpose(1, 2), values)
                           .view({rows, chunks, features, value_dim + 1});
  const Tensor kept = last.exp().view({rows, chunks, 1, 1});
  std::vector<Tensor> before;
  Tensor s = state.defined() ? state : torch::zeros({rows, features, value_dim + 1}, q.options());
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    before.push_back(s);
    s = torch::addcmul(gains.select(1, chunk), s, kept.select(1, chunk));
  }
  if (chunks > 1 || state.defined()) {
    const Tensor decay = keep.exp().view({rows * chunks, 1, c, 1});
    const Tensor states = torch::stack(before, 1).view({rows * chunks, features, value_dim + 1});
    sums = sums +
           (BatchProduct(queries, states).view({rows * chunks, shared, c, value_dim + 1}) * decay)
               .view({rows * chunks, shared * c, value_dim + 1});
  }

  const Tensor normaliser = sums.slice(2, value_dim);
  const Tensor floor = torch::full({}, epsilon, sums.options());
  const Tensor moved = torch::where(normaliser.abs() >= epsilon, normaliser,
                                    torch::where(normaliser < 0, -floor, floor));
  const Tensor o = (sums.slice(2, 0, value_dim) / moved)
                       .view({batch, kv_heads, chunks, shared, c, value_dim})
                       .permute({0, 2, 4, 1, 3, 5})
                       .reshape({batch, chunks * c, heads, value_dim});
  return {fill == 0 ? o : o.slice(1, 0, n), s};
}

class GatedStream final : public Stream {
 public:
  GatedStream(const RfaOptions& options, Tensor w, Tensor gate_weight, Tensor gate_bias)
      : options_(options),
        w_(std::move(w)),
        gate_weight_(std::move(gate_weight)),
        gate_bias_(std::move(gate_bias)) {}

  int64_t position() const override { return position_; }
  size_t bytes() const override { return state_.defined() ? state_.nbytes() : 0; }
  Tensor Step(const Inputs& inputs) override {
    const torch::NoGradGuard no_grad;
    Gated gated =
        GatedAttention(RandomFeatures(inputs.q, w_, options_.kind, true),
                       RandomFeatures(inputs.k, w_, options_.kind, true), inputs.v,
                       torch::linear(inputs.x, gate_weight_, gate_bias_), state_, options_.epsilon);
    state_ = gated.state;
    position_ += inputs.x.size(1);
    return gated.o;
  }

 private:
  RfaOptions options_;
  Tensor w_, gate_weight_, gate_bias_;
  Tensor state_;
  int64_t position_ = 0;
};

class GatedRandomFeatureAttention final : public System {
 public:
  GatedRandomFeatureAttention(const Geometry& geometry, const RfaOptions& options)
      : options_(options) {
    projection_ = register_module("projection", std::make_shared<RfaProjection>(geometry, options));
    const double bound = 1 / std::sqrt(static_cast<double>(geometry.width));
    gate_weight_ = register_parameter(
        "gate_weight", torch::empty({geometry.kv_heads, geometry.width}).uniform_(-bound, bound));
    gate_bias_ =
        register_parameter("gate_bias", torch::full({geometry.kv_heads}, options.gate_bias));
  }

  // Padding is at the end of a sequence, where no row that counts sees it.
  Tensor Forward(const Inputs& inputs) override {
    const Tensor w = projection_->Next();
    return GatedAttention(RandomFeatures(inputs.q, w, options_.kind, true),
                          RandomFeatures(inputs.k, w, options_.kind, true), inputs.v,
                          torch::linear(inputs.x, gate_weight_, gate_bias_), Tensor(),
                          options_.epsilon)
        .o;
  }

  std::unique_ptr<Stream> NewStream(int64_t) override {
    return std::make_unique<GatedStream>(options_, projection_->Present(), gate_weight_.detach(),
                                         gate_bias_.detach());
  }

 private:
  RfaOptions options_;
  std::shared_ptr<RfaProjection> projection_;
  Tensor gate_weight_;  // [kv_heads, width]
  Tensor gate_bias_;    // [kv_heads]
};

Entry RfaEntry(std::string name, std::string summary, RandomFeature kind, bool gated) {
  Entry entry;
  entry.name = std::move(name);
  entry.summary = std::move(summary);
  entry.abilities =
      gated ? Abilities{.causal = true, .streaming = true, .padding = true} : kFeatureAbilities;
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
    if (!gated) return std::make_shared<RandomFeatureAttention>(geometry, read);
    read.gate_bias = options.Number("gate_bias", 3, -20, 20);
    return std::make_shared<GatedRandomFeatureAttention>(geometry, read);
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
