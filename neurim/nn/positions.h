// Layers that tell a network where the elements of a sequence stand.
#pragma once
#include "neurim/nn/module.h"
#include "neurim/ops/common/positions.h"

namespace neurim::nn {

/// x(N,L,E) plus sinusoidal_positions: no parameters, any length.
struct SinusoidalPositions {
  Tensor operator()(const Tensor& x) const;
};

/// x(N,L,E) plus the first L rows of the parameter weight(max_length,E), drawn from N(0, 0.02) as in BERT.
/// Throws Error(usage) for longer sequences.
struct LearnedPositions {
  LearnedPositions(std::int64_t max_length, std::int64_t features);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  Tensor weight;
};

/// Turns the pairs of elements of queries or keys (N,heads,L,E): see rotary_positions. No parameters.
struct RotaryPositions {
  RotaryOptions options = {};
  Tensor operator()(const Tensor& x) const;
};

}  // namespace neurim::nn
