#include "neurim/ops/where.h"

#include "neurim/base/error.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

class Where final : public Op {
 public:
  std::string_view name() const override { return "where"; }
  Types infer(std::span<const Type> in) const override {
    check_count(*this, in, 3, 3);
    require(in[0].dtype == DType::boolean, "where: the condition is ", in[0], ", but has to be bool: compare it first");
    check_same_dtype(*this, in[1], in[2]);
    return {{in[1].dtype, broadcast(in[0].shape, broadcast(in[1].shape, in[2].shape, name()), name())}};
  }
  Tensors grad(const Gradient& g) const override {
    const Tensor &condition = g.in[0], &dy = g.dout[0], zero = scalar_like(dy, 0);
    return {Tensor(), g.wanted[1] ? unbroadcast(where(condition, dy, zero), g.in[1].shape()) : Tensor(),
            g.wanted[2] ? unbroadcast(where(condition, zero, dy), g.in[2].shape()) : Tensor()};
  }
  FusionTraits fusion() const override { return kPointwise; }
  Alias alias(int, int in) const override { return in == 0 ? Alias::none : Alias::overwrite; }
  Onnx onnx() const override { return {"Where", 9}; }
  std::vector<Sample> samples() const override {
    const auto row = [this](const Shape& condition, const Shape& a, const Shape& b, DType dtype) {
      return Sample{
          shared_from_this(), {{DType::boolean, condition}, {dtype, a}, {dtype, b}}, {{0, 2}, {-8, 8}, {-8, 8}}};
    };
    return {row({2, 3, 17}, {2, 3, 17}, {2, 3, 17}, DType::f32), row({3, 1}, {2, 1, 4}, {}, DType::f32),
            row({5}, {}, {3, 1}, DType::f32), row({4, 5}, {5}, {4, 1}, DType::i64)};
  }
};

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return apply1(std::make_shared<Where>(), {condition, a, b});
}

void define_where() { define<Where>(); }

}  // namespace neurim
