#include "neurim/ops/losses/nll_loss.h"

#include "neurim/ops/common/wide.h"
#include "neurim/ops/losses/class_target.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/neg.h"

namespace neurim {

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllOptions& options, const Tensor& class_weights) {
  check_reduction("nll_loss", options.reduction);
  const ClassTarget classes = class_target("nll_loss", log_probs, target, class_weights, options.ignore_index);
  const Tensor losses = classes.weighted(-classes.pick(wide(log_probs)));
  return classes.reduced(losses, options.reduction, log_probs.dtype());
}

}  // namespace neurim
