// Normalisation of each sample by itself; the shape stays.
#pragma once
#include "neurim/nn/channel_norm.h"

namespace neurim::nn {

/// Over the last axes, whose sizes are `normalized_shape`; parameters weight and bias of that shape. Ba et
/// al., "Layer normalization", 2016.
struct LayerNorm {
  /// Options; names and defaults are PyTorch's.
  struct Config {
    double eps = 1e-5;               ///< added to the variance
    bool elementwise_affine = true;  ///< or neither weight nor bias
    bool bias = true;                ///< without it a weight alone

    void fields(Fields& f) { f("eps", eps)("elementwise_affine", elementwise_affine)("bias", bias); }
  };

  explicit LayerNorm(const Shape& normalized_shape);  ///< with the default Config
  /// Throws Error(usage) for a shape without axes or elements and a negative eps.
  LayerNorm(const Shape& normalized_shape, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (…,normalized_shape); gives the same shape

  Shape normalized_shape;  ///< the sizes of the last axes
  Config config;           ///< as given
  Tensor weight,           ///< (normalized_shape), 1 at first; undefined unless elementwise_affine
      bias;                ///< (normalized_shape), 0 at first; or undefined
};

/// By the root of the mean square over the last axes; parameter weight. Zhang and Sennrich, "Root mean square
/// layer normalization", NeurIPS'19.
struct RMSNorm {
  /// Options; names and defaults are PyTorch's.
  struct Config {
    double eps = 0x1p-23;            ///< the epsilon of f32, PyTorch's choice for inputs of that dtype
    bool elementwise_affine = true;  ///< or no weight

    void fields(Fields& f) { f("eps", eps)("elementwise_affine", elementwise_affine); }
  };

  explicit RMSNorm(const Shape& normalized_shape);  ///< with the default Config
  /// Throws Error(usage) for a shape without axes or elements and a negative eps.
  RMSNorm(const Shape& normalized_shape, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (…,normalized_shape); gives the same shape

  Shape normalized_shape;  ///< the sizes of the last axes
  Config config;           ///< as given
  Tensor weight;           ///< (normalized_shape), 1 at first; undefined unless elementwise_affine
};

/// Of x(N,num_channels,…) over groups of neighbouring channels; parameters weight and bias, one a channel. Wu
/// and He, "Group normalization", ECCV'18.
struct GroupNorm {
  /// Options; names and defaults are PyTorch's.
  struct Config {
    double eps = 1e-5;   ///< added to the variance
    bool affine = true;  ///< or neither weight nor bias

    void fields(Fields& f) { f("eps", eps)("affine", affine); }
  };

  GroupNorm(std::int64_t num_groups, std::int64_t num_channels);  ///< with the default Config
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels,
            const Config& config);  ///< throws Error(usage) when the channels do not divide
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (N,num_channels,…); gives the same shape

  std::int64_t num_groups;  ///< of num_channels / num_groups channels each
  Config config;            ///< as given
  Tensor weight,            ///< (num_channels), 1 at first; undefined unless affine
      bias;                 ///< (num_channels), 0 at first; undefined unless affine
};

/// Of x(N,channels,H,W) over each plane. Without parameters unless `affine`; with running statistics, which
/// take the sample's place outside training, where `track_running_stats`. Ulyanov et al., "Instance
/// normalization", 2016.
struct InstanceNorm2d : ChannelNorm {
  /// Options; names and defaults are PyTorch's.
  struct Config {
    double eps = 1e-5,                ///< added to the variance
        momentum = 0.1;               ///< the share of the new batch in the running statistics
    bool affine = false,              ///< whether there are weight and bias
        track_running_stats = false;  ///< whether there are running statistics

    void fields(Fields& f) {
      f("eps", eps)("momentum", momentum)("affine", affine)("track_running_stats", track_running_stats);
    }
  };

  explicit InstanceNorm2d(std::int64_t channels);  ///< with the default Config
  /// Throws Error(usage) without channels, for a negative eps and for a momentum outside [0, 1].
  InstanceNorm2d(std::int64_t channels, const Config& config);
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,H,W); gives the same shape

  std::int64_t channels;  ///< of x
  Config config;          ///< as given

 protected:
  Tensor normalize(const Tensor& x) const;  ///< x (N,C,…), of any number of spatial axes
};

/// The same of x(N,channels,L).
struct InstanceNorm1d : InstanceNorm2d {
  /// Takes the number of channels, and a Config.
  using InstanceNorm2d::InstanceNorm2d;
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,L); gives the same shape
};

/// Of x(N,C,…) by the squares of `size` neighbouring channels: see local_response_norm. No parameters.
struct LocalResponseNorm {
  std::int64_t size = 5;  ///< channels of a window
  double alpha = 1e-4,    ///< the factor of the mean of squares
      beta = 0.75,        ///< the exponent of the divisor
      k = 1;              ///< the summand in the divisor
  void fields(Fields& f) { f("size", size)("alpha", alpha)("beta", beta)("k", k); }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,…); gives the same shape
};

}  // namespace neurim::nn
