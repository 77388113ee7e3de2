// What stands before and behind a convolution, or a gradient of one, in its request.
#pragma once
#include <optional>

#include "neurim/backend/cpu/common/conv_norm.h"
#include "neurim/backend/cpu/pointwise/pointwise.h"
#include "neurim/hardware/machine.h"

namespace neurim::cpu {

/// The pointwise steps before the anchor, which make the activation that it reads.
struct FusedPrologue {
  std::optional<PointwiseSteps> steps;
  int read_from = -1;                          ///< where there are none: the number in Args of the activation
  StorageDtype rounded = StorageDtype::exact;  ///< how the activation stands (Layout::storage)

  /// On no, says why. `pairs`: how what the steps make stands.
  bool read(KernelRequest& request, const ConvPattern& pattern, StorageDtype pairs = StorageDtype::exact);
  /// Elements [begin, end) of the activation's memory: where they lie, or computed into `room`.
  float* activation(const Args& args, float* room, std::int64_t begin, std::int64_t end) const;
  /// The same as floats, for kernels that read no others.
  float* floats(const Args& args, float* room, std::int64_t begin, std::int64_t end) const;
  /// Whether those are made.
  bool makes() const { return steps || rounded; }
};

/// What a task of a convolution does: units of the result, rows or pixels counted through all images, and blocks of its
/// channels.
struct Run {
  std::int64_t first, last, first_block, last_block;
};

/// Units of one image, or all those of several.
struct Tile {
  std::int64_t image, images, unit, units;
};
/// Cuts units [first, last) of images of `units` units into tiles of about `most`.
std::vector<Tile> cut_tiles(std::int64_t first, std::int64_t last, std::int64_t units, std::int64_t most);

/// A norm, with pointwise steps, or such steps alone, or nothing.
struct FusedEpilogue {
  std::optional<ConvNorm> norm;
  std::optional<PointwiseSteps> steps;
  int result = -1, last = -1;                 ///< of the steps alone: outputs where they begin and end
  StorageDtype rounds = StorageDtype::exact;  ///< how the convolution's own results stand where they go
  bool stand = false;                         ///< they are a result of the request, which others read too

  /// On no, says why.
  bool read(KernelRequest& request, const ConvPattern& pattern);
  /// Cuts the result, images of `units` units of `unit_pixels` pixels, into tasks: runs of units, with a norm of
  /// images, or where there are more channels than pixels runs of channels, which all read x rather than all weights.
  std::vector<Run> cut(const KernelRequest& request, std::int64_t images, std::int64_t units, std::int64_t unit_pixels,
                       std::int64_t channels);
  /// Asks for scratch.
  void ask_scratch(KernelRequest& request) {
    if (norm) norm->ask_scratch(request);
  }
  /// Tasks of the launch's second phase.
  int reduction_tasks() const { return norm ? norm->reduction_tasks() : 0; }
  /// Whether the steps begin with results that stand elsewhere, as floats, and round what they end with.
  bool apart() const { return follow() && rounds && !stand; }
  /// Where the convolution's own results go, if not there.
  float* results(const Args& args) const;
  /// How they are written there.
  StorageDtype rounded() const { return apart() ? StorageDtype::exact : rounds; }
  /// Whether results of so many bytes are written past the caches: larger ones, which nothing here reads again; not
  /// rounded ones.
  bool non_temporal(std::size_t bytes) const { return !norm && !steps && !rounds && bytes > largest_cache(); }
  /// Begins a task: its sums, where there is a norm.
  ConvEpilogue begin(const Args& args, int task) const { return norm ? norm->begin(args, task) : ConvEpilogue{}; }
  /// Goes over elements [begin, end) of what the convolution has computed, a run of pixels in each of `blocks` blocks
  /// of channels from `block` on. `first`: those are the task's first. `made`: where these elements stand, if apart().
  void run(const Args& args, const ConvEpilogue& task, std::int64_t block, std::int64_t blocks, std::int64_t begin,
           std::int64_t end, bool first, float* made = nullptr) const;

 private:
  /// Whether steps go over the results themselves.
  bool follow() const { return steps || (norm && norm->makes_gradient()); }
};

}  // namespace neurim::cpu
