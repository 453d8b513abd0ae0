#include "runtime/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/parallel.h"
#include "kernels/products.h"
#include "runtime/attend.h"

namespace cosformer::runtime {
namespace {

const float* OrNull(const Vector& vector) { return vector.empty() ? nullptr : vector.data(); }

// From row to row of what only products read. Rows that lie a multiple of 2 KiB apart meet in the
// same few sets of the L1 cache, which makes a product of 512 rows 1 to 7 % slower: these are nine
// lines further apart.
int64_t Stride(int64_t columns) { return columns % 512 == 0 ? columns + 144 : columns; }

// Rows of y are y_stride apart.
void Normalise(const ModelConfig& config, const NormParameters& norm, const float* x,
               const float* branch, float* sum, float* y, int64_t y_stride, int64_t rows,
               int threads) {
  NormForwardArgs args;
  args.x = x;
  args.r = branch;
  args.weight = norm.weight.data();
  args.bias = OrNull(norm.bias);
  args.s = sum;
  args.y = y;
  args.y_stride = y_stride;
  NormOptions options;
  options.kind = config.norm;
  options.epsilon = static_cast<float>(config.norm_epsilon);
  NormForward(args, rows, config.width, options, threads);
}

}  // namespace

// What a pass computes with.
struct Network::Work {
  Work(const ModelConfig& config, int64_t rows_at_most)
      : rows(rows_at_most),
        y_stride(Stride(config.width)),
        o_stride(Stride(config.heads * config.head_dim)),
        hidden_stride(Stride(config.hidden)),
        pre_stride(Gated(config) ? PreWidth(config.activation, config.hidden) : hidden_stride),
        x(Size(rows, config.width)),
        y(Size(rows, y_stride)),
        branch(Size(rows, config.width)),
        qkv(Size(rows, (config.heads + 2 * config.kv_heads) * config.head_dim)),
        keep(Size(rows, config.kv_heads)),
        o(Size(rows, o_stride)),
        pre(Size(rows, pre_stride)),
        hidden(Gated(config) ? Size(rows, hidden_stride) : 0) {}

  static bool Gated(const ModelConfig& config) { return config.activation == Activation::kSwiglu; }

  static size_t Size(int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns); }

  size_t Bytes() const {
    size_t floats = 0;
    for (const AlignedFloats* one : {&x, &y, &branch, &qkv, &keep, &o, &pre, &hidden}) {
      floats += one->size();
    }
    return floats * sizeof(float);
  }

  int64_t rows;
  int64_t y_stride, o_stride, hidden_stride, pre_stride;
  AlignedFloats x;       // [rows, width]: the residual stream; at the end, normalised
  AlignedFloats y;       // [rows, width], y_stride apart; o, pre and hidden likewise
  AlignedFloats branch;  // [rows, width]: still to be added to x
  AlignedFloats qkv;
  AlignedFloats keep;  // [rows, kv_heads], where a layer has a gate
  AlignedFloats o;
  AlignedFloats pre, hidden;  // activations in place, where they can be
};

void Network::CheckSupported(const ModelConfig& config) {
  if (config.kind == ModelKind::kEncoderDecoder) {
    throw Error(
        "config: the runtime runs decoders, encoders and two towers; a model with an encoder and a "
        "decoder runs in training and evaluation alone");
  }
  const PositionKind positions = config.positions.kind;
  if (positions == PositionKind::kSpeSine || positions == PositionKind::kSpeConv) {
    throw Error(fmt::format(
        "config: the runtime has the positions none, learned, sinusoidal and rotary; \"{}\" runs "
        "in training and evaluation alone",
        cosformer::Name(positions)));
  }
  for (size_t layer = 0; layer < config.attention.size(); ++layer) {
    AttentionOf(config, layer, false);
  }
}

Network::Network(ModelConfig config, Parameters parameters, bool endless, int threads)
    : config_(std::move(config)),
      parameters_(std::move(parameters)),
      endless_(endless),
      threads_(ThreadsOr(threads)) {
  constexpr int kMostThreads = 1024;  // beyond what any machine has, OpenMP ends the program
  if (threads < 0 || threads > kMostThreads) {
    throw Error(
        fmt::format("threads is {}; give 1 to {}, or 0 for all cores", threads, kMostThreads));
  }
  CheckSupported(config_);
  for (size_t layer = 0; layer < config_.attention.size(); ++layer) {
    attention_.push_back(AttentionOf(config_, layer, endless));
    const std::optional<int64_t> horizon = attention_.back().Horizon();
    if (horizon && (!limit_ || *horizon < *limit_)) {
      limit_ = horizon;
      limit_reason_ = "the horizon of its re-weighting is";
    }
  }
  if (config_.positions.kind == PositionKind::kLearned &&
      (!limit_ || config_.max_length <= *limit_)) {
    limit_ = config_.max_length;
    limit_reason_ = "its learned positions end at";
  }
}

Network::~Network() = default;

std::unique_ptr<Network::Work> Network::TakeWork(int64_t rows) const {
  {
    const std::lock_guard lock(spare_mutex_);
    if (spare_ && spare_->rows >= rows) return std::move(spare_);
  }
  return std::make_unique<Work>(config_, rows);
}

void Network::KeepWork(std::unique_ptr<Work> work) const {
  const std::lock_guard lock(spare_mutex_);
  if (!spare_ || spare_->rows < work->rows) spare_ = std::move(work);
}

size_t Network::work_bytes() const {
  const std::lock_guard lock(spare_mutex_);
  return spare_ ? spare_->Bytes() : 0;
}

TextState Network::NewText() const {
  if (config_.kind != ModelKind::kDecoder) {
    throw Error(fmt::format(
        "this model is of kind \"{}\", which reads whole texts; only a decoder goes on with one",
        cosformer::Name(config_.kind)));
  }
  TextState state;
  for (const LayerAttention& attention : attention_) state.layers.push_back(attention.NewState());
  return state;
}

std::optional<int64_t> Network::LimitOf(const TextState& state) const {
  std::optional<int64_t> limit = limit_;
  for (const LayerState& layer : state.layers) {
    const std::optional<int64_t> horizon = HorizonOf(layer);
    if (horizon && (!limit || *horizon < *limit)) limit = horizon;
  }
  return limit;
}

void Network::CheckTokens(std::span<const int32_t> tokens, int64_t position,
                          std::optional<int64_t> limit) const {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= config_.vocabulary) {
      throw Error(fmt::format("token {} is not in the model's vocabulary of {}", token,
                              config_.vocabulary));
    }
  }
  const int64_t end = position + static_cast<int64_t>(tokens.size());
  if (!limit || end <= *limit) return;
  if (limit != limit_) {
    throw Error(fmt::format(
        "the text has {} tokens, and its session was begun to end with the horizon, {}; begin "
        "another session, which goes on past it",
        end, *limit));
  }
  const bool learned = config_.positions.kind == PositionKind::kLearned;
  throw Error(fmt::format(
      "the text has {} tokens, and {} {}; {}", end, limit_reason_, *limit,
      learned ? "give a shorter one, or train with other positions (rotary, sinusoidal or none)"
      : config_.kind == ModelKind::kDecoder
          ? "give a shorter one, or load the model in endless mode (endless; no --no-endless)"
          : "give a shorter one"));
}

void Network::AddPositions(int64_t position, int64_t length, float* rows) const {
  const int64_t width = config_.width;
  if (config_.positions.kind == PositionKind::kLearned) {
    std::vector<float> learned(static_cast<size_t>(width));
    for (int64_t t = 0; t < length; ++t) {
      ReadWeights(parameters_.positions, position + t, learned.data());
      for (const float x : learned) *rows++ += x;
    }
    return;
  }
  if (config_.positions.kind != PositionKind::kSinusoidal) return;
  // In double: positions beyond 10^5 would lose their phase in float32.
  const double rate = -2 * std::log(10000.0) / static_cast<double>(width);
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t c = 0; c < width; ++c) {
      const double angle =
          static_cast<double>(position + t) * std::exp(static_cast<double>(c / 2) * rate);
      rows[t * width + c] += static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
}

void Network::Embed(std::span<const int32_t> tokens, int64_t position, float* rows) const {
  const bool scaled = config_.positions.kind == PositionKind::kSinusoidal;
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(config_.width)));
  const auto count = static_cast<int64_t>(tokens.size());
  const double bytes = 8.0 * static_cast<double>(count * config_.width);
  Team(threads_, count, {.bytes = bytes}).RunEvenly(count, [&](int64_t t, int) {
    float* row = rows + t * config_.width;
    ReadWeights(parameters_.tokens, tokens[static_cast<size_t>(t)], row);
    for (int64_t c = 0; scaled && c < config_.width; ++c) row[c] *= scale;
  });
  AddPositions(position, count, rows);
}

// From the embedded rows in work.x to their normalised result in the same place. attend(layer) goes
// from work.qkv, and work.keep with a gate, to work.o; it returns false where nothing further is
// wanted.
template <class Attend>
void Network::RunLayers(Work& work, int64_t rows, const Attend& attend) const {
  const bool pre_norm = config_.norm_place == NormPlace::kPre;
  const int64_t width = config_.width;
  const float* branch = nullptr;  // what x still lacks
  // The sublayer's input; x then lacks nothing but what the sublayer makes of it.
  const int64_t stride = pre_norm ? work.y_stride : width;
  const auto before = [&](const NormParameters& norm) -> const float* {
    if (!pre_norm) return work.x.data();
    Normalise(config_, norm, work.x.data(), branch, work.x.data(), work.y.data(), work.y_stride,
              rows, threads_);
    return work.y.data();
  };
  // x = the normalised sum.
  const auto join = [&](const NormParameters& norm) {
    Normalise(config_, norm, work.x.data(), work.branch.data(), work.x.data(), work.branch.data(),
              width, rows, threads_);
    std::swap(work.x, work.branch);
  };
  const auto after = [&](const NormParameters& norm) {
    if (pre_norm) {
      branch = work.branch.data();
    } else {
      join(norm);
    }
  };
  for (size_t i = 0; i < parameters_.layers.size(); ++i) {
    const LayerParameters& layer = parameters_.layers[i];
    const float* input = before(layer.attention_norm);
    Multiply(input, stride, rows, layer.in, OrNull(layer.in_bias), work.qkv.data(), layer.in.rows,
             threads_);
    if (attention_[i].options.gate) {
      Multiply(input, stride, rows, layer.gate, layer.gate_bias.data(), work.keep.data(),
               config_.kv_heads, threads_);
      for (int64_t j = 0; j < rows * config_.kv_heads; ++j) {
        work.keep[static_cast<size_t>(j)] = 1 / (1 + std::exp(-work.keep[static_cast<size_t>(j)]));
      }
    }
    if (!attend(i)) return;
    Multiply(work.o.data(), work.o_stride, rows, layer.out, OrNull(layer.out_bias),
             work.branch.data(), width, threads_);
    after(layer.attention_norm);

    input = before(layer.feed_forward_norm);
    Multiply(input, stride, rows, layer.hidden, nullptr, work.pre.data(), work.pre_stride,
             threads_);
    float* hidden = work.hidden.empty() ? work.pre.data() : work.hidden.data();
    ActivateForward(config_.activation, work.pre.data(), OrNull(layer.hidden_bias), rows,
                    config_.hidden, hidden, threads_, {work.pre_stride, work.hidden_stride});
    Multiply(hidden, work.hidden_stride, rows, layer.back, OrNull(layer.back_bias),
             work.branch.data(), width, threads_);
    after(layer.feed_forward_norm);
  }
  if (pre_norm) join(parameters_.norm);
}

// At most kPass rows.
void Network::RunPass(std::span<const Turn> turns, int64_t rows, Work& work, float* hidden) const {
  const bool rotary = config_.positions.kind == PositionKind::kRotary;
  std::vector<RotaryTable> tables;
  std::vector<int64_t> begins;
  int64_t begin = 0;
  for (const Turn& turn : turns) {
    const auto length = static_cast<int64_t>(turn.tokens.size());
    if (rotary) {
      tables.emplace_back(length, config_.head_dim, config_.positions.rotary_base,
                          turn.state->position, nullptr, 1);
    }
    begins.push_back(begin);
    begin += length;
  }
  const auto count = static_cast<int64_t>(turns.size());
  const double embedded = 8.0 * static_cast<double>(rows * config_.width);
  Team(threads_, count, {.bytes = embedded}).RunEvenly(count, [&](int64_t i, int) {
    const auto s = static_cast<size_t>(i);
    Embed(turns[s].tokens, turns[s].state->position, work.x.data() + begins[s] * config_.width);
  });
  const int64_t row_in = (config_.heads + 2 * config_.kv_heads) * config_.head_dim;
  RunLayers(work, rows, [&](size_t layer) {
    const auto attend = [&](int64_t i, int threads) {
      const auto s = static_cast<size_t>(i);
      AttendAfter(
          attention_[layer], turns[s].state->layers[layer],
          {work.qkv.data() + begins[s] * row_in, static_cast<int64_t>(turns[s].tokens.size()),
           rotary ? &tables[s] : nullptr, OrNull(parameters_.layers[layer].gain),
           work.keep.data() + begins[s] * config_.kv_heads,
           work.o.data() + begins[s] * work.o_stride, work.o_stride},
          threads);
    };
    if (count == 1) {
      attend(0, threads_);
      return true;
    }
    // A state of two matrices is read and written for a text, and worked on for a row; softmax
    // reads keys and values of all that stands before.
    const auto side = static_cast<double>(config_.kv_heads * config_.head_dim);
    cosformer::Work cost;
    for (const Turn& turn : turns) {
      const auto length = static_cast<double>(turn.tokens.size());
      if (attention_[layer].softmax) {
        cost.bytes += 8 * side * (static_cast<double>(turn.state->position) + length);
        cost.flops += 4 * side * length * (static_cast<double>(turn.state->position) + length / 2);
      } else {
        const double state = 2 * side * static_cast<double>(config_.head_dim);
        cost.bytes += 8 * state;
        cost.flops += 4 * state * length;
      }
    }
    Team(threads_, count, cost).Run(count, [&](int64_t i, int) { attend(i, 1); });
    return true;
  });
  for (size_t s = 0; s < turns.size(); ++s) {
    const auto length = static_cast<int64_t>(turns[s].tokens.size());
    const float* last = work.x.data() + (begins[s] + length - 1) * config_.width;
    turns[s].state->last.assign(last, last + config_.width);
    turns[s].state->position += length;
  }
  if (hidden != nullptr) std::copy_n(work.x.begin(), rows * config_.width, hidden);
}

void Network::CheckTurn(const Turn& turn) const {
  for (const LayerState& layer : turn.state->layers) {
    if (PositionOf(layer) != turn.state->position) {
      throw Error(
          "session: an earlier pass failed half way, and its layers disagree about the text; begin "
          "another session");
    }
  }
  CheckTokens(turn.tokens, turn.state->position, LimitOf(*turn.state));
}

void Network::Advance(std::span<const Turn> turns, float* hidden) const {
  int64_t all = 0;
  for (const Turn& turn : turns) {
    CheckTurn(turn);
    all += static_cast<int64_t>(turn.tokens.size());
  }
  std::unique_ptr<Work> work = TakeWork(std::min(all, kPass));
  // As many turns as fit into a pass. A turn is cut where it would be cut alone, since that decides
  // how its sums are rounded.
  std::vector<Turn> pass;
  int64_t rows = 0;
  const auto run = [&] {
    if (rows == 0) return;
    RunPass(pass, rows, *work, hidden);
    if (hidden != nullptr) hidden += rows * config_.width;
    pass.clear();
    rows = 0;
  };
  for (Turn turn : turns) {
    while (!turn.tokens.empty()) {
      const size_t part = std::min(turn.tokens.size(), static_cast<size_t>(kPass));
      if (rows + static_cast<int64_t>(part) > kPass) run();
      pass.push_back({turn.state, turn.tokens.first(part)});
      turn.tokens = turn.tokens.subspan(part);
      rows += static_cast<int64_t>(part);
    }
  }
  run();
  KeepWork(std::move(work));
}

void Network::AttendWholeText(size_t layer, int64_t length, const RotaryTable* rotary,
                              Work& work) const {
  AttendWhole(attention_[layer], config_.kind == ModelKind::kDecoder,
              {work.qkv.data(), length, rotary, OrNull(parameters_.layers[layer].gain),
               work.keep.data(), work.o.data(), work.o_stride},
              threads_);
}

std::vector<float> Network::EncodeRows(std::vector<float> x, int64_t length) const {
  Work work(config_, length);
  std::copy(x.begin(), x.end(), work.x.begin());
  std::optional<RotaryTable> table;
  if (config_.positions.kind == PositionKind::kRotary) {
    table.emplace(length, config_.head_dim, config_.positions.rotary_base);
  }
  RunLayers(work, length, [&](size_t layer) {
    AttendWholeText(layer, length, table ? &*table : nullptr, work);
    return true;
  });
  std::copy(work.x.begin(), work.x.end(), x.begin());
  return x;
}

std::vector<float> Network::Encode(std::span<const int32_t> tokens) const {
  if (config_.input != InputKind::kTokens) {
    throw Error("this model reads images, not tokens");
  }
  CheckTokens(tokens, 0, limit_);
  std::vector<float> x(tokens.size() * static_cast<size_t>(config_.width));
  Embed(tokens, 0, x.data());
  return EncodeRows(std::move(x), static_cast<int64_t>(tokens.size()));
}

std::vector<float> Network::EncodePixels(std::span<const uint8_t> pixels) const {
  const ImageConfig& image = config_.image;
  if (config_.input == InputKind::kTokens) throw Error("this model reads tokens, not images");
  const int64_t numbers = image.height * image.width * image.channels;
  if (static_cast<int64_t>(pixels.size()) != numbers) {
    throw Error(fmt::format("the image has {} numbers; the model reads {} x {} pixels of {}",
                            pixels.size(), image.height, image.width, image.channels));
  }
  const int64_t patch = config_.input == InputKind::kPatches ? image.patch : 1;
  const int64_t across = image.width / patch;
  const int64_t length = config_.ImageLength();
  const int64_t inputs = parameters_.pixels.columns;
  std::vector<float> patches(static_cast<size_t>(length * inputs));
  float* to = patches.data();
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t y = 0; y < patch; ++y) {
      for (int64_t x = 0; x < patch; ++x) {
        const int64_t at = (t / across * patch + y) * image.width + t % across * patch + x;
        for (int64_t c = 0; c < image.channels; ++c) {
          *to++ =
              static_cast<float>(pixels[static_cast<size_t>(at * image.channels + c)]) / 127.5f - 1;
        }
      }
    }
  }
  std::vector<float> x(static_cast<size_t>(length * config_.width));
  Multiply(patches.data(), inputs, length, parameters_.pixels, parameters_.pixel_bias.data(),
           x.data(), config_.width, threads_);
  AddPositions(0, length, x.data());
  return EncodeRows(std::move(x), length);
}

// One row for all; zeros where there are none.
std::vector<float> Network::Pooled(std::span<const float> hidden) const {
  const auto width = static_cast<size_t>(config_.width);
  const size_t rows = hidden.size() / width;
  std::vector<float> pooled(width, 0.0f);
  if (rows == 0) return pooled;
  switch (config_.pool) {
    case Pool::kFirst:
      std::copy_n(hidden.begin(), width, pooled.begin());
      break;
    case Pool::kLast:
      std::copy_n(hidden.end() - static_cast<ptrdiff_t>(width), width, pooled.begin());
      break;
    case Pool::kMean:
      for (size_t c = 0; c < width; ++c) {
        double sum = 0;
        for (size_t row = 0; row < rows; ++row) sum += static_cast<double>(hidden[row * width + c]);
        pooled[c] = static_cast<float>(sum / static_cast<double>(rows));
      }
      break;
  }
  return pooled;
}

std::vector<float> Network::Classify(std::span<const float> hidden) const {
  if (config_.kind != ModelKind::kEncoder || config_.classes == 0) {
    throw Error("this model does not classify one text");
  }
  const std::vector<float> pooled = Pooled(hidden);
  std::vector<float> scores(static_cast<size_t>(config_.classes));
  Multiply(pooled.data(), config_.width, 1, parameters_.classes, parameters_.classes_bias.data(),
           scores.data(), config_.classes, 1);
  return scores;
}

std::vector<float> Network::Classify(std::span<const float> first,
                                     std::span<const float> second) const {
  if (config_.kind != ModelKind::kTwoTower) throw Error("this model does not compare two texts");
  const std::vector<float> a = Pooled(first), b = Pooled(second);
  const size_t width = a.size();
  std::vector<float> both(4 * width), mixed(width);
  for (size_t c = 0; c < width; ++c) {
    both[c] = a[c];
    both[width + c] = b[c];
    both[2 * width + c] = a[c] * b[c];
    both[3 * width + c] = a[c] - b[c];
  }
  Multiply(both.data(), 4 * config_.width, 1, parameters_.mix, parameters_.mix_bias.data(),
           mixed.data(), config_.width, 1);
  for (float& x : mixed) x = std::max(x, 0.0f);
  std::vector<float> scores(static_cast<size_t>(config_.classes));
  Multiply(mixed.data(), config_.width, 1, parameters_.classes, parameters_.classes_bias.data(),
           scores.data(), config_.classes, 1);
  return scores;
}

void Network::Logits(const float* hidden, int64_t rows, float* logits) const {
  if (config_.classes > 0) throw Error("this model predicts classes, not tokens");
  const Weights& weights = config_.tied_embeddings ? parameters_.tokens : parameters_.output;
  Multiply(hidden, config_.width, rows, weights, OrNull(parameters_.output_bias), logits,
           config_.vocabulary, threads_);
}

Network::QueriesAndKeys Network::QueriesAndKeysOf(std::span<const int32_t> tokens,
                                                  size_t layer) const {
  if (layer >= attention_.size()) {
    throw Error(fmt::format("layer {} is asked for; the model has layers 0 to {}", layer,
                            attention_.size() - 1));
  }
  if (config_.input != InputKind::kTokens) throw Error("this model reads images, not tokens");
  CheckTokens(tokens, 0, limit_);
  const auto length = static_cast<int64_t>(tokens.size());
  Work work(config_, length);
  Embed(tokens, 0, work.x.data());
  std::optional<RotaryTable> table;
  if (config_.positions.kind == PositionKind::kRotary) {
    table.emplace(length, config_.head_dim, config_.positions.rotary_base);
  }
  RunLayers(work, length, [&](size_t i) {
    if (i == layer) return false;
    AttendWholeText(i, length, table ? &*table : nullptr, work);
    return true;
  });
  QueriesAndKeys result;
  result.length = length;
  if (attention_[layer].options.gate) {
    result.keep.assign(work.keep.begin(), work.keep.begin() + length * config_.kv_heads);
  }
  const int64_t all = config_.heads * config_.head_dim;
  const int64_t kv = config_.kv_heads * config_.head_dim;
  for (int64_t t = 0; t < length; ++t) {
    const float* row = work.qkv.data() + t * (all + 2 * kv);
    result.q.insert(result.q.end(), row, row + all);
    result.k.insert(result.k.end(), row + all, row + all + kv);
  }
  return result;
}

}  // namespace cosformer::runtime
