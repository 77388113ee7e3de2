// Batch normalization of f32 by groups of channels: one pass computes a group's statistics, a second writes its
// results.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/backend/cpu/common/relu.h"

namespace neurim::cpu {

/// The memory of x(N,C,...). A group is 16 channels, one in each lane, or a single channel; each image holds one
/// contiguous run of it. Images are cut into slices, by shape only, so that results do not depend on threads.
struct BatchNormShape {
  std::int64_t images, channels, groups;
  std::int64_t image_stride, group_stride;
  std::int64_t run, last_run;  ///< floats of a run; the last group's may be fewer
  bool lanes;                  ///< whether lanes are channels
  int slices;

  std::int64_t run_of(std::int64_t group) const { return group + 1 == groups ? last_run : run; }
  std::int64_t first_image(int slice) const { return images * slice / slices; }
  std::int64_t at(std::int64_t group, std::int64_t image) const { return image * image_stride + group * group_stride; }
};

constexpr int kMostSlices = 32;

/// The partial statistics of each lane's channel over one slice.
struct BatchNormPartial {
  alignas(64) double first[16];   ///< the mean of x; in the gradient the sum of dy
  alignas(64) double second[16];  ///< the sum of squared distances from it; in the gradient the sum of dy (x - mean)
};

/// Coefficients of y = (x - mean) scale + bias, or dx = dy scale + (x - mean) slope + bias.
struct BatchNormLanes {
  alignas(64) float mean[16], scale[16], bias[16], slope[16];
};

/// The storage of activations (Layout::storage). 16-bit storage needs lanes that are channels.
struct BatchNormRounded {
  StorageDtype x{}, residual{}, normal{}, sum{}, last{};
};
/// The same for the gradient.
struct BatchNormGradRounded {
  StorageDtype dy{}, x{}, dx{};
};

/// Where y is written: before the addition, after it, and at the end. Null: not written.
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
