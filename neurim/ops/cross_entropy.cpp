#include "neurim/ops/cross_entropy.h"

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/iota.h"
#include "neurim/ops/log_softmax.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"

namespace neurim {

namespace {

void visit(Fields& f, CrossEntropyOptions& o) {
  f("label_smoothing", o.label_smoothing)("ignore_index", o.ignore_index)("reduction", o.reduction);
}

/// Checks options, logits, target and class weights; the result is the type of the loss.
Type loss_type(const Op& op, const CrossEntropyOptions& o, const Type& logits, const Type& target,
               const Type* class_weights) {
  const Shape& x = logits.shape;
  check_floating(op, logits, "the logits");
  require(x.rank() >= 2 && x[1] > 0, op.name(), ": takes logits (N,C,…), got ", x);
  Shape places{x[0]};
  for (int axis = 2; axis < x.rank(); ++axis) places.push_back(x[axis]);
  require(target.dtype == DType::i64, op.name(), ": the target has dtype ", target.dtype,
          ", expected class numbers i64");
  require(target.shape == places, op.name(), ": target is ", target.shape, ", logits ", x, " expect ", places);
  if (class_weights) {
    check_floating(op, *class_weights, "class_weights");
    require(class_weights->shape == Shape{x[1]}, op.name(), ": class_weights are ", class_weights->shape, ", logits ",
            x, " expect ", Shape{x[1]});
  }
  require(o.label_smoothing >= 0 && o.label_smoothing <= 1, op.name(), ": label_smoothing is ", o.label_smoothing,
          ", has to lie in [0, 1]");
  check_reduction(op.name(), o.reduction);
  return {logits.dtype, o.reduction == "none" ? places : Shape{}};
}

/// What is wrong with the target of such inputs.
std::string target_fault(const CrossEntropyOptions& o, std::span<const Tensor> in) {
  return outside("the target", in[1], 0, in[0].size(1), o.ignore_index);
}

/// The gradient with respect to the class weights. The loss is linear in them, a mean the quotient of two
/// such sums.
Tensor weights_grad(const CrossEntropyOptions& o, const Tensor& logits, const Tensor& target, const Tensor& weights,
                    const Tensor& loss, const Tensor& dloss) {
  const DType dtype = weights.dtype();
  const std::int64_t classes = weights.numel();
  Shape along_classes, beside_classes = logits.shape();
  for (int axis = 0; axis < logits.rank(); ++axis) along_classes.push_back(axis == 1 ? classes : 1);
  beside_classes[1] = 1;
  std::vector<std::int64_t> other_axes{0};
  for (int axis = 2; axis < logits.rank(); ++axis) other_axes.push_back(axis);

  const Tensor label = reshape(target, beside_classes);
  const Tensor counts = cast(not_equal(label, scalar_like(label, static_cast<double>(o.ignore_index))), dtype);
  const Tensor hit = cast(equal(label, reshape(iota(classes), along_classes)), dtype) * counts;
  const Tensor share = hit * (1 - o.label_smoothing) + counts * (o.label_smoothing / static_cast<double>(classes));
  const Tensor losses = share * log_softmax(cast(logits, dtype), 1) * -1.0;
  if (o.reduction == "none") return sum(losses * reshape(cast(dloss, dtype), beside_classes), other_axes);
  const Tensor total = sum(losses, other_axes);
  if (o.reduction == "sum") return total * cast(dloss, dtype);
  const Tensor hits = sum(hit, other_axes);
  return (total - hits * cast(loss, dtype)) * cast(dloss, dtype) / sum(hits * weights);
}

/// The loss against probabilities of the classes, made of other ops.
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o,
                          const Tensor& class_weights) {
  const Shape& x = logits.shape();
  check_floating("cross_entropy", "the logits", logits);
  check_reduction("cross_entropy", o.reduction);
  require(x.rank() >= 2 && x[1] > 0, "cross_entropy: takes logits (N,C,…), got ", x);
  require(target.shape() == x, "cross_entropy: target is ", target.type(), ", logits ", logits.type(),
          " expect probabilities ", x, " or class numbers i64");
  require(o.ignore_index == CrossEntropyOptions{}.ignore_index, "cross_entropy: ignore_index is ", o.ignore_index,
          ", but probabilities as target are not class numbers; leave it out");
  require(o.label_smoothing >= 0 && o.label_smoothing <= 1, "cross_entropy: label_smoothing is ", o.label_smoothing,
          ", has to lie in [0, 1]");
  const Tensor log_probs = log_softmax(wide(logits), 1);
  Tensor share = cast(target, log_probs.dtype());
  if (o.label_smoothing > 0) share = share * (1 - o.label_smoothing) + o.label_smoothing / static_cast<double>(x[1]);
  if (class_weights) {
    require(is_floating(class_weights.dtype()) && class_weights.shape() == Shape{x[1]},
            "cross_entropy: class_weights are ", class_weights.type(), ", logits ", x, " expect floating ",
            Shape{x[1]});
    Shape along_classes{1, x[1]};
    for (int axis = 2; axis < x.rank(); ++axis) along_classes.push_back(1);
    share = share * reshape(cast(class_weights, share.dtype()), along_classes);
  }
  return reduced(-sum(share * log_probs, {1}), o.reduction, logits.dtype());
}

/// Every combination of reduction, label smoothing and class weights, each with another shape and
/// ignore_index.
template <class O>
std::vector<Sample> samples_of(bool with_dloss) {
  const std::vector<Shape> shapes{{6, 5}, {4, 10}, {3, 5, 7}, {2, 3, 4, 5}, {7, 17}, {5, 2, 3}};
  std::vector<Sample> all;
  for (const std::string reduction : {"mean", "sum", "none"})
    for (const double smoothing : {0.0, 0.1, 1.0})
      for (const bool weighted : {false, true}) {
        const Shape& x = shapes[all.size() % shapes.size()];
        auto op = std::make_shared<O>();
        op->options = {smoothing, all.size() % 4 < 2 ? -100 : 1, reduction};
        const Type logits{DType::f32, x};
        Shape places{x[0]};
        for (int axis = 2; axis < x.rank(); ++axis) places.push_back(x[axis]);
        Sample sample{op, {logits, {DType::i64, places}}, {{-3, 3}, {0, static_cast<double>(x[1])}}};
        if (weighted) {
          sample.in.push_back({DType::f32, {x[1]}});
          sample.fill.push_back({0.2, 2});
        }
        if (with_dloss) sample.in.push_back({DType::f32, reduction == "none" ? places : Shape{}});
        all.push_back(sample);
      }
  return all;
}

}  // namespace

void CrossEntropy::fields(Fields& f) { visit(f, options); }
void CrossEntropyGrad::fields(Fields& f) { visit(f, options); }

Types CrossEntropy::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 3);
  return {loss_type(*this, options, in[0], in[1], in.size() == 3 ? &in[2] : nullptr)};
}

Types CrossEntropyGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 3, 4);
  const Type loss = loss_type(*this, options, in[0], in[1], in.size() == 4 ? &in[2] : nullptr);
  require(in.back() == loss, name(), ": dloss is ", in.back(), ", the loss is ", loss);
  return {in[0]};
}

std::string CrossEntropy::data_fault(std::span<const Tensor> in) const { return target_fault(options, in); }
std::string CrossEntropyGrad::data_fault(std::span<const Tensor> in) const { return target_fault(options, in); }

Tensors CrossEntropy::grad(const Gradient& g) const {
  Tensors d(g.in.size());
  if (g.wanted[0]) {
    auto op = std::make_shared<CrossEntropyGrad>();
    op->options = options;
    Tensors in(g.in.begin(), g.in.end());
    in.push_back(g.dout[0]);
    d[0] = apply1(op, in);
  }
  if (d.size() == 3 && g.wanted[2]) d[2] = weights_grad(options, g.in[0], g.in[1], g.in[2], g.out[0], g.dout[0]);
  return d;
}

std::vector<Sample> CrossEntropy::samples() const { return samples_of<CrossEntropy>(false); }
std::vector<Sample> CrossEntropyGrad::samples() const { return samples_of<CrossEntropyGrad>(true); }

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options,
                     const Tensor& class_weights) {
  if (is_floating(target.dtype())) return soft_cross_entropy(logits, target, options, class_weights);
  auto op = std::make_shared<CrossEntropy>();
  op->options = options;
  return apply1(op, class_weights ? Tensors{logits, target, class_weights} : Tensors{logits, target});
}

void define_cross_entropy() {
  define<CrossEntropy>();
  define<CrossEntropyGrad>();
}

}  // namespace neurim
