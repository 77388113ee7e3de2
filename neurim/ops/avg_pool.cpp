#include "neurim/ops/avg_pool.h"

#include "neurim/ops/common/pool_onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

template <std::size_t N>
struct AvgPoolRow {
  Shape x;
  PoolOptions<N> options = {};
};

template <std::size_t N>
std::vector<AvgPoolRow<N>> avg_pool_rows();

template <>
std::vector<AvgPoolRow<1>> avg_pool_rows() {
  return {
      {{2, 3, 8}},
      {{1, 16, 9}, {.kernel = {3}, .stride = {2}, .pad = {1, 1}}},
      {{2, 3, 8}, {.kernel = {3}, .stride = {2}, .pad = {1, 1}, .ceil_mode = true, .count_include_pad = false}},
      {{1, 3, 10}, {.kernel = {3}, .stride = {1}, .pad = {2, 2}, .dilation = {2}}},
  };
}

template <>
std::vector<AvgPoolRow<3>> avg_pool_rows() {
  return {
      {{2, 3, 4, 6, 5}},
      {{1, 16, 5, 7, 6}, {.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .pad = {1, 1, 1, 1, 1, 1}}},
      {{1, 3, 7, 5, 6},
       {.kernel = {2, 3, 1},
        .stride = {2, 1, 2},
        .pad = {1, 1, 0, 1, 1, 0},
        .ceil_mode = true,
        .count_include_pad = false}},
      {{1, 2, 4, 5, 6}, {.kernel = {3, 1, 2}, .stride = {1, 1, 1}, .pad = {1, 0, 0, 2, 0, 1}}},
  };
}

template <>
std::vector<AvgPoolRow<2>> avg_pool_rows() {
  std::vector<AvgPoolRow<2>> all;
  for (const bool count : {true, false})
    for (const AvgPoolRow<2>& row : std::vector<AvgPoolRow<2>>{
             {{2, 3, 8, 8}},
             {{1, 17, 7, 5}, {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}}},
             {{1, 16, 6, 6}, {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}}},
             {{1, 6, 8, 8}, {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}},
             {{1, 3, 8, 7}, {.kernel = {3, 2}, .stride = {2, 2}, .pad = {1, 0, 1, 0}, .ceil_mode = true}},
             {{1, 3, 7, 6}, {.kernel = {2, 3}, .stride = {3, 2}, .pad = {0, 1, 1, 2}}},
             {{1, 3, 9, 9}, {.kernel = {3, 3}, .stride = {2, 1}, .pad = {2, 2, 2, 2}, .dilation = {2, 2}}},
             {{1, 1, 5, 5}, {.kernel = {5, 5}, .stride = {1, 1}, .pad = {2, 2, 2, 2}}},
             {{1, 32, 4, 4}, {.kernel = {4, 4}}},
             {{1, 3, 2, 2}, {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}}},  // kernel larger than input
         }) {
      all.push_back(row);
      all.back().options.count_include_pad = count;
    }
  return all;
}

}  // namespace

template <std::size_t N>
void AvgPool<N>::fields(Fields& f) {
  options.fields(f);
}
void AvgPool2dGrad::fields(Fields& f) {
  options.fields(f);
  list_field(f, "input_shape", input_shape);
}

template <std::size_t N>
Types AvgPool<N>::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_floating(*this, in[0], "the input");
  return {{in[0].dtype, pooled_shape(name(), in[0].shape, options)}};
}

Types AvgPool2dGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_floating(*this, in[0], "dy");
  const Shape y = pooled_shape(name(), input_shape, options);
  require(in[0].shape == y, name(), ": dy is ", in[0].shape, ", but input ", input_shape, " gives ", y);
  return {{in[0].dtype, input_shape}};
}

template <std::size_t N>
Tensors AvgPool<N>::grad(const Gradient& g) const {
  if constexpr (N != 2) {
    return Op::grad(g);
  } else {
    auto op = std::make_shared<AvgPool2dGrad>();
    op->options = options;
    op->input_shape = g.in[0].shape();
    return {apply1(op, {g.dout[0]})};
  }
}

template <std::size_t N>
Tensors AvgPool<N>::decompose(std::span<const Tensor> in) const {
  if constexpr (N == 2)
    return {};
  else
    return {by_planes(in[0], options, avg_pool<2>)};
}

Tensors AvgPool2dGrad::grad(const Gradient& g) const { return {avg_pool(g.dout[0], options)}; }

template <std::size_t N>
Onnx AvgPool<N>::onnx() const {
  return {"AveragePool", options.dilation == each_axis<N>(1) ? 11 : 19};
}

template <std::size_t N>
std::vector<Sample> AvgPool<N>::samples() const {
  std::vector<Sample> all;
  for (const AvgPoolRow<N>& row : avg_pool_rows<N>()) {
    auto op = std::make_shared<AvgPool>();
    op->options = row.options;
    all.push_back({op, {{DType::f32, row.x}}});
  }
  return all;
}

std::vector<Sample> AvgPool2dGrad::samples() const {
  std::vector<Sample> all;
  for (const AvgPoolRow<2>& row : avg_pool_rows<2>()) {
    auto op = std::make_shared<AvgPool2dGrad>();
    op->options = row.options;
    op->input_shape = row.x;
    all.push_back({op, {{DType::f32, pooled_shape(name(), row.x, row.options)}}});
  }
  return all;
}

void define_avg_pool() {
  define<AvgPool<1>>();
  define<AvgPool<2>>();
  define<AvgPool<3>>();
  define<AvgPool2dGrad>();
}

template <std::size_t N>
void AvgPool<N>::write_onnx(OnnxNode& node) const {
  PoolOptions<N> o = resolved(options);
  const std::array<std::int64_t, 2 * N> given = o.pad;
  o.pad = widened(o, node.types[0].shape, node.out.shape);
  const std::string_view type = onnx_operator(*this, node.file);
  std::string x = node.in[0];
  bool count_pad = o.count_include_pad;
  if (count_pad && o.pad != given) {  // the given padding counts in the divisor, what was added does not
    for (std::size_t side = 0; side < 2 * N; ++side) o.pad[side] -= given[side];
    std::vector<std::int64_t> pads(2 * N + 4);
    std::copy_n(given.begin(), N, pads.begin() + 2);
    std::copy_n(given.begin() + N, N, pads.end() - N);
    if (given != std::array<std::int64_t, 2 * N>{}) x = node.add("Pad", {x, node.list(pads, "pads")});
    count_pad = false;
  }
  OnnxAttributes attributes = onnx_window(o);
  attributes.emplace_back("count_include_pad", std::int64_t{count_pad});
  node.add(type, {x}, attributes);
}

template class AvgPool<1>;
template class AvgPool<2>;
template class AvgPool<3>;

}  // namespace neurim
