// Multi-head attention around a system: projections, positions, and the checks that hold for all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "zoo/positions.h"
#include "zoo/system.h"

namespace cosformer {
namespace {

using torch::Tensor;
using zoo::Projections;
using zoo::RotaryUse;

nlohmann::json ParseOptions(const std::string& text, const std::string& where) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw Error(fmt::format("{}: its options are {}; they must be a JSON object, as {{\"key\": 1}}",
                            where, text));
  }
  return json;
}

void CheckRange(const char* name, int64_t value, int64_t most) {
  if (value < 1 || value > most) {
    throw Error(fmt::format("attention: {} is {}; it must be from 1 to {}", name, value, most));
  }
}

// As for config.json: no size overflows.
constexpr int64_t kMaxWidth = 1 << 16;
constexpr int64_t kMaxHeads = 1 << 12;
constexpr int64_t kMaxHeadsWidth = 1 << 20;
constexpr int64_t kMaxLength = int64_t{1} << 31;

AttentionConfig Resolved(AttentionConfig config) {
  CheckRange("width", config.width, kMaxWidth);
  CheckRange("heads", config.heads, kMaxHeads);
  CheckRange("max_length", config.max_length, kMaxLength);
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  CheckRange("kv_heads", config.kv_heads, config.heads);
  if (config.heads % config.kv_heads != 0) {
    throw Error(
        fmt::format("attention: heads is {} and kv_heads {}; heads must be a multiple of it",
                    config.heads, config.kv_heads));
  }
  if (config.head_dim == 0) {
    if (config.width % config.heads != 0) {
      throw Error(
          fmt::format("attention: width is {} and heads {}; width must be a multiple of it, "
                      "or head_dim be given",
                      config.width, config.heads));
    }
    config.head_dim = config.width / config.heads;
  }
  CheckRange("head_dim", config.head_dim, kMaxHeadsWidth / config.heads);
  return config;
}

void CheckLengths(const std::vector<int64_t>& lengths, const char* name, int64_t batch,
                  int64_t longest) {
  if (lengths.empty()) return;
  if (static_cast<int64_t>(lengths.size()) != batch) {
    throw Error(
        fmt::format("attention: {} has {} entries for a batch of {}", name, lengths.size(), batch));
  }
  for (const int64_t length : lengths) {
    if (length < 0 || length > longest) {
      throw Error(fmt::format("attention: {} has {}; the rows are {}", name, length, longest));
    }
  }
}

void CheckInput(const Tensor& x, const char* name, int64_t width) {
  if (!x.defined() || x.dim() != 3 || x.size(2) != width) {
    throw Error(fmt::format(
        "attention: {} is {}; it must be [batch, length, {}]", name,
        x.defined() ? fmt::format("of shape {}", c10::str(x.sizes())) : "no tensor", width));
  }
  if (x.scalar_type() != torch::kFloat32 || !x.device().is_cpu()) {
    throw Error(fmt::format("attention: {} is of type {} on {}; it must be float32 on the CPU",
                            name, torch::toString(x.scalar_type()), x.device().str()));
  }
}

// What the layout says about both sides, so that every system is told the same: for self attention
// the queries' side alone, for cross attention both.
Layout Completed(Layout layout, const Tensor& x, const Tensor& memory) {
  if (layout.padded() && layout.packed()) {
    throw Error("attention: the layout has both lengths (padding) and offsets (packing); give one");
  }
  CheckLengths(layout.query_lengths, "query_lengths", x.size(0), x.size(1));
  if (!memory.defined()) {
    const auto differs = [](const auto& keys, const auto& queries) {
      return !keys.empty() && keys != queries;
    };
    if (differs(layout.key_lengths, layout.query_lengths) ||
        differs(layout.key_offsets, layout.query_offsets)) {
      throw Error(
          "attention: in self attention the keys are the queries' rows: give query_lengths or "
          "query_offsets alone");
    }
    layout.key_lengths.clear();
    layout.key_offsets.clear();
    return layout;
  }
  CheckLengths(layout.key_lengths, "key_lengths", memory.size(0), memory.size(1));
  if (layout.query_offsets.empty() != layout.key_offsets.empty()) {
    throw Error("attention: one side of the cross attention is packed; give offsets for both");
  }
  // The other side is whole.
  const auto fill = [](std::vector<int64_t>& lengths, const Tensor& rows) {
    if (lengths.empty()) lengths.assign(static_cast<size_t>(rows.size(0)), rows.size(1));
  };
  if (layout.padded()) {
    fill(layout.query_lengths, x);
    fill(layout.key_lengths, memory);
  }
  return layout;
}

// How many rows of the weight belong to queries, keys and values.
struct Rows {
  int64_t query, key, value;
};

Rows RowsOf(const AttentionConfig& config, Projections projections) {
  const int64_t all = config.heads * config.head_dim;
  const int64_t kv = config.kv_heads * config.head_dim;
  return {projections == Projections::kValue ? 0 : all,
          projections == Projections::kQueryKeyValue ? kv : 0, kv};
}

Tensor Heads(const Tensor& rows, int64_t dim) {
  if (rows.size(2) == 0) return {};
  return rows.view({rows.size(0), rows.size(1), rows.size(2) / dim, dim});
}

}  // namespace

AttentionImpl::AttentionImpl(const AttentionConfig& given) : config_(Resolved(given)) {
  const zoo::Entry& entry = zoo::FindEntry(config_.system);
  CheckAble(entry, config_.direction);
  zoo::Geometry geometry;
  geometry.direction = config_.direction;
  geometry.width = config_.width;
  geometry.heads = config_.heads;
  geometry.kv_heads = config_.kv_heads;
  geometry.dim = geometry.value_dim = config_.head_dim;
  geometry.max_length = config_.max_length;

  const bool rotary = config_.positions == "rotary";
  const bool stochastic = config_.positions.starts_with("spe-");
  if (rotary && entry.rotary == RotaryUse::kNone) {
    throw Error(fmt::format("attention {} does not take rotary positions, because {}", entry.name,
                            entry.no_rotary_reason));
  }
  if (stochastic && !entry.stochastic_positions) {
    throw Error(
        fmt::format("attention {} does not take {}, because stochastic positions stand for "
                    "a kernel of q and k that decomposes, as linear attention's does",
                    entry.name, config_.positions));
  }
  {
    const std::string where = "positions " + config_.positions;
    const nlohmann::json json = ParseOptions(config_.position_options, where);
    OptionReader options(json, where);
    positions_ = zoo::MakePositions(config_.positions, options, geometry);
    options.Done();
    if (positions_ != nullptr) register_module("positions", positions_);
  }
  const std::string where = "attention " + entry.name;
  const nlohmann::json json = ParseOptions(config_.options, where);
  OptionReader options(json, where);
  system_ = entry.make(geometry, options);
  options.Done();
  register_module("system", system_);

  const Rows rows = RowsOf(config_, system_->projections());
  const int64_t in = rows.query + rows.key + rows.value;
  const int64_t out = config_.heads * config_.head_dim;
  // Between Xavier's and GPT-2's at width 512 (0.028): sqrt(2 / (5 width)), which keeps the
  // variance of narrow models as well.
  const double deviation = std::sqrt(2.0 / (5.0 * static_cast<double>(config_.width)));
  in_weight_ = register_parameter("in_weight", torch::randn({in, config_.width}) * deviation);
  out_weight_ = register_parameter("out_weight", torch::randn({config_.width, out}) * deviation);
  if (config_.bias) {
    in_bias_ = register_parameter("in_bias", torch::zeros({in}));
    out_bias_ = register_parameter("out_bias", torch::zeros({config_.width}));
  }
}

AttentionImpl::~AttentionImpl() = default;

zoo::Inputs AttentionImpl::Prepare(const Tensor& x, const Tensor& memory, const Layout& layout,
                                   int64_t position) const {
  const Rows rows = RowsOf(config_, system_->projections());
  const int64_t dim = config_.head_dim;
  zoo::Inputs inputs;
  if (!memory.defined()) {
    const auto parts = torch::linear(x, in_weight_, in_bias_)
                           .split_with_sizes({rows.query, rows.key, rows.value}, -1);
    inputs.q = Heads(parts[0], dim);
    inputs.k = Heads(parts[1], dim);
    inputs.v = Heads(parts[2], dim);
  } else {
    const auto weights = in_weight_.split_with_sizes({rows.query, rows.key + rows.value});
    std::vector<Tensor> biases(2);
    if (in_bias_.defined()) biases = in_bias_.split_with_sizes({rows.query, rows.key + rows.value});
    inputs.q = Heads(torch::linear(x, weights[0], biases[0]), dim);
    const auto parts =
        torch::linear(memory, weights[1], biases[1]).split_with_sizes({rows.key, rows.value}, -1);
    inputs.k = Heads(parts[0], dim);
    inputs.v = Heads(parts[1], dim);
  }
  inputs.x = x;
  inputs.layout = layout;
  inputs.position = position;
  inputs.key_position = memory.defined() ? 0 : position;
  if (positions_ == nullptr) return inputs;
  inputs.rotary =
      zoo::FindEntry(config_.system).rotary == RotaryUse::kInside ? positions_->rotary() : nullptr;
  if (inputs.rotary != nullptr) return inputs;
  const bool shared = !inputs.k.defined();
  const Tensor plain_q = inputs.q, plain_k = inputs.k;
  auto [q, k] = positions_->Apply(inputs.q, shared ? inputs.q : inputs.k, position, layout);
  inputs.q = q;
  if (!shared) inputs.k = k;
  // The memory's keys stand where they stood when the stream began.
  if (inputs.key_position != position) {
    inputs.k = positions_->Apply(plain_q, plain_k, inputs.key_position, layout).second;
  }
  return inputs;
}

Tensor AttentionImpl::Run(const Tensor& x, const Tensor& memory, const Layout& layout,
                          int64_t position) {
  const zoo::Entry& entry = zoo::FindEntry(config_.system);
  if (layout.padded()) CheckAble(entry, &Abilities::padding, "padded batches");
  if (layout.packed()) CheckAble(entry, &Abilities::packing, "packed sequences");
  const Layout completed = Completed(layout, x, memory);
  if (x.numel() == 0) return x.new_zeros(x.sizes());  // no tokens
  return Finish(system_->Forward(Prepare(x, memory, completed, position)));
}

Tensor AttentionImpl::Finish(const Tensor& o) const {
  return torch::linear(o.reshape({o.size(0), o.size(1), out_weight_.size(1)}), out_weight_,
                       out_bias_);
}

Tensor AttentionImpl::forward(const Tensor& x, const Layout& layout) {
  if (config_.direction == Direction::kCross) {
    throw Error("attention: cross attention needs a memory to attend to: forward(x, memory)");
  }
  CheckInput(x, "x", config_.width);
  return Run(x, {}, layout, 0);
}

Tensor AttentionImpl::forward(const Tensor& x, const Tensor& memory, const Layout& layout,
                              int64_t position) {
  if (config_.direction != Direction::kCross) {
    throw Error("attention: a memory was given, but the direction is not Direction::kCross");
  }
  CheckInput(x, "x", config_.width);
  CheckInput(memory, "memory", config_.width);
  if (memory.size(0) != x.size(0)) {
    throw Error(
        fmt::format("attention: x is a batch of {} and memory of {}", x.size(0), memory.size(0)));
  }
  if (position < 0) throw Error(fmt::format("attention: position is {}", position));
  if (position == 0) return Run(x, memory, layout, 0);
  if (layout.packed()) throw Error("attention: a stream is not packed; give one sequence an entry");
  torch::NoGradGuard no_grad;
  RequireSteady();
  return Run(x, memory, layout, position);
}

// Random positions are drawn anew in every training pass, so that what a stream remembers would be
// of other positions than what comes.
void AttentionImpl::RequireSteady() const {
  if (is_training() && positions_ != nullptr && positions_->rotary() == nullptr) {
    throw Error(fmt::format("attention: {} is redrawn while training; call eval() to stream",
                            config_.positions));
  }
}

std::unique_ptr<AttentionStream> AttentionImpl::NewStream(int64_t batch) const {
  const zoo::Entry& entry = zoo::FindEntry(config_.system);
  CheckAble(entry, &Abilities::streaming, "streaming");
  if (config_.direction != Direction::kCausal) {
    throw Error("attention: only causal attention streams");
  }
  CheckRange("batch", batch, kMaxLength);
  std::unique_ptr<zoo::Stream> stream = system_->NewStream(batch);
  stream->batch = batch;
  return stream;
}

Tensor AttentionImpl::Step(const Tensor& x, AttentionStream& stream) {
  torch::NoGradGuard no_grad;
  CheckInput(x, "x", config_.width);
  RequireSteady();
  auto& own = dynamic_cast<zoo::Stream&>(stream);
  if (x.size(0) != own.batch) {
    throw Error(
        fmt::format("attention: x is a batch of {}, the stream of {}", x.size(0), own.batch));
  }
  if (x.numel() == 0) return x.new_zeros(x.sizes());
  return Finish(own.Step(Prepare(x, {}, {}, own.position())));
}

}  // namespace cosformer
