#include "neurim/ops/prelu.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// Inputs (x, slope), the slope of a shape that broadcasts to that of x.
class Prelu final : public Op {
 public:
  std::string_view name() const override { return "prelu"; }
  Types infer(std::span<const Type> in) const override {
    check_count(*this, in, 2, 2);
    check_floating(*this, in[0], "the input");
    check_same_dtype(*this, in[0], in[1]);
    require(broadcast(in[0].shape, in[1].shape, name()) == in[0].shape, name(), ": slopes ", in[1].shape,
            " do not broadcast to the input ", in[0].shape);
    return {in[0]};
  }
  Tensors decompose(std::span<const Tensor> in) const override {
    return {where(greater(in[0], scalar_like(in[0], 0)), in[0], in[0] * in[1])};
  }
  FusionTraits fusion() const override { return kPointwise; }
  Onnx onnx() const override { return {"PRelu", 9}; }
  std::vector<Sample> samples() const override {
    const auto row = [this](const Shape& x, const Shape& slope) -> Sample {
      return {shared_from_this(), {{DType::f32, x}, {DType::f32, slope}}};
    };
    return {row({2, 3, 4, 5}, {3, 1, 1}), row({2, 3, 17}, {1}), row({4, 6}, {6}), row({5}, {5})};
  }
};

}  // namespace

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const std::int64_t channels = x.rank() == 0 ? Dim(1) : x.size(x.rank() > 1 ? 1 : 0);
  require(weight.rank() == 1 && (weight.size(0) == 1 || weight.size(0) == channels), "prelu: weight is ",
          weight.shape(), ", input ", x.shape(), " takes (1) or ", Shape{channels});
  if (weight.size(0) == 1 || x.rank() <= 2) return apply1(std::make_shared<Prelu>(), {x, weight});
  Shape slope{channels};
  while (slope.rank() < x.rank() - 1) slope.push_back(1);
  return apply1(std::make_shared<Prelu>(), {x, reshape(weight, slope)});
}

void define_prelu() { define<Prelu>(); }

}  // namespace neurim
