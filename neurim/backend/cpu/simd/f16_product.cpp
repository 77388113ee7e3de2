// Products of f16 by AVX512-FP16's instructions, which multiply and add 32 numbers of 11 bits where those of floats
// take 16 of 24. A sum of many such would lose digits: each lane takes some products, then what it has is added to a
// float.
#if defined(__AVX512F__)
#ifndef NEURIM_PRODUCT  // tests have others, that do without these instructions
#define NEURIM_PRODUCT __attribute__((target("avx512fp16")))
#endif
#include "neurim/backend/cpu/simd/product.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// A sum has two lanes for each output channel, of the first and of the second numbers of the pairs.
struct NativeF16Pairs : Factors<kLanes / 2, F16> {
  /// Two blocks of a 3x3 kernel. What such sums of random terms lose is 0.15 % of their std, where rounding the factors
  /// to bf16 costs 0.24 %; a block of a larger kernel is one sum all the same: 0.26 % of one of 7x7.
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
