// Regions of images brought to one size.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// How roi_align samples.
struct RoiAlignOptions {
  std::int64_t height = 1, width = 1;  ///< of the results
  std::int64_t sampling_ratio = 0;     ///< samples of each bin along an axis; 0: as many as its size, rounded up
  double spatial_scale = 1;            ///< from the boxes' coordinates to the image's
  bool half_pixel = true;              ///< whether coordinates are of edges, half a pixel before centres
  bool largest = false;                ///< the largest weighted neighbour of a bin, not the mean of its samples
  void fields(Fields& f) {
    f("height", height)("width", width)("sampling_ratio", sampling_ratio)("spatial_scale", spatial_scale);
    f("half_pixel", half_pixel)("largest", largest);
  }
};

/// Floating x(N,C,H,W), boxes(R,4) as (x1,y1,x2,y2) and the image of each, i64(R): (R,C,height,width), each box cut
/// into bins of bilinear samples (He et al., "Mask R-CNN", ICCV'17). An image outside [0, N) sets
/// kStatusIndexOutOfRange. Has no gradient.
Tensor roi_align(const Tensor& x, const Tensor& boxes, const Tensor& images, const RoiAlignOptions& options);

/// The op of roi_align. Inputs (x, boxes, images).
class RoiAlign final : public Op {
 public:
  RoiAlignOptions options;  ///< the attributes
  std::string_view name() const override { return "roi_align"; }
  void fields(Fields& f) override { options.fields(f); }
  Types infer(std::span<const Type> in) const override;
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
