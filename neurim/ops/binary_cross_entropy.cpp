#include "neurim/ops/binary_cross_entropy.h"

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/softplus.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"

namespace neurim {

Types BinaryCrossEntropy::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 3);
  check_floating(*this, in[0], "the logits");
  require(in[0] == in[1], name(), ": the logits are ", in[0], ", the target is ", in[1],
          "; they have to be equal: one number in [0, 1] for each logit");
  if (in.size() == 3) {
    const Shape &x = in[0].shape, &weight = in[2].shape;
    bool fits = in[2].dtype == in[0].dtype && weight.rank() <= x.rank();
    for (int axis = 1; fits && axis <= weight.rank(); ++axis) fits = weight[-axis] == 1 || weight[-axis] == x[-axis];
    require(fits, name(), ": pos_weight is ", in[2], ", which does not broadcast to the logits ", in[0],
            "; one number a class is (", x.rank() ? x[-1] : Dim(1), ") for logits (…,C), (C,1,1) for (N,C,H,W)");
  }
  require(reduction == "mean" || reduction == "sum" || reduction == "none", name(), ": reduction is \"", reduction,
          "\", has to be mean, sum or none");
  return {{in[0].dtype, reduction == "none" ? in[0].shape : Shape{}}};
}

Tensors BinaryCrossEntropy::decompose(std::span<const Tensor> in) const {
  const Tensor &logits = in[0], &target = in[1];
  // -log p is softplus(-x) and -log(1 - p) is softplus(x): nothing cancels, so nothing is lost.
  Tensor positive = target * softplus(-logits);
  if (in.size() == 3) positive = positive * in[2];
  const Tensor losses = positive + (1 - target) * softplus(logits);
  return {reduction == "mean" ? mean(losses) : reduction == "sum" ? sum(losses) : losses};
}

std::vector<Sample> BinaryCrossEntropy::samples() const {
  std::vector<Sample> all;
  for (const std::string kind : {"mean", "sum", "none"})
    for (const bool weighted : {false, true})
      for (const Shape& shape : {Shape{4, 5}, {17}, {2, 3, 4}}) {
        auto op = std::make_shared<BinaryCrossEntropy>();
        op->reduction = kind;
        Sample sample{op, {{DType::f32, shape}, {DType::f32, shape}}, {{-6, 6}, {0, 1}}};
        if (weighted) {
          sample.in.push_back({DType::f32, shape.rank() == 3 ? Shape{shape[1], 1} : Shape{shape[-1]}});
          sample.fill.push_back({0.2, 5});
        }
        all.push_back(sample);
      }
  return all;
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& target, const std::string& reduction,
                            const Tensor& pos_weight) {
  auto op = std::make_shared<BinaryCrossEntropy>();
  op->reduction = reduction;
  return apply1(op, pos_weight ? Tensors{logits, target, pos_weight} : Tensors{logits, target});
}

void define_binary_cross_entropy() { define<BinaryCrossEntropy>(); }

}  // namespace neurim
