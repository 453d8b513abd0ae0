// LayerNorm and RMSNorm fused with what precedes them in a transformer: the residual sum and the
// dropout of the branch that is added. Rows are contiguous, but for y. The number of threads (0: as
// many as OpenMP gives) does not change a bit of the result.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"

namespace cosformer {

enum class NormKind {
  kLayerNorm,  // y = weight * (s - mean) * rstd + bias, rstd = 1 / sqrt(variance + epsilon)
  kRmsNorm,  // y = weight * s * rstd, rstd = 1 / sqrt(mean of squares + epsilon); no bias, no mean
};

struct NormOptions {
  NormKind kind = NormKind::kLayerNorm;
  float epsilon = 1e-5f;
  Dropout dropout;  // of r; element (row, c) has index row * width + c
};

// s = x + Dropout(r), y = Norm(s).
struct NormForwardArgs {
  const float* x = nullptr;       // [rows, width]
  const float* r = nullptr;       // [rows, width], or null: s = x, and s is not written
  const float* weight = nullptr;  // [width]
  const float* bias = nullptr;    // [width], or null; null for RMSNorm
  float* s = nullptr;             // [rows, width], with r only; may be x or r
  float* y = nullptr;             // [rows, width]; may be x if r is null, or r
  int64_t y_stride = 0;           // from row to row; 0: width, as where y is x or r
  float* mean = nullptr;          // [rows], or null; not written by RMSNorm
  float* rstd = nullptr;          // [rows], or null
};
void NormForward(const NormForwardArgs& args, int64_t rows, int64_t width,
                 const NormOptions& options, int threads = 0);

// ds = ds_in + gradient of Norm at s; dr = Dropout(ds). ds is the gradient of x, and of r as well
// where nothing is dropped.
struct NormBackwardArgs {
  const float* dy = nullptr;      // [rows, width]
  const float* ds_in = nullptr;   // [rows, width]: what reaches s past the norm; or null
  const float* s = nullptr;       // [rows, width]; x where the forward pass had no r
  const float* weight = nullptr;  // [width]
  const float* mean = nullptr;    // [rows]; null for RMSNorm
  const float* rstd = nullptr;    // [rows]
  float* ds = nullptr;            // [rows, width]; may be dy or ds_in
  float* dr = nullptr;            // [rows, width], or null; not ds
  float* dweight = nullptr;       // [width], or null
  float* dbias = nullptr;         // [width], or null
};
void NormBackward(const NormBackwardArgs& args, int64_t rows, int64_t width,
                  const NormOptions& options, int threads = 0);

}  // namespace cosformer
