#include "neurim/nn/pad.h"

#include "neurim/base/error.h"
#include "neurim/ops/pad.h"

namespace neurim::nn {

namespace {

/// The amounts in the order of the op, for an x of the rank that the layer takes.
std::vector<std::int64_t> amounts(const Tensor& x, Ends pad) {
  require(x.rank() == 3, "padding of a series takes x(N,C,L), got ", x.shape());
  return {0, 0, pad.left, 0, 0, pad.right};
}
std::vector<std::int64_t> amounts(const Tensor& x, Sides pad) {
  require(x.rank() == 4, "padding of an image takes x(N,C,H,W), got ", x.shape());
  return {0, 0, pad.top, pad.left, 0, 0, pad.bottom, pad.right};
}

}  // namespace

Tensor ConstantPad1d::operator()(const Tensor& x) const { return neurim::pad(x, amounts(x, pad), value); }
Tensor ReflectionPad1d::operator()(const Tensor& x) const { return neurim::pad(x, amounts(x, pad), "reflect"); }
Tensor ReplicationPad1d::operator()(const Tensor& x) const { return neurim::pad(x, amounts(x, pad), "replicate"); }
Tensor CircularPad1d::operator()(const Tensor& x) const { return neurim::pad(x, amounts(x, pad), "circular"); }
Tensor ConstantPad2d::operator()(const Tensor& x) const { return neurim::pad(x, amounts(x, pad), value); }
Tensor ReflectionPad2d::operator()(const Tensor& x) const { return neurim::pad(x, amounts(x, pad), "reflect"); }
Tensor ReplicationPad2d::operator()(const Tensor& x) const { return neurim::pad(x, amounts(x, pad), "replicate"); }
Tensor CircularPad2d::operator()(const Tensor& x) const { return neurim::pad(x, amounts(x, pad), "circular"); }

}  // namespace neurim::nn
