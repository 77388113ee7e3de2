// The forms in which weights of convolutions live. They are oneDNN's too, so both libraries' kernels share them.
#pragma once
#include "neurim/core/types.h"

namespace neurim::cpu {

/// [O/16][I/16][kh][kw][16i][16o], of weights [O][I][kh][kw]; missing trailing axes have size 1. Channels beyond
/// the last are zero.
Layout forward_weights(const Type& weight);
/// [I/16][O/16][kh][kw][16o][16i]: as a data gradient reads them.
Layout gradient_weights(const Type& weight);
/// [G/16][kh][kw][16g], of weights [G][1][kh][kw].
Layout depthwise_weights(const Type& weight);

struct PackedWeights {
  enum Form : std::uint8_t { forward, gradient, depthwise } form;
  Type weight;  ///< of four axes, f32

  bool operator==(const PackedWeights&) const = default;
  std::size_t bytes() const;
};
/// Which of these a layout is; null: none.
const PackedWeights* packed_weights_of(const Layout& layout);

}  // namespace neurim::cpu
