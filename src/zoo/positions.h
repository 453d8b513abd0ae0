// Positions that act on queries and keys inside an attention: rotation (Su et al. 2021) and
// stochastic positional encoding (Liutkus et al. 2021). Those that are added to the input belong to
// the model.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cosformer/torch.h"
#include "formats/option_reader.h"
#include "zoo/system.h"

namespace cosformer::zoo {

class Positions : public torch::nn::Module {
 public:
  // q [batch, n, heads, dim], k [batch, m, kv_heads, dim] -> the same with positions in them. Row 0
  // stands at `position`; packed sequences each begin at 0. In cross attention each side counts for
  // itself.
  virtual std::pair<torch::Tensor, torch::Tensor> Apply(const torch::Tensor& q,
                                                        const torch::Tensor& k, int64_t position,
                                                        const Layout& layout) = 0;
  // For a system that rotates its features itself: null unless these positions are a rotation.
  virtual const Rotary* rotary() const { return nullptr; }
};

// kind: "rotary", "spe-sine", "spe-conv"; "none" gives null. `geometry` is that of the projections
// and becomes that of the system: stochastic encoding sets dim to the number of its realisations.
// Throws Error for another kind and for options that cannot be.
//   rotary:    base        of the frequencies base^(-2 c / dim); 10000
//   spe-*:     realisations  R, the number of codes a query or key becomes; 64
//              gated       mix in a part that ignores positions, learned for each dim; true
//   spe-sine:  sines       for each dim; 5
//   spe-conv:  kernel      taps of a filter, the reach of a position; 128
std::shared_ptr<Positions> MakePositions(const std::string& kind, OptionReader& options,
                                         Geometry& geometry);
std::shared_ptr<Positions> MakeStochasticPositions(const std::string& kind, OptionReader& options,
                                                   Geometry& geometry);

// x [batch, n, heads, dim], dim even, rotated: row 0 stands at `position`, or each sequence of
// `offsets` begins at 0. Differentiable any number of times.
torch::Tensor Rotate(const torch::Tensor& x, const Rotary& rotary, int64_t position,
                     const std::vector<int64_t>& offsets = {});

// Rows [begin, end) that stand at position, position + 1, ...
struct RowSpan {
  int64_t begin = 0, end = 0, position = 0;
};
// All rows of a tensor, as Rotate takes its arguments. Those before and after all packed sequences
// are padding: they count from 0 too.
std::vector<RowSpan> RowSpans(int64_t length, int64_t position,
                              const std::vector<int64_t>& offsets);
// Of the keys: those of the queries where the layout names no others.
const std::vector<int64_t>& KeyOffsets(const Layout& layout);

}  // namespace cosformer::zoo
