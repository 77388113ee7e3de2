// Losses, and the steps of optimizers of the preview of training.
#include "neurim/base/error.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/cross_entropy.h"
#include "neurim/ops/div.h"
#include "neurim/ops/iota.h"
#include "neurim/ops/log_softmax.h"
#include "neurim/ops/logical.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/pow.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sqrt.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

std::string reduction_of(const OnnxCall& call) {
  const std::string reduction = call.word("reduction", "mean");
  require(reduction == "mean" || reduction == "sum" || reduction == "none", "reduction is '", reduction,
          "', which is not supported");
  return reduction;
}

/// The losses of places (N,…) from log-probabilities (N,C,…).
OnnxValues log_likelihood_rule(const OnnxCall& call) {
  const Tensor &given = call.tensor(0), &target = call.tensor(1);
  const Tensor x = wide(given);
  require(x.rank() >= 2 && target.rank() == x.rank() - 1, "the input is ", x.shape(), " and the target ",
          target.shape(), ", where (N,C,…) and (N,…) are wanted");
  const std::string reduction = reduction_of(call);
  Shape beside = x.shape(), along;  // of places, and of classes
  beside[1] = 1;
  for (int axis = 0; axis < x.rank(); ++axis) along.push_back(axis == 1 ? x.size(1) : Dim(1));
  const Tensor label = reshape(cast(target, DType::i64), beside), zero = scalar_like(x, 0), one = scalar_like(x, 1);
  Tensor hit = equal(label, reshape(iota(x.size(1)).to(x.device()), along));
  const bool ignores = call.has("ignore_index");
  if (ignores) {
    const double ignored = static_cast<double>(call.integer("ignore_index", std::int64_t{0}));
    hit = logical_and(hit, not_equal(label, scalar_like(label, ignored)));
  }
  // Chosen, not multiplied: log-probabilities of other classes may be infinite.
  const Tensor weights = call.has(2) ? reshape(cast(call.tensor(2), x.dtype()), along) : one;
  const Tensor losses = sum(where(hit, -x * weights, zero), {1});
  if (reduction == "none") return {cast(losses, given.dtype())};
  if (reduction == "sum") return {cast(sum(losses), given.dtype())};
  const Tensor mean_loss = call.has(2) || ignores ? sum(losses) / sum(where(hit, weights, zero)) : mean(losses);
  return {cast(mean_loss, given.dtype())};
}

OnnxValues softmax_cross_entropy_rule(const OnnxCall& call) {
  const Tensor& scores = call.tensor(0);
  const CrossEntropyOptions options{.ignore_index = call.integer("ignore_index", std::int64_t{-100}),
                                    .reduction = reduction_of(call)};
  OnnxValues out{cross_entropy(scores, cast(call.tensor(1), DType::i64), options, call.optional(2))};
  if (call.wants(1)) out.push_back(log_softmax(scores, 1));
  return out;
}

/// The inputs of an optimizer: the learning rate, the number of steps, and `kinds` tensors for each that is optimized,
/// those of one kind beside each other.
struct OptimizerInputs {
  const OnnxCall& call;
  int kinds;

  int count() const {
    require(call.inputs() > 2 && (call.inputs() - 2) % kinds == 0, "there are ", call.inputs() - 2,
            " tensors, which do not divide into ", kinds, " kinds");
    return (call.inputs() - 2) / kinds;
  }
  const Tensor& at(int kind, int i) const { return call.tensor(2 + kind * count() + i); }
  Tensor scalar(int input, DType dtype) const {
    const Tensor& t = call.tensor(input);
    return cast(t.rank() == 0 ? t : reshape(t, Shape{}), dtype);
  }
  Tensor rate(DType dtype) const { return scalar(0, dtype); }
  Tensor steps(DType dtype) const { return scalar(1, dtype); }
  /// With the gradient of half the square of x times the coefficient.
  Tensor gradient(int i) const {
    const double coefficient = call.number("norm_coefficient", 0.0);
    return coefficient == 0 ? at(1, i) : at(0, i) * coefficient + at(1, i);
  }
};

OnnxValues adagrad_rule(const OnnxCall& call) {
  const OptimizerInputs in{call, 3};
  OnnxValues weights, squares;
  for (int i = 0; i < in.count(); ++i) {
    const Tensor &x = in.at(0, i), g = in.gradient(i), h = in.at(2, i) + g * g;
    const Tensor rate = in.rate(x.dtype()) / (in.steps(x.dtype()) * call.number("decay_factor", 0.0) + 1.0);
    weights.push_back(x - rate * g / (sqrt(h) + call.number("epsilon", 1e-6)));
    squares.push_back(h);
  }
  weights.insert(weights.end(), squares.begin(), squares.end());
  return weights;
}

OnnxValues adam_rule(const OnnxCall& call) {
  const OptimizerInputs in{call, 4};
  const double alpha = call.number("alpha", 0.9), beta = call.number("beta", 0.999),
               shrink = 1 - call.number("norm_coefficient_post", 0.0);
  OnnxValues weights, means, squares;
  for (int i = 0; i < in.count(); ++i) {
    const Tensor &x = in.at(0, i), g = in.gradient(i);
    const Tensor v = in.at(2, i) * alpha + g * (1 - alpha), h = in.at(3, i) * beta + g * g * (1 - beta);
    const Tensor rate = in.rate(x.dtype()), steps = in.steps(x.dtype());
    const auto decayed = [&](double factor) { return 1.0 - pow(scalar_like(x, factor), steps); };
    const Tensor adjusted = where(greater(steps, scalar_like(steps, 0)), rate * sqrt(decayed(beta)) / decayed(alpha),
                                  rate);
    const Tensor next = x - adjusted * v / (sqrt(h) + call.number("epsilon", 1e-6));
    weights.push_back(shrink == 1 ? next : next * shrink);
    means.push_back(v), squares.push_back(h);
  }
  weights.insert(weights.end(), means.begin(), means.end());
  weights.insert(weights.end(), squares.begin(), squares.end());
  return weights;
}

OnnxValues momentum_rule(const OnnxCall& call) {
  const OptimizerInputs in{call, 3};
  const std::string mode = call.word("mode", "standard");
  require(mode == "standard" || mode == "nesterov", "mode is '", mode, "', which is not supported");
  const double alpha = call.number("alpha", 0.0), beta = call.number("beta", 0.0);
  OnnxValues weights, momenta;
  for (int i = 0; i < in.count(); ++i) {
    const Tensor &x = in.at(0, i), g = in.gradient(i), steps = in.steps(x.dtype());
    const Tensor factor = where(greater(steps, scalar_like(steps, 0)), scalar_like(x, beta), scalar_like(x, 1));
    const Tensor v = in.at(2, i) * alpha + factor * g;
    weights.push_back(x - in.rate(x.dtype()) * (mode == "nesterov" ? g + v * alpha : v));
    momenta.push_back(v);
  }
  weights.insert(weights.end(), momenta.begin(), momenta.end());
  return weights;
}

}  // namespace

void add_loss_operators(OnnxOperators& to) {
  to.add("NegativeLogLikelihoodLoss", 12, log_likelihood_rule);
  to.add("SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy_rule);
  constexpr std::string_view kTraining = "ai.onnx.preview.training";
  to.add("Adagrad", 1, adagrad_rule, kTraining);
  to.add("Adam", 1, adam_rule, kTraining);
  to.add("Momentum", 1, momentum_rule, kTraining);
}

}  // namespace neurim
