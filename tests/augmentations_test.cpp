// Image changes: what they do to small images, their text form, golden results and the distributions they
// draw from. The numbers of each operation are compared with Pillow and torchvision in
// parity/augmentations_test.py.
#include "neurim/data/augmentations/augmentations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <new>
#include <numeric>
#include <tuple>

#include "neurim/base/error.h"
#include "neurim/data/augmentations/draws.h"
#include "neurim/data/augmentations/erase.h"
#include "neurim/data/augmentations/filters.h"
#include "neurim/data/augmentations/geometry.h"
#include "neurim/data/augmentations/mix.h"
#include "neurim/data/augmentations/pixel_values.h"
#include "neurim/data/augmentations/policies.h"
#include "tests/errors.h"

namespace {
std::size_t allocations = 0;
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace neurim {
namespace {

constexpr int kDraws = 10000;
constexpr double kSigmas = 5;

/// An image with every level, edges and noise, the same on every machine.
Image make_image(int height, int width, int channels) {
  Image image;
  image.reshape({height, width, channels});
  Random random(7);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) {
        const std::uint32_t wave = static_cast<std::uint32_t>(x * (5 + c) + y * (3 + 2 * c)) % 200;
        image.row(y)[x * channels + c] = static_cast<std::uint8_t>(wave + random.below(56));
      }
  return image;
}

Image flat(int height, int width, int channels, int level) {
  Image image;
  image.reshape({height, width, channels});
  std::fill_n(image.data(), image.size().bytes(), static_cast<std::uint8_t>(level));
  return image;
}

bool same(const Image& a, const Image& b) {
  return a.size() == b.size() && std::equal(a.data(), a.data() + a.size().bytes(), b.data());
}

/// FNV-1a in 32 bits.
std::uint32_t checksum(const Image& image) {
  std::uint32_t sum = 2166136261u;
  for (std::size_t i = 0; i < image.size().bytes(); ++i) sum = (sum ^ image.data()[i]) * 16777619u;
  return sum;
}

/// The count of `happened` among n is that of this probability, within kSigmas.
void expect_frequency(double happened, int n, double probability) {
  EXPECT_NEAR(happened, n * probability, kSigmas * std::sqrt(n * probability * (1 - probability)) + 1e-9);
}

struct Numbers {
  std::vector<double> list;
  void add(double value) { list.push_back(value); }
  double mean() const { return std::accumulate(list.begin(), list.end(), 0.0) / static_cast<double>(list.size()); }
  double low() const { return *std::min_element(list.begin(), list.end()); }
  double high() const { return *std::max_element(list.begin(), list.end()); }
  double variance() const {
    double sum = 0;
    for (const double value : list) sum += (value - mean_) * (value - mean_);
    return sum / static_cast<double>(list.size());
  }
  double mean_ = 0;
};

/// Uniform in [low, high]: mean, range, and that the range is reached up to a small part; `slack` for
/// rounding.
void expect_uniform(const Numbers& numbers, double low, double high, double slack = 0) {
  const double sigma = (high - low) / std::sqrt(12.0 * static_cast<double>(numbers.list.size()));
  EXPECT_NEAR(numbers.mean(), (low + high) / 2, kSigmas * sigma + slack);
  EXPECT_GE(numbers.low(), low - slack);
  EXPECT_LE(numbers.high(), high + slack);
  EXPECT_LT(numbers.low(), low + 0.02 * (high - low) + slack);
  EXPECT_GT(numbers.high(), high - 0.02 * (high - low) - slack);
}

/// Applies a change to a copy of the image under the key `i`.
Image changed(const Augmentation& augmentation, const Image& image, std::uint64_t i, Scratch& scratch) {
  Image copy = image;
  Random random(11, i);
  augmentation.apply(copy, scratch, random);
  return copy;
}

// What the operations do.

TEST(Augmentations, FlipsMovePixelsAndUndoThemselves) {
  for (const int channels : {1, 3, 4})
    for (const auto& [height, width] : {std::pair{5, 7}, {4, 6}, {1, 5}, {5, 1}, {1, 1}}) {
      const Image before = make_image(height, width, channels);
      Image image = before;
      flip_horizontally(image);
      for (int y = 0; y < height; ++y)
        for (int i = 0; i < width * channels; ++i)
          ASSERT_EQ(image.row(y)[i], before.row(y)[(width - 1 - i / channels) * channels + i % channels]);
      flip_horizontally(image);
      flip_vertically(image);
      for (int y = 0; y < height; ++y)
        ASSERT_TRUE(std::equal(image.row(y), image.row(y) + width * channels, before.row(height - 1 - y)));
    }
}

TEST(Augmentations, WarpByTheIdentityAndBeyondTheImage) {
  Scratch scratch;
  for (const auto how : {Interpolation::nearest, Interpolation::bilinear}) {
    const Image before = make_image(9, 7, 4);
    Image image = before;
    warp(affine(0, {}, 1, 0, 0, {3.5, 4.5}), how, 9, image, scratch);
    EXPECT_TRUE(same(image, before));
    warp(affine(0, {100, 0}, 1, 0, 0, {3.5, 4.5}), how, 9, image, scratch);
    EXPECT_TRUE(same(image, flat(9, 7, 4, 9)));
    // A plane at infinity: the denominator is 0 everywhere.
    image = before;
    warp({1, 0, 0, 0, 1, 0, 0, 0, 0}, how, 9, image, scratch);
    EXPECT_TRUE(same(image, flat(9, 7, 4, 9)));
  }
}

TEST(Augmentations, AQuarterTurnIsCounterClockwise) {
  Scratch scratch;
  Image image = flat(5, 5, 1, 0);
  image.row(0)[4] = 200;  // the upper right corner goes to the upper left
  warp(rotation(90, 5, 5), Interpolation::bilinear, 0, image, scratch);
  EXPECT_NEAR(image.row(0)[0], 200, 1);
  image.row(0)[0] = 0;
  EXPECT_EQ(*std::max_element(image.data(), image.data() + 25), 0);
}

TEST(Augmentations, PerspectiveMovesTheCornersAndRefusesLines) {
  const std::array<Point, 4> from{{{0, 0}, {10, 0}, {10, 8}, {0, 8}}}, to{{{1, 2}, {9, 1}, {8, 7}, {2, 6}}};
  const Warp m = perspective(from, to);
  for (std::size_t k = 0; k < 4; ++k) {
    const double depth = m[6] * to[k].x + m[7] * to[k].y + m[8];
    EXPECT_NEAR((m[0] * to[k].x + m[1] * to[k].y + m[2]) / depth, from[k].x, 1e-9);
    EXPECT_NEAR((m[3] * to[k].x + m[4] * to[k].y + m[5]) / depth, from[k].y, 1e-9);
  }
  EXPECT_NE(usage_error([&] { perspective(from, {{{0, 0}, {1, 1}, {2, 2}, {0, 8}}}); }).find("in a line"),
            std::string::npos);
}

TEST(Augmentations, FiveCropsAsTorchvision) {
  const auto boxes = five_crops(10, 13, 5, 6);
  EXPECT_EQ(boxes[0], (Box{0, 0, 5, 6}));
  EXPECT_EQ(boxes[1], (Box{0, 7, 5, 6}));
  EXPECT_EQ(boxes[2], (Box{5, 0, 5, 6}));
  EXPECT_EQ(boxes[3], (Box{5, 7, 5, 6}));
  EXPECT_EQ(boxes[4], (Box{2, 4, 5, 6}));  // 2.5 and 3.5 rounded to even
  EXPECT_NE(usage_error([] { five_crops(4, 4, 5, 4); }).find("crop is 5x4, the image 4x4"), std::string::npos);
}

TEST(Augmentations, ColorLeavesAlphaAndGrayAlone) {
  Scratch scratch;
  const std::vector<std::function<void(Image&)>> all{[](Image& i) { adjust_brightness(i, 1.5); },
                                                     [](Image& i) { adjust_contrast(i, 0.4); },
                                                     [](Image& i) { adjust_saturation(i, 0.2); },
                                                     [](Image& i) { adjust_hue(i, 0.2); },
                                                     [](Image& i) { adjust_gamma(i, 2); },
                                                     [](Image& i) { solarize_add(i, 50); },
                                                     [](Image& i) { posterize(i, 0); },
                                                     [&](Image& i) { adjust_sharpness(i, 3, scratch); },
                                                     to_gray,
                                                     invert,
                                                     equalize,
                                                     autocontrast};
  const Image before = make_image(21, 23, 4);  // equalize needs more than 255 pixels
  for (std::size_t k = 0; k < all.size(); ++k) {
    Image image = before;
    all[k](image);
    EXPECT_FALSE(same(image, before)) << k;
    for (int y = 0; y < 21; ++y)
      for (int x = 0; x < 23; ++x) ASSERT_EQ(image.row(y)[4 * x + 3], before.row(y)[4 * x + 3]) << k;
  }
  const Image gray = make_image(11, 13, 1);
  Image image = gray;
  adjust_saturation(image, 0.2), adjust_hue(image, 0.2), to_gray(image);
  EXPECT_TRUE(same(image, gray));
}

TEST(Augmentations, SolarizeAddRaisesDarkLevels) {
  Image image = flat(1, 3, 1, 0);
  image.data()[0] = 10, image.data()[1] = 127, image.data()[2] = 128;
  solarize_add(image, 200);
  EXPECT_EQ(image.data()[0], 210);
  EXPECT_EQ(image.data()[1], 255);  // not past the end
  EXPECT_EQ(image.data()[2], 128);
}

TEST(Augmentations, BlurReachesBeyondSmallImages) {
  Scratch scratch;
  for (const auto& [height, width] : {std::pair{1, 1}, {1, 4}, {3, 2}}) {
    Image image = flat(height, width, 3, 131);
    blur(image, 23, 5, scratch);
    EXPECT_TRUE(same(image, flat(height, width, 3, 131)));
  }
}

TEST(Augmentations, EraseFillsTheBoxOnly) {
  Random random(1);
  Image image = flat(8, 9, 4, 50);
  erase(image, {2, 3, 4, 5}, 200, random);
  for (int y = 0; y < 8; ++y)
    for (int i = 0; i < 36; ++i) {
      const bool inside = y >= 2 && y < 6 && i / 4 >= 3 && i / 4 < 8 && i % 4 != 3;
      ASSERT_EQ(image.row(y)[i], inside ? 200 : 50);
    }
  Image noise = flat(100, 100, 1, 0);
  erase(noise, {0, 0, 100, 100}, Erasing::kNoise, random);
  Numbers levels;
  for (int i = 0; i < 10000; ++i) levels.add(noise.data()[i]);
  expect_uniform(levels, 0, 255, 0.5);
}

TEST(Augmentations, MixingFollowsAnyPermutation) {
  const int n = 6, size = 3 * 4 * 5;
  const std::vector<int> partner{2, 0, 1, 3, 5, 4};  // cycles of three, one and two
  std::vector<float> before(n * size);
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(i);
  MixBuffers buffers;
  for (const Mix& mix : {Mix{Mix::Kind::mixup, 0.25}, Mix{Mix::Kind::cutmix, 0.5, {1, 2, 2, 3}}, Mix{}}) {
    std::vector<float> images = before;
    mix_images(mix, partner, 3, 4, 5, images, buffers);
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < size; ++k) {
        const float own = before[i * size + k];
        const float other = before[partner[i] * size + k];
        const int y = k / 5 % 4, x = k % 5;
        const bool pasted = mix.kind == Mix::Kind::cutmix && y >= 1 && y < 3 && x >= 2;
        const float expected = mix.kind == Mix::Kind::mixup ? 0.25f * own + 0.75f * other : pasted ? other : own;
        ASSERT_EQ(images[i * size + k], expected) << i << " " << k;
      }
  }
  EXPECT_NE(usage_error([&] {
              mix_images({}, std::vector<int>{1, 1, 0, 3, 4, 5}, 3, 4, 5, before, buffers);
            }).find("partner 1 is twice"),
            std::string::npos);
}

// The text form.

TEST(Augmentations, TextRoundTrips) {
  const char* lists[] = {
      "hflip,vflip(0.2),rotate(15),jitter(0.4,0.4,0.4,0.1),blur(23,0.1,2),gray(0.1),solarize(128,0.2),erase("
      "0.25),"
      "rand-m9-mstd0.5-inc1,trivial,augmix-m3-w3,auto-imagenet",
      "affine( 10 , 0.1,0.8,1.2,5,7), perspective, "
      "hue(0.1),sharpness(0,2,0.5),gamma(0.5,2),posterize(4),invert",
      "rand-m9-mstd0.5-inc1-n2-p0.5-w0,augmix-m3-w3-d-1-a1,auto-svhn,auto-cifar10,erase(1,0.1,0.2,0.5,2,17)",
      "brightness(0.1,2),contrast(0,1),saturation(1,1),equalize(),autocontrast(1),rand,augmix", ""};
  const Image before = make_image(20, 30, 3);
  Scratch scratch;
  for (const char* list : lists) {
    const Augmentations once = parse_augmentations(list), twice = parse_augmentations(to_text(once));
    EXPECT_EQ(to_text(once), to_text(twice));
    ASSERT_EQ(once.size(), twice.size());
    for (std::size_t i = 0; i < once.size(); ++i)
      for (std::uint64_t key = 0; key < 5; ++key)
        EXPECT_TRUE(same(changed(*once[i], before, key, scratch), changed(*twice[i], before, key, scratch)));
  }
  EXPECT_EQ(to_text(parse_augmentations("erase(0.25)")),
            "erase(0.25,0.02,0.3333333333333333,0.3,3.3333333333333335,noise)");
  EXPECT_EQ(to_text(parse_augmentations("rand-m9-mstd0.5-inc1-w0")), "rand-m9-mstd0.5-mmax10-inc1-n2-p0.5-w0");
  EXPECT_EQ(to_text(parse_augmentations("augmix-m3-w3-d-1-a1")), "augmix-m3-w3-d-1-a1-mstd101");
}

TEST(Augmentations, ErrorsNameTheArgumentItsValueAndItsRange) {
  const std::pair<const char*, const char*> cases[] = {
      {"hflp", "no 'hflp'; did you mean 'hflip'?"},
      {"auto-imagnet", "did you mean 'auto-imagenet'?"},
      {"xyzzyxyzzy", "known are trivial"},
      {"hflip(1.5)", "hflip: p is \"1.5\"; it is a number in [0, 1]"},
      {"hflip(nan)", "p is \"nan\""},
      {"rotate", "rotate: degrees is missing; it is rotate(degrees, [fill])"},
      {"rotate(-5)", "degrees is \"-5\"; it is a number in [0, 180]"},
      {"rotate(5,0,3)", "rotate has 3 arguments"},
      {"rotate(5,0.5)", "fill is \"0.5\"; it is a whole number in [0, 255]"},
      {"blur(4)", "size is \"4\"; it is an odd number in [1, 999]"},
      {"blur(3,2,1)", "low is 2, above high 1"},
      {"erase(0.5,0.5,0.1)", "area_low is 0.5, above area_high 0.1"},
      {"erase(0.5,0.1,0.2,1,1,x)", "[0, 255] or noise"},
      {"rotate(5", "not name(argument, ...)"},
      {"hflip,,vflip", "entry of the list is empty"},
      {"rand-q3", "knows no section \"q3\"; it has m, mstd"},
      {"rand-n99", "n (operations) is 99; it is a whole number in [1, 13]"},
      {"rand-m", "section \"m\""},
      {"rand-m9-n2-m8", "says m twice"},
      {"rand-", "section \"\""},
      {"augmix-w0", "w (width) is 0"},
      {"augmix-d-2", "d (depth, or -1) is -2"},
  };
  for (const auto& [list, part] : cases) {
    const std::string message = usage_error([list = list] { parse_augmentations(list); });
    EXPECT_NE(message.find(part), std::string::npos) << list << ": " << message;
  }
  MixOptions options;
  options.mixup_alpha = -1;
  EXPECT_NE(usage_error([&] { options.check(); }).find("mixup_alpha is -1"), std::string::npos);
}

// Results that must not change from one version to the next, as a checksum over three images and four keys.

const std::map<std::string, std::uint32_t> kGolden{
    {"hflip", 20493824u},
    {"vflip(0.5)", 20493824u},
    {"rotate(15)", 3392682744u},
    {"affine(20,0.1,0.8,1.2,10,7)", 103728867u},
    {"perspective(0.5,1)", 2500968809u},
    {"jitter(0.4,0.4,0.4,0.1)", 298236121u},
    {"brightness(0.5,1.5)", 3373864642u},
    {"contrast(0.5,1.5)", 2246473455u},
    {"saturation(0,2)", 311728504u},
    {"sharpness(0,2)", 1359482385u},
    {"gamma(0.5,2)", 1588432859u},
    {"hue(0.5)", 510693827u},
    {"gray(1)", 2581677056u},
    {"invert(1)", 1246536000u},
    {"solarize(128,1)", 227073472u},
    {"posterize(3,1)", 1435338240u},
    {"equalize(1)", 78318208u},
    {"autocontrast(1)", 218974848u},
    {"blur(23,0.1,2)", 3385157223u},
    {"erase(1)", 270632231u},
    {"erase(1,0.1,0.2,1,1,9)", 3548681356u},
    {"rand-m9-mstd0.5-inc1", 348537630u},
    {"rand-m7-n3-w0-p1", 1817907617u},
    {"trivial", 1296788142u},
    {"augmix-m3-w3", 3600388521u},
    {"auto-imagenet", 2384465007u},
    {"auto-cifar10", 3844509307u},
    {"auto-svhn", 353939642u},
};

TEST(Augmentations, GoldenImages) {
  Scratch scratch;
  for (const auto& [list, expected] : kGolden) {
    const Augmentations augmentations = parse_augmentations(list);
    std::uint32_t sum = 0;
    for (const int channels : {1, 3, 4})
      for (std::uint64_t key = 0; key < 4; ++key)
        sum = sum * 31 + checksum(changed(*augmentations.at(0), make_image(37, 53, channels), key, scratch));
    EXPECT_EQ(sum, expected) << "{\"" << list << "\", " << sum << "u},";
  }
}

TEST(Augmentations, GoldenMixes) {
  constexpr int kHeight = 37, kWidth = 53, kImages = 4, kSize = 3 * kHeight * kWidth;
  const std::vector<int> partner{3, 2, 1, 0};
  std::vector<float> before(kImages * kSize);
  Random levels(7);
  for (float& level : before) level = static_cast<float>(levels.below(256));
  MixBuffers buffers;
  for (const auto& [mixup, cutmix, expected] :
       {std::tuple{0.8, 0.0, 3965798322u}, {0.0, 1.0, 3217769404u}, {0.2, 0.5, 4237420462u}}) {
    std::uint32_t sum = 0;
    for (std::uint64_t key = 0; key < 4; ++key) {
      Random random(11, key);
      const Mix mix = draw_mix({.mixup_alpha = mixup, .cutmix_alpha = cutmix}, kHeight, kWidth, random);
      std::vector<float> mixed = before;
      mix_images(mix, partner, 3, kHeight, kWidth, mixed, buffers);
      Image image;
      image.reshape({kImages * kHeight, kWidth, 3});
      // Halves would be rounded by the last bit of lambda's logarithms.
      std::transform(mixed.begin(), mixed.end(), image.data(),
                     [](float level) { return static_cast<std::uint8_t>(level + 0.37f); });
      sum = sum * 31 + checksum(image);
    }
    EXPECT_EQ(sum, expected) << mixup << " " << cutmix;
  }
}

TEST(Augmentations, EveryChangeTakesEveryImageAndKeepsItsSize) {
  Scratch scratch;
  for (const auto& [list, expected] : kGolden) {
    const Augmentations augmentations = parse_augmentations(list);
    for (const int channels : {1, 3, 4})
      for (const auto& [height, width] : {std::pair{1, 1}, {1, 9}, {8, 1}, {2, 3}, {31, 17}})
        for (std::uint64_t key = 0; key < 20; ++key) {
          const Image result = changed(*augmentations.at(0), make_image(height, width, channels), key, scratch);
          EXPECT_EQ(result.size(), (ImageSize{height, width, channels})) << list;
        }
  }
}

TEST(Augmentations, WarmBuffersAllocateNothing) {
  Scratch scratch;
  for (const auto& [list, expected] : kGolden) {
    const Augmentations augmentations = parse_augmentations(list);
    Image image = make_image(37, 53, 3);
    std::size_t before = 0;
    for (std::uint64_t key = 0; key < 200; ++key) {
      if (key == 100) before = allocations;
      Random random(11, key);
      augmentations[0]->apply(image, scratch, random);
    }
    EXPECT_EQ(allocations, before) << list;
  }
}

// Distributions.

TEST(Augmentations, ProbabilitiesHold) {
  Scratch scratch;
  // Each of these changes the image for certain when it happens.
  const std::pair<const char*, double> cases[] = {{"hflip", 0.5},
                                                  {"vflip(0.2)", 0.2},
                                                  {"gray", 0.1},
                                                  {"invert(0.3)", 0.3},
                                                  {"solarize(9,0.2)", 0.2},
                                                  {"posterize(1,0.7)", 0.7},
                                                  {"equalize(0.4)", 0.4},
                                                  {"autocontrast(0.6)", 0.6},
                                                  {"blur(3,1,1,0.3)", 0.3},
                                                  {"sharpness(0,0,0.2)", 0.2},
                                                  {"gamma(3,3,0.4)", 0.4},
                                                  {"brightness(0,0,0.1)", 0.1},
                                                  {"contrast(0,0,0.9)", 0.9},
                                                  {"saturation(0,0,0.15)", 0.15},
                                                  {"erase(0.25,0.1,0.3,1,1,255)", 0.25},
                                                  {"hflip(0)", 0},
                                                  {"hflip(1)", 1}};
  Image before = make_image(20, 21, 3);
  for (std::size_t i = 0; i < before.size().bytes(); ++i)  // leave room for autocontrast
    before.data()[i] = static_cast<std::uint8_t>(20 + before.data()[i] / 2);
  for (const auto& [list, probability] : cases) {
    const Augmentations augmentations = parse_augmentations(list);
    int happened = 0;
    for (int i = 0; i < kDraws; ++i)
      happened += !same(changed(*augmentations[0], before, static_cast<std::uint64_t>(i), scratch), before);
    SCOPED_TRACE(list);
    expect_frequency(happened, kDraws, probability);
  }
}

TEST(Augmentations, JitterAndFactorsAreUniform) {
  Scratch scratch;
  const Image gray = flat(1, 1, 3, 100);
  for (const char* list : {"jitter(0.4,0,0,0)", "brightness(0.6,1.4)"}) {
    const Augmentations augmentations = parse_augmentations(list);
    Numbers levels;
    for (int i = 0; i < kDraws; ++i)
      levels.add(changed(*augmentations[0], gray, static_cast<std::uint64_t>(i), scratch).data()[0] + 0.5);
    expect_uniform(levels, 60, 140, 0.5);
  }
  // On two levels about their mean, contrast moves the upper one; a hue turns the strength of green.
  Image pair = flat(1, 2, 1, 60);
  pair.data()[1] = 140;
  const Augmentations contrast = parse_augmentations("jitter(0,0.5,0,0)");
  Numbers levels;
  for (int i = 0; i < kDraws; ++i)
    levels.add(changed(*contrast[0], pair, static_cast<std::uint64_t>(i), scratch).data()[1] + 0.5);
  expect_uniform(levels, 120, 160, 0.5);
  Image red = flat(1, 1, 3, 0);
  red.data()[0] = 252;
  const Augmentations hue = parse_augmentations("hue(0.1)");
  Numbers turned;
  for (int i = 0; i < kDraws; ++i) {
    const Image result = changed(*hue[0], red, static_cast<std::uint64_t>(i), scratch);
    turned.add(result.data()[1] - result.data()[2]);  // green for a positive turn, blue for a negative one
  }
  expect_uniform(turned, -0.1 * 6 * 252, 0.1 * 6 * 252, 7);
}

TEST(Augmentations, AffineMapsAreUniform) {
  Scratch scratch;
  Image ramp = flat(101, 101, 1, 0);
  for (int y = 0; y < 101; ++y)
    for (int x = 0; x < 101; ++x) ramp.row(y)[x] = static_cast<std::uint8_t>(2 * x);
  const Augmentations rotate = parse_augmentations("rotate(30)");
  Numbers degrees;
  for (int i = 0; i < 2000; ++i) {  // a whole image each time
    // 40 pixels above the centre the ramp shows the sine of the angle.
    const double level = changed(*rotate[0], ramp, static_cast<std::uint64_t>(i), scratch).row(10)[50] + 0.5;
    degrees.add(std::asin((level / 2 - 50) / 40) * 180 / 3.14159265358979);
  }
  expect_uniform(degrees, -30, 30, 0.6);
  const Augmentations affine = parse_augmentations("affine(0,0.2)");
  Numbers moved;
  for (int i = 0; i < 2000; ++i)
    moved.add(50 - changed(*affine[0], ramp, static_cast<std::uint64_t>(i), scratch).row(50)[50] / 2.0);
  expect_uniform(moved, -20.2, 20.2, 0.5);
  const Augmentations scaled = parse_augmentations("affine(0,0,0.8,1.2)"),
                      sheared = parse_augmentations("affine(0,0,1,1,20)");
  Numbers scales, angles;
  for (int i = 0; i < 2000; ++i) {
    const auto key = static_cast<std::uint64_t>(i);
    // 40 pixels right of the centre lies what was 40 / scale from it; 40 below it what was 40 times the tangent aside.
    scales.add(40 / (changed(*scaled[0], ramp, key, scratch).row(50)[90] / 2.0 - 50));
    angles.add(std::atan((changed(*sheared[0], ramp, key, scratch).row(90)[50] / 2.0 - 50) / 40) * 180 /
               3.14159265358979);
  }
  expect_uniform(scales, 0.8, 1.2, 0.02);
  expect_uniform(angles, -20, 20, 0.8);
}

// What the four corners of an image show moves to where perspective draws them: each inward by whole pixels, up to a
// quarter of the side, alike and apart from each other.
TEST(Augmentations, PerspectiveDrawsEachCornerUniformly) {
  constexpr int kSide = 80, kMost = 20, kImages = 2000;
  const Augmentations perspective = parse_augmentations("perspective(0.5,1)");
  const Image white = flat(kSide, kSide, 1, 255);
  Scratch scratch;
  std::array<Numbers, 4> across, down;
  for (std::uint64_t i = 0; i < kImages; ++i) {
    const Image result = changed(*perspective[0], white, i, scratch);
    // Of a white image on black the farthest white pixel in a diagonal's direction is the drawn corner, as no edge
    // leans by more than 20 in 40; the threshold and the border's half pixel leave a slack.
    const std::array<std::array<int, 2>, 4> outward{{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}}};
    for (std::size_t corner = 0; corner < 4; ++corner) {
      int best = std::numeric_limits<int>::min(), x_at = 0, y_at = 0;
      for (int y = 0; y < kSide; ++y)
        for (int x = 0; x < kSide; ++x) {
          const int far = outward[corner][0] * x + outward[corner][1] * y;
          if (result.row(y)[x] >= 128 && far > best) best = far, x_at = x, y_at = y;
        }
      across[corner].add(outward[corner][0] < 0 ? x_at : kSide - 1 - x_at);
      down[corner].add(outward[corner][1] < 0 ? y_at : kSide - 1 - y_at);
    }
  }
  for (std::size_t corner = 0; corner < 4; ++corner) {
    expect_uniform(across[corner], 0, kMost, 2);
    expect_uniform(down[corner], 0, kMost, 2);
  }
  const Augmentations half = parse_augmentations("perspective(0.5,0.5)");
  int happened = 0;
  for (std::uint64_t i = 0; i < kImages; ++i) happened += !same(changed(*half[0], white, i, scratch), white);
  expect_frequency(happened, kImages, 0.5);
}

TEST(Augmentations, ErasedPartsFollowTheirRanges) {
  const Erasing erasing{0.25, {0.05, 0.2}, {0.5, 2}, 0};
  int happened = 0;
  Numbers area, log_ratio, top;
  for (int i = 0; i < 4 * kDraws; ++i) {
    Random random(5, static_cast<std::uint64_t>(i));
    const Box box = draw_erased(erasing, 1000, 1000, random);
    if (box.height == 0) continue;
    ++happened;
    area.add(box.height * box.width / 1e6);
    log_ratio.add(std::log(static_cast<double>(box.height) / box.width));
    top.add(static_cast<double>(box.top) / (1000 - box.height));
    ASSERT_LE(box.top + box.height, 1000);
    ASSERT_LE(box.left + box.width, 1000);
  }
  expect_frequency(happened, 4 * kDraws, 0.25);
  expect_uniform(area, 0.05, 0.2, 0.001);
  expect_uniform(log_ratio, std::log(0.5), std::log(2), 0.01);
  expect_uniform(top, 0, 1);
}

TEST(Augmentations, BetaGammaAndDirichletHaveTheirMoments) {
  Random random(9);
  for (const double alpha : {0.01, 0.2, 1.0, 4.0}) {
    Numbers gamma, beta, first;
    for (int i = 0; i < kDraws; ++i) {
      gamma.add(std::exp(log_gamma_variate(alpha, random)));
      beta.add(beta_variate(alpha, random));
      std::array<double, 3> weights;
      dirichlet_variate(alpha, random, weights);
      ASSERT_NEAR(weights[0] + weights[1] + weights[2], 1, 1e-12);
      first.add(weights[0]);
    }
    EXPECT_NEAR(gamma.mean(), alpha, kSigmas * std::sqrt(alpha / kDraws));
    ASSERT_TRUE(beta.low() >= 0 && beta.high() <= 1);
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(beta.mean(), 0.5, kSigmas * std::sqrt(variance / kDraws));
    beta.mean_ = 0.5;
    // The std of (x - mean)^2 is at most a quarter, the square of half its range.
    EXPECT_NEAR(beta.variance(), variance, kSigmas * 0.125 / std::sqrt(kDraws));
    const double third = 2.0 / 9 / (3 * alpha + 1);
    EXPECT_NEAR(first.mean(), 1.0 / 3, kSigmas * std::sqrt(third / kDraws));
  }
}

TEST(Augmentations, MixDrawsItsMethodsAndLambda) {
  MixOptions options;
  options.probability = 0.8;
  options.switch_probability = 0.3;
  int none = 0, cut = 0;
  Numbers lambda;
  for (int i = 0; i < kDraws; ++i) {
    Random random(3, static_cast<std::uint64_t>(i));
    const Mix mix = draw_mix(options, 30, 40, random);
    none += mix.kind == Mix::Kind::none;
    cut += mix.kind == Mix::Kind::cutmix;
    if (mix.kind == Mix::Kind::mixup) lambda.add(mix.lambda);
    if (mix.kind != Mix::Kind::cutmix) continue;
    ASSERT_NEAR(mix.lambda, 1 - mix.box.height * mix.box.width / 1200.0, 1e-12);
    ASSERT_TRUE(mix.box.top >= 0 && mix.box.left >= 0 && mix.box.top + mix.box.height <= 30 &&
                mix.box.left + mix.box.width <= 40);
  }
  expect_frequency(none, kDraws, 0.2);
  expect_frequency(cut, kDraws, 0.8 * 0.3);
  EXPECT_NEAR(lambda.mean(), 0.5, kSigmas * std::sqrt(1 / (4 * 2.6) / static_cast<double>(lambda.list.size())));
  options.mixup_alpha = options.cutmix_alpha = 0;
  Random random(1);
  EXPECT_EQ(draw_mix(options, 30, 40, random).kind, Mix::Kind::none);
}

/// How often each operation is drawn, and the values of one of them.
struct Census {
  std::map<Operation, Numbers> values;
  int steps = 0;
  void add(const Steps& drawn) {
    steps += drawn.count;
    for (int i = 0; i < drawn.count; ++i) add(drawn.list[i]);
  }
  void add(const Step& step) { values[step.operation].add(step.value); }
  int count(Operation operation) { return static_cast<int>(values[operation].list.size()); }
};

TEST(Augmentations, RandAugmentChoosesAndDrawsAsItsOptionsSay) {
  Census census;
  const RandAugment options = parse_rand_augment("rand-m9-mstd0.5-inc1-n2-p0.5");
  Random random(21);
  for (int i = 0; i < kDraws; ++i) census.add(draw_rand_augment(options, 100, 200, random));
  expect_frequency(census.steps, 2 * kDraws, 0.5);
  for (const Operation operation : {Operation::autocontrast, Operation::rotate, Operation::translate_y})
    expect_frequency(census.count(operation), 2 * kDraws, 0.5 / 15);
  Numbers size;
  int negative = 0;
  for (const double value : census.values[Operation::rotate].list) size.add(std::abs(value)), negative += value < 0;
  // Level 9 of 10 is 27 degrees; the normal distribution is cut at level 10, 2 sigmas above.
  EXPECT_NEAR(size.mean(), 27, kSigmas * 1.5 / std::sqrt(static_cast<double>(size.list.size())) + 0.03);
  EXPECT_LE(size.high(), 30);
  expect_frequency(negative, static_cast<int>(size.list.size()), 0.5);
  EXPECT_LE(census.values[Operation::translate_x].high(), 90);
  EXPECT_GT(census.values[Operation::translate_x].high(), 80);
  EXPECT_LE(census.values[Operation::translate_y].high(), 45);

  Census uniform;
  const RandAugment wide = parse_rand_augment("rand-m10-mstd101-n1-p1");
  for (int i = 0; i < 3 * kDraws; ++i) uniform.add(draw_rand_augment(wide, 100, 100, random));
  expect_uniform(uniform.values[Operation::rotate], -30, 30);
  expect_uniform(uniform.values[Operation::brightness], 0.1, 1.9);
  expect_uniform(uniform.values[Operation::solarize], 0, 255, 0.5);

  Census weighted;
  const RandAugment one = parse_rand_augment("rand-m5-n1-p1-w0");
  for (int i = 0; i < kDraws; ++i) weighted.add(draw_rand_augment(one, 100, 100, random));
  const double sum = 0.3 + 0.4 + 0.2 + 3 * 0.025 + 5 * 0.005;
  expect_frequency(weighted.count(Operation::rotate), kDraws, 0.3 / sum);
  expect_frequency(weighted.count(Operation::shear_x), kDraws, 0.2 / sum);
  expect_frequency(weighted.count(Operation::equalize), kDraws, 0.005 / sum);
  EXPECT_EQ(weighted.count(Operation::invert), 0);
  for (int i = 0; i < 100; ++i) {  // weights choose without repetition
    const Steps steps = draw_rand_augment(parse_rand_augment("rand-n13-p1-w0"), 100, 100, random);
    std::map<Operation, int> seen;
    for (int k = 0; k < steps.count; ++k) ASSERT_EQ(seen[steps.list[k].operation]++, 0);
    ASSERT_EQ(steps.count, 13);
  }
}

TEST(Augmentations, RandAugmentLevelsGrowWithIncreasing) {
  const auto value_of = [](const std::string& text, Operation operation) {
    Random random(2);
    for (;;)
      for (const Step& step : draw_rand_augment(parse_rand_augment(text), 100, 100, random).list)
        if (step.operation == operation) return step.value;
  };
  EXPECT_EQ(value_of("rand-m10-p1", Operation::posterize), 4);
  EXPECT_EQ(value_of("rand-m10-p1-inc1", Operation::posterize), 0);
  EXPECT_EQ(value_of("rand-m0-p1-inc1", Operation::posterize), 4);
  EXPECT_EQ(value_of("rand-m5-p1", Operation::solarize), 128);
  EXPECT_EQ(value_of("rand-m10-p1-inc1", Operation::solarize), 0);
  EXPECT_EQ(value_of("rand-m10-p1", Operation::solarize_add), 110);
  EXPECT_NEAR(std::abs(value_of("rand-m5-p1-inc1", Operation::color) - 1), 0.45, 1e-12);
  EXPECT_NEAR(value_of("rand-m10-p1", Operation::color), 1.9, 1e-12);
}

TEST(Augmentations, TrivialAugmentDrawsItsWideRanges) {
  Census census;
  Random random(22);
  for (int i = 0; i < 3 * kDraws; ++i) census.add(draw_trivial_augment(random));
  for (auto& [operation, values] : census.values) {
    SCOPED_TRACE(static_cast<int>(operation));
    expect_frequency(static_cast<double>(values.list.size()), 3 * kDraws, 1.0 / 14);
  }
  EXPECT_EQ(census.values.size(), 14u);
  // 31 steps are a little wider than a uniform distribution; the slack covers it.
  expect_uniform(census.values[Operation::rotate], -135, 135, 1);
  expect_uniform(census.values[Operation::shear_x], -0.99, 0.99, 0.01);
  expect_uniform(census.values[Operation::translate_y], -32, 32, 0.3);
  expect_uniform(census.values[Operation::contrast], 0.01, 1.99, 0.01);
  expect_uniform(census.values[Operation::solarize], 0, 255, 1);
  EXPECT_EQ(census.values[Operation::posterize].low(), 2);
  EXPECT_EQ(census.values[Operation::posterize].high(), 8);
}

TEST(Augmentations, AugMixStaysBetweenItsChains) {
  Scratch scratch;
  const Image before = make_image(12, 12, 3);
  // Without magnitude, operations that have one leave the image (posterize keeps 4 bits): the mean of many
  // results stays near it, and the image itself is always part of them.
  const Augmentations augmentations = parse_augmentations("augmix-m0-w1-d1-a1");
  Numbers shares;
  for (int i = 0; i < kDraws; ++i) {
    const Image result = changed(*augmentations[0], flat(1, 1, 1, 100), static_cast<std::uint64_t>(i), scratch);
    shares.add(result.data()[0]);
  }
  // Only posterize (1 in 13) changes a single gray pixel, from 100 to 96; half of that on average.
  EXPECT_GE(shares.low(), 96);
  EXPECT_EQ(shares.high(), 100);
  EXPECT_NEAR(shares.mean(), 100 - 2.0 / 13, kSigmas * 0.7 / std::sqrt(kDraws));
  EXPECT_FALSE(same(changed(*parse_augmentations("augmix-m10")[0], before, 1, scratch), before));
}

}  // namespace
}  // namespace neurim
