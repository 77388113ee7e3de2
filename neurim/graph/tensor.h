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
  static Tensor full(const Type& type, double value, Device device = {});      ///< every element `value`
  static Tensor from(const Type& type, const void* host, Device device = {});  ///< row-major host data, copied
  /// f32 from row-major values, copied. Throws Error(usage) when their number is not that of the shape.
  static Tensor from(const Shape& shape, std::span<const float> values, Device device = {});
  /// The same as i64.
  static Tensor from(const Shape& shape, std::span<const std::int64_t> values, Device device = {});
  static Tensor scalar(double value, DType dtype = DType::f32, Device device = {});  ///< of shape ()

  explicit operator bool() const { return value_ != nullptr; }  ///< whether it is defined
  const Type& type() const;                                     ///< dtype and shape; throws Error(usage) when undefined
  const Shape& shape() const { return type().shape; }           ///< the sizes of the axes
  DType dtype() const { return type().dtype; }                  ///< the type of the elements
  int rank() const { return shape().rank(); }                   ///< the number of axes
  Dim size(int axis) const { return shape()[axis]; }            ///< along an axis, counted from the front
  Dim numel() const { return shape().numel(); }                 ///< the number of elements
  Device device() const;                                        ///< where the data are, or where the trace will run
  bool traced() const;                                          ///< a value inside a trace: has a type but no data

  std::string_view name() const;  ///< "net.conv2.weight", written by the first visit of a module's parts
  /// Names the value, and so every handle to it. Throws Error(usage) when undefined.
  void set_name(std::string name) const;

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

  Value* value() const { return value_.get(); }  ///< for the graph and the compiler; null when undefined
  const std::shared_ptr<Value>& shared() const { return value_; }              ///< the same, for who holds it weakly
  explicit Tensor(std::shared_ptr<Value> value) : value_(std::move(value)) {}  ///< a handle to it

 private:
  std::shared_ptr<Value> value_;
};
using Tensors = std::vector<Tensor>;  ///< inputs or outputs of an op

}  // namespace neurim
