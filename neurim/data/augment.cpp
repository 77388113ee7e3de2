#include "neurim/data/augment.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>

#include "neurim/base/error.h"

namespace neurim {
namespace {

constexpr int kTries = 10;  // for a random part that fits; then the largest central one of an allowed ratio

/// Moves by whole pixels: out(y, x) = in(y - down, x - right).
void shift(const Pose& pose, std::uint8_t fill, const std::uint8_t* in, ImageSize size, std::uint8_t* out) {
  const std::size_t row = static_cast<std::size_t>(size.width * size.channels);
  const int right = std::clamp(pose.right, -size.width, size.width), count = size.width - std::abs(right);
  // The columns that stay inside: `from` in the input, `to` in the output.
  const int from = std::max(-right, 0) * size.channels;
  const int to = std::max(right, 0) * size.channels;
  for (int y = 0; y < size.height; ++y, out += row) {
    if (count < size.width || pose.down != 0) std::memset(out, fill, row);
    if (y < pose.down || y >= size.height + pose.down) continue;
    const std::uint8_t* pixels = in + static_cast<std::size_t>(y - pose.down) * row + from;
    std::memcpy(out + to, pixels, static_cast<std::size_t>(count * size.channels));
  }
}

/// std::floor as an int; inline where the call of the library function would dominate.
int floor_of(float value) {
  const int whole = static_cast<int>(value);
  return whole - (value < static_cast<float>(whole));
}

/// As shift, then turned about the centre; bilinear between the four neighbours.
template <int channels>
void turn(const Pose& pose, std::uint8_t fill, const std::uint8_t* in, ImageSize size, std::uint8_t* out) {
  const float cosine = static_cast<float>(std::cos(pose.angle)),
              sine = static_cast<float>(std::sin(pose.angle));
  const float middle_y = static_cast<float>(size.height - 1) / 2,
              middle_x = static_cast<float>(size.width - 1) / 2;
  std::uint8_t outside[channels];
  std::fill_n(outside, channels, fill);
  const auto at = [&](int row, int column) -> const std::uint8_t* {
    if (row < 0 || row >= size.height || column < 0 || column >= size.width) return outside;
    return in + (row * size.width + column) * channels;
  };
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x, out += channels) {
      const float dx = static_cast<float>(x) - middle_x, dy = static_cast<float>(y) - middle_y;
      const float from_x = cosine * dx + sine * dy + middle_x - static_cast<float>(pose.right);
      const float from_y = cosine * dy - sine * dx + middle_y - static_cast<float>(pose.down);
      const int row = floor_of(from_y), column = floor_of(from_x);
      const float v = from_y - static_cast<float>(row), u = from_x - static_cast<float>(column);
      const std::uint8_t* neighbours[] = {at(row, column), at(row, column + 1), at(row + 1, column),
                                          at(row + 1, column + 1)};
      const float weights[] = {(1 - v) * (1 - u), (1 - v) * u, v * (1 - u), v * u};
      for (int c = 0; c < channels; ++c) {
        float level = 0.5f;
        for (int k = 0; k < 4; ++k) level += weights[k] * static_cast<float>(neighbours[k][c]);
        out[c] = static_cast<std::uint8_t>(std::min(level, 255.0f));
      }
    }
}

/// The words between those commas that stand outside of parentheses.
std::vector<std::string> split_calls(std::string_view list) {
  std::vector<std::string> calls;
  int depth = 0;
  bool begun = false;
  for (const char c : list) {
    depth += (c == '(') - (c == ')');
    if (c == ',' && depth == 0) {
      begun = false;
    } else {
      if (!begun) calls.emplace_back();
      begun = true;
      calls.back() += c;
    }
  }
  return calls;
}

/// The numbers of "name(1,2)", whose parenthesis opens at `open`; none where there is none.
std::vector<double> numbers_in(const std::string& call, std::size_t open) {
  std::vector<double> values;
  if (open == call.size()) return values;
  require(call.back() == ')', "augment: '", call, "' lacks its closing parenthesis");
  for (const std::string& word : split(std::string_view(call).substr(open + 1, call.size() - open - 2), ',')) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    require(error == std::errc() && end == word.data() + word.size(), "augment: '", word, "' in ", call,
            " is no number");
    values.push_back(value);
  }
  return values;
}

}  // namespace

void Augment::check() const {
  require(scale[0] > 0 && scale[0] <= scale[1] && scale[1] <= 1, "augment: scale is [", scale[0], ", ",
          scale[1], "]; it needs 0 < low <= high <= 1");
  require(ratio[0] > 0 && ratio[0] <= ratio[1], "augment: ratio is [", ratio[0], ", ", ratio[1],
          "]; it needs 0 < low <= high");
  require(crop_padding >= 0, "augment: crop_padding is ", crop_padding, "; it counts pixels");
  require(hflip >= 0 && hflip <= 1, "augment: hflip is ", hflip, "; it is a probability");
  require(rotation >= 0 && rotation <= 180, "augment: rotation is ", rotation,
          "; it lies in [0, 180] degrees");
  require(brightness >= 0 && brightness <= 1, "augment: brightness is ", brightness, "; it lies in [0, 1]");
}

Augment parse_augment(std::string_view list) {
  Augment augment;
  if (list == "none") return augment;
  for (const std::string& call : split_calls(list)) {
    const std::size_t open = std::min(call.find('('), call.size());
    const std::string name = call.substr(0, open);
    const std::vector<double> values = numbers_in(call, open);
    const auto takes = [&](std::size_t least, std::size_t most) {
      require(values.size() >= least && values.size() <= most, "augment: ", name, " takes ", least,
              least == most ? "" : text(" to ", most), " numbers, not ", values.size(), ": ", call);
    };
    if (name == "rrc") {
      takes(0, 2);
      augment.random_resized_crop = true;
      std::copy(values.begin(), values.end(), augment.scale.begin());
    } else if (name == "hflip") {
      takes(0, 1);
      augment.hflip = values.empty() ? 0.5 : values[0];
    } else if (name == "pad") {
      takes(1, 1);
      augment.crop_padding = static_cast<int>(values[0]);
    } else if (name == "rotate") {
      takes(1, 1);
      augment.rotation = values[0];
    } else if (name == "brightness") {
      takes(1, 1);
      augment.brightness = values[0];
    } else {
      const std::string near = nearest(name, {"rrc", "hflip", "pad", "rotate", "brightness", "none"});
      fail(Fault::usage, "augment: there is no '", name, "'; ",
           near.empty() ? "" : text("did you mean '", near, "'? "),
           "known are rrc, hflip, pad, rotate, brightness, none");
    }
  }
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
  if (augment.rotation > 0)
    pose.angle = random.uniform(-augment.rotation, augment.rotation) * std::numbers::pi / 180;
  if (augment.brightness > 0)
    pose.brightness = static_cast<float>(random.uniform(1 - augment.brightness, 1 + augment.brightness));
  return pose;
}

void apply_pose(const Pose& pose, std::uint8_t fill, const std::uint8_t* in, ImageSize size,
                std::uint8_t* out) {
  (pose.angle == 0 ? shift : size.channels == 1 ? turn<1> : turn<3>)(pose, fill, in, size, out);
}

}  // namespace neurim
