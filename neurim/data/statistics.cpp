#include "neurim/data/statistics.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "neurim/base/thread_pool.h"
#include "neurim/data/transform.h"

namespace neurim {

namespace {

constexpr float kLeastStep = 1.f /
                             (1
                              << 17);  // less than between two values of 16 bits, more than resizing a plain image adds

}  // namespace

ChannelStatistics channel_statistics(const Dataset& dataset, Preprocess preprocess, int threads, Split split,
                                     std::int64_t most) {
  preprocess.mean = {0};
  preprocess.std = {1};
  const std::int64_t size = dataset.size(split), count = std::min(size, most);
  const auto channels = static_cast<std::size_t>(preprocess.channels);
  const std::size_t plane = preprocess.size().values() / channels;
  struct Sums {
    std::vector<double> values, squares;
    std::vector<float> least, most;
    std::string reason;  // why there are none
  };
  std::vector<Sums> sums(count);
  std::atomic<std::int64_t> next{0};
  ThreadPool(threads).each(threads, [&](int) {
    Transform transform(preprocess);
    Decoder decoder;
    std::vector<std::byte> buffer;
    std::vector<float> pixels(preprocess.size().values());
    for (std::int64_t i; (i = next++) < count;) {
      Sums& of = sums[i];
      const std::int64_t sample = i * size / count;
      try {
        decoder.open(dataset.read(split, sample, buffer), preprocess.decoding());
        transform(decoder, pixels.data());
        of.values.resize(channels), of.squares.resize(channels);
        for (std::size_t c = 0; c < channels; ++c) {
          const auto [low, high] = std::minmax_element(pixels.data() + c * plane, pixels.data() + (c + 1) * plane);
          of.least.push_back(*low), of.most.push_back(*high);
          for (std::size_t p = c * plane; p < (c + 1) * plane; ++p) {
            of.values[c] += static_cast<double>(pixels[p]);
            of.squares[c] += static_cast<double>(pixels[p]) * static_cast<double>(pixels[p]);
          }
        }
      } catch (const Error& error) {
        of.reason = text(dataset.name(split, sample), ": ", error.what());
      }
    }
  });
  Sums all{std::vector<double>(channels), std::vector<double>(channels), {}, {}, {}};
  ChannelStatistics result;
  for (const Sums& of : sums) {
    if (!of.reason.empty()) {
      if (result.left_out++ == 0) result.reason = of.reason;
      continue;
    }
    ++result.images;
    for (std::size_t c = 0; c < channels; ++c) {
      all.values[c] += of.values[c];
      all.squares[c] += of.squares[c];
    }
    if (all.least.empty()) all.least = of.least, all.most = of.most;
    for (std::size_t c = 0; c < channels; ++c)
      all.least[c] = std::min(all.least[c], of.least[c]), all.most[c] = std::max(all.most[c], of.most[c]);
  }
  if (result.images == 0)
    fail(Fault::data, "none of ", count, ' ', split, " images can be used, such as ", result.reason);
  const double pixels = static_cast<double>(result.images) * static_cast<double>(plane);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = all.values[c] / pixels;
    result.mean.push_back(mean);
    const bool constant = all.most[c] - all.least[c] < kLeastStep;
    result.std.push_back(constant ? 1 : std::sqrt(std::max(0.0, all.squares[c] / pixels - mean * mean)));
    if (constant) result.constant.push_back(c);
  }
  return result;
}

std::string constant_channels_note(const ChannelStatistics& statistics) {
  std::vector<std::string> channels;
  for (const std::size_t c : statistics.constant) channels.push_back(text(c + 1));
  if (channels.empty()) return "";
  const bool one = channels.size() == 1;
  return text(one ? "channel " : "channels ", join(channels, ", "), " of ", statistics.mean.size(),
              one ? " has" : " have", " one level in all images that were measured, so that std is 1 there");
}

std::vector<ImageHeader> some_headers(const Dataset& dataset, std::int64_t most) {
  const std::int64_t size = dataset.size(Split::train), count = std::min(size, most);
  std::vector<ImageHeader> headers;
  Decoder decoder;
  std::vector<std::byte> buffer;
  for (std::int64_t i = 0; i < count; ++i) try {
      headers.push_back(decoder.open(dataset.read(Split::train, i * size / count, buffer)));
    } catch (const Error&) {  // whoever loads the sample names it
    }
  return headers;
}

}  // namespace neurim
