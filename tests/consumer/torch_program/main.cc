// A program with a libtorch module of its own, one attention of the installed library in it,
// trained for a few steps.
#include <cosformer/torch.h>
#include <torch/torch.h>

#include <cstdio>

struct Block : torch::nn::Module {
  cosformer::Attention attention = register_module(
      "attention", cosformer::Attention({.system = "cosformer", .width = 32, .heads = 4}));
  torch::Tensor forward(torch::Tensor x) { return x + attention->forward(x); }
};

int main() {
  torch::manual_seed(1);
  Block block;
  torch::optim::Adam optimiser(block.parameters(), 1e-2);
  const torch::Tensor x = torch::randn({2, 50, 32}), y = torch::randn({2, 50, 32});
  double first = 0, last = 0;
  for (int step = 0; step < 30; ++step) {
    optimiser.zero_grad();
    const torch::Tensor loss = torch::mse_loss(block.forward(x), y);
    loss.backward();
    optimiser.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  std::printf("loss %g, then %g\n", first, last);
  return last < 0.9 * first ? 0 : 1;
}
