// The vectorised pooling kernels on real pairs of x and y, in both layouts.
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/max_pool.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using namespace op_table;

struct Row {
  Shape x;
  Pool2dOptions options = {};
};

std::vector<Row> rows() {
  std::vector<Row> all{{{2, 64, 28, 28}, {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}}},
                       {{3, 6, 28, 28}},
                       {{2, 17, 23, 21}},
                       {{1, 20, 41, 39}, {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}}},
                       {{1, 3, 19, 37}, {.kernel = {5, 2}, .stride = {3, 3}, .pad = {1, 0, 2, 1}}},
                       {{1, 18, 13, 9}, {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}, .ceil_mode = true}},
                       {{2, 5, 12, 12}, {.kernel = {2, 2}, .stride = {3, 3}}}};
  for (const auto& op : {make_op("max_pool2d"), make_op("avg_pool2d")})
    for (const Sample& sample : op->samples())
      all.push_back({sample.in[0].shape, op->name() == "max_pool2d"
                                             ? static_cast<const MaxPool2d&>(*sample.op).options
                                             : static_cast<const AvgPool2d&>(*sample.op).options});
  return all;
}

template <class O>
std::shared_ptr<O> with(const Pool2dOptions& options) {
  auto op = std::make_shared<O>();
  op->options = options;
  return op;
}

/// Numbers of which many tie.
Tensor coarse(const Shape& shape, std::uint64_t seed) {
  std::vector<float> values = uniform(shape, 0, 4, seed).values<float>();
  for (float& value : values) value = std::floor(value);
  return Tensor::from(shape, values);
}

TEST(Pool2dKernels, MaxAndItsGradientAgree) {
  for (const Row& row : rows())
    for (const Tensor& x : {uniform(row.x, -2, -1, 1), coarse(row.x, 2)}) {
      FusionGroup forward;
      const std::vector<int> y = forward.then(with<MaxPool2d>(row.options), {forward.input(x)});
      forward.check(y, 0);
      const Tensor best = forward.expected(y)[0];
      FusionGroup backward;
      const std::vector<int> in{backward.input(x), backward.input(uniform(best.shape(), -1, 1, 3))};
      backward.check(backward.then(with<MaxPool2dGrad>(row.options), in), 1e-6);
    }
}

TEST(Pool2dKernels, NanWins) {
  std::vector<float> values = uniform({1, 16, 6, 6}, -1, 1, 1).values<float>();
  for (std::size_t i = 0; i < values.size(); i += 7) values[i] = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from(Shape{1, 16, 6, 6}, values);
  FusionGroup forward;
  const std::vector<int> y = forward.then(with<MaxPool2d>({.kernel = {3, 3}}), {forward.input(x)});
  forward.check(y, 0);
  const Tensor best = forward.expected(y)[0];
  FusionGroup backward;
  const std::vector<int> in{backward.input(x), backward.input(uniform(best.shape(), -1, 1, 3))};
  backward.check(backward.then(with<MaxPool2dGrad>({.kernel = {3, 3}}), in), 1e-6);
}

TEST(Pool2dKernels, MeanAndItsGradientAgree) {
  for (Row row : rows())
    for (const bool counts : {true, false}) {
      row.options.count_include_pad = counts;
      FusionGroup forward;
      const std::vector<int> y = forward.then(with<AvgPool2d>(row.options), {forward.input(uniform(row.x, -1, 1, 1))});
      forward.check(y, 1e-6);
      auto grad = with<AvgPool2dGrad>(row.options);
      grad->input_shape = row.x;
      FusionGroup backward;
      backward.check(backward.then(grad, {backward.input(uniform(forward.expected(y)[0].shape(), -1, 1, 2))}), 1e-6);
    }
}

TEST(Pool2dKernels, GlobalMeanAndItsGradientAgree) {
  for (const Shape& shape : {Shape{2, 64, 7, 7}, {3, 17, 13, 11}, {1, 5, 60, 60}, {2, 512, 1, 1}}) {
    FusionGroup forward;
    forward.check(forward.then(make_op("global_avg_pool2d"), {forward.input(uniform(shape, 0, 1, 1))}), 1e-6);
    FusionGroup backward;
    const int dy = backward.input(uniform({shape[0], shape[1], 1, 1}, -1, 1, 1));
    backward.check(backward.then(std::make_shared<BroadcastTo>(shape), {dy}), 0);
  }
}

}  // namespace
}  // namespace neurim
