// Stochastic positional encoding (Liutkus et al., 2021), sine and convolutional. Each dimension of
// a query at position p is multiplied by R random codes of p, each dimension of a key likewise, and
// summed over the dimensions: q and k become R numbers whose product is, in expectation,
//   sum_d q_d k_d P_d(p of q - p of k)
// with P_d learned. The codes [length, dim, R] of a head are larger than all else here: they exist
// only for a block of positions at a time, in the backward pass again.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/torch.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numbers>

#include "kernels/hash.h"
#include "zoo/operators.h"
#include "zoo/positions.h"

namespace cosformer::zoo {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kBlock = 64;  // positions whose codes exist at once, from a multiple of it on

// Codes of queries and keys in terms of three learned tensors. Made for one call; heads (those of
// keys) are independent of each other, so that threads may share an object by heads.
class SineCoder {
 public:
  // a: frequencies [heads, dim, sines], in turns a position. b, c: [heads, dim, 2 sines + 1, R], by
  // which cosines, sines and 1 are multiplied, for queries and keys.
  SineCoder(const Tensor& a, const Tensor& b, const Tensor& c, int64_t /*seed*/)
      : frequencies_(a.to(torch::kFloat64)),
        noise_(torch::cat({b, c}, 3)),
        d_frequencies_(torch::zeros_like(frequencies_)),
        d_noise_(torch::zeros_like(noise_)),
        waves_(static_cast<size_t>(a.size(0))) {}

  // [2 (queries, keys), kBlock, dim, R]
  Tensor Codes(int64_t head, int64_t block) {
    const Tensor p = PositionsOf(block);
    // Whole turns are dropped in double: at position 10^5 a float32 angle would be off by 1 %.
    const Tensor turns = frequencies_[head].unsqueeze(1) * p.view({1, kBlock, 1});
    const Tensor angles = ((turns - turns.floor()) * (2 * std::numbers::pi)).to(torch::kFloat32);
    const Tensor ones = torch::ones({angles.size(0), kBlock, 1});
    Tensor& waves = waves_[static_cast<size_t>(head)];
    waves = torch::cat({angles.cos(), angles.sin(), ones}, 2);  // [dim, kBlock, 2 sines + 1]
    return torch::bmm(waves, noise_[head])
        .view({angles.size(0), kBlock, 2, -1})
        .permute({2, 1, 0, 3});
  }

  // The gradient with respect to the codes of Codes(head, block), which was called last.
  void Backward(int64_t head, int64_t block, const Tensor& d_codes) {
    const Tensor d = d_codes.permute({2, 1, 0, 3}).reshape({d_codes.size(2), kBlock, -1});
    const Tensor& waves = waves_[static_cast<size_t>(head)];
    d_noise_[head] += torch::bmm(waves.transpose(1, 2), d);
    const int64_t sines = frequencies_.size(2);
    const Tensor d_waves = torch::bmm(d, noise_[head].transpose(1, 2));
    const Tensor d_angles = d_waves.slice(2, sines, 2 * sines) * waves.slice(2, 0, sines) -
                            d_waves.slice(2, 0, sines) * waves.slice(2, sines, 2 * sines);
    d_frequencies_[head] +=
        (d_angles * PositionsOf(block).view({1, kBlock, 1})).sum(1) * (2 * std::numbers::pi);
  }

  variable_list Gradients() {
    const int64_t realisations = noise_.size(3) / 2;
    return {d_frequencies_.to(torch::kFloat32), d_noise_.slice(3, 0, realisations),
            d_noise_.slice(3, realisations)};
  }

  void Release(int64_t head) { waves_[static_cast<size_t>(head)] = Tensor(); }

 private:
  static Tensor PositionsOf(int64_t block) {
    return torch::arange(block * kBlock, (block + 1) * kBlock, torch::kFloat64);
  }

  Tensor frequencies_, noise_;
  Tensor d_frequencies_, d_noise_;
  std::vector<Tensor> waves_;
};

// Noise of any position, from a seed: blocks are drawn for themselves, so that a stream and a whole
// text meet the same.
Tensor BlockNoise(int64_t seed, int64_t head, int64_t block, int64_t dim, int64_t positions,
                  int64_t realisations) {
  uint64_t mixed = static_cast<uint64_t>(seed);
  for (const int64_t part : {head, block}) {
    mixed = Mix(mixed + kMixStep * (static_cast<uint64_t>(part) + 2));
  }
  return torch::randn({dim, positions, realisations}, at::detail::createCPUGenerator(mixed));
}

class ConvolutionCoder {
 public:
  // a, b: filters of queries and keys [heads, dim, taps]; c: the codes that ignore positions, of
  // both [heads, dim, R].
  ConvolutionCoder(const Tensor& a, const Tensor& b, const Tensor& c, int64_t seed)
      : filters_({a, b}),
        constant_(c),
        d_filters_({torch::zeros_like(a), torch::zeros_like(b)}),
        d_constant_(torch::zeros_like(c)),
        seed_(seed),
        taps_(a.size(2)),
        window_(kBlock + taps_ - 1),
        heads_(static_cast<size_t>(a.size(0))) {}

  Tensor Codes(int64_t head, int64_t block) {
    Head& own = heads_[static_cast<size_t>(head)];
    const int64_t dim = constant_.size(1), realisations = constant_.size(2);
    if (!own.bands.defined()) {
      own.bands = torch::zeros({dim, 2 * kBlock, window_});
      for (const size_t side : {0, 1}) {
        Taps(own.bands, side).copy_(filters_[side][head].unsqueeze(1));
      }
    }
    // Position p meets the noise of p ... p + taps - 1.
    std::vector<Tensor> parts;
    for (int64_t at = 0; at < window_; at += kBlock) {
      const int64_t number = block + at / kBlock;
      const auto drawn = own.blocks.find(number);
      parts.push_back(drawn != own.blocks.end()
                          ? drawn->second
                          : BlockNoise(seed_, head, number, dim, kBlock, realisations));
    }
    own.blocks.clear();
    for (size_t i = 0; i < parts.size(); ++i) {
      own.blocks[block + static_cast<int64_t>(i)] = parts[i];
    }
    own.noise = torch::cat(parts, 1).slice(1, 0, window_);  // [dim, window, R]
    return torch::baddbmm(constant_[head].unsqueeze(1), own.bands, own.noise)
        .view({dim, 2, kBlock, realisations})
        .permute({1, 2, 0, 3});
  }

  void Backward(int64_t head, int64_t /*block*/, const Tensor& d_codes) {
    const Head& own = heads_[static_cast<size_t>(head)];
    const int64_t dim = constant_.size(1);
    const Tensor d = d_codes.permute({2, 0, 1, 3}).reshape({dim, 2 * kBlock, -1});
    const Tensor d_bands = torch::bmm(d, own.noise.transpose(1, 2));
    for (const size_t side : {0, 1}) d_filters_[side][head] += Taps(d_bands, side).sum(1);
    d_constant_[head] += d.sum(1);
  }

  variable_list Gradients() const { return {d_filters_[0], d_filters_[1], d_constant_}; }

  // Frees what a head needed, some 13 MiB at dim 64, 64 realisations and 128 taps.
  void Release(int64_t head) { heads_[static_cast<size_t>(head)] = {}; }

 private:
  struct Head {
    Tensor bands;                      // [dim, 2 kBlock, window]: filters, shifted by positions
    std::map<int64_t, Tensor> blocks;  // of noise, [dim, kBlock, R]
    Tensor noise;
  };

  // The filters in Head::bands, [dim, kBlock, taps]: that of the side's row i begins at column i.
  Tensor Taps(const Tensor& bands, size_t side) const {
    return bands.as_strided({constant_.size(1), kBlock, taps_},
                            {2 * kBlock * window_, window_ + 1, 1},
                            static_cast<int64_t>(side) * kBlock * window_);
  }

  std::vector<Tensor> filters_;
  Tensor constant_;
  std::vector<Tensor> d_filters_;
  Tensor d_constant_;
  int64_t seed_, taps_, window_;
  std::vector<Head> heads_;
};

// The rows of a side that stand in one block of positions.
struct Piece {
  int64_t begin = 0, count = 0;  // rows
  int64_t offset = 0;            // of the first one's position in the block
};

// Queries or keys [batch, n, heads, any] and where their rows stand.
using Spans = std::vector<RowSpan>;

struct BlockRange {
  int64_t first = 0, last = -1;
};

BlockRange BlocksOf(const Spans& queries, const Spans& keys) {
  int64_t first = std::numeric_limits<int64_t>::max(), end = 0;
  for (const Spans* spans : {&queries, &keys}) {
    for (const RowSpan& span : *spans) {
      first = std::min(first, span.position);
      end = std::max(end, span.position + span.end - span.begin);
    }
  }
  if (end <= first) return {};
  return {first / kBlock, (end - 1) / kBlock};
}

std::vector<Piece> PiecesIn(int64_t block, const Spans& spans) {
  std::vector<Piece> pieces;
  for (const RowSpan& span : spans) {
    const int64_t from = std::max(span.position, block * kBlock);
    const int64_t to = std::min(span.position + span.end - span.begin, (block + 1) * kBlock);
    if (from < to) {
      pieces.push_back({span.begin + from - span.position, to - from, from - block * kBlock});
    }
  }
  return pieces;
}

// The piece's rows of those heads of x [batch, n, heads, any] that share key head `head`, as
// [rows, batch, shared heads, any].
Tensor RowsOf(const Tensor& x, const Piece& piece, int64_t head, int64_t kv_heads) {
  const int64_t shared = x.size(2) / kv_heads;
  return x.narrow(1, piece.begin, piece.count).narrow(2, head * shared, shared).transpose(0, 1);
}

// As a batch of matrices, [rows, batch * shared heads, any].
Tensor Matrices(const Tensor& rows) {
  return rows.reshape({rows.size(0), rows.size(1) * rows.size(2), rows.size(3)});
}

// y = x times codes [kBlock, dim, R], for the rows of one block and head.
void Encode(const Tensor& x, const Tensor& codes, const std::vector<Piece>& pieces, int64_t head,
            int64_t kv_heads, const Tensor& y) {
  for (const Piece& piece : pieces) {
    const Tensor product = torch::bmm(Matrices(RowsOf(x, piece, head, kv_heads)),
                                      codes.narrow(0, piece.offset, piece.count));
    const Tensor to = RowsOf(y, piece, head, kv_heads);
    to.copy_(product.view(to.sizes()));
  }
}

void EncodeBackward(const Tensor& x, const Tensor& codes, const std::vector<Piece>& pieces,
                    int64_t head, int64_t kv_heads, const Tensor& d_y, const Tensor& d_x,
                    const Tensor& d_codes) {
  for (const Piece& piece : pieces) {
    const Tensor d = Matrices(RowsOf(d_y, piece, head, kv_heads));
    const Tensor to = RowsOf(d_x, piece, head, kv_heads);
    to.copy_(
        torch::bmm(d, codes.narrow(0, piece.offset, piece.count).transpose(1, 2)).view(to.sizes()));
    d_codes.narrow(0, piece.offset, piece.count) +=
        torch::bmm(Matrices(RowsOf(x, piece, head, kv_heads)).transpose(1, 2), d);
  }
}

template <class Work>
void ForHeads(int64_t heads, const Work& work) {
  at::parallel_for(0, heads, 1, [&](int64_t first, int64_t last) {
    const torch::NoGradGuard no_grad;  // a setting of the thread
    for (int64_t head = first; head < last; ++head) work(head);
  });
}

struct CallOptions : torch::CustomClassHolder {
  Spans queries, keys;
  int64_t seed = 0;
  int64_t realisations = 0;
};

Tensor EncodedLike(const Tensor& x, int64_t realisations) {
  return torch::empty({x.size(0), x.size(1), x.size(2), realisations}, x.options());
}

template <class Coder>
struct EncodeFunction : torch::autograd::Function<EncodeFunction<Coder>> {
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k,
                               const Tensor& a, const Tensor& b, const Tensor& c,
                               const c10::intrusive_ptr<CallOptions>& call) {
    const Tensor q_hat = EncodedLike(q, call->realisations);
    const Tensor k_hat = EncodedLike(k, call->realisations);
    Coder coder(a, b, c, call->seed);
    const BlockRange blocks = BlocksOf(call->queries, call->keys);
    const int64_t kv_heads = k.size(2);
    ForHeads(kv_heads, [&](int64_t head) {
      for (int64_t block = blocks.first; block <= blocks.last; ++block) {
        const Tensor codes = coder.Codes(head, block);
        Encode(q, codes[0], PiecesIn(block, call->queries), head, kv_heads, q_hat);
        Encode(k, codes[1], PiecesIn(block, call->keys), head, kv_heads, k_hat);
      }
      coder.Release(head);
    });
    ctx->save_for_backward({q, k, a, b, c});
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return {q_hat, k_hat};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    RequireFirstDerivative();
    const variable_list saved = ctx->get_saved_variables();
    const auto call =
        c10::static_intrusive_pointer_cast<CallOptions>(ctx->saved_data["call"].toCapsule());
    const Tensor &q = saved[0], &k = saved[1];
    const Tensor d_q = torch::empty(q.sizes(), q.options());
    const Tensor d_k = torch::empty(k.sizes(), k.options());
    Coder coder(saved[2], saved[3], saved[4], call->seed);
    const BlockRange blocks = BlocksOf(call->queries, call->keys);
    const int64_t kv_heads = k.size(2);
    ForHeads(kv_heads, [&](int64_t head) {
      for (int64_t block = blocks.first; block <= blocks.last; ++block) {
        const Tensor codes = coder.Codes(head, block);
        const Tensor d_codes = torch::zeros(codes.sizes());
        EncodeBackward(q, codes[0], PiecesIn(block, call->queries), head, kv_heads, gradients[0],
                       d_q, d_codes[0]);
        EncodeBackward(k, codes[1], PiecesIn(block, call->keys), head, kv_heads, gradients[1], d_k,
                       d_codes[1]);
        coder.Backward(head, block, d_codes);
      }
      coder.Release(head);
    });
    const variable_list learned = coder.Gradients();
    return {d_q, d_k, learned[0], learned[1], learned[2], {}};
  }
};

// The codes of one block of positions, kept while a stream passes through it: a token alone would
// pay for all of them.
class CodesOfBlock {
 public:
  // Of the tensors that the codes are made of: another one, or one written to since, is no match.
  using Sources = std::vector<std::pair<const void*, int64_t>>;

  std::vector<Tensor> Find(int64_t block, const Sources& sources) {
    const std::lock_guard lock(mutex_);
    return block == block_ && sources == sources_ ? codes_ : std::vector<Tensor>();
  }
  void Keep(int64_t block, const Sources& sources, const std::vector<Tensor>& codes) {
    const std::lock_guard lock(mutex_);
    block_ = block;
    sources_ = sources;
    codes_ = codes;
  }

 private:
  std::mutex mutex_;
  int64_t block_ = -1;
  Sources sources_;
  std::vector<Tensor> codes_;  // of each head
};

struct StochasticOptions {
  int64_t realisations = 64;  // R
  bool gated = true;          // codes that ignore positions are mixed in, by a learned share
  int64_t sines = 5;          // sine: for each dim
  int64_t kernel = 128;       // convolution: taps, at most as many positions apart as they reach
};

template <class Coder>
class StochasticPositions : public Positions {
 public:
  StochasticPositions(const Geometry& geometry, const StochasticOptions& options)
      : heads_(geometry.kv_heads), dim_(geometry.dim), options_(options) {
    seed_ = register_buffer("seed", NewSeed());
    // Half of each at first.
    if (options.gated) gate_ = register_parameter("gate", torch::zeros({heads_, dim_}));
  }

  std::pair<Tensor, Tensor> Apply(const Tensor& q, const Tensor& k, int64_t position,
                                  const Layout& layout) override {
    if (is_training()) {
      const torch::NoGradGuard no_grad;
      seed_.copy_(NewSeed());
    }
    auto call = c10::make_intrusive<CallOptions>();
    call->queries = RowSpans(q.size(1), position, layout.query_offsets);
    call->keys = RowSpans(k.size(1), position, KeyOffsets(layout));
    call->seed = seed_.template item<int64_t>();
    call->realisations = options_.realisations;
    const BlockRange blocks = BlocksOf(call->queries, call->keys);
    if (!is_training() && !torch::GradMode::is_enabled() && blocks.first == blocks.last) {
      return EncodeInBlock(q, k, blocks.first, *call);
    }
    const auto [a, b, c] = Learned(call->seed);
    const variable_list encoded = EncodeFunction<Coder>::apply(q, k, a, b, c, call);
    return {encoded[0], encoded[1]};
  }

 protected:
  // What a Coder is made of.
  virtual std::array<Tensor, 3> Learned(int64_t seed) const = 0;

  // [heads, dim, positions, R], of no position of the text.
  Tensor Noise(int64_t seed, int64_t positions) const {
    std::vector<Tensor> heads;
    for (int64_t head = 0; head < heads_; ++head) {
      heads.push_back(BlockNoise(seed, head, -1, dim_, positions, options_.realisations));
    }
    return torch::stack(heads);
  }

  // By which codes with and without positions are multiplied, [heads, dim]: the squares add up to
  // 1 / R, so that a product over R codes is a mean.
  std::pair<Tensor, Tensor> Shares() const {
    const double mean = 1 / std::sqrt(static_cast<double>(options_.realisations));
    if (!options_.gated) {
      return {torch::full({heads_, dim_}, mean), torch::zeros({heads_, dim_})};
    }
    return {torch::sigmoid(-gate_).sqrt() * mean, torch::sigmoid(gate_).sqrt() * mean};
  }

  int64_t heads_, dim_;
  StochasticOptions options_;

 private:
  static Tensor NewSeed() {
    return torch::randint(std::numeric_limits<int64_t>::max(), {1}, torch::kInt64);
  }

  std::pair<Tensor, Tensor> EncodeInBlock(const Tensor& q, const Tensor& k, int64_t block,
                                          const CallOptions& call) {
    typename CodesOfBlock::Sources sources;
    for (const auto& tensors : {this->parameters(), this->buffers()}) {
      for (const Tensor& tensor : tensors) {
        sources.emplace_back(tensor.data_ptr(), tensor.is_inference() ? 0 : tensor._version());
      }
    }
    std::vector<Tensor> codes = kept_.Find(block, sources);
    if (codes.empty()) {
      codes.resize(static_cast<size_t>(heads_));
      const auto [a, b, c] = Learned(call.seed);
      Coder coder(a, b, c, call.seed);
      ForHeads(heads_, [&](int64_t head) {
        codes[static_cast<size_t>(head)] = coder.Codes(head, block);
        coder.Release(head);
      });
      kept_.Keep(block, sources, codes);
    }
    const Tensor q_hat = EncodedLike(q, options_.realisations);
    const Tensor k_hat = EncodedLike(k, options_.realisations);
    ForHeads(heads_, [&](int64_t head) {
      const Tensor& own = codes[static_cast<size_t>(head)];
      Encode(q, own[0], PiecesIn(block, call.queries), head, heads_, q_hat);
      Encode(k, own[1], PiecesIn(block, call.keys), head, heads_, k_hat);
    });
    return {q_hat, k_hat};
  }

  Tensor seed_;  // [1]: all noise comes from it
  Tensor gate_;  // [heads, dim]: sigmoid of it is the share that ignores positions
  CodesOfBlock kept_;
};

// P_d(t) = sum_s gain_s^2 cos(2 pi frequency_s t + phase_s)
class SinePositions final : public StochasticPositions<SineCoder> {
 public:
  SinePositions(const Geometry& geometry, const StochasticOptions& options)
      : StochasticPositions(geometry, options) {
    const std::vector<int64_t> shape = {heads_, dim_, options.sines};
    // sigmoid(-4) / 2: periods of about 110 positions, from tens to hundreds. With gains of 1
    // together and no phase, P_d(0) = 1: as without positions, but for the distant.
    frequencies_ = register_parameter("frequencies", torch::randn(shape) - 4);
    phases_ = register_parameter("phases", torch::zeros(shape));
    gains_ = register_parameter(
        "gains", torch::full(shape, 1 / std::sqrt(static_cast<double>(options.sines))));
  }

 protected:
  std::array<Tensor, 3> Learned(int64_t seed) const override {
    const int64_t sines = options_.sines;
    const auto [moving, resting] = Shares();
    const Tensor noise = Noise(seed, 2 * sines + 1);
    const Tensor gains = (gains_ * moving.unsqueeze(2)).unsqueeze(3);
    const Tensor u = noise.narrow(2, 0, sines) * gains, w = noise.narrow(2, sines, sines) * gains;
    const Tensor rest = noise.narrow(2, 2 * sines, 1) * resting.view({heads_, dim_, 1, 1});
    // cos(x + phase) u + sin(x + phase) w, as multiples of cos(x) and sin(x).
    const Tensor cosine = phases_.cos().unsqueeze(3), sine = phases_.sin().unsqueeze(3);
    return {torch::sigmoid(frequencies_) / 2,
            torch::cat({cosine * u + sine * w, cosine * w - sine * u, rest}, 2),
            torch::cat({u, w, rest}, 2)};
  }

 private:
  Tensor frequencies_, phases_, gains_;  // [heads, dim, sines]
};

// P_d(t) = sum_j query_filter_j key_filter_(j + t)
class ConvolutionPositions final : public StochasticPositions<ConvolutionCoder> {
 public:
  ConvolutionPositions(const Geometry& geometry, const StochasticOptions& options)
      : StochasticPositions(geometry, options) {
    // Decaying filters of unit length: P_d(t) is near exp(-|t| / reach), with reaches from 1
    // position to half the taps over the dimensions.
    const Tensor share =
        torch::arange(dim_, torch::kFloat32) / static_cast<double>(std::max<int64_t>(1, dim_ - 1));
    const Tensor reach =
        torch::pow(std::max(1.0, static_cast<double>(options.kernel) / 2), share).unsqueeze(1);
    const Tensor decay = torch::exp(-torch::arange(options.kernel, torch::kFloat32) / reach);
    const Tensor filter = decay / decay.norm(2, 1, true);
    const auto of_heads = [&] { return filter.repeat({heads_, 1, 1}); };
    query_filter_ = register_parameter("query_filter", of_heads());
    key_filter_ = register_parameter("key_filter", of_heads());
  }

 protected:
  std::array<Tensor, 3> Learned(int64_t seed) const override {
    const auto [moving, resting] = Shares();
    return {query_filter_ * moving.unsqueeze(2), key_filter_ * moving.unsqueeze(2),
            Noise(seed, 1).squeeze(2) * resting.unsqueeze(2)};
  }

 private:
  Tensor query_filter_, key_filter_;  // [heads, dim, kernel]
};

}  // namespace

std::shared_ptr<Positions> MakeStochasticPositions(const std::string& kind, OptionReader& options,
                                                   Geometry& geometry) {
  StochasticOptions read;
  read.realisations = options.Integer("realisations", 64, 1, 4096);
  read.gated = options.Flag("gated", true);
  std::shared_ptr<Positions> positions;
  if (kind == "spe-sine") {
    read.sines = options.Integer("sines", 5, 1, 1024);
    positions = std::make_shared<SinePositions>(geometry, read);
  } else {
    read.kernel = options.Integer("kernel", 128, 1, 1024);
    positions = std::make_shared<ConvolutionPositions>(geometry, read);
  }
  geometry.dim = read.realisations;
  return positions;
}

}  // namespace cosformer::zoo
