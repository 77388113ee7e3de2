// A convolution followed by batch norm in training, or a data gradient followed by the gradient of one, in two phases.
// First the convolution, whose epilogue sums each channel, one task for a range of images. Then the sums are combined
// in a fixed order, and one affine pass over the results applies the norm.
#pragma once
#include <optional>
#include <vector>

#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/pointwise/pointwise.h"
#include "neurim/graph/kernel.h"

namespace neurim::cpu {

/// Sums over the pixels of 16 channels: Σ(y - pivot) and Σ(y - pivot)²; with a factor c: Σy and Σy(c - pivot).
struct ChannelSums {
  float pivot[16];
  double sum[16], product[16];
};

/// What a convolution applies to its results while they are in registers, in this order. Pointers are to whole tensors;
/// a null pointer leaves its step out.
struct ConvEpilogue {
  const float* bias = nullptr;  ///< one a channel
  const float* add = nullptr;   ///< as y
  StorageDtype rounds = StorageDtype::exact,
               add_rounded = StorageDtype::exact;  ///< how y and `add` are stored
  Relu relu;
  const float* mask = nullptr;  ///< a ReLU's output: y becomes 0 where this is 0 or at the limit
  float mask_most = kNoLimit;
  const float* factor = nullptr;  ///< c of ChannelSums
  StorageDtype mask_rounded = StorageDtype::exact, factor_rounded = StorageDtype::exact;
  ChannelSums* sums = nullptr;  ///< one a block of channels
  bool first = false;           ///< takes the pivots from the first pixel
};

/// What a norm's affine pass reads and writes; z and add may be null, y may be x if both have one storage dtype.
struct AffineBlock {
  const float *x, *z, *add;
  float* y;
  StorageDtype x_rounded, z_rounded, add_rounded, y_rounded;
};
/// y = a x + b (+ c z) (+ add), then `relu`, over `count` pixels of 16 channels; a, b, c have 16 entries, and c is null
/// without z.
NEURIM_EACH_ISA(void affine_block(const AffineBlock& block, const float* a, const float* b, const float* c,
                                  const Relu& relu, std::int64_t count))

/// Adds `count` pixels of 16 channels in memory to the sums; `factor` may be null, `first` takes the pivots from the
/// first pixel.
NEURIM_EACH_ISA(void add_pixels(ChannelSums& sums, const float* y, StorageDtype y_rounded, const float* factor,
                                StorageDtype factor_rounded, std::int64_t count, bool first))

/// The fusion group as a kernel for the convolution needs it. Numbers of `*_in` index KernelRequest::in, those of
/// `*_out` KernelRequest::out; -1 where there is none.
class ConvNorm {
 public:
  /// Reads {conv2d, batch_norm_train[, add][, relu]} or {conv2d_input_grad[, add][, relu_grad], batch_norm_grad}, with
  /// relu6 too; false: another fusion group.
  bool read(const KernelRequest& request, const ConvPattern& pattern);
  /// As read(), with any pointwise steps, for a kernel that calls run_steps. If not possible, sets request.why. Layouts
  /// are those of the request.
  bool read_any(KernelRequest& request, const ConvPattern& pattern);
  /// Cuts the images into runs of at least `least`, one for each task. Returns where they begin, and the end.
  const std::vector<std::int64_t>& cut(const KernelRequest& request, std::int64_t images, std::int64_t least = 1);
  /// After cut: asks for scratch.
  void ask_scratch(KernelRequest& request);

  int tasks() const { return static_cast<int>(begin_.size()) - 1; }
  int reduction_tasks() const { return reduction_tasks_; }
  const float* x(const Args& args) const { return at(args.in, x_in_); }  ///< null where steps before make it
  const float* weight(const Args& args) const { return at(args.in, weight_in_); }
  /// Where the convolution's own results go, and how they are stored there.
  float* result(const Args& args) const { return makes_gradient() ? at(args.out, steps_out_) : raw(args); }
  StorageDtype result_rounded() const { return makes_gradient() ? steps_rounded_ : raw_rounded_; }
  /// Where the values are that are summed: these results, or of a data gradient what the steps make of them.
  float* raw(const Args& args) const { return at(args.out, conv_out_ >= 0 ? conv_out_ : y_out_); }
  StorageDtype raw_rounded() const { return raw_rounded_; }
  /// Whether there are such steps.
  bool makes_gradient() const { return steps_ && !forward_; }
  /// Runs them over elements [begin, end) of the results; `made`: where those are, if in a workspace.
  void run_steps(const Args& args, std::int64_t begin, std::int64_t end, float* made) const {
    if (makes_gradient()) steps_->run(args, made ? made - begin : result(args), raw(args), begin, end);
  }
  /// The convolution's epilogue in a task, whose sums it sets to zero.
  ConvEpilogue begin(const Args& args, int task) const;
  /// A task of the second phase, a range of images.
  void finish(const Args& args, int join) const;

 private:
  bool read_places(const KernelRequest& request, const ConvPattern& pattern);
  void join_moments(const Args& args, std::int64_t channel, double& mean, double& squares) const;
  static float* at(std::span<void* const> list, int number) {
    return number < 0 ? nullptr : static_cast<float*>(list[number]);
  }
  void read_rounding(const KernelRequest& request);
  void write(const Args& args, const float* a, const float* b, const float* c, std::int64_t place) const;
  ChannelSums* sums(const Args& args, int task) const;
  float* coefficients(const Args& args, int join) const;
  std::int64_t blocks() const { return (channels_ + 15) / 16; }

  bool forward_ = true;
  Relu relu_;                                      // forward; backward: the one whose gradient it is
  int x_in_ = -1, weight_in_ = -1, bias_in_ = -1;  // the convolution's operands
  int add_in_ = -1, mask_in_ = -1;                 // residual or second gradient; relu's output
  int gamma_in_ = -1, beta_in_ = -1;               // forward norm
  int raw_in_ = -1, mean_in_ = -1, var_in_ = -1;   // backward norm: its x, mean, var (and gamma)
  int conv_out_ = -1, y_out_ = -1, mean_out_ = -1, var_out_ = -1;
  int dgamma_out_ = -1, dbeta_out_ = -1;
  double eps_ = 0;
  std::optional<PointwiseSteps> steps_;
  int steps_out_ = -1;  // where they begin; -1: nowhere else
  StorageDtype raw_rounded_{}, steps_rounded_{}, add_rounded_{}, mask_rounded_{}, factor_rounded_{}, y_rounded_{};

  std::int64_t channels_ = 0, pixels_ = 0;  // of the output
  std::vector<std::int64_t> begin_;         // image runs of the tasks
  int reduction_tasks_ = 0;
  std::size_t sums_ = 0, coefficients_ = 0;  // bytes of scratch, for each task, each join
};

}  // namespace neurim::cpu
