#include "neurim/train/thumbnail.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "neurim/data/decode.h"
#include "neurim/data/resample.h"

namespace neurim {

Thumbnail thumbnail(const Dataset& dataset, Split split, std::int64_t sample, int most,
                    std::vector<std::string> caption) {
  std::vector<std::byte> buffer;
  Decoder decoder;
  decoder.open(dataset.read(split, sample, buffer), {.scaled = true});
  return thumbnail(decoder, most, std::move(caption));
}

Thumbnail thumbnail(Decoder& decoder, int most, std::vector<std::string> caption) {
  Image image;
  const ImageHeader& header = decoder.header();
  const double scale = std::min(1.0, static_cast<double>(most) / std::max(header.height, header.width));
  const auto scaled = [&](int size) { return std::max(1, static_cast<int>(std::lround(size * scale))); };
  const int height = scaled(header.height), width = scaled(header.width);
  const Box whole{0, 0, header.height, header.width};
  const int reduction = decoder.reduction(whole, height, width);
  const Box box = decoder.read(whole, image, reduction);
  Image small;
  small.reshape({height, width, image.channels()});
  Resampler().resize(image, box, height, width, small.box(), small, 0, 0, reduction);
  Thumbnail out{.rgb = {}, .height = height, .width = width, .caption = std::move(caption)};
  out.rgb.reserve(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        out.rgb.push_back(small.row(y)[x * small.channels() + (small.channels() >= 3 ? c : 0)]);
  return out;
}

}  // namespace neurim
