#include "model/functions.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

#include "zoo/operators.h"

namespace cosformer {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const float* DataOf(const Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

int64_t RowsOf(const Tensor& x) { return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1); }

// Through the context of an autograd function, which keeps only values that torch knows.
void Keep(AutogradContext* ctx, const Dropout& dropout) {
  ctx->saved_data["p"] = static_cast<double>(dropout.p);
  ctx->saved_data["seed"] = static_cast<int64_t>(dropout.seed);
}
Dropout KeptDropout(AutogradContext* ctx) {
  return {static_cast<float>(ctx->saved_data["p"].toDouble()),
          static_cast<uint64_t>(ctx->saved_data["seed"].toInt()), 0};
}

// As an argument of an autograd function, which takes no undefined tensors.
using MaybeTensor = c10::optional<Tensor>;
MaybeTensor Maybe(const Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : MaybeTensor();
}
Tensor OrUndefined(const MaybeTensor& tensor) { return tensor ? *tensor : Tensor(); }

struct NormFunction : torch::autograd::Function<NormFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const MaybeTensor& branch,
                               const Tensor& weight, const MaybeTensor& maybe_bias, int64_t kind,
                               double epsilon, double p, int64_t seed) {
    const Tensor r = OrUndefined(branch), bias = OrUndefined(maybe_bias);
    const NormOptions options{static_cast<NormKind>(kind),
                              static_cast<float>(epsilon),
                              {static_cast<float>(p), static_cast<uint64_t>(seed), 0}};
    const int64_t rows = RowsOf(x);
    const Tensor s = r.defined() ? torch::empty_like(x) : Tensor();
    const Tensor y = torch::empty_like(x);
    const Tensor mean =
        options.kind == NormKind::kLayerNorm ? torch::empty({rows}, x.options()) : Tensor();
    const Tensor rstd = torch::empty({rows}, x.options());
    NormForwardArgs args;
    args.x = DataOf(x);
    args.r = DataOf(r);
    args.weight = DataOf(weight);
    args.bias = DataOf(bias);
    args.s = s.defined() ? s.data_ptr<float>() : nullptr;
    args.y = y.data_ptr<float>();
    args.mean = mean.defined() ? mean.data_ptr<float>() : nullptr;
    args.rstd = rstd.data_ptr<float>();
    NormForward(args, rows, x.size(-1), options, at::get_num_threads());
    ctx->save_for_backward({s.defined() ? s : x, weight, mean, rstd});
    ctx->set_materialize_grads(false);
    ctx->saved_data["kind"] = kind;
    ctx->saved_data["bias"] = bias.defined();
    Keep(ctx, options.dropout);
    return s.defined() ? variable_list{y, s} : variable_list{y};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    zoo::RequireFirstDerivative();
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &s = saved[0], &weight = saved[1], &mean = saved[2], &rstd = saved[3];
    const bool had_r = gradients.size() == 2;
    const Tensor dy = gradients[0].defined() ? gradients[0].contiguous() : torch::zeros_like(s);
    const Tensor ds_in = had_r && gradients[1].defined() ? gradients[1].contiguous() : Tensor();
    NormOptions options;
    options.kind = static_cast<NormKind>(ctx->saved_data["kind"].toInt());
    options.dropout = KeptDropout(ctx);
    const Tensor ds = torch::empty_like(s);
    const Tensor dr = had_r && options.dropout.p > 0 ? torch::empty_like(s) : Tensor();
    const Tensor dweight = torch::empty_like(weight);
    const Tensor dbias = ctx->saved_data["bias"].toBool() ? torch::empty_like(weight) : Tensor();
    NormBackwardArgs args;
    args.dy = DataOf(dy);
    args.ds_in = DataOf(ds_in);
    args.s = DataOf(s);
    args.weight = DataOf(weight);
    args.mean = DataOf(mean);
    args.rstd = DataOf(rstd);
    args.ds = ds.data_ptr<float>();
    args.dr = dr.defined() ? dr.data_ptr<float>() : nullptr;
    args.dweight = dweight.data_ptr<float>();
    args.dbias = dbias.defined() ? dbias.data_ptr<float>() : nullptr;
    NormBackward(args, RowsOf(s), s.size(-1), options, at::get_num_threads());
    return {ds, had_r ? (dr.defined() ? dr : ds) : Tensor(), dweight, dbias, {}, {}, {}, {}};
  }
};

struct ActivateFunction : torch::autograd::Function<ActivateFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& pre, const MaybeTensor& maybe_bias,
                        int64_t kind) {
    const Tensor bias = OrUndefined(maybe_bias);
    const auto activation = static_cast<Activation>(kind);
    auto shape = pre.sizes().vec();
    shape.back() /= PreWidth(activation, 1);
    const Tensor y = torch::empty(shape, pre.options());
    ActivateForward(activation, DataOf(pre), DataOf(bias), RowsOf(y), shape.back(),
                    y.data_ptr<float>(), at::get_num_threads());
    ctx->save_for_backward({pre, bias});
    ctx->saved_data["kind"] = kind;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    zoo::RequireFirstDerivative();
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &pre = saved[0], &bias = saved[1];
    const Tensor dy = gradients[0].contiguous();
    const Tensor dpre = torch::empty_like(pre);
    const Tensor dbias = bias.defined() ? torch::empty_like(bias) : Tensor();
    ActivateBackward(static_cast<Activation>(ctx->saved_data["kind"].toInt()), DataOf(dy),
                     DataOf(pre), DataOf(bias), RowsOf(dy), dy.size(-1), dpre.data_ptr<float>(),
                     bias.defined() ? dbias.data_ptr<float>() : nullptr, at::get_num_threads());
    return {dpre, dbias, {}};
  }
};

Tensor Dropped(const Tensor& x, const Dropout& dropout) {
  const Tensor y = torch::empty_like(x);
  DropoutForward(DataOf(x), x.numel(), dropout, y.data_ptr<float>(), at::get_num_threads());
  return y;
}

struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double p, int64_t seed) {
    const Dropout dropout{static_cast<float>(p), static_cast<uint64_t>(seed), 0};
    Keep(ctx, dropout);
    return Dropped(x, dropout);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    zoo::RequireFirstDerivative();
    return {Dropped(gradients[0].contiguous(), KeptDropout(ctx)), {}, {}};
  }
};

}  // namespace

SumAndNorm AddAndNormalise(const Tensor& x, const Tensor& r, const Tensor& weight,
                           const Tensor& bias, NormKind kind, float epsilon, float dropout) {
  const bool drops = r.defined() && dropout > 0;
  const variable_list results = NormFunction::apply(
      x.contiguous(), Maybe(r.defined() ? r.contiguous() : r), weight, Maybe(bias),
      static_cast<int64_t>(kind), static_cast<double>(epsilon),
      drops ? static_cast<double>(dropout) : 0.0, drops ? static_cast<int64_t>(DrawSeed()) : 0);
  return {r.defined() ? results[1] : x, results[0]};
}

Tensor Activate(Activation kind, const Tensor& pre, const Tensor& bias) {
  return ActivateFunction::apply(pre.contiguous(), Maybe(bias), static_cast<int64_t>(kind));
}

Tensor DropOut(const Tensor& x, float p) {
  if (p <= 0) return x;
  return DropoutFunction::apply(x.contiguous(), static_cast<double>(p),
                                static_cast<int64_t>(DrawSeed()));
}

uint64_t DrawSeed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

}  // namespace cosformer
