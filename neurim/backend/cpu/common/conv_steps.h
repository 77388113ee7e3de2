// The pointwise steps and the norm that are fused before and after a convolution or a gradient of one.
#pragma once
#include <optional>

#include "neurim/backend/cpu/common/conv_norm.h"
#include "neurim/backend/cpu/pointwise/pointwise.h"
#include "neurim/hardware/machine.h"

namespace neurim::cpu {

/// The pointwise steps before the anchor, which compute the activation that it reads.
struct FusedPrologue {
  std::optional<PointwiseSteps> steps;
  int read_from = -1;                          ///< without steps: the argument that is the activation
  StorageDtype rounded = StorageDtype::exact;  ///< how the activation is stored

  /// Reads the steps; false with a reason in the request where they do not compute the activation. `pairs`: the dtype
  /// that the steps store it as.
  bool read(KernelRequest& request, const ConvPattern& pattern, StorageDtype pairs = StorageDtype::exact);
  /// Elements [begin, end) of the activation: a pointer into its memory, or to `room`, where the steps compute them.
  float* activation(const Args& args, float* room, std::int64_t begin, std::int64_t end) const;
  /// The same as floats, for kernels that read nothing else.
  float* floats(const Args& args, float* room, std::int64_t begin, std::int64_t end) const;
  /// Whether floats() writes them to its workspace.
  bool makes() const { return steps || rounded; }
};

/// What a task of a convolution computes: a range of units of the result (rows or pixels, counted through all images)
/// and a range of its channel blocks.
struct Run {
  std::int64_t first, last, first_block, last_block;
};

/// A range of units of one image, or all units of several images.
struct Tile {
  std::int64_t image, images, unit, units;
};
/// Cuts units [first, last) of images of `units` units into tiles of about `most`.
std::vector<Tile> cut_tiles(std::int64_t first, std::int64_t last, std::int64_t units, std::int64_t most);

/// What follows the convolution: a norm with pointwise steps, such steps alone, or nothing.
struct FusedEpilogue {
  std::optional<ConvNorm> norm;
  std::optional<PointwiseSteps> steps;
  int result = -1, last = -1;                 ///< without a norm: the outputs of the convolution and of the last step
  StorageDtype rounds = StorageDtype::exact;  ///< how the convolution's own result is stored
  bool stand = false;                         ///< whether that is an output of the request

  /// Reads what follows; false with a reason in the request where it is something else.
  bool read(KernelRequest& request, const ConvPattern& pattern);
  /// Cuts the result, `images` images of `units` units of `unit_pixels` pixels, into tasks. A task is a range of units,
  /// with a norm a range of images; where there are more channels than pixels it is a range of channels, so that tasks
  /// share x and not the weights.
  std::vector<Run> cut(const KernelRequest& request, std::int64_t images, std::int64_t units, std::int64_t unit_pixels,
                       std::int64_t channels);
  /// Sets the request's scratch.
  void ask_scratch(KernelRequest& request) {
    if (norm) norm->ask_scratch(request);
  }
  /// Tasks of the launch's reduction phase.
  int reduction_tasks() const { return norm ? norm->reduction_tasks() : 0; }
  /// Whether results go to a workspace as floats first, where the steps read them before they are stored in 16 bits.
  bool apart() const { return follow() && rounds && !stand; }
  /// Where the convolution's own results go otherwise.
  float* results(const Args& args) const;
  /// How they are stored there.
  StorageDtype rounded() const { return apart() ? StorageDtype::exact : rounds; }
  /// Whether results of so many bytes are written with non-temporal stores: larger than the caches, in f32, and not
  /// read again by this kernel.
  bool non_temporal(std::size_t bytes) const { return !norm && !steps && !rounds && bytes > largest_cache(); }
  /// Begins a task: sets the sums of its norm to zero.
  ConvEpilogue begin(const Args& args, int task) const { return norm ? norm->begin(args, task) : ConvEpilogue{}; }
  /// Applies the epilogue to elements [begin, end) of the convolution's result: a range of pixels in each of `blocks`
  /// channel blocks from `block` on. `first`: these are the task's first. `made`: where they are, if apart().
  void run(const Args& args, const ConvEpilogue& task, std::int64_t block, std::int64_t blocks, std::int64_t begin,
           std::int64_t end, bool first, float* made = nullptr) const;

 private:
  /// Whether pointwise steps read the convolution's own results.
  bool follow() const { return steps || (norm && norm->makes_gradient()); }
};

/// Reads what is before and after a product over channels, of a convolution or a fully connected layer; false with a
/// reason in the request where the kernel takes other steps.
bool read_steps(KernelRequest& request, const ConvPattern& pattern, FusedPrologue& prologue, FusedEpilogue& epilogue);

}  // namespace neurim::cpu
