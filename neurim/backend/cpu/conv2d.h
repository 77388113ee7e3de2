// Our own convolution on nChw16c activations and [O/16][I/16][kh][kw][16i][16o] weights.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/isa.h"
#include "neurim/core/types.h"

namespace neurim::cpu {

/// The packed forms in which weights live and in which their data gradient reads them: [O/16][I/16][kh][kw][16i][16o] and
/// [I/16][O/16][kh][kw][16o][16i]. They are oneDNN's too, so both libraries' kernels share them.
Layout forward_weights(const Type& weight);
Layout gradient_weights(const Type& weight);

/// A convolution of one padded image. Strides are in floats.
struct ConvGeometry {
  int in_blocks = 0, kernel_h = 0, kernel_w = 0, stride_h = 1, stride_w = 1, out_h = 0, out_w = 0;
  std::int64_t x_row = 0, x_block = 0;            ///< of the padded image: between rows, between channel blocks
  std::int64_t y_block = 0, w_block = 0;          ///< between output channel blocks
  std::int64_t tap_h = 0, tap_w = 0, tap_in = 0;  ///< of the weights; negative when the taps are walked backwards
};

/// Sums over the pixels of 16 channels: Σ(y - pivot) and Σ(y - pivot)²; with a factor c: Σy and Σy(c - pivot).
struct ChannelSums {
  float pivot[16];
  double sum[16], product[16];
};

/// What is done to the results while they are in registers. Pointers stand where y's first block begins.
struct ConvEpilogue {
  const float* add = nullptr;     ///< added to y
  const float* gate = nullptr;    ///< y becomes 0 where this is not positive (the gradient of relu, by relu's output)
  const float* factor = nullptr;  ///< c of ChannelSums
  ChannelSums* sums = nullptr;    ///< one a block
  bool first = false;             ///< takes the pivots from the first pixel
};

/// y = epilogue(conv(x)) for `blocks` (1 or 2) blocks of output channels of one image.
NEURIM_EACH_ISA(void conv_image(const ConvGeometry& g, const float* x, const float* w, float* y, int blocks,
                                const ConvEpilogue& epilogue))

/// y = a x + b (+ c z) (+ add), then max(y, 0) with `relu`, over `count` pixels of 16 channels; a, b, c have 16 entries; z and
/// add may be null. y may be x.
NEURIM_EACH_ISA(void affine_block(const float* x, const float* a, const float* b, const float* z, const float* c,
                                  const float* add, bool relu, float* y, std::int64_t count))

}  // namespace neurim::cpu
