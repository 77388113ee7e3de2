// Convolutions and fully connected layers of numbers of 8 bits, with what stands before and behind them, as one kernel.
// Of scales that are powers of two, and sums that floats have, all numbers are exact, so that results are those of f32,
// bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "neurim/backend/cpu/common/tiles.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/hardware/isa.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/quantize.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/silu.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using Net = std::function<Tensors(Tensors)>;

Tensor bytes_of(DType dtype, const Shape& shape, std::uint64_t seed, double low, double high) {
  Random random(seed);
  return op_table::from_doubles({dtype, shape}, op_table::numbers({dtype, shape}, {low, high}, random));
}
Tensor activation(DType dtype, const Shape& shape, std::uint64_t seed) {
  return dtype == DType::u8 ? bytes_of(dtype, shape, seed, 0, 256) : bytes_of(dtype, shape, seed, -128, 128);
}
Tensor weights(const Shape& shape, std::uint64_t seed) { return bytes_of(DType::i8, shape, seed, -20, 21); }
std::vector<std::int64_t> whole(const Tensor& bytes) { return cast(bytes, DType::i64).values<std::int64_t>(); }
Tensor number(double value) { return Tensor::full({DType::f32, {}}, value); }

/// Powers of two, one for each output channel.
Tensor scales(const Shape& weight, double common) {
  Shape shape = weight;
  for (int axis = 1; axis < shape.rank(); ++axis) shape[axis] = 1;
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape[0]; ++i) values.push_back(static_cast<float>(common * std::exp2(i % 3)));
  return Tensor::from(shape, values);
}

/// What surrounds a layer of bytes.
struct Case {
  Shape x, weight;
  Conv2dOptions options = {};
  DType in = DType::u8, out = DType::u8;  ///< out: f32 without quantize
  std::int64_t in_zero = 7, out_zero = 100;
  bool bias = true, relu = false, relu6 = false, residual = false, one_scale = false;
  double scale = 1.0 / 1024;  ///< of the result, in units of x's times the weights'
};

constexpr double kInScale = 1.0 / 16, kWeightScale = 1.0 / 64;

Net net_of(const Case& c, double odd = 1) {
  const Tensor weight = weights(c.weight, 2),
               weight_scale = c.one_scale ? number(kWeightScale * odd) : scales(c.weight, kWeightScale * odd);
  std::vector<float> values;
  for (std::int64_t i = 0; i < c.weight[0]; ++i) values.push_back(static_cast<float>(i % 7 - 3));
  const Tensor bias = c.bias ? Tensor::from(Shape{c.weight[0]}, values) : Tensor();
  return [=](const Tensors& in) -> Tensors {
    const Tensor x = dequantize(in[0], number(kInScale * odd), c.in_zero), w = dequantize(weight, weight_scale);
    Tensor y = c.weight.rank() == 2 ? linear(x, w, bias) : conv2d(x, w, bias, c.options);
    if (c.residual) y = add(y, dequantize(in[1], number(0.25 * odd), 5));
    if (c.relu) y = relu(y);
    if (c.relu6) y = relu6(y);
    return {c.out == DType::f32 ? y : quantize(y, number(kInScale * kWeightScale * odd / c.scale), c.out_zero, c.out)};
  };
}

Shape result_of(const Case& c) {
  if (c.weight.rank() != 2)
    return conv2d(Tensor::full({DType::f32, c.x}, 0), Tensor::full({DType::f32, c.weight}, 0), {}, c.options).shape();
  Shape y = c.x;
  y[-1] = c.weight[0];
  return y;
}

Tensors inputs_of(const Case& c) {
  Tensors in{activation(c.in, c.x, 1)};
  if (c.residual) in.push_back(activation(c.out == DType::f32 ? DType::u8 : c.out, result_of(c), 3));
  return in;
}

std::string shown(const Case& c) {
  return text(c.x, ' ', c.weight, ' ', c.in, " to ", c.out, c.residual ? " residual" : "", c.relu ? " relu" : "",
              c.relu6 ? " relu6" : "");
}

/// One kernel takes all of it, in one thread, two and three, with the bits that the reference has.
void expect_exact(const Case& c) {
  SCOPED_TRACE(shown(c));
  const Net net = net_of(c);
  const Tensors in = inputs_of(c), expected = plan(net, op_table::types_of(in), {.interpret = true})(in);
  const int before = threads();
  for (const int count : {1, 3, 2})
    for (const bool deterministic : {false, true}) {
      set_threads(count);
      const Plan planned = plan(net, op_table::types_of(in), {.freeze = true, .deterministic = deterministic});
      EXPECT_EQ(op_table::difference(expected, planned(in), 0), "") << "threads " << count;
      int tasks = 0;
      for (const PlanRow& row : planned.rows())
        if (row.kernel.starts_with("cpu int8"))
          ++tasks;
        else
          EXPECT_EQ(row.op, "") << row.kernel;  // reorders only
      EXPECT_EQ(tasks, 1);
    }
  set_threads(before);
}

const Shape kImages{2, 32, 9, 11};

TEST(Int8, ConvolutionsAreExact) {
  for (const DType in : {DType::u8, DType::i8})
    for (const DType out : {DType::u8, DType::i8, DType::f32}) {
      const std::int64_t out_zero = out == DType::i8 ? -11 : 100;
      const auto with = [&](Case c) {
        c.in = in, c.out = out, c.out_zero = out_zero;
        expect_exact(c);
      };
      with({.x = kImages, .weight = {48, 32, 1, 1}});
      with({.x = kImages, .weight = {48, 32, 3, 3}, .options = {.pad = {1, 1, 1, 1}}});
      with({.x = {1, 37, 9, 11},
            .weight = {43, 37, 3, 3},
            .options = {.pad = {1, 1, 1, 1}},
            .relu = true});  // blocks with tails
      with({.x = {3, 50, 6, 5}, .weight = {19, 50, 1, 1}, .relu6 = true, .residual = true});
      with({.x = kImages, .weight = {32, 32, 3, 3}, .options = {.pad = {1, 1, 1, 1}}, .relu = true, .residual = true});
      with({.x = {2, 3, 20, 17},
            .weight = {16, 3, 7, 7},
            .options = {.stride = {2, 2}, .pad = {3, 3, 3, 3}},
            .relu = true});
      with({.x = {2, 1, 12, 9}, .weight = {20, 1, 5, 5}, .options = {.pad = {2, 2, 2, 2}}});
      with({.x = {2, 40, 10, 9},
            .weight = {40, 1, 3, 3},
            .options = {.stride = {2, 2}, .pad = {1, 1, 1, 1}, .groups = 40},
            .relu6 = true});
      with({.x = {1, 23, 10, 9},
            .weight = {23, 1, 5, 5},
            .options = {.pad = {2, 2, 2, 2}, .groups = 23},
            .residual = true});
    }
}

TEST(Int8, WindowsOfEveryForm) {
  expect_exact({.x = kImages, .weight = {16, 32, 3, 3}, .options = {.stride = {2, 2}, .pad = {1, 1, 1, 1}}});
  expect_exact({.x = kImages, .weight = {16, 32, 1, 1}, .options = {.stride = {2, 2}}});
  expect_exact({.x = kImages, .weight = {16, 32, 1, 1}, .options = {.pad = {1, 0, 2, 1}}});
  expect_exact(
      {.x = kImages, .weight = {16, 32, 3, 5}, .options = {.stride = {1, 3}, .dilation = {1, 1}, .pad = {0, 2, 1, 3}}});
  expect_exact({.x = {1, 32, 19, 17},
                .weight = {16, 32, 3, 3},
                .options = {.stride = {1, 2}, .dilation = {2, 3}, .pad = {2, 2, 2, 2}}});
  expect_exact({.x = {1, 32, 19, 17}, .weight = {16, 32, 1, 7}, .options = {.pad = {0, 3, 0, 3}}});
  expect_exact({.x = {1, 32, 19, 17}, .weight = {16, 32, 7, 1}, .options = {.stride = {2, 2}, .pad = {3, 0, 3, 0}}});
  expect_exact({.x = {1, 16, 70, 90}, .weight = {32, 16, 3, 3}, .options = {.pad = {1, 1, 1, 1}}});  // several bands
  for (const std::int64_t side : {3, 5, 10, 22, 58})  // odd and even counts of Winograd's tiles in a task
    expect_exact({.x = {1, 16, side, side - 1}, .weight = {24, 16, 3, 3}, .options = {.pad = {1, 1, 1, 1}}});
  expect_exact({.x = {1, 16, 2, 2}, .weight = {160, 16, 2, 2}});  // one pixel, cut by channels
  expect_exact({.x = {1, 4, 9, 300}, .weight = {16, 4, 3, 3}, .options = {.stride = {1, 2}, .pad = {1, 1, 1, 1}}});
  expect_exact({.x = {2, 20, 40, 30},
                .weight = {20, 1, 7, 3},
                .options = {.stride = {1, 2}, .dilation = {1, 1}, .pad = {3, 1, 3, 1}, .groups = 20}});
  expect_exact({.x = {1, 16, 9, 9}, .weight = {16, 16, 5, 5}, .options = {.pad = {4, 4, 4, 4}}});  // rows outside of x
}

TEST(Int8, DepthwiseWindowsOfEveryForm) {
  const auto of = [](const Shape& x, std::int64_t height, std::int64_t width, Conv2dOptions options) {
    options.groups = x[1];
    for (const DType in : {DType::u8, DType::i8})
      expect_exact({.x = x, .weight = {x[1], 1, height, width}, .options = options, .in = in, .relu = in == DType::u8});
  };
  of({2, 16, 7, 7}, 3, 3, {.pad = {1, 1, 1, 1}});    // whole planes
  of({1, 24, 30, 60}, 3, 3, {.pad = {1, 1, 1, 1}});  // some rows of them
  of({1, 32, 30, 60}, 5, 5, {.stride = {2, 2}, .pad = {2, 2, 2, 2}});
  of({1, 32, 12, 20}, 7, 7, {.pad = {3, 3, 3, 3}});
  of({1, 32, 12, 20}, 1, 9, {.stride = {1, 4}, .pad = {0, 4, 0, 4}});
  of({1, 32, 12, 21}, 3, 9, {.stride = {1, 3}, .pad = {1, 4, 1, 4}});  // windows that begin between words
  of({1, 32, 12, 20}, 9, 1, {.stride = {3, 3}});
  of({1, 16, 12, 20}, 3, 3, {.stride = {1, 1}, .dilation = {2, 3}, .pad = {2, 3, 2, 3}});
  of({1, 16, 20, 26}, 5, 6, {.stride = {2, 3}, .dilation = {3, 3}, .pad = {1, 2, 3, 4}});
  of({1, 16, 6, 5}, 3, 3, {.pad = {4, 4, 4, 4}});  // windows outside of x
  of({1, 16, 9, 9}, 1, 1, {.stride = {4, 4}});     // rows that nothing reads
  of({1, 16, 5, 2}, 2, 4, {.pad = {0, 1, 1, 2}});  // wider than x
}

TEST(Int8, LayersAreExact) {
  for (const DType in : {DType::u8, DType::i8}) {
    expect_exact({.x = {5, 64}, .weight = {48, 64}, .in = in});
    expect_exact({.x = {1, 70}, .weight = {35, 70}, .in = in, .out = DType::i8, .out_zero = 3, .relu = true});
    expect_exact({.x = {33, 52}, .weight = {19, 52}, .in = in, .out = DType::f32, .bias = false});
    expect_exact({.x = {2, 21, 64}, .weight = {40, 64}, .in = in, .residual = true});
    expect_exact({.x = {64}, .weight = {48, 64}, .in = in});
  }
}

TEST(Int8, OneScaleForAllWeights) {
  expect_exact({.x = kImages, .weight = {48, 32, 1, 1}, .one_scale = true});
  expect_exact({.x = {5, 64}, .weight = {48, 64}, .one_scale = true});
}

/// The largest sums there are: two of their products do not fit 16 bits.
TEST(Int8, SumsAreNotCutShort) {
  for (const double value : {127.0, -128.0}) {
    const Tensor x = Tensor::full({DType::u8, {1, 64, 5, 5}}, 255),
                 w = Tensor::full({DType::i8, {16, 64, 3, 3}}, value);
    const Net net = [&](const Tensors& in) -> Tensors {
      return {conv2d(dequantize(in[0], number(1)), dequantize(w, number(1)), {}, {})};
    };
    const Plan planned = plan(net, {x.type()}, {.freeze = true});
    EXPECT_EQ(planned.rows()[1].kernel, cpu::uses_tiles() ? "cpu int8 tiles" : "cpu int8");  // behind a reorder
    for (const float y : planned({x})[0].values<float>()) EXPECT_EQ(y, 576 * 255 * value);
  }
}

/// A value has one layout: where weights are also an activation they are read as floats. And steps of a residual's own
/// are none of the sum's.
TEST(Int8, ValuesInTwoRoles) {
  const Tensor scale = number(0.5), weight = weights({32, 32, 1, 1}, 4), matrix = weights({32, 32}, 5),
               x = activation(DType::u8, {32, 32, 1, 1}, 6);
  const auto of = [&](const Tensor& bytes) { return dequantize(bytes, scale); };
  const std::vector<Net> nets{
      [&](const Tensors&) -> Tensors { return {conv2d(of(weight), dequantize(weight, number(2)))}; },
      [&](const Tensors&) -> Tensors { return {linear(of(matrix), dequantize(matrix, number(2)))}; },
      [&](const Tensors& in) -> Tensors { return {add(conv2d(of(in[0]), of(weight)), of(weight))}; },
      [&](const Tensors& in) -> Tensors { return {add(conv2d(of(in[0]), of(weight)), of(in[0]))}; },
      [&](const Tensors& in) -> Tensors { return {add(conv2d(of(in[0]), of(weight)), relu(of(in[0])))}; },
      [&](const Tensors& in) -> Tensors { return {conv2d(of(in[0]), of(weight)), of(in[0])}; }};
  for (std::size_t i = 0; i < nets.size(); ++i)
    EXPECT_EQ(op_table::difference(plan(nets[i], {x.type()}, {.interpret = true})({x}),
                                   plan(nets[i], {x.type()}, {.freeze = true})({x}), 1e-6),
              "")
        << i;
  const auto rows = plan(nets.back(), {x.type()}, {.freeze = true}).rows();
  EXPECT_TRUE(
      std::any_of(rows.begin(), rows.end(), [](const PlanRow& row) { return row.kernel.starts_with("cpu int8"); }));
}

/// Large terms that cancel each other, and such that do not fit f32.
TEST(Int8, ExtremeScales) {
  const Tensor weight = weights({16, 16, 1, 1}, 4), x = activation(DType::u8, {1, 16, 5, 7}, 6),
               full = Tensor::full(x.type(), 255);
  const auto net = [&](double x_scale, double residual_scale, bool bytes) -> Net {
    return [=](const Tensors& in) -> Tensors {
      const Tensor y = add(conv2d(dequantize(in[0], number(x_scale)), dequantize(weight, number(1))),
                           dequantize(in[1], number(residual_scale), 255));
      return {bytes ? quantize(y, number(1), 0, DType::u8) : y};
    };
  };
  const Types types{x.type(), x.type()};
  const Net cancelling = net(1e-6, 1000, false);
  EXPECT_EQ(op_table::difference(plan(cancelling, types, {.interpret = true})({x, full}),
                                 plan(cancelling, types, {.freeze = true})({x, full}), 1e-5),
            "");
  for (const PlanRow& row : plan(net(1e36, -3e38, true), types, {.freeze = true}).rows())
    EXPECT_FALSE(row.kernel.starts_with("cpu int8"));
}

/// More terms of a depthwise convolution than floats have digits for.
TEST(Int8, LongSumsOfOneChannel) {
  const Tensor filter = bytes_of(DType::i8, {32, 1, 33, 33}, 7, 120, 128),
               image = bytes_of(DType::u8, {1, 32, 40, 40}, 8, 0, 256);
  const Net net = [&](const Tensors& in) -> Tensors {
    return {conv2d(dequantize(in[0], number(1)), dequantize(filter, number(1)), {}, {.groups = 32})};
  };
  const Plan planned = plan(net, {image.type()}, {.freeze = true});
  EXPECT_EQ(op_table::difference(plan(net, {image.type()}, {.interpret = true})({image}), planned({image}), 1e-6), "");
  EXPECT_EQ(planned.rows()[1].kernel, "cpu int8");  // behind a reorder
}

/// The largest numbers at the points of Winograd's convolution, and their sums over as many channels as it takes.
TEST(Int8, LargestSumsOfWindows) {
  for (const double weight : {-128., 127.})
    for (const std::int64_t zero : {0, 255}) {
      const Tensor filter = Tensor::full({DType::i8, {16, 896, 3, 3}}, weight),
                   image = Tensor::full({DType::u8, {1, 896, 8, 8}}, zero == 0 ? 255 : 0);
      const Net net = [&](const Tensors& in) -> Tensors {
        return {conv2d(dequantize(in[0], number(1), zero), dequantize(filter, number(1)), {}, {.pad = {1, 1, 1, 1}})};
      };
      const Plan planned = plan(net, {image.type()}, {.freeze = true});
      EXPECT_EQ(op_table::difference(plan(net, {image.type()}, {.interpret = true})({image}), planned({image}), 0), "");
      EXPECT_EQ(planned.rows()[1].kernel, cpu::uses_tiles() ? "cpu int8 tiles"
                                          : has_vnni() || has_dot_products()
                                              ? "cpu int8"
                                              : "cpu int8 winograd");  // behind a reorder
    }
}

/// Weights of bytes whose activation is none are floats before the first run.
TEST(Int8, OtherWeightsAreFolded) {
  const Tensor weight = weights({32, 32, 3, 3}, 4);
  const Plan planned = plan(
      [&](const Tensors& in) -> Tensors { return {conv2d(in[0], dequantize(weight, scales(weight.shape(), 0.5)))}; },
      {{DType::f32, {1, 32, 9, 9}}}, {.freeze = true});
  for (const PlanRow& row : planned.rows()) EXPECT_EQ(row.op.find("dequantize"), std::string::npos) << row.op;
}

TEST(Int8, AnotherCpu) {
  const Device other = device_named("cpu:1");
  const Tensor weight = Tensor::full({DType::i8, {32, 32, 3, 3}}, 3, other),
               one = Tensor::full({DType::f32, {}}, 1, other), x = Tensor::full({DType::u8, {1, 32, 3, 3}}, 2);
  const Plan planned = plan(
      [&](const Tensors& in) -> Tensors { return {conv2d(dequantize(in[0], one), dequantize(weight, one))}; },
      {x.type()}, {.freeze = true, .device = other});
  Tensor y = Tensor::empty({DType::f32, {1, 32, 1, 1}});
  planned.run({{x}}, {{y}});
  for (const float each : y.values<float>()) EXPECT_EQ(each, 32 * 9 * 6);
}

/// Of scales as training finds them, a result is the next whole number at times: at ties.
TEST(Int8, AnyScale) {
  for (const Case& c :
       {Case{.x = kImages, .weight = {48, 32, 3, 3}, .options = {.pad = {1, 1, 1, 1}}, .relu = true, .residual = true},
        Case{.x = kImages, .weight = {48, 32, 1, 1}},
        Case{.x = {2, 3, 32, 32}, .weight = {32, 3, 3, 3}, .options = {.stride = {2, 2}, .pad = {1, 1, 1, 1}}},
        Case{.x = {2, 48, 20, 20}, .weight = {48, 1, 3, 3}, .options = {.pad = {1, 1, 1, 1}, .groups = 48}}}) {
    SCOPED_TRACE(shown(c));
    const Net net = net_of(c, 0.0137 / kInScale);
    const Tensors in = inputs_of(c);
    const auto want = whole(plan(net, op_table::types_of(in), {.interpret = true})(in)[0]);
    const auto got = whole(plan(net, op_table::types_of(in), {.freeze = true})(in)[0]);
    std::size_t others = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(std::abs(want[i] - got[i]), 1);
      others += want[i] != got[i];
    }
    EXPECT_LE(others, want.size() / 500);
  }
}

/// What a network is made of: values that several read, a stem, pooling and a layer at the end; and what no kernel of
/// bytes takes.
TEST(Int8, Networks) {
  const Tensor stem = weights({32, 3, 3, 3}, 10), first = weights({32, 32, 3, 3}, 11),
               second = weights({32, 32, 3, 3}, 12), grouped = weights({32, 16, 1, 1}, 13),
               changed = weights({48, 32, 1, 1}, 14);
  const Tensor sixteenth = number(1.0 / 16), small = number(1.0 / 128);
  const auto restored = [&](const Tensor& x) { return dequantize(quantize(x, sixteenth, 9, DType::u8), sixteenth, 9); };
  const auto of = [&](const Tensor& w) { return dequantize(w, small); };
  const Conv2dOptions same{.pad = {1, 1, 1, 1}};
  const Net net = [&](const Tensors& in) -> Tensors {
    const Tensor x = restored(relu(conv2d(restored(in[0]), of(stem), {}, same)));
    const Tensor pooled = restored(max_pool2d(x, {.kernel = {2, 2}, .stride = {2, 2}}));
    const Tensor inner = restored(relu(conv2d(pooled, of(first), {}, same)));
    const Tensor block = restored(relu(add(conv2d(inner, of(second), {}, same), pooled)));
    const Tensor groups = restored(conv2d(block, of(grouped), {}, {.groups = 2}));
    return {conv2d(silu(groups), of(changed)), conv2d(groups, of(changed))};
  };
  const Tensor image = op_table::uniform({2, 3, 16, 18}, -4, 4, 20);
  const Tensors expected = plan(net, {image.type()}, {.interpret = true})({image});
  for (const bool freeze : {true, false}) {
    const Plan planned = plan(net, {image.type()}, {.freeze = freeze});
    EXPECT_EQ(op_table::difference(expected, planned({image}), 0.05), "");  // of f32, a tie may fall the other way
    int taken = 0;
    for (const PlanRow& row : planned.rows()) taken += row.kernel.starts_with("cpu int8");
    EXPECT_EQ(taken, freeze ? 4 : 0);
  }
}

/// Bytes are made before they are moved and pooled, and not made again of themselves; all of it exact.
TEST(Int8, QuantizesFirst) {
  const Tensor half = number(0.5), quarter = number(0.25);
  const auto bytes = [&](const Tensor& x, const Tensor& scale = {}) {
    return quantize(x, scale ? scale : half, 100, DType::u8);
  };
  const auto real = [&](const Tensor& q) { return dequantize(q, half, 100); };
  const Pool2dOptions window{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
  const Tensor x = op_table::uniform({2, 32, 9, 11}, -60, 90, 20), z = op_table::uniform({2, 16, 9, 11}, -60, 90, 21),
               q = activation(DType::u8, {2, 32, 9, 11}, 22);
  struct Moves {
    const char* what;
    Net net;
    std::vector<std::string> on_bytes;  ///< ops that read bytes, in order
  };
  const std::vector<Moves> all{
      {"pool", [&](const Tensors& in) -> Tensors { return {bytes(max_pool2d(in[0], window))}; }, {"max_pool2d"}},
      {"joined and pooled",
       [&](const Tensors& in) -> Tensors { return {bytes(max_pool2d(concat({in[0], in[1]}, 1), window))}; },
       {"concat", "max_pool2d"}},
      {"moved",
       [&](const Tensors& in) -> Tensors {
         return {bytes(slice(transpose(reshape(in[0], {2, 2, 16, 9, 11}), {0, 2, 1, 3, 4}), {1}, {9}, {1}))};
       },
       {"slice", "transpose"}},
      {"again", [&](const Tensors& in) -> Tensors { return {bytes(max_pool2d(real(in[2]), window))}; }, {"max_pool2d"}},
      {"by another scale",
       [&](const Tensors& in) -> Tensors { return {bytes(max_pool2d(real(in[2]), window), quarter)}; },
       {"dequantize+quantize", "max_pool2d"}},
      {"by a negative scale",
       [&](const Tensors& in) -> Tensors { return {bytes(max_pool2d(in[0], window), number(-0.5))}; },
       {}},
      {"read twice",
       [&](const Tensors& in) -> Tensors {
         const Tensor pooled = max_pool2d(in[0], window);
         return {bytes(pooled), pooled};
       },
       {}},
      {"scales of channels",
       [&](const Tensors& in) -> Tensors { return {bytes(max_pool2d(in[0], window), scales({32, 1, 1}, 0.25))}; },
       {}},
  };
  for (const Moves& each : all) {
    SCOPED_TRACE(each.what);
    const Types types{x.type(), z.type(), q.type()};
    const Plan planned = plan(each.net, types, {.freeze = true});
    EXPECT_EQ(op_table::difference(plan(each.net, types, {.interpret = true})({x, z, q}), planned({x, z, q}), 0), "");
    std::vector<std::string> on_bytes;
    for (const PlanRow& row : planned.rows())
      if (!row.in.empty() && row.in[0].dtype == DType::u8 && !row.op.empty()) on_bytes.push_back(row.op);
    EXPECT_EQ(on_bytes, each.on_bytes);
  }
}

/// Quantized numbers at the edges of their range.
TEST(Int8, QuantizeLimits) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from(
      Shape{9}, std::vector<float>{inf, -inf, std::nanf(""), 1e30f, -1e30f, 0.25f, 0.75f, -0.25f, 127.25f});
  const std::vector<std::int64_t> of_u8{255, 0, 0, 255, 0, 10, 12, 10, 255},
      of_i8{127, -128, -128, 127, -128, -3, -1, -3, 127};
  EXPECT_EQ(whole(quantize(x, number(0.5), 10, DType::u8)), of_u8);
  EXPECT_EQ(whole(quantize(x, number(0.5), -3, DType::i8)), of_i8);
  for (const bool interpret : {true, false}) {
    const Plan planned = plan(
        [&](const Tensors& in) -> Tensors {
          return {dequantize(quantize(in[0], number(0.5), 10, DType::u8), number(2), 10)};
        },
        {x.type()}, {.interpret = interpret});
    EXPECT_EQ(planned({x})[0].values<float>(), (std::vector<float>{490, -20, -20, 490, -20, 0, 4, 0, 490}));
  }
}

TEST(Int8, SaysWhatDoesNotFit) {
  const Tensor x = Tensor::full({DType::f32, {2, 3}}, 0), q = Tensor::full({DType::u8, {2, 3}}, 0);
  const auto says = [](const std::function<void()>& function, const std::string& what) {
    try {
      function();
      ADD_FAILURE() << "takes it; expected: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage);
      EXPECT_EQ(std::string(error.what()), what);
    }
  };
  says([&] { quantize(x, number(1), 256, DType::u8); }, "quantize: the zero point is 256, but u8 is in [0,255]");
  says([&] { quantize(x, number(1), 0, DType::i32); }, "quantize: to i32, but takes u8 and i8");
  says([&] { quantize(x, Tensor::full({DType::f32, {5, 2, 3}}, 0), 0, DType::u8); },
       "quantize: the scale is f32(5,2,3), which does not broadcast to f32(2,3)");
  says([&] { dequantize(x, number(1)); }, "dequantize: of f32(2,3), but takes u8, i8 and i32");
  says([&] { dequantize(q, number(1), -1); }, "dequantize: the zero point is -1, but u8 is in [0,255]");
}

}  // namespace
}  // namespace neurim
