// U-Net: logits of each pixel.
#pragma once
#include <vector>

#include "neurim/nn/conv.h"
#include "neurim/nn/conv_transpose.h"
#include "neurim/nn/sequential.h"

namespace neurim {

/// x(N,in_chans,H,W) -> logits (N,num_classes,H',W'), one vector a pixel. Ronneberger, Fischer and Brox,
/// "U-Net: convolutional networks for biomedical image segmentation", MICCAI'15, figure 1: on the way down
/// two 3x3 convolutions and a 2x2 maximum at each of `depth` levels, with twice the channels at the next; on
/// the way up a 2x2 transposed convolution that halves them, beside it the middle of what the level had
/// before its maximum, and two more convolutions. Convolutions are not padded, so that each logit is of a
/// pixel whose surroundings are all in the image: 572x572 pixels give 388x388. With cross_entropy the targets
/// are i64 (N,H',W').
///
/// A model whose results are images has no place among the classifiers of create_model; it is trained from
/// C++: plan(), gradients() and an optimizer of optim/.
struct UNet {
  /// The paper's network by default.
  struct Config {
    std::int64_t channels = 64;  ///< of the first level
    int depth = 4;               ///< levels below the first, 0 to 15
    bool pad = false;            ///< with zeros, so that H' is H and W' is W
    double dropout = 0.5;        ///< after the lowest level
  };

  UNet(std::int64_t in_chans, std::int64_t num_classes);  ///< the paper's
  /// Throws Error(usage) where a field of `config` is out of range.
  UNet(std::int64_t in_chans, std::int64_t num_classes, const Config& config);
  void parts(Parts& p);
  /// Throws Error(usage), which names a size that fits, where a side is not even before each maximum.
  Tensor operator()(const Tensor& x) const;

  Config config;                          ///< as constructed
  std::vector<nn::Sequential> down,       ///< a level each, the lowest last; "0" and "2" are its convolutions
      up;                                 ///< the same on the way up, the lowest first
  std::vector<nn::ConvTranspose2d> rise;  ///< up[i] follows rise[i]; the lowest first
  nn::Conv2d last;                        ///< 1x1, to the logits
};

}  // namespace neurim
