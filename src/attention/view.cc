#include "cosformer/attention.h"

namespace cosformer {
namespace {

template <class V, class Data>
V Dense(Data data, DType dtype, int64_t batch, int64_t length, int64_t heads, int64_t dim) {
  V view;
  view.data = data;
  view.dtype = dtype;
  view.batch = batch;
  view.length = length;
  view.heads = heads;
  view.dim = dim;
  view.batch_stride = length * heads * dim;
  view.length_stride = heads * dim;
  view.head_stride = dim;
  return view;
}

}  // namespace

View View::Of(float* data, int64_t batch, int64_t length, int64_t heads, int64_t dim) {
  return Dense<View>(data, DType::kFloat32, batch, length, heads, dim);
}

View View::Of(BFloat16* data, int64_t batch, int64_t length, int64_t heads, int64_t dim) {
  return Dense<View>(data, DType::kBFloat16, batch, length, heads, dim);
}

ConstView::ConstView(const View& view)
    : BasicView<const void>{view.data,         view.dtype,         view.batch,
                            view.length,       view.heads,         view.dim,
                            view.batch_stride, view.length_stride, view.head_stride} {}

ConstView ConstView::Of(const float* data, int64_t batch, int64_t length, int64_t heads,
                        int64_t dim) {
  return Dense<ConstView>(data, DType::kFloat32, batch, length, heads, dim);
}

ConstView ConstView::Of(const BFloat16* data, int64_t batch, int64_t length, int64_t heads,
                        int64_t dim) {
  return Dense<ConstView>(data, DType::kBFloat16, batch, length, heads, dim);
}

}  // namespace cosformer
