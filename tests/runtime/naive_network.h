// The naive twin of the runtime: a model straight from its definition (docs/formats.md and
// docs/attention.md), in double, a loop a sum. No chunks, no states, no fused steps; weights are
// taken by the names that they have in model.safetensors, and decoded here.
#pragma once

#include <bit>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "support.h"

namespace cosformer::runtime::testing {

class NaiveNetwork {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  // endless: as LoadOptions has it.
  explicit NaiveNetwork(const Model& model, bool endless = false)
      : config_(model.network().config()) {
    for (const SystemConfig& system : config_.attention) {
      Layer layer;
      layer.softmax = system.system == "softmax";
      if (!layer.softmax) {
        OptionReader options(system.options, "test");
        layer.options =
            ReadFeatureOptions(*FindFeatureSystem(system.system), config_.max_length, options);
        layer.options.endless |= endless && layer.options.kernel.reweighting == Reweighting::kCos;
      }
      layers_.push_back(layer);
    }
    Parameters parameters = model.network().parameters();
    for (const Slot& slot : SlotsOf(config_, parameters)) {
      tensors_[slot.name] = slot.vector != nullptr
                                ? Rows{Row(slot.vector->begin(), slot.vector->end())}
                                : Decoded(*slot.matrix);
    }
  }

  // What the heads read: [tokens, width].
  Rows Hidden(std::span<const int32_t> tokens) const {
    const bool scaled = config_.positions.kind == PositionKind::kSinusoidal;
    Rows x;
    for (const int32_t token : tokens) {
      x.push_back(Matrix("embeddings.tokens")[static_cast<size_t>(token)]);
      for (double& one : x.back()) one *= scaled ? std::sqrt(Width()) : 1;
    }
    return Stack(x);
  }

  Rows HiddenOfPixels(std::span<const uint8_t> pixels) const {
    const ImageConfig& image = config_.image;
    const int64_t patch = config_.input == InputKind::kPatches ? image.patch : 1;
    Rows x;
    for (int64_t top = 0; top < image.height; top += patch) {
      for (int64_t left = 0; left < image.width; left += patch) {
        Row input;
        for (int64_t i = 0; i < patch * patch * image.channels; ++i) {
          const int64_t across = i / image.channels % patch;
          const int64_t down = i / image.channels / patch;
          const int64_t at =
              ((top + down) * image.width + left + across) * image.channels + i % image.channels;
          input.push_back(pixels[static_cast<size_t>(at)] / 127.5 - 1);
        }
        x.push_back(Product("embeddings.pixel_weight", "embeddings.pixel_bias", input));
      }
    }
    return Stack(x);
  }

  // The queries, keys and values of a layer, as they are projected.
  Rows Projected(std::span<const int32_t> tokens, size_t layer) const {
    NaiveNetwork beginning = *this;
    beginning.layers_.resize(layer + 1);
    Rows projected;
    beginning.projected_ = &projected;
    beginning.Hidden(tokens);
    return projected;
  }

  // [tokens, vocabulary], one after the other.
  std::vector<float> Logits(std::span<const int32_t> tokens) const {
    std::vector<float> logits;
    for (const Row& row : Hidden(tokens)) {
      const Row one = Product(config_.tied_embeddings ? "embeddings.tokens" : "output_weight",
                              "output_bias", row);
      logits.insert(logits.end(), one.begin(), one.end());
    }
    return logits;
  }

  std::vector<float> Scores(const Rows& hidden) const { return Classes(Pooled(hidden)); }

  std::vector<float> Scores(const Rows& first, const Rows& second) const {
    const Row a = Pooled(first), b = Pooled(second);
    Row both = a;
    both.insert(both.end(), b.begin(), b.end());
    for (size_t c = 0; c < a.size(); ++c) both.push_back(a[c] * b[c]);
    for (size_t c = 0; c < a.size(); ++c) both.push_back(a[c] - b[c]);
    Row mixed = Product("mix_weight", "mix_bias", both);
    for (double& x : mixed) x = std::max(x, 0.0);
    return Classes(mixed);
  }

 private:
  struct Layer {
    bool softmax = false;
    FeatureOptions options;  // not of softmax
  };

  static Rows Decoded(const Weights& w) {
    Rows rows(static_cast<size_t>(w.rows), Row(static_cast<size_t>(w.columns)));
    for (int64_t r = 0; r < w.rows; ++r) {
      const auto* bytes =
          static_cast<const uint8_t*>(w.data) + r * WeightRowBytes(w.type, w.columns);
      const float* scales = w.scales + r * WeightRowScales(w.type, w.columns);
      // Floats lie in panels of 16 rows, the numbers of a column side by side.
      const auto float_at = [&](int64_t c) { return (r / 16 * w.columns + c) * 16 + r % 16; };
      for (int64_t c = 0; c < w.columns; ++c) {
        double& to = rows[static_cast<size_t>(r)][static_cast<size_t>(c)];
        switch (w.type) {
          case WeightType::kFloat32:
            to = static_cast<double>(static_cast<const float*>(w.data)[float_at(c)]);
            break;
          case WeightType::kBFloat16:
            to = static_cast<double>(std::bit_cast<float>(
                static_cast<uint32_t>(static_cast<const uint16_t*>(w.data)[float_at(c)]) << 16));
            break;
          case WeightType::kInt8:
            to = static_cast<double>(scales[c / 64]) * static_cast<int8_t>(bytes[c]);
            break;
          case WeightType::kInt4: {
            const uint8_t byte = bytes[c / 32 * 16 + c % 16];
            const int q = c % 32 < 16 ? byte & 15 : byte >> 4;
            to = static_cast<double>(scales[c / 32]) * (q - 8);
            break;
          }
        }
      }
    }
    return rows;
  }

  const Rows& Matrix(const std::string& name) const { return tensors_.at(name); }
  // Null where the model has no such vector.
  const Row* Vector(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second[0];
  }
  double Width() const { return static_cast<double>(config_.width); }

  Row Product(const std::string& weight, const std::string& bias, const Row& x) const {
    const Rows& w = Matrix(weight);
    Row y = Vector(bias) == nullptr ? Row(w.size()) : *Vector(bias);
    for (size_t n = 0; n < y.size(); ++n) {
      y[n] = std::inner_product(x.begin(), x.end(), w[n].begin(), y[n]);
    }
    return y;
  }

  Row Normalised(const std::string& name, Row x) const {
    const double mean =
        config_.norm == NormKind::kRmsNorm ? 0 : std::accumulate(x.begin(), x.end(), 0.0) / Width();
    double squares = 0;
    for (double& one : x) {
      one -= mean;
      squares += one * one;
    }
    const Row* bias = Vector(name + ".bias");
    for (size_t c = 0; c < x.size(); ++c) {
      x[c] = x[c] / std::sqrt(squares / Width() + config_.norm_epsilon) *
                 (*Vector(name + ".weight"))[c] +
             (bias == nullptr ? 0 : (*bias)[c]);
    }
    return x;
  }

  Row FeedForward(const std::string& name, const Row& x) const {
    Row pre = Product(name + "in_weight", name + "in_bias", x);
    const auto hidden = static_cast<size_t>(config_.hidden);
    for (size_t c = 0; c < hidden; ++c) {
      double& one = pre[c];
      switch (config_.activation) {
        case Activation::kRelu:
          one = std::max(one, 0.0);
          break;
        case Activation::kGelu:
          one *= 0.5 * std::erfc(-one / std::numbers::sqrt2);
          break;
        case Activation::kSwiglu:
          one = one / (1 + std::exp(-one)) * pre[hidden + c];
          break;
      }
    }
    pre.resize(hidden);
    return Product(name + "out_weight", name + "out_bias", pre);
  }

  // Part `part` (a head) of a row.
  Row Head(const Row& row, int64_t part) const {
    const auto begin = row.begin() + part * config_.head_dim;
    return {begin, begin + config_.head_dim};
  }

  Row Turned(const Row& x, size_t position) const {
    Row y = x;
    const size_t half = x.size() / 2;
    for (size_t c = 0; c < half; ++c) {
      const double angle = static_cast<double>(position) *
                           std::pow(config_.positions.rotary_base,
                                    -2 * static_cast<double>(c) / static_cast<double>(x.size()));
      y[c] = x[c] * std::cos(angle) - x[c + half] * std::sin(angle);
      y[c + half] = x[c + half] * std::cos(angle) + x[c] * std::sin(angle);
    }
    return y;
  }

  static Row Features(Row x, const LinearKernel& kernel) {
    for (double& one : x) {
      switch (kernel.feature_map) {
        case FeatureMap::kRelu:
          one = std::max(one, 0.0);
          break;
        case FeatureMap::kLeakyRelu:
          one *= one > 0 ? 1 : static_cast<double>(kernel.leaky_slope);
          break;
        case FeatureMap::kEluPlusOne:
          one = one > 0 ? one + 1 : std::exp(one);
          break;
        case FeatureMap::kIdentity:
        case FeatureMap::kGiven:
          break;
      }
    }
    return x;
  }

  static double Dot(const Row& a, const Row& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }

  // One head of query i over the keys that it sees. qkv: rows of queries, keys, values; keep: rows
  // of what each head keeps, with a gate.
  Row Attended(const Layer& layer, const Rows& qkv, const Rows& keep, size_t i,
               int64_t head) const {
    const int64_t shared = config_.heads + head * config_.kv_heads / config_.heads;
    const bool rotary = config_.positions.kind == PositionKind::kRotary;
    const LinearKernel& kernel = layer.options.kernel;
    size_t begin = 0, end = config_.kind == ModelKind::kDecoder ? i + 1 : qkv.size();
    if (layer.options.endless) {
      const auto half = static_cast<size_t>(kernel.horizon / 2);
      begin = i / half > 0 ? (i / half - 1) * half : 0;
    }
    const auto mapped = [&](const Row& row, int64_t part) {
      return layer.softmax ? Head(row, part) : Features(Head(row, part), kernel);
    };
    const Row q = mapped(qkv[i], head);
    Row o(q.size());
    double normaliser = 0;
    for (size_t j = begin; j < end; ++j) {
      const Row k = mapped(qkv[j], shared);
      const double dot = rotary ? Dot(Turned(q, i), Turned(k, j)) : Dot(q, k);
      double weight = dot, part = Dot(q, k);
      if (layer.softmax) {
        weight = part = std::exp(dot / std::sqrt(static_cast<double>(q.size())));
      } else if (kernel.reweighting == Reweighting::kCos) {
        const double distance = static_cast<double>(i) - static_cast<double>(j);
        const double cosine =
            std::cos(std::numbers::pi / 2 * distance / static_cast<double>(kernel.horizon));
        weight *= cosine;
        part *= cosine;
      }
      for (size_t t = j + 1; t <= i && !keep.empty(); ++t) {
        const double g = keep[t][static_cast<size_t>(shared - config_.heads)];
        weight *= g;
        part *= g;
      }
      normaliser += part;
      const Row v = Head(qkv[j], shared + config_.kv_heads);
      for (size_t c = 0; c < o.size(); ++c) o[c] += weight * v[c];
    }
    const auto epsilon = static_cast<double>(kernel.epsilon);
    if (!layer.softmax && std::abs(normaliser) < epsilon) {
      normaliser = normaliser < 0 ? -epsilon : epsilon;
    }
    if (layer.options.norm) {
      normaliser = std::sqrt(Dot(o, o) / static_cast<double>(o.size()) +
                             static_cast<double>(kHeadNormEpsilon));
    }
    for (double& one : o) one /= normaliser;
    return o;
  }

  Rows Attention(size_t layer, const std::string& name, const Rows& x) const {
    Rows qkv, keep, out;
    for (const Row& row : x) {
      qkv.push_back(Product(name + "in_weight", name + "in_bias", row));
      if (!layers_[layer].options.gate) continue;
      keep.push_back(Product(name + "system.gate_weight", name + "system.gate_bias", row));
      for (double& one : keep.back()) one = 1 / (1 + std::exp(-one));
    }
    if (projected_ != nullptr) *projected_ = qkv;
    const Row* gain = Vector(name + "system.gain");
    for (size_t i = 0; i < x.size(); ++i) {
      Row all;
      for (int64_t head = 0; head < config_.heads; ++head) {
        const Row one = Attended(layers_[layer], qkv, keep, i, head);
        all.insert(all.end(), one.begin(), one.end());
      }
      for (size_t c = 0; gain != nullptr && c < all.size(); ++c) all[c] *= (*gain)[c];
      out.push_back(Product(name + "out_weight", name + "out_bias", all));
    }
    return out;
  }

  void AddPositions(Rows& x) const {
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t c = 0; c < x[t].size(); ++c) {
        if (config_.positions.kind == PositionKind::kLearned) {
          x[t][c] += Matrix("embeddings.positions")[t][c];
        } else if (config_.positions.kind == PositionKind::kSinusoidal) {
          const double angle =
              static_cast<double>(t) / std::pow(10000.0, static_cast<double>(c / 2 * 2) / Width());
          x[t][c] += c % 2 == 0 ? std::sin(angle) : std::cos(angle);
        }
      }
    }
  }

  Rows Stack(Rows x) const {
    AddPositions(x);
    const std::string stack = config_.kind == ModelKind::kDecoder ? "decoder." : "encoder.";
    const bool pre = config_.norm_place == NormPlace::kPre;
    // x + f(norm(x)), or norm(x + f(x)).
    const auto residual = [&](const std::string& norm, const auto& sublayer) {
      Rows input = x;
      for (size_t t = 0; pre && t < x.size(); ++t) input[t] = Normalised(norm, input[t]);
      const Rows branch = sublayer(input);
      for (size_t t = 0; t < x.size(); ++t) {
        for (size_t c = 0; c < x[t].size(); ++c) x[t][c] += branch[t][c];
        if (!pre) x[t] = Normalised(norm, x[t]);
      }
    };
    for (size_t i = 0; i < layers_.size(); ++i) {
      const std::string name = stack + "layers." + std::to_string(i) + ".";
      residual(name + "attention_norm",
               [&](const Rows& input) { return Attention(i, name + "attention.", input); });
      residual(name + "feed_forward_norm", [&](const Rows& input) {
        Rows rows;
        for (const Row& row : input) rows.push_back(FeedForward(name + "feed_forward.", row));
        return rows;
      });
    }
    for (size_t t = 0; pre && t < x.size(); ++t) x[t] = Normalised(stack + "norm", x[t]);
    return x;
  }

  Row Pooled(const Rows& hidden) const {
    if (config_.pool == Pool::kFirst) return hidden.front();
    if (config_.pool == Pool::kLast) return hidden.back();
    Row mean(hidden[0].size());
    for (const Row& row : hidden) {
      for (size_t c = 0; c < row.size(); ++c) {
        mean[c] += row[c] / static_cast<double>(hidden.size());
      }
    }
    return mean;
  }

  std::vector<float> Classes(const Row& pooled) const {
    const Row scores = Product("classes_weight", "classes_bias", pooled);
    return {scores.begin(), scores.end()};
  }

  ModelConfig config_;
  std::vector<Layer> layers_;
  std::map<std::string, Rows> tensors_;
  Rows* projected_ = nullptr;  // where to leave those of the last layer
};

}  // namespace cosformer::runtime::testing
