// Convolutions and their gradients in oneDNN's terms. Included by the onednn_conv*.cpp files only.
#pragma once
#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/onednn/common/onednn.h"

namespace neurim::cpu {

/// A sequence (...,L) as an image of one row, for which oneDNN has more kernels; other types unchanged.
Type with_rows(const Type& type);

/// The options of a convolution over any number of axes; a sequence has one row.
struct Window {
  memory::dims stride, dilation, pad_begin, pad_end;
  std::int64_t groups;
};

/// A convolution's shapes and options, for the batch or for a piece of it.
struct Problem {
  Direction direction;
  Type x, weight, y;
  Layout x_layout, y_layout;
  Window window;
  Epilogue epilogue;

  bool depthwise() const { return window.groups > 1 && weight.shape[1] == 1 && weight.shape[0] == window.groups; }
  /// Whether the result can be cut between blocks of channels.
  bool cuts_channels() const { return window.groups == 1 || depthwise(); }
  /// The type that is computed by a convolution or a data gradient.
  const Type& result() const { return direction == Direction::forward ? y : x; }
  const Layout& result_layout() const { return direction == Direction::forward ? y_layout : x_layout; }
  /// The weight in oneDNN's form, (G,O/G,I,...) with groups.
  Type grouped_weight() const;
  memory::desc any_weight() const;
  memory::desc x_desc() const { return descriptor(x, x_layout); }
  memory::desc y_desc() const { return descriptor(y, y_layout); }
  /// The problem for so many images and channels of the result. Groups are not cut, except depthwise.
  Problem piece(std::int64_t images, std::int64_t channels) const;
  /// The part of the weight in this layout that a piece reads whose result channels begin at `first`, and its offset in
  /// floats. Throws dnnl::error if oneDNN has no such form.
  std::pair<memory::desc, std::size_t> weight_of(const Layout& layout, const Problem& piece, std::int64_t first) const;
};

/// The problem of a request, with its values' layouts.
Problem problem_of(const KernelRequest& request, const ConvPattern& pattern);

/// Chooses the layouts for which oneDNN has fast kernels: blocked if the channels fill blocks, channels last for groups
/// that do not. An image with few channels is plain; the gradient from blocks to such an image has plain loops only.
void choose_layouts(Problem& problem);

/// Whether oneDNN takes the dtypes and shapes. If not, sets request.why.
bool takes_types(KernelRequest& request, const ConvPattern& pattern);
/// Gives the request's values the problem's layouts, and the weight the one that oneDNN prefers. If not possible, sets
/// request.why. `loops`: also where oneDNN has plain loops only.
bool ask_layouts(KernelRequest& request, const ConvPattern& pattern, const Problem& problem, bool loops);

/// A primitive and the descriptors of what it reads besides x and y.
struct Described {
  dnnl::primitive primitive;
  memory::desc weight, scratchpad;
  bool loops;  ///< the implementation is oneDNN's plain loops, which take everything and are slow
};
/// Throws dnnl::error if oneDNN has no implementation.
Described describe(const Problem& problem, const memory::desc& weight);

/// The arguments in the order x, weight, y, scratchpad[, bias][, residual].
std::vector<std::pair<int, memory::desc>> arguments_of(const Problem& problem, const Described& described);

/// Cuts `count` items into `pieces` runs of nearly equal length. Returns where they begin, and the end.
std::vector<std::int64_t> cut_evenly(std::int64_t count, std::int64_t pieces);

}  // namespace neurim::cpu
