// How reference kernels see data: any dtype, read and written as double, or as long double where integers of 64 bits
// have to be exact. One body serves every dtype.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "neurim/graph/kernel.h"

namespace neurim::reference {

/// Row-major data of any dtype. Loads give double (integers are exact up to 2^53); stores round to nearest even for the
/// 16-bit types, truncate towards zero and saturate for integers, and test != 0 for bool.
struct View {
  Type type;
  void* data = nullptr;
  const Shape& shape() const { return type.shape; }
  std::int64_t numel() const { return type.shape.numel(); }
  double operator[](std::int64_t i) const;
  /// The same as a whole number, exact for i64; others are truncated towards zero, out of range its end, and NaN is 0.
  std::int64_t integer(std::int64_t i) const;
  void set(std::int64_t i, double value) const;
  /// A load as `T`, double or long double, which has the 64 bits of every integer on x86.
  template <class T>
  T load(std::int64_t i) const;
  void store(std::int64_t i, double value) const { set(i, value); }
  void store(std::int64_t i, long double value) const;  ///< the same, exact for all integers
  /// All of them at once: several times as fast where each is read often.
  std::vector<double> values() const;
  void set(std::span<const double> values) const;
};

/// Whether some of the numbers are integers that double would round.
bool wider_than_double(std::span<const View> in, std::span<const View> out);

/// Calls `body` with a 0 of the type that holds all of these numbers: double, or where there are such integers long
/// double.
template <class Body>
void in_wide_enough(std::span<const View> in, std::span<const View> out, const Body& body) {
  if (wider_than_double(in, out))
    body(0.L);
  else
    body(0.);
}

/// A reference kernel: plain loops that accumulate in double. `status` takes bits of Status.
using Body = void (*)(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t& status);

/// Makes `body` the reference kernel of the op on the CPU and on every device that runs reference kernels, those that
/// have them already included. Throws Error(usage) where the op has one.
void define_reference(std::string_view op, Body body);

/// `sum` plus the products of two rows of `count` numbers, those of a row a step apart, in their order.
double dot(std::int64_t count, const double* a, std::int64_t step_a, const double* b, std::int64_t step_b,
           double sum = 0);

/// Adds a row times `factor` to another.
void add_scaled(std::int64_t count, double factor, const double* x, std::int64_t step_x, double* y,
                std::int64_t step_y);

/// Maps a flat index of the `out` shape to the flat index of a broadcast operand.
class BroadcastIndex {
 public:
  BroadcastIndex() = default;
  BroadcastIndex(const Shape& operand, const Shape& out);
  std::int64_t operator()(std::int64_t flat) const;

 private:
  Shape out_;
  std::array<std::int64_t, Shape::kMaxRank> stride_{};
};

}  // namespace neurim::reference

namespace neurim {
/// Adds every reference kernel, at rank 0, for a kind of device whose stream runs host code on its memory.
void add_reference_kernels_for(std::uint8_t device);
}  // namespace neurim
