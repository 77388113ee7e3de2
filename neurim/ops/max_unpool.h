// Where the maxima of windows are, and putting values back there.
#pragma once
#include "neurim/graph/op.h"
#include "neurim/ops/common/list_field.h"

namespace neurim {

/// A window over the axes of x(N,C,…); one number for each, padding as PoolOptions has it.
struct MaxIndicesOptions {
  std::vector<std::int64_t> kernel,  ///< places along each axis
      stride,                        ///< steps
      dilation,                      ///< distances between places
      pad;                           ///< all begins, then all ends
  bool ceil_mode = false;            ///< as of PoolOptions
  bool column_major = false;         ///< counts the elements of a plane with its first axis innermost
};

/// x(N,C,…), floating or of bytes -> i64(N,C,…out): the number of the first maximum of each window in row-major order,
/// as an element of the whole x. NaN counts as the maximum; of a window of padding alone it is -1.
Tensor max_pool_indices(const Tensor& x, const MaxIndicesOptions& options);

/// x(N,C,…), any dtype, and i64 indices of its shape -> zeros of `shape`, but x where the indices say, counted in
/// row-major order over the whole result; of equal indices the last one wins. One outside sets kStatusIndexOutOfRange.
/// Has no gradient.
Tensor max_unpool(const Tensor& x, const Tensor& indices, const Shape& shape);

/// The op of max_pool_indices. Input (x).
class MaxPoolIndices final : public Op {
 public:
  MaxIndicesOptions options;  ///< the window
  std::string_view name() const override { return "max_pool_indices"; }
  void fields(Fields& f) override {
    f("kernel", options.kernel)("stride", options.stride)("dilation", options.dilation)("pad", options.pad);
    f("ceil_mode", options.ceil_mode)("column_major", options.column_major);
  }
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

/// The op of max_unpool. Inputs (x, indices).
class MaxUnpool final : public Op {
 public:
  /// Sets the attributes.
  explicit MaxUnpool(const Shape& whole = {}) : shape(whole) {}
  Shape shape;  ///< of the result
  std::string_view name() const override { return "max_unpool"; }
  void fields(Fields& f) override { list_field(f, "shape", shape); }
  Types infer(std::span<const Type> in) const override;
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
