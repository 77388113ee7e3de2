#include "neurim/ops/scatter.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types Scatter::infer(std::span<const Type> in) const {
  check_count(*this, in, 3, 3);
  check_same_dtype(*this, in[0], in[2]);
  const Shape &x = in[0].shape, &updates = in[2].shape;
  require(in[1].dtype == DType::i64 && in[1].shape.rank() == 1, name(), ": the indices are ", in[1], ", not i64(M)");
  bool fits = x.rank() >= 1 && updates.rank() == x.rank() && updates[0] == in[1].shape[0];
  for (int axis = 1; fits && axis < x.rank(); ++axis) fits = x[axis] == updates[axis];
  require(fits, name(), ": puts ", updates, " into ", x, " at ", in[1].shape[0], " places");
  require(reduction == "none" || reduction == "add" || reduction == "mul" || reduction == "max" || reduction == "min",
          name(), ": reduction is '", reduction, "', not none, add, mul, max or min");
  return {in[0]};
}

std::string Scatter::data_fault(std::span<const Tensor> in) const {
  const std::int64_t rows = in[0].size(0);
  return outside("the index", in[1], -rows, rows);
}

std::vector<Sample> Scatter::samples() const {
  std::vector<Sample> rows;
  for (const char* how : {"none", "add", "mul", "max", "min"})
    rows.push_back({std::make_shared<Scatter>(how),
                    {{DType::f32, {5, 3}}, {DType::i64, {4}}, {DType::f32, {4, 3}}},
                    {{}, {-5, 5, true}, {}}});
  rows.push_back({std::make_shared<Scatter>(),
                  {{DType::i64, {6}}, {DType::i64, {2}}, {DType::i64, {2}}},
                  {{-9, 9}, {0, 6, true}, {-9, 9}}});
  rows.push_back({std::make_shared<Scatter>("add"), {{DType::f32, {3, 2}}, {DType::i64, {0}}, {DType::f32, {0, 2}}}});
  return rows;
}

Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, const std::string& reduction) {
  return apply1(std::make_shared<Scatter>(reduction), {x, indices, updates});
}

void define_scatter() { define<Scatter>(); }

}  // namespace neurim
