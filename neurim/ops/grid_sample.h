// Sampling images at any places.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// How grid_sample takes values.
struct GridSampleOptions {
  std::string mode = "linear";  ///< linear, nearest (ties to even), or cubic by Keys' kernel with a = -0.75
  std::string
      padding = "zeros";       ///< beyond the image: zeros, border (the outermost values), or reflection at the borders
  bool align_corners = false;  ///< whether -1 and 1 are the centres of the outermost values, not their outer edges
  void fields(Fields& f) { f("mode", mode)("padding", padding)("align_corners", align_corners); }
};

/// Floating x(N,C,D…) of one to three axes at the places of grid(N,P…,axes): (N,C,P…). A place is a coordinate for each
/// axis, that of the last axis first, -1 and 1 being the borders of the image (Jaderberg et al., "Spatial transformer
/// networks", NIPS'15). Throws Error(usage) for other shapes and unknown words. Has no gradient.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

/// The op of grid_sample. Inputs (x, grid).
class GridSample final : public Op {
 public:
  GridSampleOptions options;  ///< the attributes
  std::string_view name() const override { return "grid_sample"; }
  void fields(Fields& f) override { options.fields(f); }
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
