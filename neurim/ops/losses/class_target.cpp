#include "neurim/ops/losses/class_target.h"

#include "neurim/base/error.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/one_hot.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/transpose.h"
#include "neurim/ops/where.h"

namespace neurim {

Tensor ClassTarget::pick(const Tensor& x) const { return sum(where(hit, x, scalar_like(x, 0)), {1}); }

Tensor ClassTarget::weighted(const Tensor& losses) const {
  return where(counts, losses * weight, scalar_like(losses, 0));
}

Tensor ClassTarget::reduced(const Tensor& losses, std::string_view reduction, DType dtype) const {
  if (reduction == "mean") return cast(sum(losses) / sum(weight), dtype);
  return neurim::reduced(losses, reduction, dtype);
}

ClassTarget class_target(std::string_view loss, const Tensor& x, const Tensor& target, const Tensor& class_weights,
                         std::optional<std::int64_t> ignore_index) {
  const Shape& shape = x.shape();
  require(is_floating(x.dtype()) && shape.rank() >= 2 && shape[1] > 0, loss, ": takes floating x (N,C,…), got ",
          x.type());
  Shape places{shape[0]};
  std::vector<std::int64_t> classes_second{0, shape.rank() - 1};
  for (int axis = 2; axis < shape.rank(); ++axis) {
    places.push_back(shape[axis]);
    classes_second.push_back(axis - 1);
  }
  require(target.type() == Type{DType::i64, places}, loss, ": target is ", target.type(), ", x ", x.type(),
          " expects class numbers ", Type{DType::i64, places});
  require(!class_weights || (is_floating(class_weights.dtype()) && class_weights.shape() == Shape{shape[1]}), loss,
          ": class_weights are ", class_weights ? class_weights.type() : Type{}, ", x ", x.type(), " expects floating ",
          Shape{shape[1]});

  ClassTarget result;
  Tensor label = target;
  if (ignore_index) {
    const Tensor ignored = scalar_like(target, static_cast<double>(*ignore_index));
    result.counts = not_equal(target, ignored);
    label = where(result.counts, target, scalar_like(target, 0));
  } else {
    result.counts = Tensor::full({DType::boolean, places}, 1, x.device());
  }
  result.hit = one_hot(label, shape[1], DType::boolean);
  if (shape.rank() > 2) result.hit = transpose(result.hit, classes_second);
  const Tensor flags = cast(result.counts, wide(x).dtype());
  result.weight = class_weights ? flags * gather(cast(class_weights, flags.dtype()), label, 0) : flags;
  return result;
}

}  // namespace neurim
