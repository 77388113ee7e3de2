#include "neurim/ops/losses/bce_loss.h"

#include <limits>

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/detach.h"
#include "neurim/ops/div.h"
#include "neurim/ops/log.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// log(1 + x), exact for small x: the rounding of 1 + x cancels in the quotient (Kahan).
Tensor log1p(const Tensor& x) {
  const Tensor u = x + 1.0, one = scalar_like(u, 1), tiny = equal(u, one);
  return where(tiny, x, log(u) * x / (where(tiny, one, u) - 1.0));
}

}  // namespace

Tensor bce_loss(const Tensor& probabilities, const Tensor& target, const Tensor& weight, const std::string& reduction) {
  check_alike("bce_loss", "p", probabilities, "the target", target);
  check_reduction("bce_loss", reduction);
  if (weight)
    require(
        is_floating(weight.dtype()) && broadcast(weight.shape(), target.shape(), "bce_loss: weight") == target.shape(),
        "bce_loss: weight is ", weight.type(), ", p ", probabilities.type(),
        " expects floating numbers that broadcast to it");
  const Tensor p = wide(probabilities), y = wide(target), fixed = detach(p);
  const Tensor yes = clamp(log(fixed), -100, kInfinity), no = clamp(log1p(-fixed), -100, kInfinity);
  const Tensor slope = detach(p - y) / clamp(fixed * (1 - fixed), 1e-12, kInfinity);
  // The last term is 0 and carries the gradient.
  Tensor losses = -(y * yes + (1 - y) * no) + slope * (p - fixed);
  if (weight) losses = losses * cast(weight, losses.dtype());
  return reduced(losses, reduction, probabilities.dtype());
}

}  // namespace neurim
