#include "neurim/data/augmentations/mix.h"

#include <algorithm>
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/data/augmentations/draws.h"

namespace neurim {
namespace {

void check_probability(const char* name, double value) {
  require(value >= 0 && value <= 1, "mix: ", name, " is ", value, "; it is a probability");
}

void check_alpha(const char* name, double value) {
  require(value >= 0 && std::isfinite(value), "mix: ", name, " is ", value, "; it is 0 (off) or positive");
}

void check_partner(std::span<const int> partner, std::vector<char>& seen) {
  const std::size_t n = partner.size();
  if (seen.size() < n) seen.resize(n);
  std::fill_n(seen.begin(), n, char{0});
  for (const int i : partner) {
    require(i >= 0 && static_cast<std::size_t>(i) < n && !seen[i], "mix: partner ", i,
            " is twice in the list or outside [0, ", n, "); the list has to be a permutation");
    seen[i] = 1;
  }
}

}  // namespace

void MixOptions::check() const {
  check_alpha("mixup_alpha", mixup_alpha);
  check_alpha("cutmix_alpha", cutmix_alpha);
  check_probability("probability", probability);
  check_probability("switch_probability", switch_probability);
}

Mix draw_mix(const MixOptions& options, int height, int width, Random& random) {
  if (!happens(options.probability, random)) return {};
  const bool mixes = options.mixup_alpha > 0, cuts = options.cutmix_alpha > 0;
  if (!mixes && !cuts) return {};
  if (!cuts || (mixes && !happens(options.switch_probability, random)))
    return {Mix::Kind::mixup, beta_variate(options.mixup_alpha, random)};
  const double side = std::sqrt(1 - beta_variate(options.cutmix_alpha, random));
  const int half_height = static_cast<int>(height * side) / 2, half_width = static_cast<int>(width * side) / 2;
  const int y = static_cast<int>(random.below(static_cast<std::uint32_t>(height)));
  const int x = static_cast<int>(random.below(static_cast<std::uint32_t>(width)));
  const int top = std::max(y - half_height, 0), left = std::max(x - half_width, 0);
  const Box box{top, left, std::min(y + half_height, height) - top, std::min(x + half_width, width) - left};
  const double pasted = static_cast<double>(box.height) * box.width;
  return {Mix::Kind::cutmix, 1 - pasted / (static_cast<double>(height) * width), box};
}

void mix_images(const Mix& mix, std::span<const int> partner, int channels, int height, int width,
                std::span<float> images, MixBuffers& buffers) {
  const std::size_t plane = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  const std::size_t size = static_cast<std::size_t>(channels) * plane;
  require(images.size() == partner.size() * size, "mix: ", images.size(), " numbers are not ", partner.size(),
          " images of ", channels, "x", height, "x", width);
  check_partner(partner, buffers.done);
  if (mix.kind == Mix::Kind::none) return;
  if (buffers.image.size() < size) buffers.image.resize(size);

  const float own = static_cast<float>(mix.lambda), other = static_cast<float>(1 - mix.lambda);
  const auto blend = [&](float* to, const float* from) {
    if (mix.kind == Mix::Kind::mixup) {
      for (std::size_t i = 0; i < size; ++i) to[i] = own * to[i] + other * from[i];
      return;
    }
    const Box& box = mix.box;
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c)
      for (int y = box.top; y < box.top + box.height; ++y) {
        const std::size_t at = c * plane + static_cast<std::size_t>(y * width + box.left);
        std::copy_n(from + at, box.width, to + at);
      }
  };
  // Along each cycle of the permutation only the first image is needed again after it has changed.
  for (std::size_t first = 0; first < partner.size(); ++first) {
    if (!buffers.done[first]) continue;
    std::copy_n(images.data() + first * size, size, buffers.image.data());
    for (std::size_t i = first;;) {
      buffers.done[i] = 0;
      const auto next = static_cast<std::size_t>(partner[i]);
      float* const to = images.data() + i * size;
      blend(to, next == first ? buffers.image.data() : images.data() + next * size);
      if (next == first) break;
      i = next;
    }
  }
}

}  // namespace neurim
