#include "neurim/ops/embedding.h"

#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// Inputs (weight, indices): gather, but that the row `padding_idx` gets no gradient. (Without such a row
/// gather itself serves.)
class Embedding final : public Op {
 public:
  std::int64_t padding_idx;  ///< in [0, n)

  explicit Embedding(std::int64_t padding_idx_ = 0) : padding_idx(padding_idx_) {}
  std::string_view name() const override { return "embedding"; }
  void fields(Fields& f) override { f("padding_idx", padding_idx); }
  Types infer(std::span<const Type> in) const override {
    check_count(*this, in, 2, 2);
    check_floating(*this, in[0], "the weight");
    return Gather(0).infer(in);
  }
  Tensors decompose(std::span<const Tensor> in) const override { return {gather(in[0], in[1], 0)}; }
  Tensors grad(const Gradient& g) const override {
    const Tensor &weight = g.in[0], &indices = g.in[1], &dy = g.dout[0];
    Shape beside = indices.shape();
    beside.push_back(1);
    const Tensor rows = reshape(indices, beside);
    const auto is = [&](std::int64_t row) { return equal(rows, scalar_like(rows, static_cast<double>(row))); };
    const Tensor zero = scalar_like(dy, 0);
    // The row goes by two numbers, of which one counts from the back.
    const Tensor learnt = where(is(padding_idx), zero, where(is(padding_idx - weight.size(0)), zero, dy));
    return {apply1(std::make_shared<GatherGrad>(weight.shape(), 0), {learnt, indices}), {}};
  }
  std::vector<Sample> samples() const override {
    // Row 0 is not met: its gradient is not the derivative.
    return {{std::make_shared<Embedding>(0), {{DType::f32, {7, 3}}, {DType::i64, {2, 4}}}, {{}, {1, 7}}},
            {std::make_shared<Embedding>(6), {{DType::f32, {7, 5}}, {DType::i32, {3}}}, {{}, {-7, -1}}}};
  }
};

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx) {
  require(weight.rank() == 2, "embedding: takes a weight (n,d), got ", weight.shape());
  if (!padding_idx) return gather(weight, indices, 0);
  const std::int64_t n = weight.size(0), row = *padding_idx < 0 ? *padding_idx + n : *padding_idx;
  require(row >= 0 && row < n, "embedding: padding_idx ", *padding_idx, " names no row of the weight ", weight.shape());
  return apply1(std::make_shared<Embedding>(row), {weight, indices});
}

void define_embedding() { define<Embedding>(); }

}  // namespace neurim
