#include "neurim/ops/losses/reduction.h"

#include "neurim/base/error.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/sum.h"

namespace neurim {

void check_reduction(std::string_view loss, std::string_view reduction) {
  require(reduction == "mean" || reduction == "sum" || reduction == "none", loss, ": reduction is \"", reduction,
          "\", has to be mean, sum or none");
}

void check_floating(std::string_view loss, std::string_view x_is, const Tensor& x) {
  require(is_floating(x.dtype()), loss, ": ", x_is, " is ", x.type(), ", but has to be floating: cast it first");
}

void check_alike(std::string_view loss, std::string_view x_is, const Tensor& x, std::string_view y_is,
                 const Tensor& y) {
  check_floating(loss, x_is, x);
  require(x.type() == y.type(), loss, ": ", x_is, " is ", x.type(), ", ", y_is, " is ", y.type(),
          "; they have to be equal, this loss does not broadcast");
}

Tensor reduced(const Tensor& losses, std::string_view reduction, DType dtype) {
  return cast(reduction == "mean" ? mean(losses) : reduction == "sum" ? sum(losses) : losses, dtype);
}

}  // namespace neurim
