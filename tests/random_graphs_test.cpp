// Nets drawn at random, with their gradients and frozen: what is planned is what is interpreted. NEURIM_RANDOM_GRAPHS=N
// draws N of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "neurim/base/environment.h"
#include "neurim/base/text.h"
#include "neurim/compile/plan.h"
#include "neurim/core/random.h"
#include "neurim/ops/add.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/hardswish.h"
#include "neurim/ops/layer_norm.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/silu.h"
#include "neurim/ops/transpose.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using op_table::uniform;

/// What a net is of: values of one size and of 16 to 48 channels; the same, too large to be kept; or windows, strides,
/// groups, channels and sizes of all kinds. Each layer reads any of the last ones.
enum class Of { usual, large, odd };

class Net {
 public:
  Net(std::uint64_t seed, Of of, bool training) : seed_(seed), of_(of), training_(training) {}

  Shape images() {
    Random draw(seed_);
    if (of_ == Of::large) return {3, 32, 64, 64};  // 1.5 MiB: computed again rather than kept, and cut into pieces
    if (of_ == Of::usual) return {1 + draw.below(5), 24, 3 + draw.below(9), 3 + draw.below(9)};
    return {1 + draw.below(5), channels(draw), 1 + draw.below(40), 1 + draw.below(40)};
  }

  /// The values that no layer reads.
  Tensors operator()(const Tensors& in) {
    draw_ = Random(seed_, 1);
    weights_.clear();
    Tensors values{in[0]};
    std::vector<int> reads(1);
    for (int layer = 0; layer < 12; ++layer) {
      const int last = static_cast<int>(values.size()),
                from = last - 1 - static_cast<int>(draw_.below(std::min(3u, static_cast<std::uint32_t>(last))));
      ++reads[from];
      values.push_back(this->layer(values, reads, static_cast<std::size_t>(from)));
      reads.push_back(0);
    }
    Tensors unread;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (reads[i] == 0) unread.push_back(values[i]);
    return unread;
  }

  /// A loss, and its gradients of the input and of all weights.
  Tensors trained(const Tensors& in) {
    Tensor loss;
    for (const Tensor& value : (*this)(in)) {
      const Tensor own = mean(value * value);
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
  std::int64_t channels(Random& draw) const {
    if (of_ != Of::odd) return 16 + 8 * draw.below(5);
    const std::int64_t some[]{1, 3, 4, 8, 12, 16, 17, 24, 30, 32, 33, 48, 64, 96, 128, 200};
    return some[draw.below(std::size(some))];
  }
  Tensor weight(const Shape& shape, double low, double high) {
    return weights_.emplace_back(uniform(shape, low, high, 100 * seed_ + weights_.size()));
  }
  /// A window's side that an image's side has room for, with what is padded.
  std::int64_t side(std::int64_t size, std::int64_t pads, std::int64_t dilation) {
    const std::int64_t some[]{1, 2, 3, 3, 3, 5, 7}, drawn = some[draw_.below(std::size(some))];
    return dilation * (drawn - 1) < size + pads ? drawn : 1;
  }
  Tensor conv(const Tensor& x, std::int64_t channels, std::int64_t size, std::int64_t groups = 1) {
    Conv2dOptions options{.pad = {size / 2, size / 2, size / 2, size / 2}, .groups = groups};
    std::array<std::int64_t, 2> sides{size, size};
    if (of_ == Of::odd && draw_.below(2)) {
      const bool square = draw_.below(2);
      for (std::size_t axis = 0; axis < 2; ++axis) {
        if (axis == 1 && square && x.shape()[2] == x.shape()[3]) {
          sides[1] = sides[0], options.stride[1] = options.stride[0], options.dilation[1] = options.dilation[0];
          options.pad[1] = options.pad[0], options.pad[3] = options.pad[2];
          continue;
        }
        options.dilation[axis] = 1 + draw_.below(2), options.stride[axis] = 1 + draw_.below(3);
        for (const std::size_t pad : {axis, axis + 2}) options.pad[pad] = draw_.below(4);
        sides[axis] = side(x.shape()[static_cast<int>(axis) + 2], options.pad[axis] + options.pad[axis + 2],
                           options.dilation[axis]);
      }
      if (groups == 1 && draw_.below(4) == 0)
        for (const std::int64_t some : {2, 3, 4, 8})
          if (x.shape()[1] % some == 0 && channels % some == 0 && draw_.below(2)) options.groups = some;
    }
    const std::int64_t read = x.shape()[1] / options.groups;
    const double reach = std::sqrt(3.0 / static_cast<double>(read * sides[0] * sides[1]));
    const Tensor bias = of_ == Of::odd && draw_.below(3) == 0 ? weight({channels}, -0.5, 0.5) : Tensor();
    return conv2d(x, weight({channels, read, sides[0], sides[1]}, -reach, reach), bias, options);
  }
  Tensor gate(const Tensor& x) {
    const std::int64_t channels = x.shape()[1];
    const double reach = std::sqrt(3.0 / static_cast<double>(channels));
    return conv2d(x, weight({channels, channels, 1, 1}, -reach, reach), {}, {});
  }
  Tensor depthwise(const Tensor& x, std::int64_t size) {
    const std::int64_t channels = x.shape()[1];
    return conv(x, channels * (of_ == Of::odd && draw_.below(8) == 0 ? 2 : 1), size, channels);
  }
  Tensor norm(const Tensor& x) {
    const Shape each{x.shape()[1]};
    const Tensor gamma = weight(each, 0.5, 1.5), beta = weight(each, -0.5, 0.5);
    if (training_) return batch_norm(x, gamma, beta, {}, {});
    return batch_norm(x, gamma, beta, weight(each, -0.2, 0.2), weight(each, 0.1, 1));
  }
  Tensor activation(const Tensor& x) {
    switch (draw_.below(6)) {
      case 0: return relu(x);
      case 1: return relu6(x + x);
      case 2: return silu(x);
      case 3: return hardswish(x);
      case 4: return gelu(x);
      default: return sigmoid(x);
    }
  }
  Pool2dOptions window(const Tensor& x) {
    if (of_ != Of::odd) return {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}};
    Pool2dOptions options{.ceil_mode = draw_.below(3) == 0, .count_include_pad = draw_.below(2) == 0};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      options.kernel[axis] = side(x.shape()[static_cast<int>(axis) + 2], 0, 1),
      options.stride[axis] = 1 + draw_.below(3);
      for (const std::size_t pad : {axis, axis + 2})
        options.pad[pad] = draw_.below(static_cast<std::uint32_t>(options.kernel[axis]));
    }
    return options;
  }
  /// Another value of the same shape but perhaps of the channels, or x.
  Tensor other(const Tensors& values, std::vector<int>& reads, std::size_t x, bool channels = true) {
    for (std::size_t tries = 0; tries < 4; ++tries) {
      const std::size_t i = draw_.below(static_cast<std::uint32_t>(values.size()));
      Shape shape = values[i].shape();
      if (!channels) shape[1] = values[x].shape()[1];
      if (i != x && shape == values[x].shape()) return ++reads[i], values[i];
    }
    return values[x];
  }
  /// Fully connected layers of the channels of each pixel.
  Tensor mixed(const Tensor& x) {
    const Shape& shape = x.shape();
    const std::int64_t channels = shape[1], hidden = 2 * channels;
    const Tensor pixels = transpose(reshape(x, {shape[0], channels, shape[2] * shape[3]}), {0, 2, 1});
    const double reach = std::sqrt(3.0 / static_cast<double>(channels));
    const Tensor normed = layer_norm(pixels, {channels}, weight({channels}, 0.5, 1.5), weight({channels}, -0.5, 0.5)),
                 made = activation(
                     linear(normed, weight({hidden, channels}, -reach, reach), weight({hidden}, -0.5, 0.5))),
                 sum = pixels + linear(made, weight({channels, hidden}, -reach, reach), weight({channels}, -0.5, 0.5));
    return reshape(transpose(sum, {0, 2, 1}), shape);
  }
  Tensor layer(const Tensors& values, std::vector<int>& reads, std::size_t from) {
    const Tensor& x = values[from];
    const std::int64_t channels = this->channels(draw_), size = 3 + 2 * draw_.below(2);
    switch (draw_.below(of_ == Of::odd ? 15 : 12)) {
      case 0: return conv(x, channels, 1);
      case 1: return conv(x, channels, of_ == Of::large ? 1 : 3);
      case 2: return depthwise(x, size);
      case 3: return activation(norm(x));
      case 4: return activation(norm(conv(x, channels, 1)));
      case 5: return activation(norm(depthwise(x, size)));
      case 6: return activation(x);
      case 7: return x + other(values, reads, from);
      case 8: return x * sigmoid(other(values, reads, from));
      case 9: return max_pool2d(activation(norm(x)), window(x));
      case 10: return x * sigmoid(reduce_max(relu(norm(x)), {2, 3}, true));
      case 11: return x * sigmoid(gate(global_avg_pool2d(x)));
      case 12: return avg_pool2d(x, window(x));
      case 13: return concat({x, other(values, reads, from, false)}, 1);
      default: return mixed(x);
    }
  }

  std::uint64_t seed_;
  Of of_;
  bool training_;
  Random draw_{0};
  Tensors weights_;
};

double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(values.size(), 1)));
}

int count() {
  const char* const asked = environment("NEURIM_RANDOM_GRAPHS");
  return asked ? std::atoi(asked) : 8;
}

/// `most`: the root of the mean square of an output's differences, relative to that of what is expected, as a sum near
/// a relu's edge may fall on its other side; outputs that are nothing beside others, such as the gradient of a bias
/// before a norm, are left out.
void check(const std::function<Tensors(Tensors)>& function, const Shape& images, PlanOptions options, double most,
           const std::string& where) {
  const Tensor x = uniform(images, -1, 1, 7);
  const Tensors got = plan(function, {x.type()}, options)({x});
  options.interpret = true, options.compute_dtype = DType::f32;
  const Tensors expected = plan(function, {x.type()}, options)({x});
  double largest = 0;
  for (const Tensor& each : expected) largest = std::max(largest, root_mean_square(each.values<double>()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto to = expected[i].values<double>();
    auto apart = got[i].values<double>();
    for (std::size_t k = 0; k < to.size(); ++k) apart[k] -= to[k];
    EXPECT_LT(root_mean_square(apart) / (root_mean_square(to) + 1e-3 * largest + 1e-30), most)
        << where << ", images " << images << ", output " << i << " of " << expected.size() << ", "
        << expected[i].shape();
  }
}

TEST(RandomGraphs, PlannedIsInterpreted) {
  for (int graph = 0; graph < count(); ++graph) {
    const Of of = graph % 6 == 5 ? Of::large : graph % 2 ? Of::odd : Of::usual;
    Net net(static_cast<std::uint64_t>(graph), of, true);
    check([&](const Tensors& in) { return net.trained(in); }, net.images(), {.training = true}, 5e-3,
          text("graph ", graph));
  }
}

TEST(RandomGraphs, FrozenIsInterpreted) {
  for (int graph = 0; graph < 2 * count(); ++graph) {
    Net net(static_cast<std::uint64_t>(graph), graph % 3 ? Of::odd : Of::usual, false);
    for (const DType products : {DType::f32, DType::bf16, DType::f16})
      check([&](const Tensors& in) { return net(in); }, net.images(), {.freeze = true, .compute_dtype = products},
            products == DType::f32    ? 1e-4
            : products == DType::bf16 ? 0.1
                                      : 0.02,
            text("graph ", graph, " of ", name(products)));
  }
}

}  // namespace
}  // namespace neurim
