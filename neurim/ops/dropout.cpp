#include "neurim/ops/dropout.h"

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/rules.h"

namespace neurim {

namespace {

void check_probability(double p) { require(p >= 0 && p <= 1, "dropout: p is ", p, ", has to lie in [0, 1]"); }

}  // namespace

Types Dropout::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "the input");
  check_probability(p);
  const Type key{DType::i64, {2}};
  require(in[1] == key, name(), ": the key is ", in[1], ", has to be ", key);
  return {in[0]};
}

Tensors Dropout::grad(const Gradient& g) const {
  return {apply1(shared_from_this(), {g.dout[0], g.in[1]}), {}};
}

std::vector<Sample> Dropout::samples() const {
  struct Row {
    double p;
    std::int64_t ordinal;
    Shape x;
  };
  std::vector<Sample> all;
  for (const auto& [probability, place, x] : {Row{0.5, 0, {2, 3, 5}},
                                              {0.2, 3, {17}},
                                              {0, 1, {4, 4}},
                                              {1, 2, {4, 4}},
                                              {0.9, 1000, {3, 1, 33}},
                                              {0.1, 0, {}}}) {
    auto op = std::make_shared<Dropout>();
    op->p = probability;
    op->ordinal = place;
    all.push_back({op, {{DType::f32, x}, {DType::i64, {2}}}, {{}, {0, 1e9}}});
  }
  return all;
}

Tensor dropout(const Tensor& x, double p) {
  check_probability(p);
  if (!training() || p == 0) return x;
  const RandomKey random = next_random_key();
  auto op = std::make_shared<Dropout>();
  op->p = p;
  op->ordinal = random.ordinal;
  return apply1(op, {x, random.key});
}

void define_dropout() { define<Dropout>(); }

}  // namespace neurim
