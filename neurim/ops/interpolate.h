// Resampling to another size.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// How elements of the result stand on those of x(N,C,L) or x(N,C,H,W), along each spatial axis by itself.
struct InterpolateOptions {
  std::vector<std::int64_t> size = {};    ///< of the result's spatial axes, one number for all or one each; or
  std::vector<double> scale_factor = {};  ///< the same of factors: a size s becomes floor(s * factor)
  /// "nearest": x[floor(i * in / out)]; "nearest-exact": the nearest by centres; "linear" of x(N,C,L),
  /// "bilinear" of x(N,C,H,W); "bicubic" of x(N,C,H,W), by Keys' kernel with a = -0.75.
  std::string mode = "nearest";
  /// Of linear, bilinear and bicubic: the corner elements' centres, not their outer edges, stay in place.
  bool align_corners = false;

  void fields(Fields& f) {
    f("size", size)("scale_factor", scale_factor)("mode", mode)("align_corners", align_corners);
  }
};

/// x floating -> (N,C,…) of the given size, by PyTorch's rules for interpolate without antialias; the places
/// of nearest are exact where PyTorch rounds in f32. Given scale_factor, places follow from it, not from the
/// rounded size, unless corners are aligned.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

/// Input (x).
class Interpolate final : public Op {
 public:
  InterpolateOptions options;  ///< the attributes
  std::string_view name() const override { return "interpolate"; }
  void fields(Fields& f) override { options.fields(f); }
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  Onnx onnx() const override { return {"Resize", 13}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
