// One half of the input, gated by the other
#pragma once
#include "neurim/ops/common/wide.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/slice.h"

namespace neurim {

/// a * sigmoid(b) with x cut into equal halves a and b along `axis` (Dauphin et al., "Language modeling with
/// gated convolutional networks", ICML'17); floating x. Throws Error(usage) when the size there is odd.
inline Tensor glu(const Tensor& x, std::int64_t axis = -1) {
  const int along = normal_axis(axis, x.rank(), "glu");
  const std::int64_t size = x.size(along), half = size / 2;
  require(size % 2 == 0, "glu: axis ", along, " of ", x.shape(), " has an odd size and no halves");
  const Tensor a = slice(x, {0}, {half}, {along}), b = slice(x, {half}, {size}, {along});
  return cast(wide(a) * sigmoid(wide(b)), x.dtype());
}

}  // namespace neurim
