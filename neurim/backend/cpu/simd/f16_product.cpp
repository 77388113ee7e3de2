// Products of f16 with AVX512-FP16 instructions, which multiply and add 32 values of 11 bits at once where float
// instructions take 16 of 24. Long sums would lose digits, so a lane takes kShort products and its total is added to a
// float.
#if defined(__AVX512F__)
#ifndef NEURIM_PRODUCT  // tests define it empty and emulate the instructions
#define NEURIM_PRODUCT __attribute__((target("avx512fp16")))
#endif
#include "neurim/backend/cpu/simd/product.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// A sum has two lanes for each output channel: of the pairs' first and second values.
struct NativeF16Pairs : Factors<kLanes / 2, F16> {
  /// Two blocks of a 3x3 kernel. Sums of this length of random terms lose 0.15 % of their std; rounding the factors to
  /// bf16 costs 0.24 %. A block of a larger kernel still is one sum: 0.26 % for 7x7.
  static constexpr int kShort = 144;

  static Vec weights(const float* at) { return load(at); }
  NEURIM_PRODUCT static Vec multiply_add(Vec sum, Vec row, const float* x) {
    return (Vec)_mm512_fmadd_ph((__m512h)row, (__m512h)splat_bits(x), (__m512h)sum);
  }
  NEURIM_PRODUCT static Vec total(Vec sum) {
    const Bits both = bits_as<Bits>(sum);
    return f16_floats((Bits)_mm512_add_ph((__m512h)both, (__m512h)(both << 16 | both >> 16)));
  }
};

}  // namespace

void f16_product(const BlockProduct& shape, std::int64_t first_block, std::int64_t last_block, const float* x,
                 const float* weight, const BlockEpilogue& epilogue, float* y) {
  multiply<NativeF16Pairs>(shape, first_block, last_block, x, weight, epilogue, y);
}

void f16_weight_grad(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy, bool add,
                     float* dw) {
  weight_grads<NativeF16Pairs>(shape, blocks, x, dy, add, dw);
}

}  // namespace neurim::cpu::NEURIM_ISA
#endif
