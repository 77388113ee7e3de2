// Where the elements of a sequence stand, in numbers that attention can tell apart.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// (length,features): sin(p / 10000^(2i/features)) in column 2i of row p, the cosine of the same in column
/// 2i+1, to be added to the elements (Vaswani et al., "Attention is all you need", NeurIPS'17, section 3.5).
Tensor sinusoidal_positions(std::int64_t length, std::int64_t features, DType dtype = DType::f32, Device device = {});

/// The options of rotary_positions.
struct RotaryOptions {
  double base = 10000;       ///< of the geometric series of wavelengths
  bool interleaved = false;  ///< pairs of elements 2i and 2i+1, as the paper has it; else i and i + E/2
  std::int64_t first = 0;    ///< the position of the first row
};

/// x(…,L,E), floating, E even -> the same shape: in the row at position p the pair number i of elements is
/// turned by the angle p / base^(2i/E), so that a product of two rows depends on how far apart they are (Su
/// et al., "RoFormer", 2021). For queries and keys (N,heads,L,E). Throws Error(usage) for other shapes and
/// dtypes.
Tensor rotary_positions(const Tensor& x, const RotaryOptions& options = {});

}  // namespace neurim
