// x where it is above a threshold, else a value
#pragma once
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/where.h"

namespace neurim {

/// x where x > limit, else `value`, element by element; x of any number dtype and any shape.
inline Tensor threshold(const Tensor& x, double limit, double value) {
  return where(greater(x, scalar_like(x, limit)), x, scalar_like(x, value));
}

}  // namespace neurim
