#include "neurim/ops/all_finite.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types AllFinite::infer(std::span<const Type> in) const {
  require(!in.empty(), "all_finite: there are no tensors; give one at least");
  for (const Type& type : in) check_floating(*this, type, "each input");
  return {{DType::boolean, {}}};
}

std::vector<Sample> AllFinite::samples() const {
  const auto op = std::make_shared<AllFinite>();
  return {{op, {{DType::f32, {3, 7}}}},
          {op, {{DType::f32, {70, 33}}, {DType::f32, {}}, {DType::f32, {2, 3, 4, 5}}, {DType::f32, {0, 3}}}}};
}

Tensor all_finite(const Tensors& tensors) { return apply1(std::make_shared<AllFinite>(), tensors); }

void define_all_finite() { define<AllFinite>(); }

}  // namespace neurim
