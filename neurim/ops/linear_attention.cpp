#include "neurim/ops/linear_attention.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types LinearAttention::infer(std::span<const Type> in) const {
  const std::size_t count = 3u + state + decay + beta;
  check_count(*this, in, count, count);
  check_floating(*this, in[0], "the query");
  check_same_dtype(*this, in[0], in[1]);
  check_same_dtype(*this, in[0], in[2]);
  const auto& [heads, groups, scale] = options;
  const Shape &query = in[0].shape, &key = in[1].shape, &value = in[2].shape;
  require(heads > 0 && groups > 0 && heads % groups == 0, name(), ": the ", heads, " heads do not divide into ",
          groups);
  require(query.rank() == 3 && key.rank() == 3 && value.rank() == 3, name(),
          ": takes query (N,T,heads*E), key and value (N,T,groups*…), got ", query, ", ", key, " and ", value);
  for (const Shape* other : {&key, &value})
    require((*other)[0] == query[0] && (*other)[1] == query[1], name(), ": query ", query, " and ", *other,
            " differ in batch or steps");
  const Dim features = query[2] / heads, values = value[2] / groups;
  require(features * heads == query[2] && features * groups == key[2] && values * groups == value[2], name(),
          ": query ", query, ", key ", key, " and value ", value, " do not divide into ", heads, " heads and ", groups);
  Type states{in[0].dtype, {query[0], groups, features, values}};
  std::size_t next = 3;
  if (state) {
    check_floating(*this, in[next], "the state");
    require(in[next].shape == states.shape, name(), ": the state is ", in[next].shape, ", expected ", states.shape);
    states.dtype = in[next++].dtype;
  }
  if (decay) {
    const Type& given = in[next++];
    check_same_dtype(*this, in[0], given);
    require(
        given.shape == Shape{query[0], query[1], groups} || given.shape == Shape{query[0], query[1], groups * features},
        name(), ": the decay is ", given.shape, ", expected ", Shape{query[0], query[1], groups}, " or ", key);
  }
  if (beta) {
    const Type& given = in[next];
    check_same_dtype(*this, in[0], given);
    require(given.shape == Shape{query[0], query[1], groups} || given.shape == Shape{query[0], query[1], 1}, name(),
            ": beta is ", given.shape, ", expected ", Shape{query[0], query[1], groups});
  }
  return {{in[0].dtype, {query[0], query[1], values * heads}}, states};
}

std::int64_t LinearAttention::multiply_adds(std::span<const Type> in) const {
  const Types out = infer(in);
  const std::int64_t products = options.heads + options.groups * (beta ? 2 : 1);
  return in[0].shape[0] * in[0].shape[1] * products * out[1].shape[2] * out[1].shape[3];
}

std::vector<Sample> LinearAttention::samples() const {
  const auto row = [](std::int64_t heads, std::int64_t groups, bool past, int decays, int betas) -> Sample {
    constexpr std::int64_t kBatch = 2, kSteps = 5, kFeatures = 4, kValues = 3;
    auto op = std::make_shared<LinearAttention>();
    op->options = {heads, groups, 0.5};
    op->state = past, op->decay = decays > 0, op->beta = betas > 0;
    const auto steps = [](std::int64_t size) { return Type{DType::f32, {kBatch, kSteps, size}}; };
    Sample sample{op, {steps(heads * kFeatures), steps(groups * kFeatures), steps(groups * kValues)}, {{}, {}, {}}};
    const auto add = [&](const Type& type, const Fill& fill) {
      sample.in.push_back(type);
      sample.fill.push_back(fill);
    };
    if (past) add({DType::f32, {kBatch, groups, kFeatures, kValues}}, {});
    if (decays > 0) add(steps(decays == 1 ? groups : groups * kFeatures), {-1, 0});
    if (betas > 0) add(steps(betas == 1 ? groups : 1), {0, 1});
    return sample;
  };
  return {row(2, 2, false, 0, 0), row(4, 2, true, 1, 0), row(2, 1, false, 0, 1), row(4, 2, true, 2, 1),
          row(2, 2, true, 1, 2)};
}

Tensors linear_attention(const Tensor& query, const Tensor& key, const Tensor& value, const LinearAttentionInputs& more,
                         const LinearAttentionOptions& options) {
  auto op = std::make_shared<LinearAttention>();
  op->options = options;
  Tensors in{query, key, value};
  const auto add = [&](const Tensor& tensor, bool& there) {
    there = static_cast<bool>(tensor);
    if (there) in.push_back(tensor);
  };
  add(more.state, op->state), add(more.decay, op->decay), add(more.beta, op->beta);
  return neurim::apply(op, in);
}

void define_linear_attention() { define<LinearAttention>(); }

}  // namespace neurim
