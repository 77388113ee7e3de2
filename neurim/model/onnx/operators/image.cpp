// Images, boxes and grids.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/model/onnx/operators/resize.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/grid_sample.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/roi_align.h"
#include "neurim/ops/scatter.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

OnnxValues grid_sample_rule(const OnnxCall& call) {
  std::string mode = call.word("mode", call.version() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const Tensor& x = call.tensor(0);
  const bool floating = is_floating(x.dtype());
  const Tensor y = grid_sample(floating ? x : cast(x, DType::f64), call.tensor(1),
                               {.mode = mode,
                                .padding = call.word("padding_mode", "zeros"),
                                .align_corners = call.integer("align_corners", std::int64_t{0}) != 0});
  return {floating ? y : cast(y, x.dtype())};
}

/// theta (N,axes,axes+1) times the places of a grid of that size: (N,…,axes).
OnnxValues affine_grid(const OnnxCall& call) {
  const Tensor& theta = call.tensor(0);
  const std::vector<std::int64_t> size = call.integers(1);
  const bool corners = call.integer("align_corners", std::int64_t{0}) != 0;
  const std::size_t axes = size.size() - 2;
  require(size.size() == 4 || size.size() == 5, "the size has ", size.size(), " numbers, not 4 or 5");
  require(theta.rank() == 3 && theta.size(1) == static_cast<std::int64_t>(axes), "theta is ", theta.shape());
  for (const std::int64_t each : size) require(each > 0, "the size has ", each);
  std::int64_t count = 1;
  Shape shape{size[0]};
  for (std::size_t i = 2; i < size.size(); ++i) count *= size[i], shape.push_back(size[i]);
  shape.push_back(static_cast<std::int64_t>(axes));
  std::vector<double> places(static_cast<std::size_t>(count) * (axes + 1), 1);
  for (std::int64_t at = 0; at < count; ++at) {
    std::int64_t left = at;
    for (std::size_t k = 0; k < axes; ++k) {  // the last axis comes first
      const std::int64_t length = size[size.size() - 1 - k], index = left % length;
      left /= length;
      const auto i = static_cast<double>(index), n = static_cast<double>(length);
      places[k * static_cast<std::size_t>(count) + static_cast<std::size_t>(at)] = corners ? (length == 1
                                                                                                  ? -1
                                                                                                  : 2 * i / (n - 1) - 1)
                                                                                           : (2 * i + 1) / n - 1;
    }
  }
  const Tensor grid = cast(Tensor::from({DType::f64, {static_cast<std::int64_t>(axes) + 1, count}}, places.data()),
                           theta.dtype());
  return {reshape(transpose(matmul(theta, grid), {0, 2, 1}), shape)};
}

OnnxValues roi_align_rule(const OnnxCall& call) {
  const std::string mode = call.word("mode", "avg"),
                    places = call.word("coordinate_transformation_mode",
                                       call.version() < 16 ? "output_half_pixel" : "half_pixel");
  require(mode == "avg" || mode == "max", "mode is '", mode, "', not avg or max");
  require(places == "half_pixel" || places == "output_half_pixel", "coordinate_transformation_mode is '", places, "'");
  return {roi_align(call.tensor(0), call.tensor(1), cast(call.tensor(2), DType::i64),
                    {.height = call.integer("output_height", std::int64_t{1}),
                     .width = call.integer("output_width", std::int64_t{1}),
                     .sampling_ratio = call.integer("sampling_ratio", std::int64_t{0}),
                     .spatial_scale = call.number("spatial_scale", 1.0),
                     .half_pixel = places == "half_pixel",
                     .largest = mode == "max"})};
}

struct Box {
  double x1, y1, x2, y2;
  double area() const { return std::max(x2 - x1, 0.0) * std::max(y2 - y1, 0.0); }
};

/// The share of two boxes' union that both have.
double overlap(const Box& a, const Box& b) {
  const Box both{std::max(a.x1, b.x1), std::max(a.y1, b.y1), std::min(a.x2, b.x2), std::min(a.y2, b.y2)};
  const double common = both.area(), whole = a.area() + b.area() - common;
  return a.area() <= 0 || b.area() <= 0 || whole <= 0 ? 0 : common / whole;
}

OnnxValues non_max_suppression(const OnnxCall& call) {
  const std::vector<double> boxes = call.numbers(0), scores = call.numbers(1);
  const Shape &box_shape = call.in(0).shape(), &score_shape = call.in(1).shape();
  require(box_shape.rank() == 3 && score_shape.rank() == 3 && box_shape[2] == 4 && box_shape[0] == score_shape[0] &&
              box_shape[1] == score_shape[2],
          "the boxes are ", box_shape, " and the scores ", score_shape);
  const std::int64_t images = score_shape[0], classes = score_shape[1], count = score_shape[2],
                     most = call.integer(2, 0);
  const double overlap_limit = call.number(3, 0), score_limit = call.number(4, 0);
  const bool centers = call.integer("center_point_box", std::int64_t{0}) != 0, limited = call.has(4);
  const auto box_of = [&](std::int64_t image, std::int64_t i) {
    const double* b = boxes.data() + (image * count + i) * 4;
    if (centers) return Box{b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
    return Box{std::min(b[1], b[3]), std::min(b[0], b[2]), std::max(b[1], b[3]), std::max(b[0], b[2])};
  };
  std::vector<std::int64_t> chosen;
  for (std::int64_t image = 0; image < images; ++image)
    for (std::int64_t c = 0; c < classes; ++c) {
      const double* own = scores.data() + (image * classes + c) * count;
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < count; ++i)
        if (!std::isnan(own[i]) && (!limited || own[i] > score_limit)) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return own[a] > own[b]; });
      std::vector<Box> kept;
      for (const std::int64_t i : order) {
        if (std::ssize(kept) >= most) break;
        const Box box = box_of(image, i);
        const auto hidden = [&](const Box& other) { return overlap(box, other) > overlap_limit; };
        if (std::any_of(kept.begin(), kept.end(), hidden)) continue;
        kept.push_back(box);
        chosen.insert(chosen.end(), {image, c, i});
      }
    }
  return {Tensor::from({std::ssize(chosen) / 3, 3}, chosen)};
}

/// Columns (N,C*taps,places) added up where they came from in images of that size.
OnnxValues col2im(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  const std::vector<std::int64_t> image = call.integers(1), block = call.integers(2);
  const std::size_t axes = image.size();
  const auto strides = call.integers("strides", std::vector<std::int64_t>(axes, 1)),
             dilations = call.integers("dilations", std::vector<std::int64_t>(axes, 1)),
             pads = call.integers("pads", std::vector<std::int64_t>(2 * axes, 0));
  require(
      axes > 0 && block.size() == axes && strides.size() == axes && dilations.size() == axes && pads.size() == 2 * axes,
      "image_shape has ", axes, " axes, block_shape ", block.size(), ", strides ", strides.size(), ", dilations ",
      dilations.size(), " and pads ", pads.size(), " numbers");
  for (std::size_t i = 0; i < axes; ++i)
    require(image[i] > 0 && block[i] > 0 && strides[i] > 0 && dilations[i] > 0,
            "a size, stride or dilation is below 1");
  const auto product = [](const std::vector<std::int64_t>& all) {
    return std::accumulate(all.begin(), all.end(), std::int64_t{1}, std::multiplies<>());
  };
  const std::int64_t taps = product(block), plane = product(image);
  std::vector<std::int64_t> windows(axes);
  for (std::size_t i = 0; i < axes; ++i)
    windows[i] = (image[i] + pads[i] + pads[i + axes] - dilations[i] * (block[i] - 1) - 1) / strides[i] + 1;
  const std::int64_t places = product(windows);
  require(x.rank() == 3 && taps > 0 && x.size(1) % taps == 0 && x.size(2) == places, "the columns are ", x.shape(),
          ", where ", taps, " taps and ", places, " places are wanted");
  const std::int64_t images = x.size(0), channels = x.size(1) / taps;
  std::vector<std::int64_t> rows;  // where each tap of each window lies; beyond the image: one row more
  for (std::int64_t tap = 0; tap < taps; ++tap)
    for (std::int64_t place = 0; place < places; ++place) {
      std::int64_t tap_left = tap, place_left = place, at = 0, stride = 1;
      bool inside = true;
      for (std::size_t i = axes; i-- > 0;) {
        const std::int64_t index = place_left % windows[i] * strides[i] - pads[i] + tap_left % block[i] * dilations[i];
        inside &= index >= 0 && index < image[i];
        at += index * stride, stride *= image[i];
        tap_left /= block[i], place_left /= windows[i];
      }
      rows.push_back(inside ? at : plane);
    }
  const Tensor columns = reshape(transpose(reshape(x, {images, channels, taps, places}), {2, 3, 0, 1}),
                                 {taps * places, images * channels});
  const Tensor sums = scatter(Tensor::full({x.dtype(), {plane + 1, images * channels}}, 0),
                              Tensor::from({std::ssize(rows)}, rows), columns, "add");
  Shape shape{images, channels};
  for (const std::int64_t size : image) shape.push_back(size);
  return {reshape(transpose(slice(sums, {0}, {plane}, {0}), {1, 0}), shape)};
}

}  // namespace

void add_image_operators(OnnxOperators& to) {
  add_resize_operators(to);
  to.add("GridSample", 16, grid_sample_rule);
  to.add("AffineGrid", 20, affine_grid);
  to.add("RoiAlign", 10, roi_align_rule);
  to.add("NonMaxSuppression", 10, non_max_suppression);
  to.add("Col2Im", 18, col2im);
}

}  // namespace neurim
