#include "neurim/train/onnx_preprocess.h"

#include <cmath>

#include "neurim/base/error.h"
#include "neurim/model/onnx/model.h"

namespace neurim {

namespace {

using Name = std::string;

/// Writes the nodes of a Preprocess.
class Nodes {
 public:
  Nodes(OnnxFile& file, const Preprocess& preprocess) : file_(file), p_(preprocess) {}

  /// f32(N,C,height,width) of u8(N,H,W,C).
  Name pixels_of(const Name& image) {
    const Name shape = node("Shape", {image});
    const Axis rows = axis(shape, 1, p_.height), columns = axis(shape, 2, p_.width);
    const auto [by_rows, by_columns] = placed(rows, columns);
    const Name planes = node("Cast", {node("Transpose", {image}, {{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}})},
                             {{"to", onnx_type(DType::f32)}});
    const Name down = matrix(by_rows, p_.height),
               across = node("Transpose", {matrix(by_columns, p_.width)}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    Name fitted;
    if (p_.interpolation == Interpolation::bicubic)  // whose sums leave the range of values: see Resampler
      fitted = cut(round_up(node("MatMul", {down, cut(round_up(node("MatMul", {planes, across})))})));
    else
      fitted = round_up(node("MatMul", {node("MatMul", {down, planes}), across}));
    if (p_.resize == ResizeMode::letterbox && p_.fill > 0) {
      const Name shown = node(
          "Mul", {as_float(inside(by_rows, p_.height)), node("Transpose", {as_float(inside(by_columns, p_.width))},
                                                             {{"perm", std::vector<std::int64_t>{1, 0}}})});
      fitted = node("Add", {fitted, node("Mul", {node("Sub", {real(1), shown}), real(p_.fill)})});
    }
    return normalised(fitted);
  }

 private:
  /// How many pixels the image has along an axis, and the network takes.
  struct Axis {
    Name size;           // i64(1)
    std::int64_t taken;  // a number
  };
  /// Where an axis goes: see Placement. i64(1) each.
  struct Place {
    Name size, full;  // pixels of the image, and of the resized one
    Name first;       // which pixel of the resized one is the first of the result; negative where there is a border
  };

  Name node(std::string_view type, const std::vector<Name>& in, const OnnxAttributes& attributes = {}) {
    return file_.node(type, in, attributes, text("preprocess/", type), 1)[0];
  }
  Name real(double value) { return file_.constant(Tensor::scalar(value, DType::f32), "preprocess/value"); }
  Name whole(std::int64_t value, const Shape& shape = {1}) {
    return file_.constant(Tensor::from(shape, std::vector<std::int64_t>{value}), "preprocess/value");
  }
  Name as_float(const Name& value) { return node("Cast", {value}, {{"to", onnx_type(DType::f32)}}); }
  Name as_whole(const Name& value) { return node("Cast", {value}, {{"to", onnx_type(DType::i64)}}); }
  /// The nearest whole number, upwards from the middle.
  Name round_up(const Name& value) { return node("Floor", {node("Add", {value, real(0.5)})}); }
  Name cut(const Name& value) { return node("Clip", {value, real(0), real(255)}); }

  Axis axis(const Name& shape, std::int64_t at, std::int64_t taken) {
    return {node("Slice", {shape, whole(at), whole(at + 1)}), taken};
  }

  /// placement_of, at CropAt::center.
  std::pair<Place, Place> placed(const Axis& rows, const Axis& columns) {
    if (p_.resize == ResizeMode::squash)
      return {{rows.size, whole(rows.taken), whole(0)}, {columns.size, whole(columns.taken), whole(0)}};
    return p_.resize == ResizeMode::crop ? covering(rows, columns) : inscribed(rows, columns);
  }

  /// The first of the pixels that are cut out in the middle.
  Name middle(const Name& full, std::int64_t taken) {
    return as_whole(node("Round", {node("Mul", {as_float(node("Sub", {full, whole(taken)})), real(0.5)})}));
  }

  std::pair<Place, Place> covering(const Axis& rows, const Axis& columns) {
    const auto h = static_cast<std::int64_t>(static_cast<double>(rows.taken) / p_.crop_pct),
               w = static_cast<std::int64_t>(static_cast<double>(columns.taken) / p_.crop_pct);
    const Name by_height = node("GreaterOrEqual",
                                {node("Mul", {columns.size, whole(h)}), node("Mul", {rows.size, whole(w)})});
    const auto follow = [&](const Name& side, std::int64_t cover, const Name& of, std::int64_t least) {
      return node("Max", {whole(least), node("Div", {node("Mul", {side, whole(cover)}), of})});
    };
    const Name full_h = node("Where", {by_height, whole(h), follow(rows.size, w, columns.size, h)}),
               full_w = node("Where", {by_height, follow(columns.size, h, rows.size, w), whole(w)});
    return {{rows.size, full_h, middle(full_h, rows.taken)}, {columns.size, full_w, middle(full_w, columns.taken)}};
  }

  std::pair<Place, Place> inscribed(const Axis& rows, const Axis& columns) {
    const Name by_height = node("LessOrEqual", {node("Mul", {columns.size, whole(rows.taken)}),
                                                node("Mul", {rows.size, whole(columns.taken)})});
    const auto follow = [&](const Axis& side, const Axis& to) {  // side.size * to.taken / to.size to the nearest
      const Name twice = node("Mul", {side.size, whole(2 * to.taken)});
      const Name nearest = node("Div", {node("Add", {twice, to.size}), node("Mul", {to.size, whole(2)})});
      return node("Min", {node("Max", {nearest, whole(1)}), whole(side.taken)});
    };
    const auto border = [&](const Name& full, std::int64_t taken) {
      return node("Neg", {node("Div", {node("Sub", {whole(taken), full}), whole(2)})});
    };
    const Name full_h = node("Where", {by_height, whole(rows.taken), follow(rows, columns)}),
               full_w = node("Where", {by_height, follow(columns, rows), whole(columns.taken)});
    return {{rows.size, full_h, border(full_h, rows.taken)}, {columns.size, full_w, border(full_w, columns.taken)}};
  }

  /// i64(count,1): the pixel of the resized image that each of the result is.
  Name positions(const Place& place, std::int64_t count) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = i;
    return node("Add", {file_.constant(Tensor::from({count, 1}, all), "preprocess/value"), place.first});
  }

  /// bool(count,1): which pixels are of the image, and not of a border.
  Name inside(const Place& place, std::int64_t count) {
    const Name at = positions(place, count);
    return node("And", {node("GreaterOrEqual", {at, whole(0)}), node("Less", {at, place.full})});
  }

  /// f32(count,size): the share of each pixel of the image in each of the result.
  Name matrix(const Place& place, std::int64_t count) {
    const Name count_in = node("Squeeze", {place.size, whole(0)});
    const Name pixels = node("Range", {whole(0, {}), count_in, whole(1, {})});
    const Name twice_at = node("Add", {node("Mul", {positions(place, count), whole(2)}), whole(1)});
    const Name center = node("Mul", {twice_at, place.size});  // of the pixel, in units of 1 / (2 * full) pixels
    Name shares;
    if (p_.interpolation == Interpolation::nearest) {
      const Name nearest = node("Div", {center, node("Mul", {place.full, whole(2)})});
      shares = as_float(node("Equal", {pixels, node("Min", {nearest, node("Sub", {place.size, whole(1)})})}));
    } else {
      const Name of = node("Mul", {node("Add", {node("Mul", {pixels, whole(2)}), whole(1)}), place.full});
      const Name width = node("Mul", {node("Max", {place.size, place.full}), whole(2)});
      const Name weights = filter(node("Div", {node("Abs", {as_float(node("Sub", {of, center}))}), as_float(width)}));
      shares = node("Div", {weights, node("ReduceSum", {weights, whole(1)})});
    }
    if (p_.resize != ResizeMode::letterbox) return shares;
    return node("Where", {inside(place, count), shares, real(0)});  // 0 / 0 beyond the edges is not taken
  }

  /// The weight of a pixel at the distance x: see Resampler.
  Name filter(const Name& x) {
    if (p_.interpolation == Interpolation::bilinear) return node("Relu", {node("Sub", {real(1), x})});
    const auto polynomial = [&](std::initializer_list<double> factors) {  // by falling powers of x
      Name sum;
      for (const double factor : factors) {
        if (!sum.empty()) sum = node("Mul", {sum, x});
        if (sum.empty() || factor != 0) sum = sum.empty() ? real(factor) : node("Add", {sum, real(factor)});
      }
      return sum;
    };
    const Name near = polynomial({1.5, -2.5, 0, 1}), far = polynomial({-0.5, 2.5, -4, 2});
    return node("Where", {node("Less", {x, real(1)}), near, node("Where", {node("Less", {x, real(2)}), far, real(0)})});
  }

  Name normalised(const Name& fitted) {
    const auto of = [](const std::vector<double>& all, std::size_t c) { return all.size() == 1 ? all[0] : all[c]; };
    std::vector<float> scale, shift;
    for (std::size_t c = 0; c < static_cast<std::size_t>(p_.channels); ++c) {
      scale.push_back(static_cast<float>(1 / (255 * of(p_.std, c))));
      shift.push_back(static_cast<float>(-of(p_.mean, c) / of(p_.std, c)));
    }
    const Shape shape{p_.channels, 1, 1};
    const Name scaled = node("Mul", {fitted, file_.constant(Tensor::from(shape, scale), "preprocess/scale")});
    return file_.node("Add", {scaled, file_.constant(Tensor::from(shape, shift), "preprocess/shift")}, {}, kOnnxPixels,
                      1)[0];
  }

  OnnxFile& file_;
  const Preprocess& p_;
};

}  // namespace

std::string embeds_no_preprocess(const ModelConfig& config) {
  if (config.sequence) return "the model takes no images";
  if (config.preprocess.bits != 8) return "its pixels have 16 bits, and a file with preprocessing takes images of 8";
  return "";
}

OnnxFrame preprocess_frame(const ModelConfig& config, Dim batch) {
  const std::string why = embeds_no_preprocess(config);
  require(why.empty(), "preprocess=embedded: ", why, "; use preprocess=external");
  const Preprocess preprocess = config.preprocess;
  const bool multi_label = config.multi_label();
  const Type image{DType::u8, {batch, Dim::symbol("height"), Dim::symbol("width"), preprocess.channels}};
  return {
      .input = {"image", image},
      .output = {"probabilities", {DType::f32, {batch, std::ssize(config.class_names)}}},
      .before = [preprocess](OnnxFile& file, const std::string& in) { return Nodes(file, preprocess).pixels_of(in); },
      .after =
          [multi_label, numbers = config.regression()](OnnxFile& file, const std::string& logits) {
            if (numbers) return logits;
            const OnnxAttributes axis = multi_label ? OnnxAttributes{} : OnnxAttributes{{"axis", std::int64_t{1}}};
            return file.node(multi_label ? "Sigmoid" : "Softmax", {logits}, axis, "probabilities", 1)[0];
          }};
}

}  // namespace neurim
