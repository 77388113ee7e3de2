#include "neurim/ops/rms_norm.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types RmsNorm::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check(in[0], in[1], {});
  return {in[0]};
}

std::vector<Sample> RmsNorm::samples() const {
  const auto row = [](const Shape& x, const Shape& normalized, double epsilon) -> Sample {
    return {std::make_shared<RmsNorm>(epsilon), {{DType::f32, x}, {DType::f32, normalized}}};
  };
  return {row({2, 3, 17}, {17}, 1e-3), row({4, 5, 6}, {5, 6}, 1e-6), row({160}, {160}, 1e-5)};
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, double eps) {
  const Tensor scale = weight ? weight : Tensor::full({x.dtype(), normalized_shape}, 1, x.device());
  require(scale.shape() == normalized_shape, "rms_norm: the weight ", scale.shape(), " has not the normalized shape ",
          normalized_shape);
  return apply1(std::make_shared<RmsNorm>(eps), {x, scale});
}

void define_rms_norm() { define<RmsNorm>(); }

}  // namespace neurim
