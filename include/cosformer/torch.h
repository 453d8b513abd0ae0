// cosFormer's attention, and every system that it is measured against, for libtorch: the operators
// as differentiable functions of tensors, and one module that is any of the systems by name.
//
//   struct Block : torch::nn::Module {
//     cosformer::Attention attention = register_module(
//         "attention", cosformer::Attention({.system = "cosformer", .width = 512, .heads = 8}));
//     torch::Tensor forward(torch::Tensor x) { return x + attention->forward(x); }
//   };
//
// All tensors are on the CPU; the operators take float32 and bfloat16, the systems float32. What is
// asked of a system that it cannot do throws cosformer::Error with a sentence that names those that
// can. Threads are those of torch: call at::set_num_threads, since some builds start with one.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cosformer/attention.h"

namespace cosformer {

// o = attention(q, k, v) of cosformer/attention.h, with gradients.
//   q [batch, n, heads, dim]     k [batch, m, kv_heads, dim]     v [batch, m, kv_heads, value_dim]
// Differentiable once. Any strides will do as long as the last is 1; others are copied.
// options.threads = 0 means torch's. log_keep [batch, m, kv_heads], float32 and not above 0: the
// logarithm of what each key keeps of those before it, with gradients, in place of options.keep.
torch::Tensor LinearAttention(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const LinearOptions& options,
                              const torch::Tensor& log_keep = {});
torch::Tensor SoftmaxAttention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const SoftmaxOptions& options);

// Which rows of a batch are sequences: Sequences that owns its numbers. All empty: every batch
// entry is one whole sequence. In self attention the query side says all; in cross attention a side
// without lengths is whole, and offsets come for both.
struct Layout {
  std::vector<int64_t> query_lengths, key_lengths;  // padding: [batch]
  std::vector<int64_t> query_offsets, key_offsets;  // packing: [sequences + 1], batch 1

  static Layout Padded(std::vector<int64_t> lengths) { return {std::move(lengths), {}, {}, {}}; }
  static Layout Packed(std::vector<int64_t> offsets) { return {{}, {}, std::move(offsets), {}}; }

  bool padded() const { return !query_lengths.empty() || !key_lengths.empty(); }
  bool packed() const { return !query_offsets.empty() || !key_offsets.empty(); }
  Sequences View() const { return {query_lengths, key_lengths, query_offsets, key_offsets}; }
};

enum class Direction : uint8_t { kCausal, kBidirectional, kCross };

// What a system can do.
struct Abilities {
  bool causal = false;
  bool bidirectional = false;
  bool cross = false;
  bool streaming = false;  // token by token, with what it remembers passed along; causal
  bool padding = false;    // sequences of different lengths in one batch
  bool packing = false;    // sequences one after the other in one row
};

struct SystemDescription {
  std::string name;
  std::string summary;  // one line
  Abilities abilities;
};

// Every system, in the order of the documentation.
std::vector<SystemDescription> AttentionSystems();

struct AttentionConfig {
  std::string system = "cosformer";
  std::string options = "{}";  // of the system, as JSON: R"({"horizon": 4096})"
  Direction direction = Direction::kCausal;
  int64_t width = 512;
  int64_t heads = 8;
  int64_t kv_heads = 0;  // 0: as heads
  int64_t head_dim = 0;  // 0: width / heads
  // The longest sequence, of queries or keys. The horizon of cosFormer, unless its options name
  // one.
  int64_t max_length = 1024;
  bool bias = true;
  // "none", "rotary", "spe-sine", "spe-conv": positions that act inside the attention, with their
  // options as JSON. Those that are added to the input (learned, sinusoidal) are the model's.
  std::string positions = "none";
  std::string position_options = "{}";
};

// What a system remembers of a stream.
class AttentionStream {
 public:
  virtual ~AttentionStream() = default;
  virtual int64_t position() const = 0;  // tokens seen
  virtual size_t bytes() const = 0;      // held now
};

namespace zoo {
class System;
class Positions;
struct Inputs;
}  // namespace zoo

// Multi-head attention: projections, the system between them, and the projection back.
class AttentionImpl : public torch::nn::Module {
 public:
  explicit AttentionImpl(const AttentionConfig& config);
  ~AttentionImpl() override;

  // x [batch, length, width] -> the same.
  torch::Tensor forward(const torch::Tensor& x, const Layout& layout = {});
  // Cross attention: from x [batch, n, width] to memory [batch, m, width]. In a stream, row 0 of x
  // stands at `position`; then there are no gradients.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& memory,
                        const Layout& layout = {}, int64_t position = 0);

  // Streaming: x holds the next tokens, [batch, n, width]; no gradients.
  std::unique_ptr<AttentionStream> NewStream(int64_t batch) const;
  torch::Tensor Step(const torch::Tensor& x, AttentionStream& stream);

  const AttentionConfig& config() const { return config_; }

 private:
  zoo::Inputs Prepare(const torch::Tensor& x, const torch::Tensor& memory, const Layout& layout,
                      int64_t position) const;
  torch::Tensor Run(const torch::Tensor& x, const torch::Tensor& memory, const Layout& layout,
                    int64_t position);
  torch::Tensor Finish(const torch::Tensor& o) const;
  void RequireSteady() const;

  AttentionConfig config_;
  std::shared_ptr<zoo::System> system_;
  std::shared_ptr<zoo::Positions> positions_;
  torch::Tensor in_weight_, in_bias_;  // of queries, keys and values: those that the system has
  torch::Tensor out_weight_, out_bias_;
};
// A holder like torch's own, that also takes a config as written: Attention({.width = 256}).
class Attention : public torch::nn::ModuleHolder<AttentionImpl> {
 public:
  using torch::nn::ModuleHolder<AttentionImpl>::ModuleHolder;
  Attention(const AttentionConfig& config)  // NOLINT(google-explicit-constructor): as the others
      : ModuleHolder(std::make_shared<AttentionImpl>(config)) {}
};

}  // namespace cosformer
