// The buffers of image changes.
#pragma once
#include <vector>

#include "neurim/data/image.h"

namespace neurim {

/// What changes need besides the image. One Scratch serves one thread; its memory grows and never shrinks,
/// so that changes soon allocate no more. A change may exchange the image's memory for memory of its own.
struct Scratch {
  Image image;                ///< the result of an operation that cannot work in place
  Image chain;                ///< one chain of AugMix
  std::vector<float> sums;    ///< the mixture of AugMix
  std::vector<float> lines;   ///< rows of a separable filter
  std::vector<float> kernel;  ///< weights of a separable filter
};

}  // namespace neurim
