#include "runtime/layer_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <ostream>

#include "attention/checks.h"

namespace cosformer::runtime {
namespace {

LinearKernel KernelOf(const LayerAttention& attention) {
  LinearKernel kernel = attention.options.kernel;
  if (attention.options.norm) kernel.normaliser = Normaliser::kNone;
  return kernel;
}

LinearStateConfig StateConfig(const LayerAttention& attention, const LinearKernel& kernel,
                              int64_t value_dim) {
  return {1,      attention.kv_heads,        attention.dim,         value_dim,
          kernel, attention.options.endless, attention.options.gate};
}

// Of features that exist already, summed without a normaliser.
LinearKernel TurnedKernel(const LayerAttention& attention) {
  LinearKernel kernel = attention.options.kernel;
  kernel.feature_map = FeatureMap::kIdentity;
  kernel.normaliser = Normaliser::kNone;
  return kernel;
}

SoftmaxCacheConfig CacheConfig(const LayerAttention& attention) {
  return {1, attention.kv_heads, attention.dim, attention.dim, DType::kFloat32};
}

// The heads' rows of a cache, whatever its capacity.
template <class Row>
void ForEachRow(const ConstView& view, const Row& row) {
  for (int64_t t = 0; t < view.length; ++t) {
    for (int64_t h = 0; h < view.heads; ++h) {
      row(static_cast<const float*>(view.data) + t * view.length_stride + h * view.head_stride);
    }
  }
}

// Logits would be NaN from here on, and nothing would say why.
void CheckFinite(bool finite) {
  if (finite) return;
  throw Error(
      "it holds numbers that are infinite or NaN; the file is damaged, or the model's numbers were "
      "too large when it was written");
}

SoftmaxCache LoadCache(const LayerAttention& attention, int64_t position, std::istream& in) {
  SoftmaxCache cache(CacheConfig(attention));
  const int64_t row = attention.kv_heads * attention.dim;
  std::vector<float> keys(static_cast<size_t>(row)), values(static_cast<size_t>(row));
  // Token by token: memory grows with what the file really holds.
  for (int64_t t = 0; t < position; ++t) {
    for (std::vector<float>* to : {&keys, &values}) {
      const auto bytes = static_cast<std::streamsize>(to->size() * sizeof(float));
      if (!in.read(reinterpret_cast<char*>(to->data()), bytes)) {
        throw Error(
            fmt::format("the file ends within the keys and values of token {} of {}", t, position));
      }
      CheckFinite(std::all_of(to->begin(), to->end(), [](float x) { return std::isfinite(x); }));
    }
    cache.Append(View::Of(keys.data(), 1, 1, attention.kv_heads, attention.dim),
                 View::Of(values.data(), 1, 1, attention.kv_heads, attention.dim));
  }
  return cache;
}

void CheckLoaded(const LinearState& state, int64_t position) {
  if (state.position() != position) {
    throw Error(fmt::format("it has seen {} tokens, the session {}; the file is damaged",
                            state.position(), position));
  }
  CheckFinite(state.finite());
}

}  // namespace

std::optional<int64_t> LayerAttention::Horizon() const {
  if (softmax || options.kernel.reweighting != Reweighting::kCos || options.endless) return {};
  return options.kernel.horizon;
}

LayerState LayerAttention::NewState() const {
  if (softmax) return SoftmaxCache(CacheConfig(*this));
  if (!turned()) return LinearState(StateConfig(*this, KernelOf(*this), dim));
  TurnedState state{LinearState(StateConfig(*this, TurnedKernel(*this), dim)), {}};
  if (!options.norm) state.normaliser.emplace(StateConfig(*this, TurnedKernel(*this), 1));
  return state;
}

LayerAttention AttentionOf(const ModelConfig& config, size_t layer, bool endless) {
  const SystemConfig& system = config.attention[layer];
  LayerAttention attention;
  attention.heads = config.heads;
  attention.kv_heads = config.kv_heads;
  attention.dim = config.head_dim;
  if (config.positions.kind == PositionKind::kRotary) {
    if (config.head_dim % 2 != 0) {
      throw Error(fmt::format(
          "config: rotary positions turn pairs of dimensions, but a head has {}", config.head_dim));
    }
    attention.rotary_base = config.positions.rotary_base;
  }
  OptionReader options(system.options, "attention " + system.system);
  if (system.system == "softmax") {
    attention.softmax = true;
  } else if (const FeatureSystem* feature = FindFeatureSystem(system.system)) {
    attention.options = ReadFeatureOptions(*feature, config.max_length, options);
    if (attention.options.gate && config.kind != ModelKind::kDecoder) {
      throw Error(fmt::format(
          "config: layer {} has the attention \"{}\", which is causal; a model of kind \"{}\" "
          "attends in both directions",
          layer, system.system, Name(config.kind)));
    }
    const LinearKernel& kernel = attention.options.kernel;
    if (endless && config.kind == ModelKind::kDecoder &&
        config.positions.kind != PositionKind::kLearned &&
        kernel.reweighting == Reweighting::kCos && kernel.horizon >= 2) {
      attention.options.endless = true;
    }
  } else {
    std::vector<std::string_view> known = {"softmax"};
    for (const FeatureSystem& one : FeatureSystems()) known.push_back(one.name);
    throw Error(
        fmt::format("config: layer {} has the attention \"{}\", which the runtime does not have; "
                    "it has {}, and "
                    "other systems run in training and evaluation alone",
                    layer, system.system, fmt::join(known, ", ")));
  }
  options.Done();
  return attention;
}

int64_t PositionOf(const LayerState& state) {
  if (const auto* turned = std::get_if<TurnedState>(&state)) return turned->sums.position();
  if (const auto* cache = std::get_if<SoftmaxCache>(&state)) return cache->position();
  return std::get<LinearState>(state).position();
}

size_t BytesOf(const LayerState& state) {
  if (const auto* turned = std::get_if<TurnedState>(&state)) {
    return turned->sums.bytes() + (turned->normaliser ? turned->normaliser->bytes() : 0);
  }
  if (const auto* cache = std::get_if<SoftmaxCache>(&state)) return cache->bytes();
  return std::get<LinearState>(state).bytes();
}

std::optional<int64_t> HorizonOf(const LayerState& state) {
  if (std::holds_alternative<SoftmaxCache>(state)) return {};
  const auto* turned = std::get_if<TurnedState>(&state);
  const LinearStateConfig& config =
      (turned != nullptr ? turned->sums : std::get<LinearState>(state)).config();
  if (config.endless || config.kernel.reweighting != Reweighting::kCos) return {};
  return config.kernel.horizon;
}

bool Grows(const LayerState& state) { return std::holds_alternative<SoftmaxCache>(state); }

void Save(const LayerState& state, std::ostream& out) {
  if (const auto* linear = std::get_if<LinearState>(&state)) return linear->Save(out);
  if (const auto* turned = std::get_if<TurnedState>(&state)) {
    turned->sums.Save(out);
    if (turned->normaliser) turned->normaliser->Save(out);
    return;
  }
  const auto& cache = std::get<SoftmaxCache>(state);
  const ConstView keys = cache.Keys(), values = cache.Values();
  const auto write = [&](const float* row) {
    out.write(reinterpret_cast<const char*>(row),
              static_cast<std::streamsize>(static_cast<size_t>(keys.dim) * sizeof(float)));
  };
  for (int64_t t = 0; t < cache.position(); ++t) {
    for (ConstView one : {keys, values}) {
      one.data = static_cast<const float*>(one.data) + t * one.length_stride;
      one.length = 1;
      ForEachRow(one, write);
    }
  }
}

LayerState LoadState(const LayerAttention& attention, int64_t position, bool any_end,
                     std::istream& in) {
  if (attention.softmax) return LoadCache(attention, position, in);
  LayerState state = attention.NewState();
  const auto load = [&](LinearState& to, bool either) {
    LinearStateConfig expected = to.config();
    to = LinearState::Load(in);
    if (either) expected.endless = to.config().endless;
    CheckSameConfig(expected, to.config(), "the file's state");
    CheckLoaded(to, position);
  };
  if (auto* turned = std::get_if<TurnedState>(&state)) {
    load(turned->sums, any_end);
    if (turned->normaliser) {
      // Both end where one does.
      LinearStateConfig config = turned->normaliser->config();
      config.endless = turned->sums.config().endless;
      *turned->normaliser = LinearState(config);
      load(*turned->normaliser, false);
    }
  } else {
    load(std::get<LinearState>(state), any_end);
  }
  return state;
}

}  // namespace cosformer::runtime
