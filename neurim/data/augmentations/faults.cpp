#include "neurim/data/augmentations/faults.h"

#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "neurim/base/error.h"

namespace neurim {

void add_noise(Image& image, double std, Random& random) {
  const int channels = image.channels(), changed = channels == 4 ? 3 : channels == 2 ? 1 : channels;
  for (int y = 0; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x)
      for (int c = 0; c < changed; ++c) {
        std::uint8_t& value = image.row(y)[x * channels + c];
        value = static_cast<std::uint8_t>(std::clamp(std::nearbyint(value + std * random.normal()), 0.0, 255.0));
      }
}

void as_jpeg(Image& image, int quality) {
  using Codec = std::unique_ptr<void, int (*)(void*)>;
  const int channels = image.channels(), kept = channels <= 2 ? 1 : 3;
  const auto pixels = static_cast<std::size_t>(image.height()) * static_cast<std::size_t>(image.width());
  std::vector<std::uint8_t> colors(pixels * static_cast<std::size_t>(kept));
  const auto copy = [&](const auto& each) {
    for (std::size_t i = 0; i < pixels; ++i)
      for (int c = 0; c < kept; ++c)
        each(image.data()[i * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)],
             colors[i * static_cast<std::size_t>(kept) + static_cast<std::size_t>(c)]);
  };
  copy([](std::uint8_t value, std::uint8_t& to) { to = value; });
  const int format = kept == 1 ? TJPF_GRAY : TJPF_RGB;
  const Codec encoder(tjInitCompress(), tjDestroy), decoder(tjInitDecompress(), tjDestroy);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const bool done = tjCompress2(encoder.get(), colors.data(), image.width(), 0, image.height(), format, &bytes, &size,
                                kept == 1 ? TJSAMP_GRAY : TJSAMP_420, quality, 0) == 0 &&
                    tjDecompress2(decoder.get(), bytes, size, colors.data(), image.width(), 0, image.height(), format,
                                  TJFLAG_ACCURATEDCT) == 0;
  tjFree(bytes);
  if (!done) fail(Fault::resource, "jpeg: ", tjGetErrorStr2(encoder.get()));
  copy([](std::uint8_t& value, std::uint8_t from) { value = from; });
}

}  // namespace neurim
