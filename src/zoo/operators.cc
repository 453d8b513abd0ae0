#include "zoo/operators.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <utility>

namespace cosformer {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

DType DTypeOf(const Tensor& tensor) {
  if (tensor.scalar_type() == torch::kFloat32) return DType::kFloat32;
  if (tensor.scalar_type() == torch::kBFloat16) return DType::kBFloat16;
  throw Error(std::string("attention: the tensors are of type ") +
              torch::toString(tensor.scalar_type()) + "; it takes float32 and bfloat16");
}

template <class AnyView, class Data>
AnyView Describe(const Tensor& tensor, Data* data) {
  AnyView view;
  view.data = data;
  view.dtype = DTypeOf(tensor);
  view.batch = tensor.size(0);
  view.length = tensor.size(1);
  view.heads = tensor.size(2);
  view.dim = tensor.size(3);
  view.batch_stride = tensor.stride(0);
  view.length_stride = tensor.stride(1);
  view.head_stride = tensor.stride(2);
  return view;
}

Tensor Checked(const Tensor& tensor, const char* name) {
  if (!tensor.defined() || tensor.dim() != 4) {
    throw Error(std::string("attention: ") + name + " has " +
                (tensor.defined() ? std::to_string(tensor.dim()) : "no") +
                " dimensions; it must be [batch, length, heads, dim]");
  }
  if (!tensor.device().is_cpu()) {
    throw Error(std::string("attention: ") + name + " is on " + tensor.device().str() +
                "; it must be on the CPU");
  }
  DTypeOf(tensor);
  return tensor.stride(3) == 1 || tensor.size(3) <= 1 ? tensor : tensor.contiguous();
}

Tensor OutputFor(const Tensor& q, const Tensor& v) {
  return torch::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
}

Tensor SumsFor(const Tensor& q) {
  return torch::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(torch::kFloat32));
}

std::span<float> FloatsOf(const Tensor& sums) {
  if (!sums.defined()) return {};
  return {sums.data_ptr<float>(), static_cast<size_t>(sums.numel())};
}

// The options of a call, kept for its backward pass: the spans of a caller's Sequences need not
// live as long.
template <class Options>
struct KeptOptions : torch::CustomClassHolder {
  explicit KeptOptions(const Options& given) : options(given) {
    const Sequences& from = given.sequences;
    layout = {{from.query_lengths.begin(), from.query_lengths.end()},
              {from.key_lengths.begin(), from.key_lengths.end()},
              {from.query_offsets.begin(), from.query_offsets.end()},
              {from.key_offsets.begin(), from.key_offsets.end()}};
    options.sequences = layout.View();
    if (options.threads == 0) options.threads = at::get_num_threads();
  }
  Options options;
  Layout layout;
};

struct KeptPatterns : torch::CustomClassHolder {
  std::vector<zoo::SharedPattern> patterns;
  std::vector<const AttentionPattern*> pointers;
  PatternOptions options;
};

// What differs between the three operators: how they are called, and whether sums come with the
// output.
struct Linear {
  using Kept = KeptOptions<LinearOptions>;
  static bool HasSums(const Kept& kept) {
    return kept.options.kernel.normaliser == Normaliser::kSum;
  }
  template <class... Args>
  static void Forward(const Kept& kept, std::span<const float> keep, const ConstView& q,
                      const ConstView& k, const ConstView& v, const Args&... args) {
    LinearAttentionForward(q, k, v, args..., With(kept.options, keep));
  }
  template <class... Args>
  static void Backward(const Kept& kept, std::span<const float> keep, std::span<float> d_log_keep,
                       const ConstView& q, const ConstView& k, const ConstView& v,
                       const Args&... args) {
    LinearAttentionBackward(q, k, v, args..., With(kept.options, keep), d_log_keep);
  }
  static LinearOptions With(LinearOptions options, std::span<const float> keep) {
    options.keep = keep;
    return options;
  }
};

struct Softmax {
  using Kept = KeptOptions<SoftmaxOptions>;
  static bool HasSums(const Kept&) { return true; }
  template <class... Args>
  static void Forward(const Kept& kept, std::span<const float> /*keep*/, const ConstView& q,
                      const ConstView& k, const ConstView& v, const Args&... args) {
    SoftmaxAttentionForward(q, k, v, args..., kept.options);
  }
  template <class... Args>
  static void Backward(const Kept& kept, std::span<const float> /*keep*/,
                       std::span<float> /*d_log_keep*/, const ConstView& q, const ConstView& k,
                       const ConstView& v, const Args&... args) {
    SoftmaxAttentionBackward(q, k, v, args..., kept.options);
  }
};

struct Pattern {
  using Kept = KeptPatterns;
  static bool HasSums(const Kept&) { return true; }
  template <class... Args>
  static void Forward(const Kept& kept, std::span<const float> /*keep*/, const ConstView& q,
                      const ConstView& k, const ConstView& v, const Args&... args) {
    PatternAttentionForward(q, k, v, kept.pointers, args..., kept.options);
  }
  template <class... Args>
  static void Backward(const Kept& kept, std::span<const float> /*keep*/,
                       std::span<float> /*d_log_keep*/, const ConstView& q, const ConstView& k,
                       const ConstView& v, const Args&... args) {
    PatternAttentionBackward(q, k, v, kept.pointers, args..., kept.options);
  }
};

template <class Operator>
struct OperatorFunction : torch::autograd::Function<OperatorFunction<Operator>> {
  using Kept = typename Operator::Kept;

  // log_keep: empty but where linear attention forgets. An undefined tensor cannot be passed here.
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& log_keep, const c10::intrusive_ptr<Kept>& kept,
                        bool backward) {
    Tensor o = OutputFor(q, v);
    const Tensor sums = backward && Operator::HasSums(*kept) ? SumsFor(q) : Tensor();
    const Tensor keep = log_keep.numel() > 0 ? log_keep.exp().contiguous() : Tensor();
    Operator::Forward(*kept, FloatsOf(keep), zoo::ViewOf(q), zoo::ViewOf(k), zoo::ViewOf(v),
                      zoo::MutableViewOf(o), FloatsOf(sums));
    if (backward) {
      ctx->save_for_backward({q, k, v, o, sums, keep});
      ctx->saved_data["options"] = c10::IValue::make_capsule(kept);
    }
    return o;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    zoo::RequireFirstDerivative();
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &o = saved[3], &sums = saved[4],
                 &keep = saved[5];
    const auto kept =
        c10::static_intrusive_pointer_cast<Kept>(ctx->saved_data["options"].toCapsule());
    const Tensor d_o = Checked(gradients[0], "the gradient");
    Tensor dq = torch::empty(q.sizes(), q.options());
    Tensor dk = torch::empty(k.sizes(), k.options());
    Tensor dv = torch::empty(v.sizes(), v.options());
    const Tensor d_log_keep = keep.defined() ? torch::empty_like(keep) : Tensor();
    const std::span<float> floats = FloatsOf(sums);
    Operator::Backward(*kept, FloatsOf(keep), FloatsOf(d_log_keep), zoo::ViewOf(q), zoo::ViewOf(k),
                       zoo::ViewOf(v), zoo::ViewOf(o), std::span<const float>(floats),
                       zoo::ViewOf(d_o), zoo::MutableViewOf(dq), zoo::MutableViewOf(dk),
                       zoo::MutableViewOf(dv));
    return {dq, dk, dv, d_log_keep, Tensor(), Tensor()};
  }
};

template <class Operator>
Tensor Apply(const Tensor& q, const Tensor& k, const Tensor& v,
             const c10::intrusive_ptr<typename Operator::Kept>& kept,
             const Tensor& log_keep = torch::empty({0})) {
  // The sums are for the backward pass alone.
  const bool backward =
      torch::GradMode::is_enabled() &&
      (q.requires_grad() || k.requires_grad() || v.requires_grad() || log_keep.requires_grad());
  return OperatorFunction<Operator>::apply(Checked(q, "q"), Checked(k, "k"), Checked(v, "v"),
                                           log_keep, kept, backward);
}

}  // namespace

Tensor LinearAttention(const Tensor& q, const Tensor& k, const Tensor& v,
                       const LinearOptions& options, const Tensor& log_keep) {
  if (!options.keep.empty()) {
    throw Error("attention: what is kept is given as log_keep here, not in the options");
  }
  const auto kept = c10::make_intrusive<KeptOptions<LinearOptions>>(options);
  if (!log_keep.defined()) return Apply<Linear>(q, k, v, kept);
  if (log_keep.scalar_type() != torch::kFloat32 || !log_keep.device().is_cpu()) {
    throw Error(std::string("attention: log_keep is of type ") +
                torch::toString(log_keep.scalar_type()) + " on " + log_keep.device().str() +
                "; it must be float32 on the CPU");
  }
  return Apply<Linear>(q, k, v, kept, log_keep);
}

Tensor SoftmaxAttention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const SoftmaxOptions& options) {
  return Apply<Softmax>(q, k, v, c10::make_intrusive<KeptOptions<SoftmaxOptions>>(options));
}

namespace zoo {

Tensor PatternAttention(const Tensor& q, const Tensor& k, const Tensor& v,
                        std::vector<SharedPattern> patterns, float scale) {
  auto kept = c10::make_intrusive<KeptPatterns>();
  for (const SharedPattern& pattern : patterns) kept->pointers.push_back(pattern.get());
  kept->patterns = std::move(patterns);
  kept->options = {scale, at::get_num_threads()};
  return Apply<Pattern>(q, k, v, kept);
}

void RequireFirstDerivative() {
  if (torch::GradMode::is_enabled()) {
    throw Error(
        "second derivatives are not available here: the backward pass is a kernel (was "
        "create_graph set?)");
  }
}

ConstView ViewOf(const Tensor& tensor) {
  return Describe<ConstView>(tensor, static_cast<const void*>(tensor.data_ptr()));
}

View MutableViewOf(Tensor& tensor) { return Describe<View>(tensor, tensor.data_ptr()); }

}  // namespace zoo
}  // namespace cosformer
