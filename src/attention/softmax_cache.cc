#include <algorithm>
#include <cstring>

#include "attention/checks.h"
#include "cosformer/attention.h"

namespace cosformer {
namespace {

size_t SizeOf(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

// A view of the first `length` tokens of a store laid out [batch, heads, capacity, dim]: the keys
// of one head follow each other, as decoding reads them.
View StoreView(const std::byte* data, const SoftmaxCacheConfig& config, int64_t dim,
               int64_t capacity, int64_t length) {
  View view;
  view.data = const_cast<std::byte*>(data);
  view.dtype = config.dtype;
  view.batch = config.batch;
  view.length = length;
  view.heads = config.heads;
  view.dim = dim;
  view.batch_stride = config.heads * capacity * dim;
  view.length_stride = dim;
  view.head_stride = capacity * dim;
  return view;
}

// Copies all rows of `from` to the rows of `to` from `position` on.
void CopyRows(const ConstView& from, const View& to, int64_t position) {
  const size_t bytes = static_cast<size_t>(from.dim) * SizeOf(from.dtype);
  for (int64_t b = 0; b < from.batch; ++b) {
    for (int64_t h = 0; h < from.heads; ++h) {
      for (int64_t i = 0; i < from.length; ++i) {
        std::memcpy(RowAt(to, b, position + i, h), RowAt(from, b, i, h), bytes);
      }
    }
  }
}

}  // namespace

SoftmaxCache::SoftmaxCache(const SoftmaxCacheConfig& config) : config_(config) {
  if (config.batch < 1 || config.heads < 1 || config.dim < 1 || config.value_dim < 1) {
    Fail("attention: a cache needs batch, heads, dim and value_dim of at least 1, not ",
         config.batch, ", ", config.heads, ", ", config.dim, " and ", config.value_dim);
  }
}

void SoftmaxCache::Reserve(int64_t tokens) {
  if (tokens <= capacity_) return;
  const int64_t capacity = std::max({tokens, 2 * capacity_, int64_t{64}});
  const auto grow = [&](auto& store, int64_t dim) {
    std::remove_reference_t<decltype(store)> larger(
        static_cast<size_t>(config_.batch * config_.heads * capacity * dim) *
        SizeOf(config_.dtype));
    CopyRows(StoreView(store.data(), config_, dim, capacity_, position_),
             StoreView(larger.data(), config_, dim, capacity, position_), 0);
    return larger;
  };
  auto keys = grow(keys_, config_.dim);
  auto values = grow(values_, config_.value_dim);
  keys_ = std::move(keys);
  values_ = std::move(values);
  capacity_ = capacity;
}

void SoftmaxCache::CheckTokens(const ConstView& k, const ConstView& v) const {
  CheckView("k", k);
  CheckView("v", v);
  const ConstView keys = Keys();
  const ConstView values = Values();
  if (k.batch != keys.batch || k.heads != keys.heads || k.dim != keys.dim || v.batch != k.batch ||
      v.heads != k.heads || v.dim != values.dim || v.length != k.length) {
    Fail("attention: k has the shape ", ShapeOf(k), " and v ", ShapeOf(v),
         ", but the cache has batch ", config_.batch, ", heads ", config_.heads, ", dim ",
         config_.dim, " and value_dim ", config_.value_dim);
  }
  if (k.dtype != config_.dtype || v.dtype != config_.dtype) {
    Fail("attention: k and v must have the dtype of the cache");
  }
}

void SoftmaxCache::Append(const ConstView& k, const ConstView& v) {
  CheckTokens(k, v);
  Reserve(position_ + k.length);
  CopyRows(k, StoreView(keys_.data(), config_, config_.dim, capacity_, capacity_), position_);
  CopyRows(v, StoreView(values_.data(), config_, config_.value_dim, capacity_, capacity_),
           position_);
  position_ += k.length;
}

void SoftmaxCache::Step(const ConstView& q, const ConstView& k, const ConstView& v, const View& o,
                        const SoftmaxOptions& options) {
  CheckAttention(q, k, v, o);
  CheckTokens(k, v);
  CheckThreads(options.threads);
  CheckScale(options.scale);
  if (q.length != k.length) {
    Fail("attention: a step needs a query for each key, but q has length ", q.length,
         " and k has length ", k.length);
  }
  if (!options.causal) Fail("attention: a cache is causal; options.causal must be true");
  if (!options.sequences.query_lengths.empty() || !options.sequences.key_lengths.empty() ||
      !options.sequences.query_offsets.empty() || !options.sequences.key_offsets.empty()) {
    Fail("attention: a cache holds whole sequences; options.sequences must be empty");
  }
  Append(k, v);
  SoftmaxAttentionForward(q, Keys(), Values(), o, {}, options);
}

void SoftmaxCache::Truncate(int64_t position) {
  if (position < 0 || position > position_) {
    Fail("attention: cannot truncate a cache of ", position_, " tokens to ", position);
  }
  position_ = position;
}

ConstView SoftmaxCache::Keys() const {
  return StoreView(keys_.data(), config_, config_.dim, capacity_, position_);
}

ConstView SoftmaxCache::Values() const {
  return StoreView(values_.data(), config_, config_.value_dim, capacity_, position_);
}

}  // namespace cosformer
