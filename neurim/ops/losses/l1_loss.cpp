#include "neurim/ops/losses/l1_loss.h"

#include "neurim/base/error.h"
#include "neurim/ops/abs.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sub.h"

namespace neurim {

namespace {

Tensor distance(std::string_view loss, const Tensor& x, const Tensor& y, std::string_view reduction) {
  check_alike(loss, "x", x, "y", y);
  check_reduction(loss, reduction);
  return abs(wide(x) - wide(y));
}

/// Huber's loss times `scale`. Nothing is squared beyond delta, so nothing overflows there.
Tensor huber(const Tensor& d, double delta, double scale) {
  const Tensor near = clamp(d, 0, delta);
  return near * scale * (d - near * 0.5);
}

}  // namespace

Tensor l1_loss(const Tensor& x, const Tensor& y, const std::string& reduction) {
  return reduced(distance("l1_loss", x, y, reduction), reduction, x.dtype());
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta, const std::string& reduction) {
  require(beta >= 0, "smooth_l1_loss: beta is ", beta, ", but must not be negative");
  const Tensor d = distance("smooth_l1_loss", x, y, reduction);
  return reduced(beta == 0 ? d : huber(d, beta, 1 / beta), reduction, x.dtype());
}

Tensor huber_loss(const Tensor& x, const Tensor& y, double delta, const std::string& reduction) {
  require(delta > 0, "huber_loss: delta is ", delta, ", but has to be positive");
  return reduced(huber(distance("huber_loss", x, y, reduction), delta, 1), reduction, x.dtype());
}

}  // namespace neurim
