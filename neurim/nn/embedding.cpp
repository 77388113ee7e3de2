#include "neurim/nn/embedding.h"

#include <cmath>

#include "neurim/base/error.h"
#include "neurim/ops/common/bilinear.h"
#include "neurim/ops/embedding.h"

namespace neurim::nn {

namespace {

/// U(-b, b) with b = 1/sqrt(in1): PyTorch's for weight(out,in1,in2) and its bias.
Init bilinear_init(const Shape& weight) {
  const double bound = 1 / std::sqrt(static_cast<double>(weight[1]));
  return uniform(-bound, bound);
}

}  // namespace

Embedding::Embedding(std::int64_t num, std::int64_t dim) : Embedding(num, dim, Config{}) {}

Embedding::Embedding(std::int64_t num, std::int64_t dim, const Config& c) : config(c) {
  require(num > 0 && dim > 0, "Embedding: rows (", num, ") and their size (", dim, ") must be 1 or more");
  if (std::optional<std::int64_t>& row = config.padding_idx) {
    require(*row >= -num && *row < num, "Embedding: padding_idx ", *row, " names none of ", num, " rows");
    if (*row < 0) *row += num;
  }
  weight = parameter({num, dim}, init());
}

Init Embedding::init() const {
  Init drawn = normal();
  drawn.zero_row = config.padding_idx.value_or(-1);
  return drawn;
}

void Embedding::parts(Parts& p) { p("weight", weight, init()); }

Tensor Embedding::operator()(const Tensor& indices) const { return embedding(indices, weight, config.padding_idx); }

Bilinear::Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out) : Bilinear(in1, in2, out, Config{}) {}

Bilinear::Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, const Config& c) : config(c) {
  require(in1 > 0 && in2 > 0 && out > 0, "Bilinear: features (", in1, " and ", in2, " to ", out, ") must be 1 or more");
  const Shape shape{out, in1, in2};
  weight = parameter(shape, bilinear_init(shape));
  if (c.bias) bias = parameter({out}, bilinear_init(shape));
}

void Bilinear::parts(Parts& p) {
  const Init init = bilinear_init(weight.shape());
  p("weight", weight, init)("bias", bias, init);
}

Tensor Bilinear::operator()(const Tensor& x1, const Tensor& x2) const { return bilinear(x1, x2, weight, bias); }

}  // namespace neurim::nn
