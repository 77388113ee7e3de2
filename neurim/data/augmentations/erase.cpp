#include "neurim/data/augmentations/erase.h"

#include <algorithm>
#include <cmath>

#include "neurim/data/augmentations/draws.h"

namespace neurim {

constexpr int kEraseTries = 10;

Box draw_erased(const Erasing& erasing, int height, int width, Random& random) {
  if (!happens(erasing.probability, random)) return {};
  const double area = static_cast<double>(height) * width;
  for (int i = 0; i < kEraseTries; ++i) {
    const double target = area * random.uniform(erasing.scale[0], erasing.scale[1]);
    const double ratio = std::exp(random.uniform(std::log(erasing.ratio[0]), std::log(erasing.ratio[1])));
    const double tall = std::nearbyint(std::sqrt(target * ratio)), wide = std::nearbyint(std::sqrt(target / ratio));
    if (tall < 1 || wide < 1 || tall >= height || wide >= width) continue;
    const int h = static_cast<int>(tall), w = static_cast<int>(wide);
    const int top = static_cast<int>(random.below(static_cast<std::uint32_t>(height - h + 1)));
    const int left = static_cast<int>(random.below(static_cast<std::uint32_t>(width - w + 1)));
    return {top, left, h, w};
  }
  return {};
}

void erase(Image& image, const Box& box, int fill, Random& random) {
  const int channels = image.channels(), colors = channels == 2 || channels == 4 ? channels - 1 : channels;
  std::uint32_t bytes = 0;
  int left = 0;
  for (int y = box.top; y < box.top + box.height; ++y)
    for (int x = box.left; x < box.left + box.width; ++x)
      for (int c = 0; c < colors; ++c) {
        if (fill == Erasing::kNoise && left == 0) bytes = random.bits(), left = 4;
        const auto value = static_cast<std::uint8_t>(fill == Erasing::kNoise ? bytes
                                                                             : static_cast<std::uint32_t>(fill));
        if (image.size().bits == 16)
          image.values<std::uint16_t>(y)[x * channels + c] = value_as<std::uint16_t>(value);
        else
          image.row(y)[x * channels + c] = value;
        bytes >>= 8, --left;
      }
}

}  // namespace neurim
