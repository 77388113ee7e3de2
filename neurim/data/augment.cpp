#include "neurim/data/augment.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <set>

#include "neurim/base/error.h"

namespace neurim {
namespace {

constexpr int kTries = 10;  // for a random part that fits; then the largest central one of an allowed ratio

/// The numbers of "name(1,2)", whose parenthesis opens at `open`; none where there is none.
std::vector<double> numbers_in(const std::string& call, std::size_t open) {
  std::vector<double> values;
  if (open == call.size()) return values;
  require(call.back() == ')', "augment: '", call, "' lacks its closing parenthesis");
  for (const std::string& word : split(std::string_view(call).substr(open + 1, call.size() - open - 2), ',')) {
    const std::string number = trimmed(word);
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    require(error == std::errc() && end == number.data() + number.size(), "augment: '", word, "' in ", call,
            " is no number");
    values.push_back(value);
  }
  return values;
}

}  // namespace

void Augment::check() const {
  require(scale[0] > 0 && scale[0] <= scale[1] && scale[1] <= 1, "augment: scale is [", scale[0], ", ", scale[1],
          "]; it needs 0 < low <= high <= 1");
  require(ratio[0] > 0 && ratio[0] <= ratio[1], "augment: ratio is [", ratio[0], ", ", ratio[1],
          "]; it needs 0 < low <= high");
  require(crop_padding >= 0, "augment: crop_padding is ", crop_padding, "; it counts pixels");
  require(hflip >= 0 && hflip <= 1, "augment: hflip is ", hflip, "; it is a probability");
}

Augment parse_augment(std::string_view list) {
  Augment augment;
  if (trimmed(list).empty() || list == "none") return augment;
  std::vector<std::string> others;
  std::set<std::string> seen;
  for (const std::string& item : list_items(list)) {
    const std::size_t open = std::min(item.find('('), item.size());
    const std::string name = item.substr(0, open);
    const bool known = name == "rrc" || name == "pad" || name == "hflip";
    if (!known) {
      others.push_back(item);
      continue;
    }
    require(seen.insert(name).second, "augment: ", name, " stands twice in \"", list, "\"; leave one of them");
    const std::vector<double> values = numbers_in(item, open);
    const std::size_t least = name == "pad" ? 1 : 0, most = name == "rrc" ? 2 : 1;
    require(values.size() >= least && values.size() <= most, "augment: ", name, " takes ", least,
            least == most ? "" : text(" to ", most), " numbers, not ", values.size(), ": ", item);
    if (name == "rrc") {
      augment.random_resized_crop = true;
      std::copy(values.begin(), values.end(), augment.scale.begin());
    } else if (name == "pad") {
      require(values[0] == std::floor(values[0]) && std::abs(values[0]) <= (1 << 14),
              "augment: pad takes a whole number of pixels of at most ", 1 << 14, ": ", item);
      augment.crop_padding = static_cast<int>(values[0]);
    } else {
      augment.hflip = values.empty() ? 0.5 : values[0];
    }
  }
  augment.augmentations = parse_augmentations(join(others, ","));
  augment.check();
  return augment;
}

Box random_part(const Augment& augment, int height, int width, Random& random) {
  const double area = static_cast<double>(height) * width;
  for (int i = 0; i < kTries; ++i) {
    const double target = area * random.uniform(augment.scale[0], augment.scale[1]);
    const double ratio = std::exp(random.uniform(std::log(augment.ratio[0]), std::log(augment.ratio[1])));
    const int w = static_cast<int>(std::lround(std::sqrt(target * ratio)));
    const int h = static_cast<int>(std::lround(std::sqrt(target / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int top = static_cast<int>(random.below(static_cast<std::uint32_t>(height - h + 1)));
    const int left = static_cast<int>(random.below(static_cast<std::uint32_t>(width - w + 1)));
    return {top, left, h, w};
  }
  const double ratio = std::clamp(static_cast<double>(width) / height, augment.ratio[0], augment.ratio[1]);
  const int w = std::clamp(static_cast<int>(std::lround(height * ratio)), 1, width);
  const int h = std::clamp(static_cast<int>(std::lround(width / ratio)), 1, height);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

Pose random_pose(const Augment& augment, Random& random) {
  Pose pose;
  if (augment.crop_padding > 0) {
    const auto span = static_cast<std::uint32_t>(2 * augment.crop_padding + 1);
    pose.down = static_cast<int>(random.below(span)) - augment.crop_padding;
    pose.right = static_cast<int>(random.below(span)) - augment.crop_padding;
  }
  if (augment.hflip > 0) pose.mirrored = random.uniform() < augment.hflip;
  return pose;
}

void move_pixels(int down, int right, std::uint8_t fill, const std::uint8_t* in, ImageSize size, std::uint8_t* out) {
  const std::size_t row = size.width * size.pixel_bytes();
  right = std::clamp(right, -size.width, size.width);
  const auto count = static_cast<std::size_t>((size.width - std::abs(right)) * size.pixel_bytes());
  const int from = std::max(-right, 0) * size.pixel_bytes(), to = std::max(right, 0) * size.pixel_bytes();
  for (int y = 0; y < size.height; ++y, out += row) {
    std::memset(out, fill, row);
    if (y < down || y >= size.height + down) continue;
    std::memcpy(out + to, in + static_cast<std::size_t>(y - down) * row + from, count);
  }
}

}  // namespace neurim
