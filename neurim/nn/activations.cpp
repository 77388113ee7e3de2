#include "neurim/nn/activations.h"

#include "neurim/base/error.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/elu.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/glu.h"
#include "neurim/ops/hardsigmoid.h"
#include "neurim/ops/hardswish.h"
#include "neurim/ops/leaky_relu.h"
#include "neurim/ops/log_sigmoid.h"
#include "neurim/ops/log_softmax.h"
#include "neurim/ops/mish.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/selu.h"
#include "neurim/ops/shrink.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/silu.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/softplus.h"
#include "neurim/ops/softsign.h"
#include "neurim/ops/tanh.h"
#include "neurim/ops/threshold.h"
#include "neurim/ops/transpose.h"
#include "neurim/ops/where.h"

namespace neurim::nn {

Tensor ReLU::operator()(const Tensor& x) const { return relu(x); }
Tensor ReLU6::operator()(const Tensor& x) const { return relu6(x); }
Tensor LeakyReLU::operator()(const Tensor& x) const { return leaky_relu(x, slope); }
Tensor ELU::operator()(const Tensor& x) const { return elu(x, alpha); }
Tensor SELU::operator()(const Tensor& x) const { return selu(x); }
Tensor CELU::operator()(const Tensor& x) const { return celu(x, alpha); }
Tensor GELU::operator()(const Tensor& x) const { return gelu(x, approximate); }
Tensor SiLU::operator()(const Tensor& x) const { return silu(x); }
Tensor Sigmoid::operator()(const Tensor& x) const { return sigmoid(x); }
Tensor Tanh::operator()(const Tensor& x) const { return tanh(x); }
Tensor Softplus::operator()(const Tensor& x) const {
  // At PyTorch's own threshold, 20, the two differ by 1e-10 of x: below what f32 tells apart.
  if (beta == 1 && threshold == Softplus().threshold) return softplus(x);
  require(beta > 0, "Softplus: beta is ", beta, ", but has to be positive");
  const Tensor scaled = x * beta;
  return where(greater(scaled, Tensor::full({x.dtype(), {}}, threshold, x.device())), x, softplus(scaled) * (1 / beta));
}
Tensor Hardswish::operator()(const Tensor& x) const { return hardswish(x); }
Tensor Hardsigmoid::operator()(const Tensor& x) const { return hardsigmoid(x); }
Tensor Hardtanh::operator()(const Tensor& x) const { return clamp(x, min_val, max_val); }
Tensor Mish::operator()(const Tensor& x) const { return mish(x); }
Tensor LogSigmoid::operator()(const Tensor& x) const { return log_sigmoid(x); }
Tensor Softsign::operator()(const Tensor& x) const { return softsign(x); }
Tensor Hardshrink::operator()(const Tensor& x) const { return hardshrink(x, lambd); }
Tensor Softshrink::operator()(const Tensor& x) const { return softshrink(x, lambd); }
Tensor Tanhshrink::operator()(const Tensor& x) const { return tanhshrink(x); }
Tensor Threshold::operator()(const Tensor& x) const { return neurim::threshold(x, threshold, value); }
Tensor GLU::operator()(const Tensor& x) const { return glu(x, axis); }
Tensor Softmax::operator()(const Tensor& x) const { return softmax(x, axis); }
Tensor LogSoftmax::operator()(const Tensor& x) const { return log_softmax(x, axis); }
Tensor Dropout::operator()(const Tensor& x) const { return dropout(x, p); }
Tensor Dropout2d::operator()(const Tensor& x) const { return dropout2d(x, p); }
Tensor DropPath::operator()(const Tensor& x) const { return drop_path(x, p); }
Tensor AlphaDropout::operator()(const Tensor& x) const { return alpha_dropout(x, p); }
Tensor Flatten::operator()(const Tensor& x) const { return flatten(x, start_axis, end_axis); }
Tensor Unflatten::operator()(const Tensor& x) const { return unflatten(x, axis, sizes); }
Tensor Permute::operator()(const Tensor& x) const { return transpose(x, axes); }

}  // namespace neurim::nn
