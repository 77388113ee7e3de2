// Layers that surround images and series, without parameters.
#pragma once
#include "neurim/base/error.h"
#include "neurim/graph/op.h"

namespace neurim::nn {

/// Elements before and after a series; one number stands for both.
struct Ends {
  std::int64_t left, right;
  constexpr Ends(std::int64_t both) : left(both), right(both) {}
  constexpr Ends(std::int64_t l, std::int64_t r) : left(l), right(r) {}
};
/// Elements around an image, in PyTorch's order; one number stands for all. Negative ones crop.
struct Sides {
  std::int64_t left, right, top, bottom;
  constexpr Sides(std::int64_t all) : left(all), right(all), top(all), bottom(all) {}
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

// x(N,C,L) -> (N,C,left+L+right)
struct ConstantPad1d {
  Ends pad = 1;
  double value = 0;
  void fields(Fields& f) { f("pad", pad)("value", value); }
  Tensor operator()(const Tensor& x) const;
};
struct ReflectionPad1d {
  Ends pad = 1;
  void fields(Fields& f) { f("pad", pad); }
  Tensor operator()(const Tensor& x) const;
};
struct ReplicationPad1d {
  Ends pad = 1;
  void fields(Fields& f) { f("pad", pad); }
  Tensor operator()(const Tensor& x) const;
};
struct CircularPad1d {
  Ends pad = 1;
  void fields(Fields& f) { f("pad", pad); }
  Tensor operator()(const Tensor& x) const;
};

// x(N,C,H,W) -> (N,C,top+H+bottom,left+W+right)
struct ConstantPad2d {
  Sides pad = 1;
  double value = 0;
  void fields(Fields& f) { f("pad", pad)("value", value); }
  Tensor operator()(const Tensor& x) const;
};
struct ReflectionPad2d {
  Sides pad = 1;
  void fields(Fields& f) { f("pad", pad); }
  Tensor operator()(const Tensor& x) const;
};
struct ReplicationPad2d {
  Sides pad = 1;
  void fields(Fields& f) { f("pad", pad); }
  Tensor operator()(const Tensor& x) const;
};
struct CircularPad2d {
  Sides pad = 1;
  void fields(Fields& f) { f("pad", pad); }
  Tensor operator()(const Tensor& x) const;
};

}  // namespace neurim::nn
