#include "neurim/ops/losses/focal_loss.h"

#include <limits>

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/exp.h"
#include "neurim/ops/log_softmax.h"
#include "neurim/ops/losses/class_target.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/pow.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/softplus.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// miss^gamma for the probability of being wrong. Held above 0, where the slope for gamma < 1 is infinite.
Tensor focus(const Tensor& miss, double gamma) {
  if (gamma == 2) return square(miss);  // the usual one, without the price of a power
  constexpr double kLeast = std::numeric_limits<float>::min(), kMost = std::numeric_limits<double>::infinity();
  return pow(clamp(miss, kLeast, kMost), scalar_like(miss, gamma));
}

void check_gamma(std::string_view loss, double gamma) {
  require(gamma >= 0, loss, ": gamma is ", gamma, ", but must not be negative");
}

}  // namespace

Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, const SigmoidFocalOptions& options) {
  const double alpha = options.alpha;
  check_alike("sigmoid_focal_loss", "logits", logits, "the target", target);
  check_reduction("sigmoid_focal_loss", options.reduction);
  check_gamma("sigmoid_focal_loss", options.gamma);
  require((alpha >= 0 && alpha <= 1) || alpha == -1, "sigmoid_focal_loss: alpha is ", alpha,
          ", has to lie in [0, 1], or be -1 for no weights");
  const Tensor x = wide(logits), y = wide(target), no = 1 - y;
  // Sums of what is positive: nothing cancels, however sure the network is.
  const Tensor entropy = y * softplus(-x) + no * softplus(x);
  const Tensor miss = y * sigmoid(-x) + no * sigmoid(x);
  Tensor losses = focus(miss, options.gamma) * entropy;
  if (alpha >= 0) losses = losses * (y * alpha + no * (1 - alpha));
  return reduced(losses, options.reduction, logits.dtype());
}

Tensor softmax_focal_loss(const Tensor& logits, const Tensor& target, const SoftmaxFocalOptions& options,
                          const Tensor& class_weights) {
  check_reduction("softmax_focal_loss", options.reduction);
  check_gamma("softmax_focal_loss", options.gamma);
  const ClassTarget classes = class_target("softmax_focal_loss", logits, target, class_weights, options.ignore_index);
  const Tensor log_probs = log_softmax(wide(logits), 1);
  // 1 - p as the sum of what the other classes have: nothing cancels here either.
  const Tensor miss = sum(where(classes.hit, scalar_like(log_probs, 0), exp(log_probs)), {1});
  const Tensor losses = focus(miss, options.gamma) * -classes.pick(log_probs);
  return classes.reduced(classes.weighted(losses), options.reduction, logits.dtype());
}

}  // namespace neurim
