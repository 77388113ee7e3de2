// Random numbers, and dropout.
#include "neurim/core/random.h"

#include <cmath>
#include <random>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/graph/trace.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// Numbers from the attribute "seed", else others in each call.
Random generator(const OnnxCall& call) {
  if (!call.has("seed"))
    return Random((static_cast<std::uint64_t>(std::random_device{}()) << 32) | std::random_device{}());
  const bool whole = call.op() == "Dropout";
  return Random(static_cast<std::uint64_t>(whole ? call.integer("seed", std::int64_t{0})
                                                 : std::llround(call.number("seed", 0.0))));
}

OnnxValue drawn_values(const Shape& shape, OnnxElement element, const std::function<double()>& draw) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& value : values) value = draw();
  return {cast(Tensor::from({DType::f64, shape}, values.data()), dtype_of(element)), element};
}

OnnxElement element_or(const OnnxCall& call, OnnxElement otherwise) {
  return static_cast<OnnxElement>(call.integer("dtype", static_cast<std::int64_t>(otherwise)));
}

/// Random numbers are drawn by the caller: a plan would draw them once.
void refuse_trace(const OnnxCall& call) {
  if (tracing()) throw OnnxNeedsData(text(call.op(), " draws other numbers each time"));
}

OnnxValues random_values(const OnnxCall& call, const Shape& shape, OnnxElement element, bool normal) {
  refuse_trace(call);
  Random random = generator(call);
  const double a = normal ? call.number("mean", 0.0) : call.number("low", 0.0),
               b = normal ? call.number("scale", 1.0) : call.number("high", 1.0);
  return {drawn_values(shape, element, [&] { return normal ? a + b * random.normal() : random.uniform(a, b); })};
}

OnnxRule random_of_shape(bool normal) {
  return [=](const OnnxCall& call) {
    const std::vector<std::int64_t> sizes = call.integers("shape");
    return random_values(call, Shape(std::span<const std::int64_t>(sizes)), element_or(call, OnnxElement::f32), normal);
  };
}
OnnxRule random_like(bool normal) {
  return [=](const OnnxCall& call) {
    return random_values(call, call.in(0).shape(), element_or(call, call.in(0).element()), normal);
  };
}

OnnxValues bernoulli(const OnnxCall& call) {
  refuse_trace(call);
  Random random = generator(call);
  const std::vector<double> shares = call.numbers(0);
  std::size_t next = 0;
  return {drawn_values(call.in(0).shape(), element_or(call, call.in(0).element()),
                       [&] { return random.uniform() < shares[next++] ? 1.0 : 0.0; })};
}

/// Classes drawn by unnormalized logarithms of their probabilities.
OnnxValues multinomial(const OnnxCall& call) {
  refuse_trace(call);
  Random random = generator(call);
  const std::vector<double> logs = call.numbers(0);
  const Shape& shape = call.in(0).shape();
  require(shape.rank() == 2, "the input is ", shape, ", where (N,classes) is wanted");
  const std::int64_t rows = shape[0], classes = shape[1], count = call.integer("sample_size", std::int64_t{1});
  std::int64_t made = 0;
  return {drawn_values({rows, count}, element_or(call, OnnxElement::i32), [&] {
    const double* row = logs.data() + made++ / count * classes;
    double top = row[0], sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) top = std::max(top, row[c]);
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - top);
    double left = random.uniform() * sum;
    for (std::int64_t c = 0; c + 1 < classes; ++c)
      if ((left -= std::exp(row[c] - top)) < 0) return static_cast<double>(c);
    return static_cast<double>(classes - 1);
  })};
}

/// Dropout: its input, and a mask of true, unless it trains.
OnnxValues dropout_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  const bool modern = call.version() >= 12;
  const double ratio = modern ? call.number(1, 0.5) : 0;
  const bool training = modern && call.has(2) && call.integer(2, 0) != 0;
  const DType mask_dtype = call.version() < 10 ? x.dtype() : DType::boolean;
  if (!training || ratio == 0) return {x, Tensor::full({mask_dtype, x.shape()}, 1)};
  refuse_trace(call);
  require(ratio > 0 && ratio < 1, "the ratio is ", ratio);
  Random random = generator(call);
  const OnnxValue mask = drawn_values(x.shape(), OnnxElement::boolean,
                                      [&] { return random.uniform() >= ratio ? 1.0 : 0.0; });
  return {where(mask.tensor(), x * (1 / (1 - ratio)), Tensor::scalar(0, x.dtype())), mask};
}

}  // namespace

void add_random_operators(OnnxOperators& to) {
  to.add_random("RandomNormal", 1, random_of_shape(true));
  to.add_random("RandomUniform", 1, random_of_shape(false));
  to.add_random("RandomNormalLike", 1, random_like(true));
  to.add_random("RandomUniformLike", 1, random_like(false));
  to.add_random("Bernoulli", 15, bernoulli);
  to.add_random("Multinomial", 7, multinomial);
  to.add_random("Dropout", 1, dropout_rule);
}

}  // namespace neurim
