#include "bench/generate_work.h"

namespace cosformer::bench {
namespace {

using runtime::Network;

double LayerWeights(const Network& network) {
  double count = 0;
  for (const runtime::LayerParameters& layer : network.parameters().layers) {
    for (const Weights* w : {&layer.in, &layer.out, &layer.hidden, &layer.back}) {
      count += static_cast<double>(w->rows) * static_cast<double>(w->columns);
    }
  }
  return count;
}

const Weights& HeadOf(const Network& network) {
  return network.config().tied_embeddings ? network.parameters().tokens
                                          : network.parameters().output;
}

// Of one token of one session with `context` behind it: the states' part in it.
GenerateWork AttentionWork(const Network& network, double context) {
  GenerateWork work;
  for (const runtime::LayerAttention& layer : network.attention()) {
    const double square = static_cast<double>(layer.dim) * static_cast<double>(layer.dim);
    const auto heads = static_cast<double>(layer.heads), kv = static_cast<double>(layer.kv_heads);
    if (layer.softmax) {
      work.operations += 4 * static_cast<double>(layer.dim) * heads * context;
      work.bytes += 2 * 4 * static_cast<double>(layer.dim) * kv * context;
      continue;
    }
    const double states = layer.options.kernel.reweighting == Reweighting::kCos ? 2 : 1;
    work.operations += states * 2 * square * (heads + kv);
    // Rows are read where the feature of the key or of the query is not zero, and written where
    // that of the key is not. Of ReLU's, every second is zero in a random model; of pairs that
    // rotary positions turn, every fourth. A gate changes all rows.
    const bool spares =
        layer.options.kernel.feature_map == FeatureMap::kRelu && !layer.options.gate;
    const double zeros = !spares ? 0 : layer.turned() ? 0.25 : 0.5;
    const double passes = (1 - zeros * zeros) + (1 - zeros);
    work.bytes += states * passes * 4 * (square + static_cast<double>(layer.dim)) * kv;
  }
  return work;
}

double WeightBytes(const Network& network) {
  double bytes = static_cast<double>(HeadOf(network).bytes());
  for (const runtime::LayerParameters& layer : network.parameters().layers) {
    for (const Weights* w : {&layer.in, &layer.out, &layer.hidden, &layer.back}) {
      bytes += static_cast<double>(w->bytes());
    }
  }
  return bytes;
}

}  // namespace

GenerateWork PrefillWork(const Network& network, int64_t tokens) {
  const GenerateWork attention = AttentionWork(network, static_cast<double>(tokens) / 2);
  return {(2 * LayerWeights(network) + attention.operations) * static_cast<double>(tokens),
          WeightBytes(network)};
}

GenerateWork StepWork(const Network& network, int64_t context, int64_t batch) {
  const GenerateWork attention = AttentionWork(network, static_cast<double>(context));
  const Weights& head = HeadOf(network);
  const double weights =
      LayerWeights(network) + static_cast<double>(head.rows) * static_cast<double>(head.columns);
  return {(2 * weights + attention.operations) * static_cast<double>(batch),
          WeightBytes(network) + attention.bytes * static_cast<double>(batch)};
}

std::vector<Bytes> WeightMemory(const Network& network) {
  std::vector<Bytes> pieces;
  const auto add = [&](const Weights& w) {
    pieces.emplace_back(static_cast<const uint8_t*>(w.data), static_cast<size_t>(w.data_bytes()));
  };
  for (const runtime::LayerParameters& layer : network.parameters().layers) {
    for (const Weights* w : {&layer.in, &layer.out, &layer.hidden, &layer.back}) add(*w);
  }
  add(HeadOf(network));
  return pieces;
}

}  // namespace cosformer::bench
