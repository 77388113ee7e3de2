#include "neurim/ops/mse_loss.h"

#include "neurim/base/error.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"

namespace neurim {

Types MseLoss::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "x");
  require(in[0] == in[1], name(), ": x is ", in[0], ", y is ", in[1],
          "; they have to be equal, this loss does not broadcast");
  check_reduction(name(), reduction);
  return {{in[0].dtype, reduction == "none" ? in[0].shape : Shape{}}};
}

Tensors MseLoss::decompose(std::span<const Tensor> in) const {
  const Tensor squares = square(sub(in[0], in[1]));
  return {reduction == "mean" ? mean(squares) : reduction == "sum" ? sum(squares) : squares};
}

std::vector<Sample> MseLoss::samples() const {
  std::vector<Sample> all;
  for (const std::string kind : {"mean", "sum", "none"})
    for (const Shape& shape : {Shape{4, 3, 5}, {17}, {}}) {
      auto op = std::make_shared<MseLoss>();
      op->reduction = kind;
      all.push_back({op, {{DType::f32, shape}, {DType::f32, shape}}});
    }
  return all;
}

Tensor mse_loss(const Tensor& x, const Tensor& y, const std::string& reduction) {
  auto op = std::make_shared<MseLoss>();
  op->reduction = reduction;
  return apply1(op, {x, y});
}

void define_mse_loss() { define<MseLoss>(); }

}  // namespace neurim
