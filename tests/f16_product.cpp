// The products of f16 with arithmetic in the place of AVX512-FP16's: each step a sum of floats that is rounded to f16.
#include <immintrin.h>

#define NEURIM_ISA imitated
#define NEURIM_PRODUCT
#include "tests/f16_product.h"

namespace {

template <class Step>
__m512h by_floats(Step step) {
  alignas(64) __m256i all[2];
  for (int i = 0; i < 2; ++i) all[i] = _mm512_maskz_cvtps_ph(0xffff, step(i), _MM_FROUND_TO_NEAREST_INT);
  return (__m512h)_mm512_load_si512(all);
}
__m512 floats(__m512h halves, int i) {
  alignas(64) __m256i all[2];
  _mm512_store_si512(all, (__m512i)halves);
  return _mm512_maskz_cvtph_ps(0xffff, all[i]);
}
__m512h imitated_fmadd(__m512h a, __m512h b, __m512h c) {
  return by_floats([&](int i) { return _mm512_fmadd_ps(floats(a, i), floats(b, i), floats(c, i)); });
}
__m512h imitated_add(__m512h a, __m512h b) {
  return by_floats([&](int i) { return floats(a, i) + floats(b, i); });
}

}  // namespace

#define _mm512_fmadd_ph imitated_fmadd
#define _mm512_add_ph imitated_add
#include "neurim/backend/cpu/simd/f16_product.cpp"
