// With `deterministic` a training step gives the same bits for any number of threads, whatever the network is made of.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/model/zoo.h"
#include "neurim/nn/embedding.h"
#include "neurim/nn/init.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/recurrent.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/optim/adam.h"
#include "neurim/train/step.h"

namespace neurim {
namespace {

/// The bits of a loss and of all that is learnt.
using Bits = std::vector<std::vector<float>>;

/// Of two steps from the same start with so many threads.
Bits trained(const Parameters& parameters, const std::function<std::function<Tensors(Tensors)>(Optimizer&)>& step,
             const Types& types, std::int64_t classes, int count) {
  set_threads(count);
  AdamW optimizer(parameters, {.lr = 0.01});
  const Plan planned = plan(step(optimizer), types,
                            {.training = true, .deterministic = true, .random = Tensor::full({DType::i64, {2}}, 3)});
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].dtype == DType::f32) {
      nn::fill(planned.inputs()[i], nn::normal(), 5, text("input", i));
      continue;
    }
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(types[i].shape.numel()));
    for (std::size_t k = 0; k < numbers.size(); ++k) numbers[k] = static_cast<std::int64_t>(7 * k) % classes;
    planned.inputs()[i].write(numbers.data());
  }
  Bits bits;
  for (int i = 0; i < 2; ++i) {
    planned.run(planned.inputs(), planned.outputs());
    bits.push_back(planned.outputs()[0].values<float>());
  }
  for (const Parameter& parameter : parameters) bits.push_back(parameter.tensor.values<float>());
  return bits;
}

void expect_same(const std::string& what, const std::function<Bits(int)>& trained_with) {
  const int before = threads();
  const Bits one = trained_with(1);
  for (const float loss : one[0]) EXPECT_TRUE(std::isfinite(loss)) << what;
  EXPECT_NE(one[0], one[1]) << what << ": nothing is learnt";
  for (const int count : {2, 3}) EXPECT_TRUE(trained_with(count) == one) << what << " with " << count << " threads";
  set_threads(before);
}

// Depthwise and grouped convolutions, layer norms, attention, channel shuffles, gates, concatenations.
TEST(Deterministic, SlowNetworksOfTheZoo) {
  struct Case {
    const char* name;
    std::int64_t size, batch;
  };
  for (const Case& c : {Case{"mobilenet_v3_small", 96, 5},
                        {"shufflenet_v2_x0_5", 96, 5},
                        {"convnext_tiny", 64, 3},
                        {"densenet121", 64, 3},
                        {"efficientnet_b0", 64, 3},
                        {"resnext50_32x4d", 64, 3},
                        {"vit_tiny_patch16_224", 224, 2},
                        {"vgg11_bn", 64, 3},
                        {"resnet20", 32, 33}})
    expect_same(c.name, [&](int count) {
      Model model = create_model(c.name, {.num_classes = 7, .seed = 1});
      model.image_size = c.size;
      return trained(
          named_parameters(model), [&](Optimizer& optimizer) { return training_step(model, optimizer, {}); },
          batch_types(c.batch, model.in_chans, c.size, c.size), 7, count);
    });
}

/// Characters to one number each.
template <class Recurrent>
struct Characters {
  nn::Embedding embedding{50, 24};
  Recurrent recurrent{24, 40, {.num_layers = 2, .batch_first = true, .dropout = 0.1, .bidirectional = true}};
  nn::Linear head{80, 3};
  void parts(Parts& p) { p("embedding", embedding)("recurrent", recurrent)("head", head); }
  Tensor operator()(const Tensor& x) const { return head(recurrent(embedding(x)).y); }
};

template <class Recurrent>
void expect_same_recurrent(const std::string& what) {
  expect_same(what, [](int count) {
    Characters<Recurrent> net;
    initialise(net, 4);
    return trained(
        named_parameters(net),
        [&](Optimizer& optimizer) {
          return [&](const Tensors& in) -> Tensors {
            const Tensor loss = mean(square(net(in[0]) - 1.0));
            optimizer.minimize(loss);
            return {loss};
          };
        },
        {{DType::i64, {37, 11}}}, 50, count);
  });
}

TEST(Deterministic, RecurrentNetworks) {
  expect_same_recurrent<nn::LSTM>("lstm");
  expect_same_recurrent<nn::GRU>("gru");
}

}  // namespace
}  // namespace neurim
