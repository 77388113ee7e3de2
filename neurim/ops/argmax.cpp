#include "neurim/ops/argmax.h"

#include "neurim/base/error.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

Types Argmax::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_number(*this, in[0], "the input");
  const Shape& shape = in[0].shape;
  const int along = normal_axis(axis, shape.rank(), name());
  require(shape[along] > 0, "argmax: the input is ", in[0], ", and there is no maximum of nothing along axis ", axis);
  Shape out;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != along || keepdims) out.push_back(i == along ? Dim(1) : shape[i]);
  return {{DType::i64, out}};
}

std::vector<Sample> Argmax::samples() const {
  std::vector<Sample> rows;
  for (const std::int64_t along : {0, 1, -1})
    for (const bool keep : {false, true})
      rows.push_back({std::make_shared<Argmax>(along, keep), {{DType::f32, {3, 7, 5}}}, {{-1, 1, true}}});
  rows.push_back({std::make_shared<Argmax>(1), {{DType::i64, {4, 9}}}, {{0, 3}}});  // ties
  return rows;
}

Tensor argmax(const Tensor& x, std::int64_t axis, bool keepdims) {
  return apply1(std::make_shared<Argmax>(axis, keepdims), {x});
}

void define_argmax() { define<Argmax>(); }

}  // namespace neurim
