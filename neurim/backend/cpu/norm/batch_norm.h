// Batch normalization of f32 in groups of channels: what is measured in one pass over a group, and written in
// another.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/backend/cpu/common/relu.h"

namespace neurim::cpu {

/// How x(N,C,…) lies in memory. What a group has of an image is one run of floats. A group is 16 channels,
/// one a lane of every vector of the run, or a single channel. The images are cut into slices that depend on
/// the shape alone.
struct BatchNormShape {
  std::int64_t images, channels, groups;
  std::int64_t image_stride, group_stride;
  std::int64_t run, last_run;  ///< floats; the last group may have fewer
  bool lanes;                  ///< whether lanes are channels
  int slices;

  std::int64_t run_of(std::int64_t group) const { return group + 1 == groups ? last_run : run; }
  std::int64_t first_image(int slice) const { return images * slice / slices; }
  std::int64_t at(std::int64_t group, std::int64_t image) const { return image * image_stride + group * group_stride; }
};

constexpr int kMostSlices = 32;

/// What is known of each lane's channel after one slice.
struct BatchNormPartial {
  alignas(64) double first[16];   ///< mean of x; of the gradient: sum of dy
  alignas(64) double second[16];  ///< squared stds from that mean; of the gradient: sum of dy (x - mean)
};

/// y = (x - mean) scale + bias, or dx = dy scale + (x - mean) slope + bias.
struct BatchNormLanes {
  alignas(64) float mean[16], scale[16], bias[16], slope[16];
};

/// How activations stand (see Layout::storage): exact, but where lanes are channels.
struct BatchNormRounded {
  StorageDtype x{}, residual{}, normal{}, sum{}, last{};
};
/// And of a gradient.
struct BatchNormGradRounded {
  StorageDtype dy{}, x{}, dx{};
};

/// Where y goes: before the addition, after it, and at the end; null: nowhere.
struct BatchNormOutput {
  const float* residual;  ///< null: no addition
  Relu relu;
  float *normal, *sum, *last;
  BatchNormRounded rounded;
};

NEURIM_EACH_ISA(void batch_norm_moments(const BatchNormShape& shape, StorageDtype rounded, std::int64_t group,
                                        int slice, const float* x, BatchNormPartial& partial))
NEURIM_EACH_ISA(void batch_norm_write(const BatchNormShape& shape, std::int64_t group, int slice,
                                      const BatchNormLanes& lanes, const float* x, const BatchNormOutput& out))
NEURIM_EACH_ISA(void batch_norm_grad_sums(const BatchNormShape& shape, const BatchNormGradRounded& rounded,
                                          std::int64_t group, int slice, const float* mean, const float* dy,
                                          const float* x, BatchNormPartial& partial))
NEURIM_EACH_ISA(void batch_norm_grad_write(const BatchNormShape& shape, const BatchNormGradRounded& rounded,
                                           std::int64_t group, int slice, const BatchNormLanes& lanes, const float* dy,
                                           const float* x, float* dx))

}  // namespace neurim::cpu
