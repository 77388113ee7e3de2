// Convolutions and their gradients as oneDNN sees them. Included by the onednn_conv*.cpp files alone.
#pragma once
#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/onednn/common/onednn.h"

namespace neurim::cpu {

/// A series (…,L) as an image of one row, which oneDNN has more kernels for; anything else as it is.
Type with_rows(const Type& type);

/// The options of a convolution over any number of axes, as oneDNN takes them; a series has one row.
struct Window {
  memory::dims stride, dilation, pad_begin, pad_end;
  std::int64_t groups;
};

/// A convolution's shapes and options as oneDNN takes them, for the batch or for a piece of it.
struct Problem {
  Direction direction;
  Type x, weight, y;
  Layout x_layout, y_layout;
  Window window;
  Epilogue epilogue;

  bool depthwise() const { return window.groups > 1 && weight.shape[1] == 1 && weight.shape[0] == window.groups; }
  /// Whether the result can be cut between blocks of channels.
  bool cuts_channels() const { return window.groups == 1 || depthwise(); }
  /// What is computed, of a convolution or a data gradient.
  const Type& result() const { return direction == Direction::forward ? y : x; }
  const Layout& result_layout() const { return direction == Direction::forward ? y_layout : x_layout; }
  /// The weight as oneDNN sees it: (G,O/G,I,…) when there are groups.
  Type grouped_weight() const;
  memory::desc any_weight() const;
  memory::desc x_desc() const { return descriptor(x, x_layout); }
  memory::desc y_desc() const { return descriptor(y, y_layout); }
  /// So many images and channels of the result. Groups are not cut, except depthwise.
  Problem piece(std::int64_t images, std::int64_t channels) const;
  /// Of the weight in this layout what a piece reads whose channels of the result begin at `first`, and where that
  /// begins, in floats. Throws dnnl::error when oneDNN has no such form.
  std::pair<memory::desc, std::size_t> weight_of(const Layout& layout, const Problem& piece, std::int64_t first) const;
};

/// The problem of a request, with the layouts that its values have.
Problem problem_of(const KernelRequest& request, const ConvPattern& pattern);

/// The layouts for which oneDNN has fast kernels: blocked when the channels fill blocks, channels last for
/// groups that do not. An image with few channels is read plain; from blocks back to such an image it has
/// plain loops only.
void choose_layouts(Problem& problem);

/// Whether values and shapes are such as oneDNN takes; on no, says why.
bool takes_types(KernelRequest& request, const ConvPattern& pattern);
/// Gives the request's values the problem's layouts, and the weight that which oneDNN likes best; on no, says why.
/// `loops`: even where it has plain loops only.
bool ask_layouts(KernelRequest& request, const ConvPattern& pattern, const Problem& problem, bool loops);

/// A primitive and the forms of what it reads besides x and y.
struct Described {
  dnnl::primitive primitive;
  memory::desc weight, scratchpad;
  bool loops;  ///< its implementation is oneDNN's plain loops, which take everything and are slow
};
/// Throws dnnl::error when oneDNN has no implementation.
Described describe(const Problem& problem, const memory::desc& weight);

/// The arguments in the order x, weight, y, scratchpad[, bias][, residual].
std::vector<std::pair<int, memory::desc>> arguments_of(const Problem& problem, const Described& described);

/// `count` items cut into `pieces` runs of nearly equal length: where they begin, and the end.
std::vector<std::int64_t> cut_evenly(std::int64_t count, std::int64_t pieces);

}  // namespace neurim::cpu
