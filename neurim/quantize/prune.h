// Models with fewer channels (structured pruning: Fang et al., "DepGraph", CVPR 2023).
#pragma once
#include <cstdint>
#include <vector>

#include "neurim/quantize/layers.h"

namespace neurim {

/// Channels that go together: those of values that are added to each other, or that a depthwise convolution or an
/// elementwise op carries on.
struct ChannelGroup {
  std::vector<double> importance;   ///< of each channel; 1 in the mean
  std::vector<std::string> layers;  ///< that make them
  std::int64_t kept = 0;            ///< how many of the channels stay; prune_channels() sets it
};

/// How channels are chosen.
struct PruneOptions {
  double macs = 0.5;          ///< the share of multiply-adds that may stay
  std::int64_t multiple = 8;  ///< the number of channels that stay is a multiple of it, or all
  double least = 0.1;         ///< the share of a group's channels that stays at least
  void check() const;         ///< throws Error(usage) naming what is out of range
};

/// A model with fewer channels.
struct PrunedModel {
  FloatModel model;
  std::vector<ChannelGroup> groups;    ///< those that could lose channels
  std::int64_t before = 0, after = 0;  ///< multiply-adds of a sample
};

/// Takes away the channels that matter least. A channel matters as much as the geometric mean of the squared weights
/// that make it and of those that read it, each relative to those of the weight's other channels. Channels of inputs
/// and outputs stay, and those that something else than convolutions, fully connected layers, elementwise ops and
/// pooling reads. Throws Error(usage) for options out of range, and where so few multiply-adds cannot be reached, with
/// the share that can.
PrunedModel prune_channels(const FloatModel& model, const PruneOptions& options);

}  // namespace neurim
