// Rotary positions as a differentiable function and as a module; the kinds of positions by name.
#include "zoo/positions.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "kernels/rotary.h"

namespace cosformer::zoo {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Tables are shared by all layers and steps: an angle costs more than turning the pair by it. Up to
// this many positions a table begins at 0 and grows by doubling (16 MiB at dim 64); rows further on
// get a table of their own.
constexpr int64_t kSharedPositions = 65536;
constexpr size_t kSharedTables = 8;

struct TableRow {
  std::shared_ptr<const RotaryTable> table;
  int64_t row = 0;
};

TableRow TableOf(int64_t dim, double base, int64_t position, int64_t length) {
  const int64_t end = position + length;
  if (end > kSharedPositions) {
    return {std::make_shared<const RotaryTable>(length, dim, base, position), 0};
  }
  static std::mutex mutex;
  static std::map<std::pair<int64_t, double>, std::shared_ptr<const RotaryTable>> tables;
  const std::lock_guard lock(mutex);
  const auto key = std::make_pair(dim, base);
  auto found = tables.find(key);
  if (found == tables.end()) {
    if (tables.size() >= kSharedTables) tables.clear();
    found = tables.emplace(key, nullptr).first;
  }
  if (found->second == nullptr || found->second->length() < end) {
    int64_t grown = 256;
    while (grown < end) grown *= 2;
    found->second = std::make_shared<const RotaryTable>(grown, dim, base);
  }
  return {found->second, position};
}

torch::Tensor Turned(const torch::Tensor& x, double base, int64_t position,
                     const std::vector<int64_t>& offsets, bool inverse) {
  const torch::Tensor from = x.stride(3) == 1 ? x : x.contiguous();
  torch::Tensor to = torch::empty(x.sizes(), x.options(), at::MemoryFormat::Contiguous);
  if (x.numel() == 0) return to;
  const RotaryStrides from_strides{from.stride(0), from.stride(1), from.stride(2)};
  const RotaryStrides to_strides{to.stride(0), to.stride(1), to.stride(2)};
  for (const RowSpan& span : RowSpans(x.size(1), position, offsets)) {
    const int64_t length = span.end - span.begin;
    const TableRow angles = TableOf(x.size(3), base, span.position, length);
    RotaryTurn(*angles.table, from.data_ptr<float>() + span.begin * from_strides.length,
               from_strides, x.size(0), length, x.size(2), inverse,
               to.data_ptr<float>() + span.begin * to_strides.length, to_strides, angles.row,
               at::get_num_threads());
  }
  return to;
}

class RotateFunction : public torch::autograd::Function<RotateFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x, double base,
                               int64_t position, const std::vector<int64_t>& offsets,
                               bool inverse) {
    ctx->saved_data["base"] = base;
    ctx->saved_data["position"] = position;
    ctx->saved_data["offsets"] = offsets;
    ctx->saved_data["inverse"] = inverse;
    return Turned(x, base, position, offsets, inverse);
  }

  // Turning keeps lengths and angles, so its transpose is turning back.
  static variable_list backward(AutogradContext* ctx, variable_list d_y) {
    const auto& saved = ctx->saved_data;
    return {RotateFunction::apply(d_y[0], saved.at("base").toDouble(), saved.at("position").toInt(),
                                  saved.at("offsets").toIntVector(), !saved.at("inverse").toBool()),
            {},
            {},
            {},
            {}};
  }
};

class RotaryPositions : public Positions {
 public:
  explicit RotaryPositions(const Rotary& rotary) : rotary_(rotary) {}

  std::pair<torch::Tensor, torch::Tensor> Apply(const torch::Tensor& q, const torch::Tensor& k,
                                                int64_t position, const Layout& layout) override {
    return {Rotate(q, rotary_, position, layout.query_offsets),
            Rotate(k, rotary_, position, KeyOffsets(layout))};
  }

  const Rotary* rotary() const override { return &rotary_; }

 private:
  Rotary rotary_;
};

}  // namespace

std::vector<RowSpan> RowSpans(int64_t length, int64_t position,
                              const std::vector<int64_t>& offsets) {
  if (offsets.empty()) return {{0, length, position}};
  std::vector<RowSpan> spans;
  int64_t begin = 0;
  const auto add = [&](int64_t end) {
    if (end > begin) spans.push_back({begin, end, 0});
    begin = std::max(begin, end);
  };
  for (const int64_t offset : offsets) add(std::min(offset, length));
  add(length);
  return spans;
}

const std::vector<int64_t>& KeyOffsets(const Layout& layout) {
  return layout.key_offsets.empty() ? layout.query_offsets : layout.key_offsets;
}

torch::Tensor Rotate(const torch::Tensor& x, const Rotary& rotary, int64_t position,
                     const std::vector<int64_t>& offsets) {
  if (x.dim() != 4 || x.scalar_type() != torch::kFloat32) {
    throw Error(fmt::format(
        "rotary positions take float32 [batch, length, heads, dim], not {} with {} dimensions",
        c10::toString(x.scalar_type()), x.dim()));
  }
  if (x.size(3) % 2 != 0 || x.size(3) == 0) {
    throw Error(fmt::format(
        "rotary positions turn pairs of dimensions, but a head has {}: use an even head_dim",
        x.size(3)));
  }
  return RotateFunction::apply(x, rotary.base, position, offsets, false);
}

std::shared_ptr<Positions> MakePositions(const std::string& kind, OptionReader& options,
                                         Geometry& geometry) {
  if (kind == "none") return nullptr;
  if (kind == "rotary") {
    if (geometry.dim % 2 != 0) {
      throw Error(fmt::format(
          "rotary positions turn pairs of dimensions, but a head has {}: use an even head_dim",
          geometry.dim));
    }
    return std::make_shared<RotaryPositions>(Rotary{options.Number("base", 10000, 1.001, 1e12)});
  }
  if (kind == "spe-sine" || kind == "spe-conv") {
    return MakeStochasticPositions(kind, options, geometry);
  }
  throw Error(fmt::format(
      "unknown positions \"{}\": expected \"none\", \"rotary\", \"spe-sine\" or \"spe-conv\"",
      kind));
}

}  // namespace cosformer::zoo
