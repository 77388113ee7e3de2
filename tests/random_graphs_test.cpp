// Nets drawn at random, with their gradients: what is planned is what is interpreted. NEURIM_RANDOM_GRAPHS=N draws N of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "neurim/base/text.h"
#include "neurim/compile/plan.h"
#include "neurim/core/random.h"
#include "neurim/ops/add.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/hardswish.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/silu.h"
#include "tests/ask_chain.h"

namespace neurim {
namespace {

using op_table::uniform;

/// A net of values of one size and of 16 to 48 channels; each layer reads any of the last ones.
class Net {
 public:
  Net(std::uint64_t seed, bool large) : seed_(seed), large_(large) {}

  Shape images() {
    Random draw(seed_);
    if (large_) return {3, 32, 64, 64};  // 1.5 MiB: computed again rather than kept, and cut into pieces
    return {1 + draw.below(5), 24, 3 + draw.below(9), 3 + draw.below(9)};
  }

  /// The loss, and its gradients of the input and of all weights.
  Tensors operator()(const Tensors& in) {
    draw_ = Random(seed_, 1);
    weights_.clear();
    Tensors values{in[0]};
    std::vector<int> reads(1);
    for (int layer = 0; layer < 12; ++layer) {
      const int last = static_cast<int>(values.size()),
                from = last - 1 - static_cast<int>(draw_.below(std::min(3u, static_cast<std::uint32_t>(last))));
      ++reads[static_cast<std::size_t>(from)];
      values.push_back(this->layer(values, reads, static_cast<std::size_t>(from)));
      reads.push_back(0);
    }
    Tensor loss;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (reads[i] > 0) continue;
      const Tensor own = mean(values[i] * values[i]);
      loss = loss ? loss + own : own;
    }
    Tensors wrt = weights_;
    wrt.push_back(in[0]);
    const Tensors of{loss};
    Tensors out = gradients(of, wrt);
    for (Tensor& each : out)
      if (!each) each = loss;  // the loss is of an earlier value alone
    out.push_back(loss);
    return out;
  }

 private:
  Tensor weight(const Shape& shape, double low, double high) {
    return weights_.emplace_back(uniform(shape, low, high, 100 * seed_ + weights_.size()));
  }
  Tensor conv(const Tensor& x, std::int64_t channels, std::int64_t size) {
    const double reach = std::sqrt(3.0 / static_cast<double>(x.shape()[1] * size * size));
    return conv2d(x, weight({channels, x.shape()[1], size, size}, -reach, reach), {},
                  {.pad = {size / 2, size / 2, size / 2, size / 2}});
  }
  Tensor depthwise(const Tensor& x, std::int64_t size) {
    const std::int64_t pad = size / 2, channels = x.shape()[1];
    return conv2d(x, weight({channels, 1, size, size}, -0.5, 0.5), {}, {.pad = {pad, pad, pad, pad}, .groups = channels});
  }
  Tensor norm(const Tensor& x) {
    const Shape each{x.shape()[1]};
    const Tensor gamma = weight(each, 0.5, 1.5), beta = weight(each, -0.5, 0.5);
    return batch_norm(x, gamma, beta, {}, {});
  }
  Tensor activation(const Tensor& x) {
    switch (draw_.below(6)) {
      case 0:
        return relu(x);
      case 1:
        return relu6(x + x);
      case 2:
        return silu(x);
      case 3:
        return hardswish(x);
      case 4:
        return gelu(x);
      default:
        return sigmoid(x);
    }
  }
  /// Another value of the same shape, or x.
  Tensor other(const Tensors& values, std::vector<int>& reads, std::size_t x) {
    for (std::size_t tries = 0; tries < 4; ++tries) {
      const std::size_t i = draw_.below(static_cast<std::uint32_t>(values.size()));
      if (i != x && values[i].shape() == values[x].shape()) return ++reads[i], values[i];
    }
    return values[x];
  }
  Tensor layer(const Tensors& values, std::vector<int>& reads, std::size_t from) {
    const Tensor& x = values[from];
    const std::int64_t channels = 16 + 8 * draw_.below(5), size = 3 + 2 * draw_.below(2);
    switch (draw_.below(12)) {
      case 0:
        return conv(x, channels, 1);
      case 1:
        return large_ ? conv(x, channels, 1) : conv(x, channels, 3);
      case 2:
        return depthwise(x, size);
      case 3:
        return activation(norm(x));
      case 4:
        return activation(norm(conv(x, channels, 1)));
      case 5:
        return activation(norm(depthwise(x, size)));
      case 6:
        return activation(x);
      case 7:
        return x + other(values, reads, from);
      case 8:
        return x * sigmoid(other(values, reads, from));
      case 9:
        return max_pool2d(activation(norm(x)), {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}});
      case 10:
        return x * sigmoid(reduce_max(relu(norm(x)), {2, 3}, true));
      default:
        return x * sigmoid(conv(global_avg_pool2d(x), x.shape()[1], 1));
    }
  }

  std::uint64_t seed_;
  bool large_;
  Random draw_{0};
  Tensors weights_;
};

/// The root of the mean square of the difference, relative to that of b: a sum near a relu's edge may fall on its other side.
double difference(const Tensor& a, const Tensor& b) {
  const auto x = a.values<double>(), y = b.values<double>();
  double apart = 0, scale = 1e-30;
  for (std::size_t i = 0; i < x.size(); ++i) apart += (x[i] - y[i]) * (x[i] - y[i]), scale += y[i] * y[i];
  return std::sqrt(apart / scale);
}

TEST(RandomGraphs, PlannedIsInterpreted) {
  const char* const asked = std::getenv("NEURIM_RANDOM_GRAPHS");
  const int count = asked ? std::atoi(asked) : 8;
  for (int graph = 0; graph < count; ++graph) {
    const bool large = graph % 6 == 5;
    Net net(static_cast<std::uint64_t>(graph), large);
    const Shape images = net.images();
    const Tensor x = uniform(images, -1, 1, 7);
    const auto function = [&](Tensors in) -> Tensors { return net(in); };
    const Plan planned = plan(function, {x.type()}, {.training = true});
    const Tensors got = planned({x}), expected = plan(function, {x.type()}, {.training = true, .interpret = true})({x});
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(difference(got[i], expected[i]), 5e-3)
          << "graph " << graph << ", " << images << ", output " << i << " of " << expected.size();
  }
}

}  // namespace
}  // namespace neurim
