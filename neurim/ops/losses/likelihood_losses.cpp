#include "neurim/ops/losses/likelihood_losses.h"

#include <cmath>
#include <numbers>

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/detach.h"
#include "neurim/ops/div.h"
#include "neurim/ops/exp.h"
#include "neurim/ops/log.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/maximum.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// The shape under which the variance broadcasts against x.
Shape variance_shape(const Tensor& x, const Tensor& var) {
  Shape shape = var.shape();
  if (shape.rank() == x.rank() - 1) shape.push_back(1);
  int repeated = 0;
  bool fits = shape.rank() == x.rank() && var.dtype() == x.dtype();
  for (int axis = 0; fits && axis < x.rank(); ++axis)
    if (shape[axis] != x.size(axis)) {
      fits = shape[axis] == 1;
      ++repeated;
    }
  require(fits && repeated <= 1, "gaussian_nll_loss: var is ", var.type(), ", x ", x.type(),
          " expects its type, with size 1 in place of at most one axis, or without the last axis");
  return shape;
}

}  // namespace

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var, const GaussianNllOptions& options) {
  check_alike("gaussian_nll_loss", "x", x, "the target", target);
  check_reduction("gaussian_nll_loss", options.reduction);
  require(options.eps > 0, "gaussian_nll_loss: eps is ", options.eps, ", but has to be positive");
  const Tensor given = reshape(wide(var), variance_shape(x, var));
  // Raised to eps where it is smaller, past the gradient, which would be lost in a maximum.
  const Tensor v = given + detach(maximum(given, scalar_like(given, options.eps)) - given);
  Tensor losses = (log(v) + square(wide(x) - wide(target)) / v) * 0.5;
  if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(losses, options.reduction, x.dtype());
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, const PoissonNllOptions& options) {
  check_alike("poisson_nll_loss", "x", x, "the target", target);
  check_reduction("poisson_nll_loss", options.reduction);
  const Tensor rate = wide(x), count = wide(target);
  Tensor losses = options.log_input ? exp(rate) - count * rate : rate - count * log(rate + options.eps);
  if (options.full) {
    const Tensor one = scalar_like(count, 1), large = greater(count, one), safe = where(large, count, one);
    const Tensor stirling = safe * log(safe) - safe + log(safe * (2 * std::numbers::pi)) * 0.5;
    losses = losses + where(large, stirling, scalar_like(count, 0));
  }
  return reduced(losses, options.reduction, x.dtype());
}

}  // namespace neurim
