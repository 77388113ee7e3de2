// A form that is linear in each of two inputs.
#pragma once
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/transpose.h"

namespace neurim {

/// x1(…,in1), x2(…,in2), weight(out,in1,in2) and bias(out) or none, of one floating dtype -> y(…,out), where
/// y[o] = x1 weight[o] x2 + bias[o].
inline Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {}) {
  require(weight.rank() == 3 && x1.rank() > 0 && x1.rank() == x2.rank() && x1.size(-1) == weight.size(1) &&
              x2.size(-1) == weight.size(2),
          "bilinear: takes x1(…,in1), x2(…,in2) and weight(out,in1,in2), got ", x1.shape(), ", ", x2.shape(), " and ",
          weight.shape());
  Shape out = x1.shape(), other = x2.shape();
  out[-1] = other[-1] = weight.size(0);
  require(out == other, "bilinear: x1 ", x1.shape(), " and x2 ", x2.shape(), " differ before the last axis");
  const auto rows = [](const Tensor& x) { return reshape(x, Shape{x.numel() / x.size(-1), x.size(-1)}); };
  // (out,rows,in2), and its product with x2 summed: (out,rows).
  const Tensor y = sum(matmul(rows(x1), weight) * rows(x2), {-1});
  const Tensor named = reshape(transpose(y, {1, 0}), out);
  return bias ? named + bias : named;
}

}  // namespace neurim
