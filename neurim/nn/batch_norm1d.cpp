#include "neurim/nn/batch_norm1d.h"

#include "neurim/base/error.h"

namespace neurim::nn {

Tensor BatchNorm1d::operator()(const Tensor& x) const {
  require(x.rank() == 2 || x.rank() == 3, "BatchNorm1d: takes x(N,C) or x(N,C,L), got ", x.shape());
  return BatchNorm2d::operator()(x);
}

}  // namespace neurim::nn
