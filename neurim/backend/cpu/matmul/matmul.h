// Matrix products as the graph has them.
#pragma once
#include "neurim/graph/kernel.h"

namespace neurim::cpu {

/// c[m,n] = a[m,k] b[k,n] (+ bias[n]), repeated `batch` times; strides in elements. c is plain.
struct Product {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0;
  bool bias = false;

  /// Whether it is a weight gradient of many rows, whose distances in memory put the columns of both in few places of
  /// the caches: oneDNN's for AVX2 reach 43 to 80 % of the peak then, and else up to a tenth more than ours.
  bool walks_few_places() const;
};

/// Floats of the result that steps behind it go over at a time.
inline constexpr std::int64_t kPiece = 1 << 17;

/// Asks for plain values; operands of one product whose rows lie apart may stay so.
void ask_rows(KernelRequest& request);
/// Reads a request that begins with a matmul or a fully connected layer, of f32 as ask_rows() has it, or says why not.
bool read_product(KernelRequest& request, Product& product);

}  // namespace neurim::cpu
