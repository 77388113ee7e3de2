// Compositions in narrow dtypes.
#pragma once
#include "neurim/ops/cast.h"

namespace neurim {

/// x as f32 where it is f16 or bf16, else x itself: a composition of several ops computes there and rounds
/// once, at its end, with a cast back.
inline Tensor wide(const Tensor& x) { return bits(x.dtype()) == 16 ? cast(x, DType::f32) : x; }

}  // namespace neurim
