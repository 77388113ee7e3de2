#include "neurim/ops/random_uniform.h"

#include "neurim/graph/trace.h"
#include "neurim/ops/common/list_field.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

void RandomUniform::fields(Fields& f) {
  list_field(f, "shape", shape);
  f("dtype", dtype)("low", low)("high", high)("ordinal", ordinal);
}

Types RandomUniform::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  const Type key{DType::i64, {2}}, out{dtype, shape};
  require(in[0] == key, name(), ": the key is ", in[0], ", has to be ", key);
  check_floating(*this, out, "the output");
  require(low <= high, name(), ": low ", low, " is above high ", high);
  return {out};
}

std::vector<Sample> RandomUniform::samples() const {
  struct RandomUniformRow {
    Shape shape;
    double low, high;
    std::int64_t ordinal;
  };
  std::vector<Sample> all;
  for (const RandomUniformRow& row :
       {RandomUniformRow{{2, 3, 5}, 0, 1, 0}, {{33}, -2, 3, 7}, {{}, 0, 1, 1}, {{4, 16}, 5, 5, 2}}) {
    auto op = std::make_shared<RandomUniform>();
    op->shape = row.shape;
    op->low = row.low;
    op->high = row.high;
    op->ordinal = row.ordinal;
    all.push_back({op, {{DType::i64, {2}}}, {{0, 1e9}}});
  }
  return all;
}

Tensor random_uniform(const Shape& shape, double low, double high, DType dtype) {
  const RandomKey random = next_random_key();
  auto op = std::make_shared<RandomUniform>();
  op->shape = shape;
  op->dtype = dtype;
  op->low = low;
  op->high = high;
  op->ordinal = random.ordinal;
  return apply1(op, {random.key});
}

void define_random_uniform() { define<RandomUniform>(); }

}  // namespace neurim
