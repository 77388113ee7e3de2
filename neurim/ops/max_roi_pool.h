// The maxima of boxes of images (Girshick, "Fast R-CNN", ICCV'15).
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// x(N,C,H,W), floating, and boxes(R,5) of its dtype, each (image, x1, y1, x2, y2) in pixels divided by `scale` ->
/// (R,C,height,width): the maxima of as many parts of each box, whose rounded corners are pixels of it. A part without
/// pixels of x gives 0. An image outside [0,N) sets kStatusIndexOutOfRange. Has no gradient.
Tensor max_roi_pool(const Tensor& x, const Tensor& boxes, std::int64_t height, std::int64_t width, double scale = 1);

/// The op of max_roi_pool. Inputs (x, boxes).
class MaxRoiPool final : public Op {
 public:
  std::int64_t height = 1,  ///< parts of a box along its sides
      width = 1;            ///< the same
  double scale = 1;         ///< by which coordinates are multiplied
  std::string_view name() const override { return "max_roi_pool"; }
  void fields(Fields& f) override { f("height", height)("width", width)("scale", scale); }
  Types infer(std::span<const Type> in) const override;
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
