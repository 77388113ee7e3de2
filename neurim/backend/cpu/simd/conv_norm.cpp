#include "neurim/backend/cpu/conv_norm.h"

#include "neurim/backend/cpu/simd.h"

namespace neurim::cpu::NEURIM_ISA {

void affine_block(const float* x, const float* a, const float* b, const float* z, const float* c,
                  const float* add, bool relu, float* y, std::int64_t count) {
  const Vec scale = load(a), shift = load(b), other = c ? load(c) : Vec{};
  const Vec least = splat(relu ? 0.0f : -__builtin_inff());
  for (std::int64_t i = 0; i < count * kLanes; i += kLanes) {
    Vec value = load(x + i) * scale + shift;
    if (z) value += load(z + i) * other;
    if (add) value += load(add + i);
    store(y + i, relu ? max(least, value) : value);  // a NaN stays
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
