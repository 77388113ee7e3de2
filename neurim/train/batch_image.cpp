#include "neurim/train/batch_image.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "neurim/evaluate/contact_sheet.h"
#include "neurim/evaluate/drawn_names.h"

namespace neurim {

std::vector<std::uint8_t> shown_pixels(std::span<const float> image, const Preprocess& preprocess) {
  const auto of = [](const std::vector<double>& list, std::size_t c) { return list.size() == 1 ? list[0] : list[c]; };
  const std::size_t plane = image.size() / static_cast<std::size_t>(preprocess.channels);
  std::vector<std::uint8_t> rgb(plane * 3);
  for (std::size_t c = 0; c < 3; ++c) {
    const std::size_t channel = preprocess.channels >= 3 ? c : 0;
    const double mean = of(preprocess.mean, channel), std = of(preprocess.std, channel);
    for (std::size_t p = 0; p < plane; ++p)
      rgb[p * 3 + c] = static_cast<std::uint8_t>(
          std::clamp<long>(std::lround((image[channel * plane + p] * std + mean) * 255), 0, 255));
  }
  return rgb;
}

std::string batch_image(const Batch& batch, const Preprocess& preprocess, const std::vector<std::string>& class_names,
                        const MixedIn& mixed) {
  constexpr int kMost = 32, kColumns = 8, kCell = 160;
  const std::size_t values = preprocess.size().values();
  const auto share_of = [&](std::size_t i, std::size_t c) {
    if (!batch.targets.empty()) return static_cast<double>(batch.targets[i * class_names.size() + c]);
    const auto is = [&](std::int64_t label) { return static_cast<std::size_t>(label) == c ? 1.0 : 0.0; };
    const double own = is(batch.labels[i]);
    return mixed.labels.empty() ? own : mixed.lambda * own + (1 - mixed.lambda) * is(mixed.labels[i]);
  };
  const std::vector<std::string> drawn = drawn_names(class_names);
  const auto labels_of = [&](std::size_t i) {
    if (mixed.numbers) {
      std::vector<std::string> numbers;
      for (std::size_t t = 0; t < class_names.size(); ++t)
        numbers.push_back(significant(static_cast<double>(batch.targets[i * class_names.size() + t])));
      return numbers;
    }
    std::vector<std::pair<long, std::size_t>> shares;  // in percent
    for (std::size_t c = 0; c < class_names.size(); ++c)
      if (const long percent = std::lround(share_of(i, c) * 100); percent > 0) shares.emplace_back(percent, c);
    std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::string> names;
    for (const auto& [percent, c] : shares)
      names.push_back(percent == 100 ? drawn[c] : text(drawn[c], ' ', percent, '%'));
    return names;
  };
  std::vector<Thumbnail> images;
  for (std::size_t i = 0; i < static_cast<std::size_t>(std::min(batch.size, kMost)); ++i) {
    images.push_back({.rgb = shown_pixels(batch.images.subspan(i * values, values), preprocess),
                      .height = preprocess.height,
                      .width = preprocess.width,
                      .caption = labels_of(i)});
  }
  return contact_sheet(images, kColumns, kCell);
}

}  // namespace neurim
