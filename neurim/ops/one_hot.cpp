#include "neurim/ops/one_hot.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types OneHot::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  require(in[0].dtype == DType::i64 || in[0].dtype == DType::i32, "one_hot: the indices are ", in[0].dtype,
          ", not i64 or i32");
  require(classes > 0, "one_hot: ", classes, " classes; at least 1 is needed");
  Shape out = in[0].shape;
  out.push_back(classes);
  return {{dtype, out}};
}

std::string OneHot::data_fault(std::span<const Tensor> in) const { return outside("the index", in[0], 0, classes); }

std::vector<Sample> OneHot::samples() const {
  return {{std::make_shared<OneHot>(5, DType::f32), {{DType::i64, {7}}}, {{0, 5}}},
          {std::make_shared<OneHot>(3, DType::u8), {{DType::i32, {2, 4}}}, {{0, 3}}},
          {std::make_shared<OneHot>(1, DType::f64), {{DType::i64, {}}}, {{0, 1}}}};
}

Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype) {
  return apply1(std::make_shared<OneHot>(classes, dtype), {indices});
}

void define_one_hot() { define<OneHot>(); }

}  // namespace neurim
