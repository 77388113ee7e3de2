// Figures of the pixels of a data set.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "neurim/data/dataset.h"
#include "neurim/data/preprocess.h"

namespace neurim {

struct ChannelStatistics {
  std::vector<double> mean, std;      ///< of each channel, values / 255; std is 1 where the channel is constant
  std::vector<std::size_t> constant;  ///< the channels that have one value in all images
  std::int64_t images = 0;            ///< that were looked at
  std::int64_t left_out = 0;          ///< that could not be
  std::string reason;                 ///< why not the first of these, with its name; "" where there is none
};

/// Mean and std of the values of a split's images as the model sees them (resized and cut as
/// `preprocess` says, not yet normalised), over at most `most` images that are spread evenly over the split.
/// Those that cannot be read or have other channels are left out. The same for any number of threads. Throws
/// Error(data) with the reason of the first where all are.
ChannelStatistics channel_statistics(const Dataset& dataset, Preprocess preprocess, int threads,
                                     Split split = Split::train, std::int64_t most = 2000);

/// Says which channels are constant; "" where none is.
std::string constant_channels_note(const ChannelStatistics& statistics);

/// The headers of at most `most` training images, spread evenly over the split. Unreadable ones are passed over.
std::vector<ImageHeader> some_headers(const Dataset& dataset, std::int64_t most = 64);

}  // namespace neurim
