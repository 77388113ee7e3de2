// Layers that tell a network where the elements of a sequence stand.
#pragma once
#include "neurim/nn/module.h"
#include "neurim/ops/common/positions.h"

namespace neurim::nn {

/// x(N,L,E) plus sinusoidal_positions: no parameters, any length.
struct SinusoidalPositions {
  Tensor operator()(const Tensor& x) const;  ///< x (N,L,E); gives the same shape
};

/// x(N,L,E) plus the first L rows of the parameter weight(max_length,E), drawn from N(0, 0.02) as in BERT.
/// Throws Error(usage) for longer sequences.
struct LearnedPositions {
  LearnedPositions(std::int64_t max_length, std::int64_t features);  ///< throws Error(usage) when a size is below 1
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (N,L,E), L up to max_length; gives the same shape

  Tensor weight;  ///< (max_length,E)
};

/// Turns the pairs of elements of queries or keys (N,heads,L,E): see rotary_positions. No parameters.
struct RotaryPositions {
  RotaryOptions options = {};                ///< base of the angles, order of the pairs, first position
  Tensor operator()(const Tensor& x) const;  ///< x (N,heads,L,E), E even; gives the same shape
};

}  // namespace neurim::nn
