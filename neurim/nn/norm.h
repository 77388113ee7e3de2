// Normalisation of each sample by itself; the shape stays.
#pragma once
#include "neurim/nn/channel_norm.h"

namespace neurim::nn {

/// Over the last axes, whose sizes are `normalized_shape`; parameters weight and bias of that shape. Ba et
/// al., "Layer normalization", 2016.
struct LayerNorm {
  struct Config {
    double eps = 1e-5;
    bool elementwise_affine = true;  ///< or neither weight nor bias
    bool bias = true;

    void fields(Fields& f) { f("eps", eps)("elementwise_affine", elementwise_affine)("bias", bias); }
  };

  explicit LayerNorm(const Shape& normalized_shape);
  LayerNorm(const Shape& normalized_shape, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  Shape normalized_shape;
  Config config;
  Tensor weight, bias;
};

/// By the root of the mean square over the last axes; parameter weight. Zhang and Sennrich, "Root mean square
/// layer normalization", NeurIPS'19.
struct RMSNorm {
  struct Config {
    double eps = 0x1p-23;  ///< the epsilon of f32, PyTorch's choice for inputs of that dtype
    bool elementwise_affine = true;

    void fields(Fields& f) { f("eps", eps)("elementwise_affine", elementwise_affine); }
  };

  explicit RMSNorm(const Shape& normalized_shape);
  RMSNorm(const Shape& normalized_shape, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  Shape normalized_shape;
  Config config;
  Tensor weight;
};

/// Of x(N,num_channels,…) over groups of neighbouring channels; parameters weight and bias, one a channel. Wu
/// and He, "Group normalization", ECCV'18.
struct GroupNorm {
  struct Config {
    double eps = 1e-5;
    bool affine = true;

    void fields(Fields& f) { f("eps", eps)("affine", affine); }
  };

  GroupNorm(std::int64_t num_groups, std::int64_t num_channels);
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels,
            const Config& config);  ///< throws Error(usage) when the channels do not divide
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  std::int64_t num_groups;
  Config config;
  Tensor weight, bias;
};

/// Of x(N,channels,H,W) over each plane. Without parameters unless `affine`; with running statistics, which
/// take the sample's place outside training, where `track_running_stats`. Ulyanov et al., "Instance
/// normalization", 2016.
struct InstanceNorm2d : ChannelNorm {
  struct Config {
    double eps = 1e-5, momentum = 0.1;  ///< momentum: the share of the new batch in the running statistics
    bool affine = false, track_running_stats = false;

    void fields(Fields& f) {
      f("eps", eps)("momentum", momentum)("affine", affine)("track_running_stats", track_running_stats);
    }
  };

  explicit InstanceNorm2d(std::int64_t channels);
  InstanceNorm2d(std::int64_t channels, const Config& config);
  Tensor operator()(const Tensor& x) const;

  std::int64_t channels;
  Config config;

 protected:
  Tensor normalize(const Tensor& x) const;
};

/// The same of x(N,channels,L).
struct InstanceNorm1d : InstanceNorm2d {
  using InstanceNorm2d::InstanceNorm2d;
  Tensor operator()(const Tensor& x) const;
};

/// Of x(N,C,…) by the squares of `size` neighbouring channels: see local_response_norm. No parameters.
struct LocalResponseNorm {
  std::int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1;
  void fields(Fields& f) { f("size", size)("alpha", alpha)("beta", beta)("k", k); }
  Tensor operator()(const Tensor& x) const;
};

}  // namespace neurim::nn
