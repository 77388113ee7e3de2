#include "neurim/ops/linear.h"

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sum.h"

namespace neurim {

Types Linear::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 3);
  check_floating(*this, in[0], "the input");
  check_same_dtype(*this, in[0], in[1]);
  const Shape &x = in[0].shape, &weight = in[1].shape;
  require(weight.rank() == 2 && weight.numel() > 0, name(), ": takes a weight (out,in), got ", weight);
  require(x.rank() >= 1 && x[-1] == weight[1], name(), ": input ", x, " has ", x.empty() ? Dim(1) : x[-1],
          " features, weight ", weight, " expects ", weight[1]);
  if (in.size() == 3) {
    check_same_dtype(*this, in[0], in[2]);
    require(in[2].shape == Shape{weight[0]}, name(), ": bias is ", in[2].shape, ", weight ", weight, " expects ",
            Shape{weight[0]});
  }
  Shape out = x;
  out[-1] = weight[0];
  return {{in[0].dtype, out}};
}

Tensors Linear::grad(const Gradient& g) const {
  const Tensor &x = g.in[0], &weight = g.in[1];
  // All leading axes are one batch: the products stay two-dimensional.
  auto rows = [](const Tensor& t) { return t.rank() == 2 ? t : reshape(t, Shape{t.numel() / t.size(-1), t.size(-1)}); };
  const Tensor dy = rows(g.dout[0]);
  Tensors d(g.in.size());
  if (g.wanted[0]) {
    const Tensor dx = matmul(dy, weight);
    d[0] = x.rank() == 2 ? dx : reshape(dx, x.shape());
  }
  if (g.wanted[1]) d[1] = matmul(dy, rows(x), true);
  if (d.size() == 3 && g.wanted[2]) d[2] = sum(dy, {0});
  return d;
}

bool Linear::precedes(const Op& anchor) const { return ends_with(anchor.name(), "_recurrence"); }

std::int64_t Linear::multiply_adds(std::span<const Type> in) const {
  return infer(in)[0].shape.numel() * in[1].shape[1];
}

std::vector<Sample> Linear::samples() const {
  struct LinearRow {
    Shape x;
    std::int64_t out;
  };
  std::vector<Sample> all;
  for (const bool bias : {true, false})
    for (const auto& [x, out] : {LinearRow{{4, 5}, 3},
                                 {{1, 1}, 1},
                                 {{8, 32}, 10},
                                 {{3, 17}, 33},
                                 {{2, 3, 5}, 7},
                                 {{6}, 4},
                                 {{2, 65, 258}, 18}}) {
      Types in{{DType::f32, x}, {DType::f32, {out, x[-1]}}};
      if (bias) in.push_back({DType::f32, {out}});
      all.push_back({std::make_shared<Linear>(), in});
    }
  return all;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return apply1(std::make_shared<Linear>(), bias ? Tensors{x, weight, bias} : Tensors{x, weight});
}

void Linear::write_onnx(OnnxNode& node) const {
  if (node.types[0].shape.rank() == 2) {
    node.add("Gemm", node.in, {{"transB", std::int64_t{1}}});
    return;
  }
  const std::string product = node.add("MatMul", {node.in[0], node.transposed(node.in[1], 2)});
  if (node.in.size() == 3) node.add("Add", {product, node.in[2]});
}

void define_linear() { define<Linear>(); }

}  // namespace neurim
