// Layers that surround images and series, without parameters.
#pragma once
#include "neurim/base/error.h"
#include "neurim/graph/op.h"

namespace neurim::nn {

/// Elements before and after a series; one number stands for both.
struct Ends {
  std::int64_t left,                                                     ///< before the first element
      right;                                                             ///< after the last one
  constexpr Ends(std::int64_t both) : left(both), right(both) {}         ///< the same at both ends
  constexpr Ends(std::int64_t l, std::int64_t r) : left(l), right(r) {}  ///< left, right
};
/// Elements around an image, in PyTorch's order; one number stands for all. Negative ones crop.
struct Sides {
  std::int64_t left,                                                                   ///< columns before the first
      right,                                                                           ///< columns after the last
      top,                                                                             ///< rows above the first
      bottom;                                                                          ///< rows below the last
  constexpr Sides(std::int64_t all) : left(all), right(all), top(all), bottom(all) {}  ///< the same on all sides
  /// Left, right, top, bottom.
  constexpr Sides(std::int64_t l, std::int64_t r, std::int64_t t, std::int64_t b)
      : left(l), right(r), top(t), bottom(b) {}
};

/// Visited as a list: of both, or one for both.
inline void field(Fields& f, std::string_view name, Ends& ends) {
  std::vector<std::int64_t> list{ends.left, ends.right};
  f(name, list);
  require(list.size() == 1 || list.size() == 2, name, ": takes one number or 2, got ", list.size());
  ends = {list.front(), list.back()};
}
/// Visited as a list: of all four, or one for all.
inline void field(Fields& f, std::string_view name, Sides& sides) {
  std::vector<std::int64_t> list{sides.left, sides.right, sides.top, sides.bottom};
  f(name, list);
  require(list.size() == 1 || list.size() == 4, name, ": takes one number or 4, got ", list.size());
  sides = list.size() == 1 ? Sides(list[0]) : Sides(list[0], list[1], list[2], list[3]);
}

/// x(N,C,L) -> (N,C,left+L+right), surrounded with a constant, as torch.nn.ConstantPad1d.
struct ConstantPad1d {
  Ends pad = 1;      ///< at both ends
  double value = 0;  ///< the constant
  void fields(Fields& f) { f("pad", pad)("value", value); }
  Tensor operator()(const Tensor& x) const;  ///< throws Error(usage) unless x has three axes
};
/// x(N,C,L) -> (N,C,left+L+right), mirrored at its first and last element, as torch.nn.ReflectionPad1d.
struct ReflectionPad1d {
  Ends pad = 1;  ///< at both ends; less than L
  void fields(Fields& f) { f("pad", pad); }
  Tensor operator()(const Tensor& x) const;  ///< throws Error(usage) unless x has three axes and pads are less than L
};
/// x(N,C,L) -> (N,C,left+L+right), its first and last element repeated, as torch.nn.ReplicationPad1d.
struct ReplicationPad1d {
  Ends pad = 1;  ///< at both ends
  void fields(Fields& f) { f("pad", pad); }
  Tensor operator()(const Tensor& x) const;  ///< throws Error(usage) unless x has three axes
};
/// x(N,C,L) -> (N,C,left+L+right), going on at the other end, as torch.nn.CircularPad1d.
struct CircularPad1d {
  Ends pad = 1;  ///< at both ends; L at most
  void fields(Fields& f) { f("pad", pad); }
  Tensor operator()(const Tensor& x) const;  ///< throws Error(usage) unless x has three axes and pads are at most L
};

/// x(N,C,H,W) -> (N,C,top+H+bottom,left+W+right), surrounded with a constant, as torch.nn.ConstantPad2d.
struct ConstantPad2d {
  Sides pad = 1;     ///< on all sides
  double value = 0;  ///< the constant
  void fields(Fields& f) { f("pad", pad)("value", value); }
  Tensor operator()(const Tensor& x) const;  ///< throws Error(usage) unless x has four axes
};
/// x(N,C,H,W) -> (N,C,top+H+bottom,left+W+right), mirrored at its outermost elements, as torch.nn.ReflectionPad2d.
struct ReflectionPad2d {
  Sides pad = 1;  ///< on all sides; less than the axis
  void fields(Fields& f) { f("pad", pad); }
  /// Throws Error(usage) unless x has four axes and pads are less than H and W.
  Tensor operator()(const Tensor& x) const;
};
/// x(N,C,H,W) -> (N,C,top+H+bottom,left+W+right), its outermost elements repeated, as torch.nn.ReplicationPad2d.
struct ReplicationPad2d {
  Sides pad = 1;  ///< on all sides
  void fields(Fields& f) { f("pad", pad); }
  Tensor operator()(const Tensor& x) const;  ///< throws Error(usage) unless x has four axes
};
/// x(N,C,H,W) -> (N,C,top+H+bottom,left+W+right), going on at the other end, as torch.nn.CircularPad2d.
struct CircularPad2d {
  Sides pad = 1;  ///< on all sides; the size of the axis at most
  void fields(Fields& f) { f("pad", pad); }
  /// Throws Error(usage) unless x has four axes and pads are at most H and W.
  Tensor operator()(const Tensor& x) const;
};

}  // namespace neurim::nn
