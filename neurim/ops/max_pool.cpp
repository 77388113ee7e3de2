#include "neurim/ops/max_pool.h"

#include "neurim/ops/common/pool_onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

template <std::size_t N>
struct MaxPoolRow {
  Shape x;
  PoolOptions<N> options = {};
};

template <std::size_t N>
std::vector<MaxPoolRow<N>> max_pool_rows();

template <>
std::vector<MaxPoolRow<1>> max_pool_rows() {
  return {
      {{2, 3, 8}},
      {{1, 16, 9}, {.kernel = {3}, .stride = {2}, .pad = {1, 1}}},
      {{2, 3, 8}, {.kernel = {3}, .stride = {2}, .pad = {1, 1}, .ceil_mode = true}},
      {{1, 3, 10}, {.kernel = {3}, .stride = {1}, .pad = {2, 2}, .dilation = {2}}},
  };
}

template <>
std::vector<MaxPoolRow<3>> max_pool_rows() {
  return {
      {{2, 3, 4, 6, 5}},
      {{1, 16, 5, 7, 6}, {.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .pad = {1, 1, 1, 1, 1, 1}}},
      {{1, 3, 7, 5, 6}, {.kernel = {2, 3, 1}, .stride = {2, 1, 2}, .pad = {1, 1, 0, 1, 1, 0}, .ceil_mode = true}},
      {{1, 2, 4, 5, 6}, {.kernel = {3, 1, 2}, .stride = {1, 1, 1}, .pad = {1, 0, 0, 2, 0, 1}}},
  };
}

template <>
std::vector<MaxPoolRow<2>> max_pool_rows() {
  return {
      {{2, 3, 8, 8}},
      {{1, 16, 7, 5}},
      {{1, 17, 9, 9}, {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}}},
      {{1, 6, 7, 7}, {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}}},
      {{1, 32, 5, 6}, {.kernel = {5, 5}, .stride = {1, 1}, .pad = {2, 2, 2, 2}}},
      {{1, 3, 8, 8}, {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}},
      {{1, 3, 7, 6}, {.kernel = {2, 3}, .stride = {3, 2}, .pad = {0, 1, 1, 2}}},
      {{1, 1, 5, 5},
       {.kernel = {2, 2}, .stride = {3, 3}, .pad = {1, 1, 1, 1}, .ceil_mode = true}},  // no window in right padding
      {{1, 3, 10, 9}, {.kernel = {3, 3}, .stride = {2, 1}, .pad = {2, 2, 2, 2}, .dilation = {2, 2}}},
      {{1, 6, 4, 4}, {.kernel = {4, 4}}},
      {{1, 3, 5, 5}, {.kernel = {1, 1}, .stride = {2, 2}}},
      {{1, 3, 2, 2}, {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}}},  // kernel larger than input
  };
}

/// No two values tie, so that the gradient is defined wherever a test differentiates numerically.
constexpr Fill kDistinct{.low = -2, .high = 2, .distinct = true};

}  // namespace

template <std::size_t N>
void MaxPool<N>::fields(Fields& f) {
  options.fields(f);
}
void MaxPool2dGrad::fields(Fields& f) { options.fields(f); }

template <std::size_t N>
Types MaxPool<N>::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  if (in[0].dtype != DType::u8 && in[0].dtype != DType::i8) check_floating(*this, in[0], "the input");
  return {{in[0].dtype, pooled_shape(name(), in[0].shape, options)}};
}

Types MaxPool2dGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "x");
  const Type y{in[0].dtype, pooled_shape(name(), in[0].shape, options)};
  require(in[1] == y, name(), ": dy is ", in[1], ", but x ", in[0], " gives ", y);
  return {in[0]};
}

template <std::size_t N>
Tensors MaxPool<N>::grad(const Gradient& g) const {
  if constexpr (N != 2) {
    return Op::grad(g);
  } else {
    auto op = std::make_shared<MaxPool2dGrad>();
    op->options = options;
    return {apply1(op, {g.in[0], g.dout[0]})};
  }
}

template <std::size_t N>
Tensors MaxPool<N>::decompose(std::span<const Tensor> in) const {
  if constexpr (N == 2)
    return {};
  else
    return {by_planes(in[0], options, max_pool<2>)};
}

template <std::size_t N>
std::vector<Sample> MaxPool<N>::samples() const {
  std::vector<Sample> all;
  for (const MaxPoolRow<N>& row : max_pool_rows<N>()) {
    auto op = std::make_shared<MaxPool>();
    op->options = row.options;
    all.push_back({op, {{DType::f32, row.x}}, {kDistinct}});
    if constexpr (N == 2) {
      all.push_back({op, {{DType::u8, row.x}}, {{0, 256}}});
      all.push_back({op, {{DType::i8, row.x}}, {{-128, 128}}});
    }
  }
  return all;
}

std::vector<Sample> MaxPool2dGrad::samples() const {
  std::vector<Sample> all;
  for (const MaxPoolRow<2>& row : max_pool_rows<2>()) {
    auto op = std::make_shared<MaxPool2dGrad>();
    op->options = row.options;
    const Type y{DType::f32, pooled_shape(name(), row.x, row.options)};
    all.push_back({op, {{DType::f32, row.x}, y}, {kDistinct, {}}});
  }
  return all;
}

void define_max_pool() {
  define<MaxPool<1>>();
  define<MaxPool<2>>();
  define<MaxPool<3>>();
  define<MaxPool2dGrad>();
}

template <std::size_t N>
void MaxPool<N>::write_onnx(OnnxNode& node) const {
  PoolOptions<N> o = resolved(options);
  o.pad = widened(o, node.types[0].shape, node.out.shape);
  node.add(onnx_operator(*this, node.file), node.in, onnx_window(o));
}

template class MaxPool<1>;
template class MaxPool<2>;
template class MaxPool<3>;

}  // namespace neurim
