#include "neurim/ops/avg_pool2d.h"

#include "neurim/ops/rules.h"

namespace neurim {

namespace {

struct Row {
  Shape x;
  Pool2dOptions options = {};
};

std::vector<Row> rows() {
  std::vector<Row> all;
  for (const bool count : {true, false})
    for (const Row& row : std::vector<Row>{
             {{2, 3, 8, 8}},
             {{1, 17, 7, 5}, {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}}},
             {{1, 16, 6, 6}, {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}}},
             {{1, 6, 8, 8}, {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}},
             {{1, 3, 8, 7}, {.kernel = {3, 2}, .stride = {2, 2}, .pad = {1, 0, 1, 0}, .ceil_mode = true}},
             {{1, 3, 7, 6}, {.kernel = {2, 3}, .stride = {3, 2}, .pad = {0, 1, 1, 2}}},
             {{1, 3, 9, 9}, {.kernel = {3, 3}, .stride = {2, 1}, .pad = {2, 2, 2, 2}, .dilation = {2, 2}}},
             {{1, 1, 5, 5}, {.kernel = {5, 5}, .stride = {1, 1}, .pad = {2, 2, 2, 2}}},
             {{1, 32, 4, 4}, {.kernel = {4, 4}}},
             {{1, 3, 2, 2},
              {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}}},  // kernel larger than input
         }) {
      all.push_back(row);
      all.back().options.count_include_pad = count;
    }
  return all;
}

}  // namespace

void AvgPool2d::fields(Fields& f) { options.fields(f); }
void AvgPool2dGrad::fields(Fields& f) {
  options.fields(f);
  list_field(f, "input_shape", input_shape);
}

Types AvgPool2d::infer(std::span<const Type> in) const {
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

Tensors AvgPool2d::grad(const Gradient& g) const {
  auto op = std::make_shared<AvgPool2dGrad>();
  op->options = options;
  op->input_shape = g.in[0].shape();
  return {apply1(op, {g.dout[0]})};
}

Tensors AvgPool2dGrad::grad(const Gradient& g) const { return {avg_pool2d(g.dout[0], options)}; }

Onnx AvgPool2d::onnx() const {
  return {"AveragePool", options.dilation == std::array<std::int64_t, 2>{1, 1} ? 11 : 19};
}

std::vector<Sample> AvgPool2d::samples() const {
  std::vector<Sample> all;
  for (const Row& row : rows()) {
    auto op = std::make_shared<AvgPool2d>();
    op->options = row.options;
    all.push_back({op, {{DType::f32, row.x}}});
  }
  return all;
}

std::vector<Sample> AvgPool2dGrad::samples() const {
  std::vector<Sample> all;
  for (const Row& row : rows()) {
    auto op = std::make_shared<AvgPool2dGrad>();
    op->options = row.options;
    op->input_shape = row.x;
    all.push_back({op, {{DType::f32, pooled_shape(name(), row.x, row.options)}}});
  }
  return all;
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options) {
  auto op = std::make_shared<AvgPool2d>();
  op->options = options;
  return apply1(op, {x});
}

void define_avg_pool2d() {
  define<AvgPool2d>();
  define<AvgPool2dGrad>();
}

}  // namespace neurim
