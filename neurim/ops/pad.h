// Surrounding a tensor with a constant, or with elements of its own.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The op of pad with a constant. Input (x).
class Pad final : public Op {
 public:
  /// Sets the attributes.
  explicit Pad(std::vector<std::int64_t> amounts = {}, double fill = 0) : pads(std::move(amounts)), value(fill) {}
  std::vector<std::int64_t> pads;  ///< all begins, then all ends; a negative one crops
  double value;                    ///< what surrounds x

  std::string_view name() const override { return "pad"; }
  void fields(Fields& f) override { f("pads", pads)("value", value); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"Pad", 13}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// x with pads[i] elements of `value` before and pads[rank + i] after it along axis i (ONNX's order); a
/// negative pad crops. Any dtype. Throws Error(usage) unless there are two pads per axis and every size stays
/// 0 or more.
Tensor pad(const Tensor& x, std::vector<std::int64_t> pads, double value = 0);

/// The same with elements of x around it: "reflect" mirrors it at its outermost elements, "replicate" repeats
/// these, "circular" goes on at the other end. Throws Error(usage) on another mode, and where a reflection is
/// not shorter than the axis or a circular pad longer.
Tensor pad(const Tensor& x, std::vector<std::int64_t> pads, const std::string& mode);

/// The op of pad with elements of x. Input (x).
class BorderPad final : public Op {
 public:
  /// Sets the attributes.
  explicit BorderPad(std::vector<std::int64_t> amounts = {}, std::string border = "reflect")
      : pads(std::move(amounts)), mode(std::move(border)) {}
  std::vector<std::int64_t> pads;  ///< as in Pad
  std::string mode;                ///< "reflect", "replicate" or "circular"

  std::string_view name() const override { return "border_pad"; }
  void fields(Fields& f) override { f("pads", pads)("mode", mode); }
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  Onnx onnx() const override { return {"Pad", mode == "circular" ? 19 : 13}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
