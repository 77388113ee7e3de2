#include "neurim/ops/losses/kl_div.h"

#include "neurim/base/error.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/exp.h"
#include "neurim/ops/log.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// t log t, and 0 at 0. The logarithm of 0 is never taken: in a gradient it would meet a factor of 0.
Tensor t_log_t(const Tensor& t) {
  const Tensor zero = scalar_like(t, 0), none = equal(t, zero);
  return where(none, zero, t * log(where(none, scalar_like(t, 1), t)));
}

}  // namespace

Tensor kl_div(const Tensor& log_probs, const Tensor& target, const KlDivOptions& options) {
  check_alike("kl_div", "log_probs", log_probs, "the target", target);
  const bool batchmean = options.reduction == "batchmean";
  require(!batchmean || log_probs.rank() > 0, "kl_div: batchmean takes log_probs (N,…), got ", log_probs.shape());
  if (!batchmean) check_reduction("kl_div", options.reduction);
  const Tensor x = wide(log_probs), t = wide(target);
  const Tensor losses = options.log_target ? exp(t) * (t - x) : t_log_t(t) - t * x;
  if (!batchmean) return reduced(losses, options.reduction, log_probs.dtype());
  return reduced(losses / static_cast<double>(x.size(0)), "sum", log_probs.dtype());
}

}  // namespace neurim
