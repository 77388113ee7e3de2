// The training loop written out: a module of one's own, one step traced once and replayed for every batch.
// Fits y = sin(x); ends with 0 when the loss has fallen below 1e-3.
#include <cmath>
#include <iostream>

#include "neurim/neurim.h"

using namespace neurim;

struct Net {
  nn::Linear hidden{1, 64}, out{64, 1};
  void parts(Parts& p) { p("hidden", hidden)("out", out); }
  Tensor operator()(const Tensor& x) const { return out(tanh(hidden(x))); }
};

int main() {
  initialize();
  Net net;
  Adam adam(named_parameters(net), {.lr = 0.01});
  const Plan step = plan(
      [&](Tensors in) -> Tensors {
        const Tensors loss{mse_loss(net(in[0]), in[1])};
        adam.step(gradients(loss, adam.weights()));
        return loss;
      },
      {{DType::f32, {128, 1}}, {DType::f32, {128, 1}}}, {.training = true});

  Random random(1);
  double loss = 1;
  for (int i = 0; i < 1500; ++i) {
    std::vector<float> x(128), y(128);
    for (std::size_t j = 0; j < x.size(); ++j) x[j] = static_cast<float>(random.uniform(-3, 3)), y[j] = std::sin(x[j]);
    loss = step({Tensor::from({128, 1}, x), Tensor::from({128, 1}, y)})[0].item();
    if (i % 300 == 0) std::cout << "step " << i << "  loss " << loss << '\n';
  }
  std::cout << "last loss " << loss << '\n';
  return loss < 1e-3 ? 0 : 1;
}
