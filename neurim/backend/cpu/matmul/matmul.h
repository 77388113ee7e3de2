// Matrix products as the graph has them.
#pragma once
#include "neurim/graph/kernel.h"

namespace neurim::cpu {

/// c[m,n] = a[m,k] b[k,n] (+ bias[n]), repeated `batch` times; strides in elements. c is plain.
struct Product {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0;
  bool bias = false;

  /// Whether it is a weight gradient of many rows whose strides map the columns of both operands to few cache sets:
  /// there oneDNN's AVX2 kernels reach 43 to 80 % of the peak, elsewhere up to a tenth more than ours.
  bool walks_few_places() const;
};

/// Floats of the result over which fused steps run at a time.
inline constexpr std::int64_t kPiece = 1 << 17;

/// Proposes plain values; the operands of a single product may keep strided rows.
void ask_rows(KernelRequest& request);
/// Reads a request that begins with a matmul or a fully connected layer in f32, after ask_rows(). If not possible, sets
/// request.why.
bool read_product(KernelRequest& request, Product& product);

}  // namespace neurim::cpu
