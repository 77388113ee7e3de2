#include "neurim/ops/roi_align.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types RoiAlign::infer(std::span<const Type> in) const {
  check_count(*this, in, 3, 3);
  check_floating(*this, in[0], "the input");
  check_floating(*this, in[1], "the boxes");
  const Shape &x = in[0].shape, &boxes = in[1].shape;
  require(x.rank() == 4 && boxes.rank() == 2 && boxes[1] == 4 && in[2] == (Type{DType::i64, {boxes[0]}}), name(),
          ": takes x", x, ", boxes", boxes, " and images ", in[2], ", where (N,C,H,W), (R,4) and i64(R) are wanted");
  constexpr std::int64_t most = 1000;  // samples along an axis of a bin, of which two are usual
  require(options.height > 0 && options.width > 0 && options.sampling_ratio >= 0 && options.sampling_ratio <= most,
          name(), ": the results are of ", options.height, "x", options.width, ", with a sampling ratio of ",
          options.sampling_ratio, "; it is 0 to ", most);
  return {{in[0].dtype, {boxes[0], x[1], options.height, options.width}}};
}

std::string RoiAlign::data_fault(std::span<const Tensor> in) const {
  return outside("the image", in[2], 0, in[0].size(0));
}

std::vector<Sample> RoiAlign::samples() const {
  std::vector<Sample> rows;
  for (const bool largest : {false, true}) {
    auto op = std::make_shared<RoiAlign>();
    op->options = {.height = 2,
                   .width = 3,
                   .sampling_ratio = largest ? 2 : 0,
                   .spatial_scale = 0.5,
                   .half_pixel = !largest,
                   .largest = largest};
    rows.push_back({op, {{DType::f32, {2, 3, 6, 7}}, {DType::f32, {4, 4}}, {DType::i64, {4}}}, {{}, {0, 12}, {0, 2}}});
  }
  return rows;
}

Tensor roi_align(const Tensor& x, const Tensor& boxes, const Tensor& images, const RoiAlignOptions& options) {
  auto op = std::make_shared<RoiAlign>();
  op->options = options;
  return apply1(op, {x, boxes, images});
}

void define_roi_align() { define<RoiAlign>(); }

}  // namespace neurim
