// Resizing, normalising and random changes of images.
#include "neurim/data/transform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "tests/images.h"

namespace neurim {
namespace {

Image pattern(int height, int width) {
  return image_of(height, width, 3, [](int y, int x, int c) {
    return static_cast<std::uint8_t>(x * x * 7 + y * 13 * (c + 1) + x * y * 3);
  });
}

Image resized(const Image& in, int height, int width, Interpolation interpolation = Interpolation::bilinear) {
  Resampler resampler(interpolation);
  Image out;
  out.reshape({height, width, in.channels()});
  resampler.resize(in, {0, 0, in.height(), in.width()}, height, width, {0, 0, height, width}, out);
  return out;
}

TEST(Resample, AgreesWithPillow) {
  // Image.resize(…, BILINEAR) of Pillow on the same pattern.
  expect_near(levels(resized(pattern(17, 13), 5, 4)),
              {49,  69,  87,  127, 126, 132, 126, 136, 139, 127, 131, 127, 100, 144, 148, 126, 120, 132, 122, 120,
               135, 124, 118, 134, 138, 138, 113, 125, 133, 130, 128, 133, 140, 130, 129, 138, 143, 102, 144, 129,
               125, 117, 130, 130, 134, 122, 124, 133, 140, 146, 126, 126, 125, 118, 128, 124, 124, 110, 130, 125},
              1);
  expect_near(
      levels(resized(pattern(5, 6), 9, 11)),
      {0,   0,   0,   2,   2,   2,   6,   6,   6,   16,  16,  16,  27,  27,  27,  46,  46,  46,  65,  65,  65,  92,
       92,  92,  121, 121, 121, 155, 155, 155, 175, 175, 175, 4,   9,   13,  7,   11,  15,  11,  16,  20,  22,  26,
       30,  33,  38,  42,  53,  57,  61,  72,  77,  81,  100, 104, 109, 129, 134, 138, 164, 168, 173, 184, 189, 193,
       12,  23,  35,  14,  26,  38,  20,  32,  43,  31,  43,  54,  44,  55,  67,  64,  75,  87,  85,  96,  108, 113,
       125, 136, 143, 155, 166, 179, 191, 202, 200, 211, 223, 19,  38,  56,  22,  41,  60,  29,  47,  66,  41,  59,
       78,  54,  73,  92,  75,  94,  113, 97,  116, 134, 126, 145, 164, 157, 160, 179, 194, 135, 154, 215, 120, 139,
       26,  52,  78,  30,  56,  82,  37,  63,  89,  50,  76,  102, 65,  91,  117, 87,  113, 139, 109, 135, 161, 139,
       165, 191, 171, 162, 188, 209, 60,  86,  231, 1,   27,  33,  66,  100, 38,  71,  104, 46,  79,  112, 59,  93,
       126, 76,  109, 142, 98,  131, 165, 122, 155, 182, 152, 186, 135, 166, 184, 94,  127, 83,  70,  104, 24,  57,
       40,  81,  121, 46,  86,  126, 55,  95,  136, 69,  109, 150, 86,  127, 167, 109, 150, 190, 134, 174, 203, 166,
       189, 96,  165, 181, 25,  65,  96,  64,  6,   47,  87,  48,  95,  143, 53,  101, 149, 63,  111, 158, 79,  127,
       174, 97,  144, 192, 121, 169, 216, 147, 186, 230, 179, 126, 123, 179, 79,  53,  80,  73,  93,  22,  69,  117,
       52,  104, 156, 58,  110, 162, 68,  120, 172, 85,  137, 189, 103, 155, 207, 128, 180, 232, 154, 194, 246, 187,
       88,  140, 187, 18,  70,  89,  59,  111, 31,  83,  135},
      1);
}

constexpr Interpolation kInterpolations[] = {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic};

TEST(Resample, AWindowIsAPartOfTheWhole) {
  for (const Interpolation interpolation : kInterpolations)
    for (const auto& [height, width] : {std::pair{17, 23}, {90, 70}}) {
      const Image in = pattern(40, 31), whole = resized(in, height, width, interpolation);
      Image part;
      part.reshape({9, 12, 3});
      Resampler resampler(interpolation);
      resampler.resize(in, {0, 0, 40, 31}, height, width, {3, 5, 6, 8}, part, 2, 1);
      for (int y = 0; y < 6; ++y)
        for (int i = 0; i < 8 * 3; ++i) ASSERT_EQ(part.row(2 + y)[3 + i], whole.row(3 + y)[15 + i]);
    }
}

TEST(Resample, NearestKeepsLevelsAndBicubicSharpensEdges) {
  const Image edge = image_of(8, 8, 1, [](int, int x, int) { return static_cast<std::uint8_t>(x < 4 ? 100 : 150); });
  const auto row = [&](Interpolation interpolation) {
    const std::vector<int> all = levels(resized(edge, 16, 16, interpolation));
    return std::vector<int>(all.begin() + 16 * 5, all.begin() + 16 * 6);
  };
  EXPECT_EQ(row(Interpolation::nearest),
            (std::vector<int>{100, 100, 100, 100, 100, 100, 100, 100, 150, 150, 150, 150, 150, 150, 150, 150}));
  const std::vector<int> cubic = row(Interpolation::bicubic);
  EXPECT_LT(*std::min_element(cubic.begin(), cubic.end()), 100);
  EXPECT_GT(*std::max_element(cubic.begin(), cubic.end()), 150);
  // What overshoots black and white is cut.
  const Image extremes = image_of(
      8, 8, 3, [](int y, int x, int) { return static_cast<std::uint8_t>((x < 4) == (y < 4) ? 0 : 255); });
  const Image large = resized(extremes, 24, 24, Interpolation::bicubic);
  EXPECT_EQ(large.row(2)[3 * 10], 0);
  EXPECT_EQ(large.row(2)[3 * 13], 255);
}

std::vector<float> transformed(const Image& image, const Preprocess& preprocess) {
  Transform transform(preprocess);
  Decoder decoder;
  decoder.open({std::as_bytes(std::span(image.data(), image.size().bytes())), image.size()});
  std::vector<float> out(preprocess.size().values());
  transform(decoder, out.data());
  return out;
}

TEST(Preprocess, NormalisesToPlanes) {
  const Image image = pattern(4, 5);
  const std::vector<float> out = transformed(image,
                                             {.height = 4, .width = 5, .mean = {0.1, 0.2, 0.3}, .std = {0.5, 0.25, 2}});
  const double mean[] = {0.1, 0.2, 0.3}, std[] = {0.5, 0.25, 2};
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 20; ++i)
      EXPECT_NEAR(out[c * 20 + i], (image.data()[3 * i + c] / 255. - mean[c]) / std[c], 1e-5);
}

TEST(Preprocess, ChannelsAreConverted) {
  const std::vector<float> gray = transformed(plain(2, 2, {255, 0, 0}), {.channels = 1, .height = 2, .width = 2});
  EXPECT_NEAR(gray[0], 76 / 255., 1e-6);
  const std::vector<float> rgb = transformed(plain(2, 2, {51}), {.channels = 3, .height = 2, .width = 2});
  for (const float value : rgb) EXPECT_NEAR(value, 0.2, 1e-6);
}

// Gray, gray and alpha, colour, colour and alpha, each to each.
TEST(Preprocess, AlphaIsKeptShownOrMadeUp) {
  const std::vector<std::vector<std::uint8_t>> pixels{{100}, {100, 51}, {200, 100, 50}, {200, 100, 50, 51}};
  const auto seen = [&](std::size_t from, int channels) {
    const Preprocess preprocess{
        .channels = channels, .height = 2, .width = 2, .std = {1 / 255.}, .decode = {.background = {0, 200, 250}}};
    const std::vector<float> out = transformed(plain(2, 2, pixels[from]), preprocess);
    std::vector<int> levels;
    for (std::size_t c = 0; c < out.size(); c += 4) levels.push_back(static_cast<int>(std::lround(out[c])));
    return levels;
  };
  using Levels = std::vector<int>;
  EXPECT_EQ(seen(0, 2), (Levels{100, 255}));
  EXPECT_EQ(seen(0, 4), (Levels{100, 100, 100, 255}));
  EXPECT_EQ(seen(1, 2), (Levels{100, 51}));
  EXPECT_EQ(seen(1, 3), (Levels{20, 180, 220}));
  EXPECT_EQ(seen(1, 1), (Levels{137}));  // the luma of that
  EXPECT_EQ(seen(1, 4), (Levels{100, 100, 100, 51}));
  EXPECT_EQ(seen(2, 2), (Levels{124, 255}));
  EXPECT_EQ(seen(2, 4), (Levels{200, 100, 50, 255}));
  EXPECT_EQ(seen(3, 3), (Levels{40, 180, 210}));
  EXPECT_EQ(seen(3, 1), (Levels{142}));
  EXPECT_EQ(seen(3, 2), (Levels{124, 51}));
  EXPECT_EQ(seen(3, 4), (Levels{200, 100, 50, 51}));
}

// Each channel of many is what it is alone.
TEST(Preprocess, ManyChannelsAreResizedMovedAndNormalisedOneByOne) {
  const auto level = [](int y, int x, int c) {
    return static_cast<std::uint8_t>(x * x * 7 + y * 13 * (c + 1) + x * y * 3);
  };
  for (const int channels : {2, 4, 5, 6, 9}) {
    const Image many = image_of(23, 31, channels, level);
    for (const Interpolation interpolation : kInterpolations)
      for (const ResizeMode mode : {ResizeMode::crop, ResizeMode::letterbox}) {
        Preprocess preprocess{
            .channels = channels, .height = 12, .width = 10, .resize = mode, .interpolation = interpolation};
        const Augment augment{.augmentations = parse_augmentations("hflip(1),rotate(20),erase(1,0.1,0.2,1,1,7)"),
                              .crop_padding = 2,
                              .hflip = 1};
        const auto run = [&](const Image& image) {
          Transform transform(preprocess, augment);
          Decoder decoder;
          decoder.open({std::as_bytes(std::span(image.data(), image.size().bytes())), image.size()});
          std::vector<float> out(preprocess.size().bytes());
          Random random(5);
          transform.finish(transform.fit(decoder, random).data(), random, out.data());
          return out;
        };
        const std::vector<float> together = run(many);
        preprocess.channels = 1;
        const int opaque = channels == 2 || channels == 4 ? channels - 1 : channels;  // alpha is not erased
        for (int c = 0; c < opaque; ++c) {
          const std::vector<float> alone = run(image_of(23, 31, 1, [&](int y, int x, int) { return level(y, x, c); }));
          for (std::size_t i = 0; i < 120; ++i) ASSERT_EQ(together[static_cast<std::size_t>(c) * 120 + i], alone[i]);
        }
      }
  }
}

Image wide_image(int height, int width, int channels, const std::function<std::uint16_t(int y, int x, int c)>& level) {
  Image image;
  image.reshape({height, width, channels, 16});
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) image.values<std::uint16_t>(y)[x * channels + c] = level(y, x, c);
  return image;
}

// A ramp of 64 steps within one level of 8 bits reaches the model's input, through each way of resizing.
TEST(Preprocess, DetailBelowOneLevelOf8BitsSurvives16) {
  const Image ramp = wide_image(16, 64, 1, [](int, int x, int) { return static_cast<std::uint16_t>(20000 + 2 * x); });
  for (const int channels : {1, 3, 4})
    for (const Interpolation interpolation : kInterpolations)
      for (const auto& [height, width] : {std::pair{16, 64}, {8, 32}, {20, 70}}) {
        Preprocess preprocess{.channels = channels,
                              .bits = 16,
                              .height = height,
                              .width = width,
                              .resize = ResizeMode::squash,
                              .interpolation = interpolation};
        const std::vector<float> fine = transformed(ramp, preprocess);
        preprocess.bits = 8;
        const std::vector<float> coarse = transformed(ramp, preprocess);
        const auto row = [&](const std::vector<float>& out) {
          return std::set<float>(out.begin(), out.begin() + width);
        };
        EXPECT_GE(row(fine).size(), 30u);
        EXPECT_EQ(row(coarse).size(), 1u);
        for (std::size_t x = 0; x < static_cast<std::size_t>(width); ++x)
          EXPECT_NEAR(fine[x] * 65535, 20000 + 2 * ((static_cast<double>(x) + 0.5) * 64 / width - 0.5), 2.1);
      }
}

// An image whose pixels are the means of 4 x 4 gives what the full one does, for a part that begins and ends anywhere.
TEST(Resample, APartMayBeginAndEndWithinAPixel) {
  constexpr int kReduction = 4;
  constexpr double kStep = 100;  // from one pixel of the full image to the next
  for (const bool down : {false, true}) {
    const auto ramp = [&](int y, int x, int) { return static_cast<std::uint16_t>(kStep * (down ? y : x)); };
    const auto means = [&](int y, int x, int) {
      return static_cast<std::uint16_t>(kStep * (kReduction * (down ? y : x) + 1.5));
    };
    const Image full = wide_image(160, 160, 1, ramp);
    Image small = wide_image(40, 40, 1, means);
    for (const Interpolation interpolation : kInterpolations)
      for (const Box& part : {Box{0, 0, 160, 160}, {13, 27, 131, 129}, {2, 1, 90, 158}, {75, 67, 84, 93}}) {
        Image exact, found, again;
        for (Image* out : {&exact, &found, &again}) out->reshape({20, 21, 1, 16});
        Resampler resampler(interpolation);
        resampler.resize(full, part, 20, 21, exact.box(), exact);
        resampler.resize(small, part, 20, 21, found.box(), found, 0, 0, kReduction);
        double sum = 0, most = 0;
        for (int i = 0; i < 20 * 21; ++i) {
          const double off = (found.values<std::uint16_t>()[i] - exact.values<std::uint16_t>()[i]) / kStep;
          sum += off, most = std::max(most, std::abs(off));
        }
        const bool nearest = interpolation == Interpolation::nearest;
        EXPECT_NEAR(sum / (20 * 21), 0, nearest ? kReduction / 2 : 0.05) << down << ", " << part.top;
        EXPECT_LE(most, nearest ? kReduction / 2 : 1) << down << ", " << part.top;
        // What lies outside has no influence.
        const Box pixels = reduced(part, kReduction);
        const Image other = wide_image(40, 40, 1, [&](int y, int x, int c) {
          const bool inside = y >= pixels.top && y < pixels.top + pixels.height && x >= pixels.left &&
                              x < pixels.left + pixels.width;
          return inside ? means(y, x, c) : std::uint16_t{65535};
        });
        resampler.resize(other, part, 20, 21, again.box(), again, 0, 0, kReduction);
        EXPECT_EQ(levels(again), levels(found));
        resampler.resize(small, pixels, 20, 21, exact.box(), exact);
        const Box aligned{pixels.top * kReduction, pixels.left * kReduction, pixels.height * kReduction,
                          pixels.width * kReduction};
        resampler.resize(small, aligned, 20, 21, found.box(), found, 0, 0, kReduction);
        EXPECT_EQ(levels(found), levels(exact));
      }
  }
}

// Images of 8 bits are the same numbers either way, up to what resizing rounds.
TEST(Preprocess, EightBitsInSixteenAreTheSame) {
  const Image in = pattern(20, 30);
  const Preprocess eight{.height = 20, .width = 30}, sixteen{.bits = 16, .height = 20, .width = 30};
  const std::vector<float> a = transformed(in, eight), b = transformed(in, sixteen);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6);
  const std::vector<float> small = transformed(in, {.height = 8, .width = 12}),
                           finer = transformed(in, {.bits = 16, .height = 8, .width = 12});
  for (std::size_t i = 0; i < small.size(); ++i) ASSERT_NEAR(small[i], finer[i], 0.501 / 255);
}

TEST(Preprocess, ChangesOf16BitsMoveWholeLevels) {
  const Preprocess preprocess{.channels = 3, .bits = 16, .height = 9, .width = 11};
  const auto level = [](int y, int x, int c) { return static_cast<std::uint8_t>(20 * y + 7 * x + 50 * c); };
  const Image narrow = image_of(9, 11, 3, level);
  const Image wide = wide_image(9, 11, 3,
                                [&](int y, int x, int c) { return static_cast<std::uint16_t>(257 * level(y, x, c)); });
  for (const char* list : {"hflip(1)", "vflip(1)", "erase(1,0.1,0.3,0.5,2)"}) {
    const auto run = [&](const Image& in, int bits) {
      Preprocess of = preprocess;
      of.bits = bits;
      Transform transform(of, {.augmentations = parse_augmentations(list), .crop_padding = 3, .hflip = 1});
      std::vector<float> out(of.size().values());
      Random random(3);
      transform.finish(in.data(), random, out.data());
      return out;
    };
    const std::vector<float> a = run(narrow, 8), b = run(wide, 16);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6) << list;
  }
  expect_words(error_of([&] { Transform(preprocess, {.augmentations = parse_augmentations("rotate(9),trivial")}); },
                        Fault::usage),
               {"trivial", "8 bits", "bits=8"});
}

TEST(Preprocess, WhatCannotBeConvertedIsRefused) {
  const auto message = [](int from, int to) {
    return error_of([&] {
      transformed(plain(4, 4, std::vector<std::uint8_t>(static_cast<std::size_t>(from))),
                  {.channels = to, .height = 2, .width = 2});
    });
  };
  expect_words(message(6, 3), {"has 6 channels", "takes 3", "in_chans=6"});
  expect_words(message(3, 6), {"has 3 channels", "takes 6"});
  for (const int channels : {2, 6})
    expect_words(
        error_of([&] { Transform({.channels = channels}, {.augmentations = parse_augmentations("hflip,gray")}); },
                 Fault::usage),
        {"gray(", "1, 3 or 4 channels", text("not of ", channels)});
}

TEST(Preprocess, ResizeModes) {
  // 40 x 20 with a bright left half.
  const Image wide = image_of(20, 40, 1, [](int, int x, int) { return static_cast<std::uint8_t>(x < 20 ? 255 : 0); });
  const auto row = [&](ResizeMode mode, double crop_pct) {
    const std::vector<float> out = transformed(
        wide, {.channels = 1, .height = 8, .width = 8, .resize = mode, .crop_pct = crop_pct, .fill = 51});
    return std::vector<float>(out.begin(), out.begin() + 8);
  };
  for (const auto& [mode, crop_pct] :
       {std::pair{ResizeMode::crop, 1.0}, {ResizeMode::crop, 0.5}, {ResizeMode::squash, 1.0}}) {
    const std::vector<float> out = row(mode, crop_pct);
    EXPECT_NEAR(out[0], 1, 1e-6);
    EXPECT_NEAR(out[7], 0, 1e-6);
  }
  for (const float value : row(ResizeMode::letterbox, 1)) EXPECT_NEAR(value, 0.2, 1e-6);  // the upper border
  const std::vector<float> boxed = transformed(
      wide, {.channels = 1, .height = 8, .width = 8, .resize = ResizeMode::letterbox, .fill = 51});
  EXPECT_NEAR(boxed[2 * 8], 1, 1e-6);
  EXPECT_NEAR(boxed[6 * 8], 0.2, 1e-6);
}

/// The levels, of 0 to 255, that a JPEG gives the model, decoded in one way.
std::vector<float> values_of(const std::string& jpeg, bool scaled, Preprocess preprocess, const Augment& augment,
                             std::uint64_t key) {
  preprocess.decode.scaled = scaled;
  preprocess.std = {1.0 / 255};
  Transform transform(preprocess, augment);
  Decoder decoder;
  decoder.open(stored(jpeg), preprocess.decoding());
  std::vector<float> out(preprocess.size().values());
  Random random(7, key);
  transform.finish(transform.fit(decoder, random).data(), random, out.data());
  return out;
}

/// How far apart the two ways are, in levels: on average with and without regard to the sign.
struct Distance {
  double shift = 0, mean = 0;
};
Distance distance(const std::string& jpeg, const Preprocess& preprocess, const Augment& augment = {},
                  std::uint64_t key = 0) {
  const std::vector<float> exact = values_of(jpeg, false, preprocess, augment, key);
  const std::vector<float> scaled = values_of(jpeg, true, preprocess, augment, key);
  Distance of;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double off = static_cast<double>(scaled[i] - exact[i]) / static_cast<double>(exact.size());
    of.shift += off, of.mean += std::abs(off);
  }
  return of;
}

// Of ramps a shift shows as a difference of levels, which changes its sign where they fall instead of rising; what
// rounding does keeps it. Whatever the part, the way to fit it and EXIF say.
TEST(Preprocess, ScaledDecodingShiftsNothing) {
  constexpr double kStep = 0.93;  // levels from a pixel to the next
  double sum = 0;
  int count = 0;
  for (const bool down : {false, true})
    for (const int channels : {1, 3})
      for (const int orientation : {1, 2, 3, 6, 8}) {
        const auto jpeg = [&](bool falls) {
          return jpeg_of(image_of(197, 237, channels,
                                  [&](int y, int x, int) {
                                    const double level = 10 + kStep * (down ? y : x);
                                    return static_cast<std::uint8_t>(falls ? 255 - level : level);
                                  }),
                         {.orientation = orientation});
        };
        const std::string rising = jpeg(false), falling = jpeg(true);
        std::vector<std::pair<Preprocess, Augment>> cases;
        Preprocess preprocess{.channels = channels, .bits = 16, .crop_pct = 0.9};  // 16: levels are not rounded
        for (const auto& [height, width] : {std::pair{90, 81}, {41, 39}, {20, 22}}) {
          preprocess.height = height, preprocess.width = width;
          for (const ResizeMode mode : {ResizeMode::crop, ResizeMode::squash, ResizeMode::letterbox}) {
            preprocess.resize = mode;
            cases.push_back({preprocess, {}});
          }
        }
        preprocess.resize = ResizeMode::crop;
        cases.push_back({preprocess, {.crop_at = CropAt::bottom_right}});
        for (const Interpolation interpolation : {Interpolation::bilinear, Interpolation::bicubic}) {
          preprocess.interpolation = interpolation;
          cases.push_back(
              {preprocess, {.random_resized_crop = true, .scale = {0.1, 1}, .crop_padding = 1, .hflip = 0.5}});
        }
        for (const auto& [input, augment] : cases)
          for (std::uint64_t key = 0; key < (augment.random_resized_crop ? 20u : 1u); ++key) {
            SCOPED_TRACE(text(down ? "down " : "right ", channels, ' ', orientation, ' ', input.json(), ' ', key));
            const Distance up = distance(rising, input, augment, key), fall = distance(falling, input, augment, key);
            const double pixels = (up.shift - fall.shift) / 2 / kStep;
            EXPECT_NEAR(pixels, 0, 0.15);
            EXPECT_LE(std::max(up.mean, fall.mean), 1);
            sum += pixels, ++count;
          }
      }
  EXPECT_NEAR(sum / count, 0, 0.02);
}

TEST(Preprocess, ScaledDecodingShowsTheSameImage) {
  const auto waves = [](int y, int x, int c) {
    return static_cast<std::uint8_t>(128 + 50 * std::sin(0.09 * x + c) + 40 * std::cos(0.05 * y * (c % 3 + 1)) +
                                     20 * std::sin(0.4 * (x + y)));
  };
  for (const std::string& jpeg : {jpeg_of(image_of(331, 413, 3, waves)), jpeg_of(image_of(331, 413, 1, waves)),
                                  jpeg_of(image_of(331, 413, 3, waves), {.progressive = true, .orientation = 5}),
                                  jpeg_of(image_of(331, 413, 4, waves), {.stored = JCS_YCCK})})
    for (const int bits : {8, 16})
      for (const bool random : {false, true})
        for (std::uint64_t key = 0; key < 5; ++key) {
          const Preprocess preprocess{.bits = bits, .height = 40, .width = 40};
          const Distance of = distance(jpeg, preprocess, {.random_resized_crop = random}, key);
          EXPECT_GT(of.mean, 0);
          EXPECT_LE(of.mean, 2);
        }
  // Changes see an image as they always do.
  const std::string jpeg = jpeg_of(image_of(331, 413, 3, waves));
  EXPECT_LE(distance(jpeg, {.height = 40, .width = 40}, parse_augment("rrc,rotate(15),erase(1),hflip")).mean, 3);
}

TEST(Preprocess, ScaledDecodingIsExactWhereNothingShrinksToHalf) {
  const Image in = pattern(60, 80);
  const std::string png = png_of(in), jpeg = jpeg_of(in);
  for (const bool random : {false, true}) {
    const Augment augment{.random_resized_crop = random};
    EXPECT_EQ(distance(png, {.height = 9, .width = 9}, augment).mean, 0);
    EXPECT_EQ(distance(jpeg, {.height = 31, .width = 41}, augment).mean, 0);
    EXPECT_EQ(distance(jpeg, {.height = 90, .width = 90}, augment).mean, 0);
  }
  EXPECT_GT(distance(jpeg, {.height = 30, .width = 40}).mean, 0);
  EXPECT_EQ(distance(jpeg, {.height = 6, .width = 8, .interpolation = Interpolation::nearest}).mean, 0);
}

TEST(Preprocess, ShortestIsACropOfTheWholeShorterSide) {
  Preprocess shortest{.crop_pct = 0.875};
  shortest.choose_resize("shortest", {});
  EXPECT_EQ(shortest, (Preprocess{.resize = ResizeMode::crop, .crop_pct = 1}));
  expect_words(error_of([&] { shortest.choose_resize("shortest", 0.9); }, Fault::usage), {"crop_pct", "0.9"});
  expect_words(error_of([&] { shortest.choose_resize("sqush", {}); }, Fault::usage), {"did you mean \"squash\""});
  EXPECT_NEAR(shortest.cut_share(300, 400), 0.25, 0.01);
  EXPECT_NEAR((Preprocess{.crop_pct = 0.5}.cut_share(300, 300)), 0, 1e-9);
  EXPECT_NEAR((Preprocess{.crop_pct = 0.875}.cut_share(600, 300)), 0.5, 1e-9);
  EXPECT_EQ(Preprocess{.resize = ResizeMode::letterbox}.cut_share(300, 400), 0);
}

// The five parts of an image that is already covered lie where five_crops says.
TEST(Preprocess, CropsAreCutWhereTheyAreAskedFor) {
  const Image in = pattern(24, 40);
  const Preprocess preprocess{.height = 12, .width = 20, .crop_pct = 0.5};
  Decoder decoder;
  for (const auto& [at, top, left] : {std::tuple{CropAt::top_left, 0, 0},
                                      {CropAt::top_right, 0, 20},
                                      {CropAt::bottom_left, 12, 0},
                                      {CropAt::bottom_right, 12, 20},
                                      {CropAt::center, 6, 10}}) {
    Transform transform(preprocess, {.crop_at = at});
    EXPECT_EQ(transform.fit_is_fixed(), at == CropAt::center);
    decoder.open({std::as_bytes(std::span(in.data(), in.size().bytes())), in.size()});
    Random none(0);
    const Image& part = transform.fit(decoder, none);
    for (int y = 0; y < 12; ++y)
      for (int i = 0; i < 60; ++i) ASSERT_EQ(part.row(y)[i], in.row(top + y)[3 * left + i]);
  }
}

TEST(Preprocess, JsonRoundTrip) {
  Preprocess preprocess{.channels = 1,
                        .bits = 16,
                        .height = 192,
                        .width = 320,
                        .resize = ResizeMode::letterbox,
                        .crop_pct = 0.875,
                        .interpolation = Interpolation::bicubic,
                        .fill = 114,
                        .mean = {0.1307},
                        .std = {0.3081}};
  preprocess.decode = {.exif = false, .background = {1, 2, 3}, .scaled = true};
  EXPECT_EQ(Preprocess::from_json(preprocess.json()), preprocess);
  EXPECT_EQ(Preprocess::from_json("{}"), Preprocess{});
  expect_words(error_of([] { Preprocess::from_json(R"({"crop":1})"); }), {"unknown field \"crop\""});
  expect_words(error_of([] { Preprocess::from_json(R"({"resize":"fit"})"); }), {"\"fit\"", "letterbox"});
  expect_words(error_of([] { Preprocess::from_json(R"({"interpolation":"bicubc"})"); }), {"did you mean \"bicubic\""});
  expect_words(error_of([] { Preprocess::from_json(R"({"decode":"scald"})"); }), {"decode", "did you mean \"scaled\""});
  expect_words(error_of([] { Preprocess::from_json(R"({"height":0})"); }), {"size is 0"});
  expect_words(error_of([] { Preprocess::from_json(R"({"height":"tall"})"); }),
               {"preprocess: height cannot be \"tall\""});
  error_of([] { Preprocess::from_json("[1]"); });
  expect_words(error_of([] { Preprocess::from_json("{"); }), {"preprocess: is not valid JSON: it ends too early"});
  expect_words(error_of([] { Preprocess{.mean = {1, 2}}.check(); }, Fault::usage), {"mean has 2 values"});
}

TEST(Augment, MovesPixels) {
  const Image in = image_of(3, 3, 1, [](int y, int x, int) { return static_cast<std::uint8_t>(10 * y + x + 1); });
  Image out;
  out.reshape(in.size());
  move_pixels(1, -1, 9, in.data(), in.size(), out.data());
  EXPECT_EQ(levels(out), (std::vector<int>{9, 9, 9, 2, 3, 9, 12, 13, 9}));
}

TEST(Augment, ListsAreRead) {
  const Augment augment = parse_augment("rrc(0.2,0.9),jitter(0.4,0.4,0.4,0.1), hflip,trivial,pad(3)");
  EXPECT_TRUE(augment.random_resized_crop);
  EXPECT_EQ(augment.scale, (std::array<double, 2>{0.2, 0.9}));
  EXPECT_EQ(augment.hflip, 0.5);
  EXPECT_EQ(augment.crop_padding, 3);
  EXPECT_EQ(to_text(augment.augmentations), "jitter(0.4,0.4,0.4,0.1),trivial");
  for (const char* none : {"", "none"}) EXPECT_TRUE(parse_augment(none).augmentations.empty());
  const auto message = [](const char* list) { return error_of([&] { parse_augment(list); }, Fault::usage); };
  expect_words(message("rrc,hflp"), {"hflp", "did you mean"});
  expect_words(message("rrc(2)"), {"scale", "2"});
  expect_words(message("pad"), {"pad takes 1 numbers, not 0"});
  expect_words(message("rrc(a)"), {"'a'", "no number"});
  for (const char* list : {"hflip,,trivial", "hflip,", ",hflip", "rrc,,hflip"})
    expect_words(message(list), {"an entry of the list is empty"});
  expect_words(message("rrc,hflip,rrc(0.2,1)"), {"rrc stands twice"});
  expect_words(message("hflip,hflip"), {"hflip stands twice"});
}

TEST(Augment, MirrorsRows) {
  for (const int channels : {1, 3}) {
    const Image in = image_of(5, 19, channels,
                              [](int y, int x, int c) { return static_cast<std::uint8_t>(50 * c + 10 * y + x); });
    const Preprocess preprocess{.channels = channels, .height = 5, .width = 19};
    std::vector<float> plain = transformed(in, preprocess), mirrored(plain.size());
    Random random(1);
    Transform(preprocess, {.hflip = 1}).finish(in.data(), random, mirrored.data());
    for (std::size_t row = 0; row < plain.size(); row += 19)
      std::reverse(plain.begin() + static_cast<std::ptrdiff_t>(row),
                   plain.begin() + static_cast<std::ptrdiff_t>(row) + 19);
    EXPECT_EQ(plain, mirrored);
  }
}

TEST(Augment, ChoicesStayInRangeAndCoverIt) {
  const Augment augment{.random_resized_crop = true, .crop_padding = 4, .hflip = 0.5};
  std::set<int> shifts;
  int mirrored = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    Random random(1, i, 0);
    const Box box = random_part(augment, 60, 90, random);
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_LE(box.top + box.height, 60);
    ASSERT_LE(box.left + box.width, 90);
    ASSERT_GE(box.height * box.width, 0.07 * 60 * 90);
    const Pose pose = random_pose(augment, random);
    shifts.insert(pose.down);
    shifts.insert(100 + pose.right);
    mirrored += pose.mirrored;
  }
  EXPECT_EQ(shifts.size(), 18u);  // -4 … 4, both ways
  EXPECT_NEAR(mirrored, 1000, 100);
  EXPECT_GE(random_part(augment, 10, 1000, *std::make_unique<Random>(1)).width,
            7);  // the way out for odd shapes
}

/// Numbers that should be uniform in [0, 1]: the largest distance of their distribution (Kolmogorov-Smirnov) is below
/// what one set in a million exceeds.
void expect_uniform(std::vector<double> numbers, const char* what) {
  std::sort(numbers.begin(), numbers.end());
  const auto count = static_cast<double>(numbers.size());
  double most = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto rank = static_cast<double>(i);
    most = std::max({most, numbers[i] - rank / count, (rank + 1) / count - numbers[i]});
  }
  EXPECT_LT(most * std::sqrt(count), 2.7) << what;
}

// Of a large image, parts of whose size none is refused: the share of the area, the logarithm of the ratio and the
// place are uniform and know nothing of each other.
TEST(Augment, RandomPartsAreUniform) {
  const Augment augment{.random_resized_crop = true, .scale = {0.1, 0.3}, .ratio = {0.75, 4.0 / 3}};
  constexpr int kSide = 4000, kParts = 20000;
  std::vector<double> areas, ratios, tops, lefts;
  double together = 0;
  for (std::uint64_t i = 0; i < kParts; ++i) {
    Random random(3, i, 1);
    const Box box = random_part(augment, kSide, kSide, random);
    const double height = box.height, width = box.width;
    areas.push_back((height * width / kSide / kSide - 0.1) / 0.2);
    ratios.push_back((std::log(width / height) - std::log(0.75)) / (std::log(4.0 / 3) - std::log(0.75)));
    tops.push_back((box.top + 0.5) / (kSide - box.height + 1));
    lefts.push_back((box.left + 0.5) / (kSide - box.width + 1));
    together += (areas.back() - 0.5) * (ratios.back() - 0.5) + (tops.back() - 0.5) * (lefts.back() - 0.5);
  }
  expect_uniform(areas, "area");
  expect_uniform(ratios, "ratio");
  expect_uniform(tops, "top");
  expect_uniform(lefts, "left");
  EXPECT_NEAR(together / kParts, 0, 5 * std::sqrt(2.0) / 12 / std::sqrt(kParts));
}

// Results that must not change from one version to the next, as FNV-1a over the levels of four keys.
TEST(Augment, GoldenImages) {
  const std::map<std::string, std::uint32_t> golden{
      {"hflip", 3615374309u},
      {"pad(4)", 975408896u},
      {"rrc", 1374858818u},
      {"rrc(0.35,0.5),hflip,pad(2)", 241282396u},
  };
  const Image in = pattern(61, 83);
  for (const auto& [list, expected] : golden) {
    const Preprocess preprocess{.height = 32, .width = 40, .mean = {0}, .std = {1}};
    Transform transform(preprocess, parse_augment(list));
    std::uint32_t sum = 2166136261u;
    for (std::uint64_t key = 0; key < 4; ++key) {
      Random random(11, key);
      Decoder decoder;
      decoder.open({std::as_bytes(std::span(in.data(), in.size().bytes())), in.size()});
      std::vector<float> out(3 * 32 * 40);
      transform.finish(transform.fit(decoder, random).data(), random, out.data());
      for (const float level : out) sum = (sum ^ static_cast<std::uint8_t>(std::lround(level * 255))) * 16777619u;
    }
    EXPECT_EQ(sum, expected) << "{\"" << list << "\", " << sum << "u},";
  }
}

TEST(Augment, ShiftsAreUniform) {
  const Augment augment{.crop_padding = 3};
  std::array<double, 49> counts{};
  constexpr int kPoses = 49000;
  for (std::uint64_t i = 0; i < kPoses; ++i) {
    Random random(4, i, 2);
    const Pose pose = random_pose(augment, random);
    ++counts.at(static_cast<std::size_t>((pose.down + 3) * 7 + pose.right + 3));
  }
  double chi = 0;
  for (const double count : counts) chi += (count - 1000) * (count - 1000) / 1000;
  EXPECT_LT(chi, 110);  // of 48 degrees of freedom: one in a million is above
}

}  // namespace
}  // namespace neurim
