#include "neurim/ops/losses/margin_losses.h"

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/losses/class_target.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/minimum.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sqrt.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// A target of 1 and -1 beside x, checked and in the dtype of the computation.
Tensor signs(std::string_view loss, const Tensor& x, const Tensor& target, const Shape& shape, DType dtype) {
  require(target.dtype() != DType::boolean && target.shape() == shape, loss, ": the target is ", target.type(), ", x ",
          x.type(), " expects numbers ", shape);
  return cast(target, dtype);
}

/// `positive` where the target is 1, `negative` where it is -1, summed: 0 where it is neither.
Tensor by_sign(const Tensor& target, const Tensor& positive, const Tensor& negative) {
  const Tensor one = scalar_like(target, 1), zero = scalar_like(target, 0);
  return where(equal(target, one), positive, zero) + where(equal(target, scalar_like(target, -1)), negative, zero);
}

Shape without_last_axis(std::string_view loss, const Tensor& x) {
  require(x.rank() > 0, loss, ": takes vectors (…,D), got ", x.type());
  return Shape(std::span(x.shape().begin(), static_cast<std::size_t>(x.rank() - 1)));
}

/// |a - b + eps| along the last axis. Its gradient at 0 is 0, where that of a root is infinite.
Tensor distance(const Tensor& a, const Tensor& b, double eps) {
  const Tensor squares = sum(square(a - b + eps), {-1}), zero = scalar_like(squares, 0);
  const Tensor none = equal(squares, zero);
  return where(none, zero, sqrt(where(none, scalar_like(squares, 1), squares)));
}

}  // namespace

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin, const std::string& reduction) {
  check_floating("hinge_embedding_loss", "x", x);
  check_reduction("hinge_embedding_loss", reduction);
  const Tensor d = wide(x), sign = signs("hinge_embedding_loss", x, target, x.shape(), d.dtype());
  return reduced(by_sign(sign, d, relu(margin - d)), reduction, x.dtype());
}

Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin,
                           const std::string& reduction) {
  check_alike("margin_ranking_loss", "x1", x1, "x2", x2);
  check_reduction("margin_ranking_loss", reduction);
  const Tensor lead = wide(x1) - wide(x2);
  const Tensor sign = signs("margin_ranking_loss", x1, target, x1.shape(), lead.dtype());
  return reduced(relu(margin - sign * lead), reduction, x1.dtype());
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const MultiMarginOptions& options,
                         const Tensor& class_weights) {
  require(options.p == 1 || options.p == 2, "multi_margin_loss: p is ", options.p, ", has to be 1 or 2");
  check_reduction("multi_margin_loss", options.reduction);
  require(x.rank() == 2, "multi_margin_loss: takes x (N,C), got ", x.type());
  const ClassTarget classes = class_target("multi_margin_loss", x, target, class_weights, {});
  const Tensor scores = wide(x), own = reshape(classes.pick(scores), {x.size(0), 1});
  const Tensor excess = relu(options.margin - own + scores);
  const Tensor others = where(classes.hit, scalar_like(excess, 0), options.p == 1 ? excess : square(excess));
  const Tensor losses = classes.weighted(sum(others, {1}) / static_cast<double>(x.size(1)));
  return reduced(losses, options.reduction, x.dtype());
}

Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin,
                             const std::string& reduction) {
  check_alike("cosine_embedding_loss", "x1", x1, "x2", x2);
  check_reduction("cosine_embedding_loss", reduction);
  const Shape places = without_last_axis("cosine_embedding_loss", x1);
  const Tensor a = wide(x1), b = wide(x2);
  const Tensor sign = signs("cosine_embedding_loss", x1, target, places, a.dtype());
  constexpr double kEps = 1e-12;  // PyTorch's, so that a vector of zeros has a cosine of 0
  const Tensor cosine = sum(a * b, {-1}) / sqrt((sum(square(a), {-1}) + kEps) * (sum(square(b), {-1}) + kEps));
  return reduced(by_sign(sign, 1 - cosine, relu(cosine - margin)), reduction, x1.dtype());
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options) {
  check_alike("triplet_margin_loss", "the anchor", anchor, "the positive", positive);
  check_alike("triplet_margin_loss", "the anchor", anchor, "the negative", negative);
  check_reduction("triplet_margin_loss", options.reduction);
  without_last_axis("triplet_margin_loss", anchor);
  require(options.margin > 0, "triplet_margin_loss: margin is ", options.margin, ", but has to be positive");
  const Tensor a = wide(anchor), p = wide(positive), n = wide(negative);
  Tensor away = distance(a, n, options.eps);
  if (options.swap) away = minimum(away, distance(p, n, options.eps));
  return reduced(relu(distance(a, p, options.eps) - away + options.margin), options.reduction, anchor.dtype());
}

}  // namespace neurim
