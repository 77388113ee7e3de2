// relu and relu6 where they ride on another kernel.
#pragma once
#include <limits>

#include "neurim/graph/op.h"

namespace neurim::cpu {

/// The limit of a relu without one: nothing is above it, and no output is equal to it.
inline constexpr float kNoLimit = std::numeric_limits<float>::quiet_NaN();

/// v < 0 ? 0 : v > most ? most : v. A NaN stays.
struct Relu {
  bool on = false;
  float most = kNoLimit;
};

/// Whether the op is a ReLU or, with `gradient`, that of one: dy where 0 < y and y != most. Sets `relu`.
inline bool read_relu(const Op& op, Relu& relu, bool gradient = false) {
  const bool six = op.name() == (gradient ? "relu6_grad" : "relu6");
  if (!six && op.name() != (gradient ? "relu_grad" : "relu")) return false;
  relu = {true, six ? 6 : kNoLimit};
  return true;
}

}  // namespace neurim::cpu
