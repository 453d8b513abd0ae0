// Attention whose cost grows linearly with the length, exactly: cosFormer and its relatives, with
// gradients and a streaming state, and beside them the softmax attention that they replace.
//
// Letters used throughout, as in the paper (Qin et al., ICLR 2022):
//   q, k, v, o   queries, keys, values, outputs
//   phi          the feature map, applied to every element of q and k
//   M            the horizon: the re-weighting is cos(pi/2 * (i - j) / M)
//   s(i, j)      phi(q_i) . phi(k_j) * cos(pi/2 * (i - j) / M), the weight before normalisation
//   o_i          sum_j s(i, j) v_j / sum_j s(i, j)
//   g            what a token keeps of all before it, where there is forgetting: s(i, j) is then
//   also
//                multiplied by g_(j+1) g_(j+2) ... g_i
//
// Contracts that hold for every function here:
//   - Bad input throws cosformer::Error, before anything is written.
//   - Outputs are written whole: rows that are padding become zero. They need no initial value, and
//     must not overlap the inputs or each other.
//   - Results do not depend on the number of threads, to the bit. They may differ in rounding from
//     one instruction set to another.
//   - NaN and infinity in one sequence or head do not reach another.
//   - Sums are taken in float32, also for bfloat16 inputs.
//   - Functions are safe to call from several threads at once on different outputs and states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <new>
#include <span>
#include <vector>

#include "cosformer/error.h"

namespace cosformer {

enum class DType : uint8_t { kFloat32, kBFloat16 };

// The upper half of a float32. Storage only; arithmetic is done in float32.
struct BFloat16 {
  uint16_t bits = 0;
};

// A strided view of a tensor [batch, length, heads, dim]. It owns nothing. Strides count elements;
// those of batch, length and heads may be anything, the elements of one row (dim) are adjacent.
template <class Void>
struct BasicView {
  Void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t batch = 0;
  int64_t length = 0;
  int64_t heads = 0;
  int64_t dim = 0;
  int64_t batch_stride = 0;
  int64_t length_stride = 0;
  int64_t head_stride = 0;
};

struct View : BasicView<void> {
  // Views of a dense array in the order [batch, length, heads, dim].
  static View Of(float* data, int64_t batch, int64_t length, int64_t heads, int64_t dim);
  static View Of(BFloat16* data, int64_t batch, int64_t length, int64_t heads, int64_t dim);
};

struct ConstView : BasicView<const void> {
  ConstView() = default;
  ConstView(const View& view);  // NOLINT(google-explicit-constructor): as T* becomes const T*
  static ConstView Of(const float* data, int64_t batch, int64_t length, int64_t heads, int64_t dim);
  static ConstView Of(const BFloat16* data, int64_t batch, int64_t length, int64_t heads,
                      int64_t dim);
};

// Which rows of a batch are sequences. Everything empty: each batch entry is one whole sequence.
// Either lengths or offsets may be given, not both; where only the query side is given, it holds
// for the keys too, which then must have the same shape.
struct Sequences {
  // Padding: entry b uses the first lengths[b] rows; the rest of its outputs and gradients is zero.
  std::span<const int64_t> query_lengths;  // [batch]
  std::span<const int64_t> key_lengths;    // [batch]
  // Packing: batch is 1, and sequence s has the rows offsets[s] to offsets[s + 1] - 1. Offsets do
  // not decrease; rows outside all sequences are padding.
  std::span<const int64_t> query_offsets;  // [sequences + 1]
  std::span<const int64_t> key_offsets;    // [sequences + 1]
};

enum class FeatureMap : uint8_t {
  kRelu,        // max(x, 0): cosFormer
  kLeakyRelu,   // x, or leaky_slope * x below zero
  kIdentity,    // x
  kEluPlusOne,  // 1 + x, or exp(x) below zero: the Linear Transformer
  kGiven,       // x is a feature already, and not negative (the caller's contract; not checked)
};

enum class Reweighting : uint8_t { kCos, kNone };

enum class Normaliser : uint8_t {
  kSum,   // o_i = sum_j s(i, j) v_j / sum_j s(i, j)
  kNone,  // o_i = sum_j s(i, j) v_j: for those who normalise otherwise, or not at all
};

// What both the one-call form and the streaming form of linear attention are told.
struct LinearKernel {
  FeatureMap feature_map = FeatureMap::kRelu;
  float leaky_slope = 0.01f;
  Reweighting reweighting = Reweighting::kCos;
  // M, in tokens. With kCos it must be at least every sequence's length; it is part of the model,
  // not of the call, so that a prefix of a text gives the same outputs as the text. Unused by
  // kNone.
  int64_t horizon = 0;
  Normaliser normaliser = Normaliser::kSum;
  // The normaliser is sum_j s(i, j), moved away from zero to +-epsilon where it is closer to it.
  // A query whose features are all zero therefore attends to nothing and yields zeros.
  float epsilon = 1e-6f;
};

struct LinearOptions {
  LinearKernel kernel;
  // Causal: query i of a sequence attends to the keys up to its own position. With fewer queries
  // than keys (a cached prefix) the last query and the last key are at the same position.
  // Otherwise every query attends to every key, and both count their positions from 0.
  bool causal = true;
  Sequences sequences;
  int threads = 0;  // 0: as many as OpenMP would use
  // Forgetting, in causal attention: g of every key and key/value head, dense as [batch, m,
  // kv_heads], each from 0 to 1 (the caller's contract; not checked). Empty: nothing is forgotten.
  std::span<const float> keep;
};

// o = attention(q, k, v).
//   q [batch, n, heads, dim]     k [batch, m, kv_heads, dim]     v [batch, m, kv_heads, value_dim]
//   o [batch, n, heads, value_dim]
// heads is a multiple of kv_heads; query heads g * heads / kv_heads up to the next share key/value
// head g. q, k and v have one dtype; o has any.
// normaliser: empty, or batch * n * heads floats that receive sum_j s(i, j) as [batch, n, heads]
// (zero for padding); the backward pass needs them, and nothing else, beyond inputs and outputs.
// With Normaliser::kNone there are none: it stays empty, in both passes.
// Extra memory: for each thread some chunks and the states of the heads that it runs in step, up to
// 0.5 MiB; where one sequence is split over threads, at least 32 states. It does not grow with n.
void LinearAttentionForward(const ConstView& q, const ConstView& k, const ConstView& v,
                            const View& o, std::span<float> normaliser,
                            const LinearOptions& options);

// Gradients of the forward pass with the same arguments. o and normaliser are what it returned,
// d_o [as o] is the gradient of the loss with respect to o; dq, dk, dv [as q, k, v] are written.
// Where the normaliser was moved to epsilon it is a constant.
// d_log_keep: empty, or as many floats as options.keep, which receive the gradient with respect to
// log g, g times that with respect to g: it exists where g is 0 too. dk is then float32. It is the
// sum of what all later tokens give, and so no more exact than the largest of them.
// Extra memory: as the forward pass, and two floats a query and head; with forgetting one more a
// key.
void LinearAttentionBackward(const ConstView& q, const ConstView& k, const ConstView& v,
                             const ConstView& o, std::span<const float> normaliser,
                             const ConstView& d_o, const View& dq, const View& dk, const View& dv,
                             const LinearOptions& options, std::span<float> d_log_keep = {});

struct SoftmaxOptions {
  bool causal = true;
  float scale = 0;  // of the scores; 0: 1 / sqrt(dim)
  Sequences sequences;
  int threads = 0;
};

// o_i = sum_j softmax_j(scale * q_i . k_j) v_j, blockwise with online normalisation. Shapes, heads,
// dtypes and alignment as LinearAttentionForward; a query without keys yields zeros.
// log_sum_exp: empty, or batch * n * heads floats that receive log sum_j exp(scale * q_i . k_j) as
// [batch, n, heads] (-infinity without keys, zero for padding); the backward pass needs them.
void SoftmaxAttentionForward(const ConstView& q, const ConstView& k, const ConstView& v,
                             const View& o, std::span<float> log_sum_exp,
                             const SoftmaxOptions& options);

void SoftmaxAttentionBackward(const ConstView& q, const ConstView& k, const ConstView& v,
                              const ConstView& o, std::span<const float> log_sum_exp,
                              const ConstView& d_o, const View& dq, const View& dk, const View& dv,
                              const SoftmaxOptions& options);

// Storage on cache lines, so that no vector load straddles two.
template <class T>
struct CacheAligned {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};
  CacheAligned() = default;
  template <class U>
  CacheAligned(const CacheAligned<U>&) {}  // NOLINT(google-explicit-constructor): an allocator
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, size_t) { ::operator delete(p, kAlignment); }
  bool operator==(const CacheAligned&) const = default;
};
using AlignedFloats = std::vector<float, CacheAligned<float>>;

struct LinearStateConfig {
  int64_t batch = 1;
  int64_t heads = 1;  // key/value heads: queries may come with any multiple
  int64_t dim = 0;
  int64_t value_dim = 0;
  LinearKernel kernel;
  // Past the horizon, keep two states started half a horizon apart and drop the older when it
  // reaches M: the last M/2 to M tokens are attended exactly, for ever. Without it, a token past
  // the horizon is an error. kCos only.
  bool endless = false;
  bool forgets = false;  // tokens come with what they keep of those before
};

// What linear attention remembers of the tokens it has seen, in memory that does not grow with
// them. A plain value: copy it to fork a stream.
//
// A stream cut anywhere gives the outputs of LinearAttentionForward (causal) on the whole, up to
// rounding.
class LinearState {
 public:
  explicit LinearState(const LinearStateConfig& config);

  const LinearStateConfig& config() const { return config_; }
  // Tokens absorbed so far; the next one has this position.
  int64_t position() const { return position_; }
  // Of the numbers held, in memory.
  size_t bytes() const { return (first_.size() + second_.size()) * sizeof(float); }
  // Whether all of them are finite. They are not after tokens that were not, or whose sums are too
  // large for float32; what is read from them afterwards need not be a number.
  bool finite() const;

  // Takes in the next n tokens: k [batch, n, heads, dim], v [batch, n, heads, value_dim]; where the
  // state forgets, `keep` has g as [batch, n, heads], as LinearOptions::keep.
  void Absorb(const ConstView& k, const ConstView& v, int threads = 0,
              std::span<const float> keep = {});

  // Attends from q [batch, n, query_heads, dim] to all tokens absorbed; row r of q stands at
  // `position + r`. o [batch, n, query_heads, value_dim]. This is what a cross attention does with
  // an absorbed source. Positions lie between the oldest token remembered and its horizon. Not for
  // states that forget: what their tokens weigh depends on those that come after.
  void Attend(const ConstView& q, const View& o, int64_t position, int threads = 0) const;

  // Absorbs n tokens and attends from each of them causally: a chunk of a prompt, or with n = 1 a
  // decoding step.
  void Step(const ConstView& q, const ConstView& k, const ConstView& v, const View& o,
            int threads = 0, std::span<const float> keep = {});

  // Appends the tokens of `next`, which stood at positions 0, 1, ... there and follow this state's
  // tokens here: turned by the angle of this state's length, then added. Not for states that are
  // endless or forget.
  void Merge(const LinearState& next);

  // Forgets all tokens.
  void Reset();

  // A versioned header, the configuration, the numbers and a checksum; little-endian.
  void Save(std::ostream& out) const;
  // Reads what Save wrote; anything cut, altered or of a later version is an Error.
  static LinearState Load(std::istream& in);
  // As above, and an Error that names the first field in which the state differs from `expected`.
  static LinearState Load(std::istream& in, const LinearStateConfig& expected);

 private:
  struct Reach;  // which of the two spans absorb and which are read, until the next turnover
  Reach NextReach() const;
  void Turnover();
  void CheckRoom(int64_t tokens) const;
  void CheckKeep(std::span<const float> keep, const ConstView& k) const;
  // Tokens on their way in. q and o may be null: then nothing is read.
  struct Tokens;
  void Take(const Tokens& tokens, int threads);
  void TakeToken(const Tokens& tokens, const Reach& reach, int64_t row, int threads);
  void TakeChunk(const Tokens& tokens, const Reach& reach, int64_t begin, int64_t count,
                 int threads);

  LinearStateConfig config_;
  int64_t position_ = 0;
  // Endless: the older and the younger state, which began at first_begin_ and second_begin_.
  // Forgetting, but not endless: second_ alone. Otherwise both begin at 0: first_ sums the distant
  // tokens (empty while there are none), second_ the latest, so that no sum grows so long that
  // rounding swallows what is added to it.
  int64_t first_begin_ = 0;
  int64_t second_begin_ = 0;
  AlignedFloats first_;   // [batch, heads, state]
  AlignedFloats second_;  // [batch, heads, state]
};

struct SoftmaxCacheConfig {
  int64_t batch = 1;
  int64_t heads = 1;  // key/value heads
  int64_t dim = 0;
  int64_t value_dim = 0;
  DType dtype = DType::kFloat32;
};

// The keys and values of a softmax layer's past: what LinearState replaces. It grows with the text.
class SoftmaxCache {
 public:
  explicit SoftmaxCache(const SoftmaxCacheConfig& config);

  const SoftmaxCacheConfig& config() const { return config_; }
  int64_t position() const { return position_; }
  size_t bytes() const { return keys_.size() + values_.size(); }

  // Appends n tokens: k [batch, n, heads, dim], v [batch, n, heads, value_dim], of the cache's
  // dtype.
  void Append(const ConstView& k, const ConstView& v);

  // Appends n tokens and attends from each of them causally.
  void Step(const ConstView& q, const ConstView& k, const ConstView& v, const View& o,
            const SoftmaxOptions& options = {});

  // Forgets the tokens from `position` on.
  void Truncate(int64_t position);

  ConstView Keys() const;    // [batch, position, heads, dim]
  ConstView Values() const;  // [batch, position, heads, value_dim]

 private:
  void CheckTokens(const ConstView& k, const ConstView& v) const;
  void Reserve(int64_t tokens);

  SoftmaxCacheConfig config_;
  int64_t position_ = 0;
  int64_t capacity_ = 0;  // tokens
  std::vector<std::byte, CacheAligned<std::byte>> keys_;
  std::vector<std::byte, CacheAligned<std::byte>> values_;
};

// The instruction set that the operator runs on here, as Highway names it: "AVX3_DL", "AVX2", ...
const char* AttentionTarget();

}  // namespace cosformer
