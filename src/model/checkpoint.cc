#include "model/checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace cosformer {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Piece : torch::CustomClassHolder {
  std::function<TensorList(const TensorList&)> run;
  torch::nn::Module* module = nullptr;
  TensorList buffers;  // the module's own
  bool training = true;
  // As they were before the first run.
  TensorList buffers_then;
  Tensor random_then;
};

TensorList CopiesOf(const TensorList& tensors) {
  TensorList copies;
  for (const Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

void Assign(const TensorList& from, const TensorList& to) {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < to.size(); ++i) Tensor(to[i]).copy_(from[i]);
}

Tensor RandomState() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetRandomState(const Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// The generator and the buffers as they were at the piece's first run, for as long as it runs
// again.
class ReplayScope {
 public:
  explicit ReplayScope(const Piece& piece)
      : piece_(piece),
        random_now_(RandomState()),
        buffers_now_(CopiesOf(piece.buffers)),
        training_now_(piece.module->is_training()) {
    piece.module->train(piece.training);
    SetRandomState(piece.random_then);
    Assign(piece.buffers_then, piece.buffers);
  }
  ~ReplayScope() {
    piece_.module->train(training_now_);
    SetRandomState(random_now_);
    Assign(buffers_now_, piece_.buffers);
  }
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;

 private:
  const Piece& piece_;
  Tensor random_now_;
  TensorList buffers_now_;
  bool training_now_;
};

struct CheckpointFunction : torch::autograd::Function<CheckpointFunction> {
  // `anchor` is a tensor that needs a gradient: without one among the inputs, torch would not ask
  // for those of the parameters.
  static variable_list forward(AutogradContext* ctx, const c10::intrusive_ptr<Piece>& piece,
                               at::TensorList inputs, const Tensor& /*anchor*/) {
    piece->random_then = RandomState();
    piece->buffers_then = CopiesOf(piece->buffers);
    ctx->save_for_backward(inputs.vec());
    ctx->saved_data["piece"] = c10::IValue::make_capsule(piece);
    ctx->set_materialize_grads(false);
    return piece->run(inputs.vec());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto piece =
        c10::static_intrusive_pointer_cast<Piece>(ctx->saved_data["piece"].toCapsule());
    variable_list inputs;
    for (const Tensor& saved : ctx->get_saved_variables()) {
      Tensor input = saved.detach();
      if (input.is_floating_point()) input.requires_grad_();
      inputs.push_back(std::move(input));
    }
    TensorList outputs;
    {
      torch::AutoGradMode grad(true);
      const ReplayScope replay(*piece);
      outputs = piece->run(inputs);
    }
    variable_list roots, root_gradients;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!gradients[i].defined()) continue;
      roots.push_back(outputs[i]);
      root_gradients.push_back(gradients[i]);
    }
    torch::autograd::backward(roots, root_gradients);
    variable_list result = {Tensor()};
    for (const Tensor& input : inputs) result.push_back(input.grad());
    result.push_back(Tensor());
    return result;
  }
};

}  // namespace

TensorList Checkpointed(torch::nn::Module& module,
                        const std::function<TensorList(const TensorList&)>& run,
                        const TensorList& inputs) {
  if (!torch::GradMode::is_enabled()) return run(inputs);
  // Autograd functions take no undefined tensors: they are left out, and put back for the piece.
  TensorList defined;
  std::vector<bool> is_defined;
  for (const Tensor& input : inputs) {
    is_defined.push_back(input.defined());
    if (input.defined()) defined.push_back(input);
  }
  auto piece = c10::make_intrusive<Piece>();
  piece->module = &module;
  piece->training = module.is_training();
  piece->buffers = module.buffers();
  piece->run = [run, is_defined](const TensorList& given) {
    TensorList all;
    auto next = given.begin();
    for (const bool there : is_defined) all.push_back(there ? *next++ : Tensor());
    return run(all);
  };
  const Tensor anchor = torch::zeros({1}).requires_grad_();
  return CheckpointFunction::apply(piece, at::TensorList(defined), anchor);
}

}  // namespace cosformer
