// Tensor: a cheap handle to stored data, or to a value inside a trace.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/core/types.h"

namespace neurim {

struct Value;

/// A handle; copies share the data. A Tensor is its Value: assigning, placing and repacking change what the Value
/// holds, never the handle, so that optimizers and tied weights may hold handles.
class Tensor {
 public:
  Tensor() = default;                                                          ///< undefined: no bias, no gradient
  static Tensor empty(const Type& type, Device device = {});                   ///< uninitialised
  static Tensor full(const Type& type, double value, Device device = {});      ///< All elements equal `value`.
  static Tensor from(const Type& type, const void* host, Device device = {});  ///< row-major host data, copied
  /// From values in row-major order; throws Error(usage) unless there is one for each element.
  static Tensor from(const Shape& shape, std::span<const float> values, Device device = {});
  /// From values in row-major order; throws Error(usage) unless there is one for each element.
  static Tensor from(const Shape& shape, std::span<const std::int64_t> values, Device device = {});
  static Tensor scalar(double value, DType dtype = DType::f32, Device device = {});  ///< A tensor of rank 0.

  /// Whether it is defined.
  explicit operator bool() const { return value_ != nullptr; }
  const Type& type() const;  ///< dtype and shape
  /// Sizes of the axes.
  const Shape& shape() const { return type().shape; }
  /// Of the elements.
  DType dtype() const { return type().dtype; }
  /// The number of axes.
  int rank() const { return shape().rank(); }
  /// Of an axis; negative ones count from the end.
  std::int64_t size(int axis) const { return shape()[axis]; }
  /// The number of elements.
  std::int64_t numel() const { return shape().numel(); }
  Device device() const;  ///< where it is
  bool traced() const;    ///< a value inside a trace: has a type but no data

  std::string_view name() const;          ///< "net.conv2.weight", written by the first visit of a module's parts
  void set_name(std::string name) const;  ///< a path for error messages

  // Of stored tensors alone; on a traced one they throw Error(usage).
  void read(void* host) const;         ///< waits for the device and copies out in row-major order
  void write(const void* host) const;  ///< replaces the data from row-major order; the layout and the handle stay
  template <class T>
  std::vector<T> values() const;    ///< element by element as T (float, double, std::int64_t)
  double item() const;              ///< the one element of a tensor of one element
  Tensor clone() const;             ///< own data, row-major
  Tensor to(Device device) const;   ///< a copy on that device, or this handle when it is there already
  void place(Device device) const;  ///< moves the data of this Value to the device

  /// As in eager code: later reads in the trace see `next`; a replay commits the last value of each state. Eagerly it
  /// copies. Types must match.
  void assign(const Tensor& next) const;

  /// What it refers to; shared by copies.
  Value* value() const { return value_.get(); }
  /// Refers to a value; for the library.
  explicit Tensor(std::shared_ptr<Value> value) : value_(std::move(value)) {}

 private:
  std::shared_ptr<Value> value_;
};
using Tensors = std::vector<Tensor>;  ///< several tensors

}  // namespace neurim
