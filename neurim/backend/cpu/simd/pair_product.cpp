// block_product() and block_weight_grad() of pairs of bf16 or f16, each with and without native instructions.
#define NEURIM_PRODUCT NEURIM_MAY_NAME_NARROW
#include "neurim/backend/cpu/simd/product.h"

namespace neurim::cpu::NEURIM_ISA {

#ifdef NEURIM_F32_STORAGE
void pair_product(const BlockProduct&, std::int64_t, const float*, const float*, const BlockEpilogue&, float*) {
  __builtin_trap();
}
void pair_weight_grad(const BlockWeightGrad&, std::int64_t, const float*, const float*, bool, float*) {
  __builtin_trap();
}
#else

namespace {

struct PairRow {
  Vec first, second;
};
struct Pairs : Factors<kLanes / 2, Bf16<false> > {
  static PairRow weights(const float* at) { return {first_of_pairs(load(at)), second_of_pairs(load(at))}; }
  static Vec multiply_add(Vec sum, const PairRow& row, const float* x) {
    const Vec pair = splat_bits(x);
    return sum + row.first * first_of_pairs(pair) + row.second * second_of_pairs(pair);
  }
};
struct F16Pairs : Factors<kLanes / 2, F16> {
  static PairRow weights(const float* at) {
    const Bits pairs = load_as<Bits>(reinterpret_cast<const std::uint32_t*>(at));
    return {f16_floats(pairs & 0xffff), f16_floats(pairs >> 16)};
  }
  static Vec multiply_add(Vec sum, const PairRow& row, const float* x) {
    std::uint16_t pair[2];
    std::memcpy(pair, x, sizeof pair);
    return sum + row.first * splat(f16_float(pair[0])) + row.second * splat(f16_float(pair[1]));
  }
};
#if defined(__AVX512F__)
struct NativePairs : Factors<kLanes / 2, Bf16<true> > {
  static Vec weights(const float* at) { return load(at); }
  NEURIM_MAY_NAME_NARROW static Vec multiply_add(Vec sum, Vec row, const float* x) {
    return add_products_of_pairs(sum, row, splat_bits(x));
  }
};
struct NativeHalfPairs : HalfFactors<kLanes / 2, Bf16<true> > {
  NEURIM_MAY_NAME_NARROW static Sum multiply_add(Sum sum, Sum row, const float* x) {
    return add_products_of_pairs(sum, row, splat_bits<HalfWide>(x));
  }
};
#endif

}  // namespace

void pair_product(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight,
                  const BlockEpilogue& epilogue, float* y) {
  Multiply all = shape.pairs == StorageDtype::f16 ? multiply<F16Pairs> : multiply<Pairs>;
  Multiply half = nullptr;
#if defined(__AVX512F__)
  if (shape.pairs == StorageDtype::bf16 && has_bf16()) all = multiply<NativePairs>, half = multiply<NativeHalfPairs>;
  if (shape.pairs == StorageDtype::f16 && has_f16()) all = f16_product;
  if (shape.pairs == StorageDtype::f16 && imitated_f16_products.product) all = imitated_f16_products.product;
#endif
  multiply_all(all, half, shape, blocks, x, weight, epilogue, y);
}

void pair_weight_grad(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy, bool add,
                      float* dw) {
  auto factors = shape.pairs == StorageDtype::f16 ? weight_grads<F16Pairs> : weight_grads<Pairs>;
#if defined(__AVX512F__)
  if (shape.pairs == StorageDtype::bf16 && has_bf16()) factors = weight_grads<NativePairs>;
  if (shape.pairs == StorageDtype::f16 && has_f16()) factors = f16_weight_grad;
  if (shape.pairs == StorageDtype::f16 && imitated_f16_products.weight_grad)
    factors = imitated_f16_products.weight_grad;
#endif
  factors(shape, blocks, x, dy, add, dw);
}
#endif

}  // namespace neurim::cpu::NEURIM_ISA
