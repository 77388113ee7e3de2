// loader=dali beside our loader: the same samples in the same order, and levels that are near.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "neurim/data/open_loader.h"
#include "neurim/train/trainer.h"
#include "tests/epochs.h"
#include "tests/odd_files.h"

namespace neurim {
namespace {

const Preprocess kSmall{.height = 16, .width = 12, .mean = {0.4, 0.5, 0.6}, .std = {0.2}};

/// How far two epochs of the same samples are apart, in levels of 0 to 255.
struct Distance {
  double mean = 0, most = 0;
  double most_inside = 0;  ///< without the outermost pixels of the images
};

Distance distance(const Epoch& one, const Epoch& other, const Preprocess& preprocess) {
  EXPECT_EQ(one.indices, other.indices);
  EXPECT_EQ(one.labels, other.labels);
  EXPECT_EQ(one.sizes, other.sizes);
  EXPECT_EQ(one.images.size(), other.images.size());
  Distance found;
  const auto height = static_cast<std::size_t>(preprocess.height), width = static_cast<std::size_t>(preprocess.width);
  for (std::size_t i = 0; i < one.images.size(); ++i) {
    const std::size_t x = i % width, y = i / width % height;
    const std::size_t channel = i / (width * height) % static_cast<std::size_t>(preprocess.channels);
    const double std = preprocess.std.size() == 1 ? preprocess.std[0] : preprocess.std[channel];
    const double levels = 255 * std * std::abs(one.images[i] - other.images[i]);
    found.mean += levels / static_cast<double>(one.images.size());
    found.most = std::max(found.most, levels);
    if (x > 0 && x + 1 < width && y > 0 && y + 1 < height) found.most_inside = std::max(found.most_inside, levels);
  }
  return found;
}

std::unique_ptr<BatchSource> dali(const Dataset& data, const Preprocess& preprocess, const Augment& augment,
                                  const LoaderOptions& options) {
  return open_loader("dali", data, Split::train, preprocess, augment, options);
}

/// Of epoch 1, shuffled.
Distance from_ours(const Dataset& data, const Preprocess& preprocess, const Augment& augment) {
  const LoaderOptions options{.batch = 16, .shuffle = true};
  const Epoch ours = epoch_of(*open_loader("neurim", data, Split::train, preprocess, augment, options), 1);
  return distance(epoch_of(*dali(data, preprocess, augment, options), 1), ours, preprocess);
}

TEST(Dali, SamplesAreThoseOfOurLoaderAndPixelsAFunctionOfSeedEpochAndIndex) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b", "c"}, 15);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  const Augment augment{.random_resized_crop = true, .crop_padding = 2, .hflip = 0.5};
  for (const Sampler sampler : {Sampler::each, Sampler::balanced})
    for (const int rank : {0, 1}) {
      LoaderOptions options{.batch = 4, .shuffle = true, .sampler = sampler, .rank = rank, .ranks = 2};
      const auto ours = open_loader("neurim", data, Split::train, kSmall, augment, options);
      const Epoch e0 = epoch_of(*ours, 0), e1 = epoch_of(*ours, 1);
      std::optional<Epoch> first;
      for (const int workers : {0, 1, 3}) {
        options.workers = workers;
        const auto source = dali(data, kSmall, augment, options);
        EXPECT_EQ(source->batches(), ours->batches());
        const Epoch all = epoch_of(*source, 0);
        EXPECT_LE(distance(all, e0, kSmall).most, 1.01);
        EXPECT_LE(distance(epoch_of(*source, 1), e1, kSmall).most, 1.01);
        EXPECT_LE(distance(epoch_of(*source, 1, 3), epoch_of(*ours, 1, 3), kSmall).most, 1.01);
        if (!first) first = all;
        EXPECT_TRUE(all == *first && epoch_of(*source, 0) == *first) << workers << " workers";
      }
    }
}

TEST(Dali, LeavingAnEpochDropsIt) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 20);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  const auto source = dali(data, kSmall, {}, {.batch = 4, .drop_last = true});
  Batch batch;
  error_of([&] { source->next(batch); }, Fault::usage);
  source->start(0);
  EXPECT_TRUE(source->next(batch));
  const Epoch all = epoch_of(*source, 1);
  EXPECT_EQ(all.sizes.size(), 10u);
  error_of([&] { source->start(0, 11); }, Fault::usage);
  EXPECT_TRUE(epoch_of(*source, 1) == all);
}

TEST(Dali, PhotosAreNearOurs) {
  NEED_DATA(archive, "photos-clothing-10-classes.tar");
  const TempFolder temp;
  ASSERT_EQ(std::system(text("tar xf '", archive, "' -C '", temp.path(), "'").c_str()), 0);
  const fs::path root = *fs::directory_iterator(temp.path());
  const Dataset data = Dataset::open((root / "test").string(), {.val_split = 0.0});
  const Preprocess net{
      .height = 224, .width = 224, .crop_pct = 0.875, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  const auto with = [&](ResizeMode mode, int size) {
    Preprocess preprocess = net;
    preprocess.resize = mode;
    preprocess.height = preprocess.width = size;
    return preprocess;
  };
  Preprocess gray{.channels = 1, .height = 96, .width = 96};
  const std::vector<std::tuple<const char*, Preprocess, Augment>> cases{
      {"random parts, mirrored", net, {.random_resized_crop = true, .hflip = 0.5}},
      {"crop", net, {}},
      {"crop, padded", with(ResizeMode::crop, 160), {.crop_padding = 9, .hflip = 0.5}},
      {"squash", with(ResizeMode::squash, 600), {}},
      {"letterbox", with(ResizeMode::letterbox, 224), {.crop_padding = 20, .hflip = 0.5}},
      {"gray", gray, {.random_resized_crop = true}},
      {"small", with(ResizeMode::crop, 48), {.random_resized_crop = true}},
  };
  for (const auto& [name, preprocess, augment] : cases) {
    const Distance found = from_ours(data, preprocess, augment);
    std::cout << name << ": mean " << found.mean << ", most " << found.most << ", inside " << found.most_inside
              << " levels\n";
    EXPECT_LE(found.mean, 0.1) << name;
    EXPECT_LE(found.most, 32) << name;
    // At its border DALI repeats an image, we weigh what there is. A letterbox has that border inside.
    if (preprocess.resize != ResizeMode::letterbox) {
      EXPECT_LE(found.most_inside, 1.01) << name;
    }
  }
}

TEST(Dali, OddFilesAreDecodedAsOursAndBrokenOnesNamed) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 40);
  const auto waves = [](int y, int x, int c) {
    return static_cast<std::uint8_t>(128 + 60 * std::sin(0.1 * x + c) + 60 * std::cos(0.07 * y));
  };
  const Image upright = image_of(60, 80, 3, waves);
  for (int orientation = 1; orientation <= 8; ++orientation)
    write(temp.at(text("b/turned", orientation, ".jpg")), jpeg_of(upright, {.orientation = orientation}));
  // DALI takes an orientation of this type for one, we do not; its part of the image is none of ours then.
  std::string other_type = jpeg_of(upright, {.orientation = 6});
  other_type[other_type.find("\x12\x01\x03") + 2] = 4;
  write(temp.at("b/other-type.jpg"), other_type);
  write(temp.at("b/alpha.png"), png_of(2, 2, std::string(16, 'x'), {SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 8}));
  write(temp.at("b/gray.png"), png_of(2, 2, "abcd", {SPNG_COLOR_TYPE_GRAYSCALE, 8}));
  write(temp.at("b/lossy.webp"), webp_of(upright));
  std::set<std::string> bad;
  for (const Odd& odd : odd_files()) {
    write(temp.at("a/" + odd.name), odd.bytes);
    if (odd.bad) bad.insert(odd.name);
  }
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  const Preprocess preprocess{.height = 32, .width = 40, .resize = ResizeMode::squash};
  for (const bool exif : {true, false}) {
    Preprocess turned = preprocess;
    turned.decode.exif = exif;
    const LoaderOptions options{.batch = 8, .shuffle = true, .max_bad = 30};
    const auto ours = open_loader("neurim", data, Split::train, turned, {}, options);
    const auto theirs = dali(data, turned, {}, options);
    for (const std::uint32_t epoch : {0, 1}) {
      const Distance found = distance(epoch_of(*theirs, epoch), epoch_of(*ours, epoch), turned);
      EXPECT_LE(found.mean, 0.05);
      EXPECT_LE(found.most_inside, 1.01);
    }
    EXPECT_EQ(theirs->turned(), ours->turned());
    std::set<std::string> named;
    for (const BadSample& sample : theirs->bad())
      named.insert(fs::path(sample.reason.substr(0, sample.reason.find(": "))).filename().string());
    EXPECT_EQ(named, bad);
  }
  const auto strict = dali(data, preprocess, {}, {.max_bad = 0.01});
  expect_words(error_of([&] { epoch_of(*strict, 0); }), {"cannot be decoded", "max_bad"});
}

TEST(Dali, WhatItCannotDoIsNamed) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 3);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  expect_words(
      error_of([&] { dali(data, kSmall, {.augmentations = parse_augmentations("rotate(15)")}, {}); }, Fault::usage),
      {"loader=dali", "rotate(15", "loader=neurim"});
  expect_words(error_of([&] { dali(data, kSmall, {}, {.cache = Cache::ram}); }, Fault::usage),
               {"cache", "loader=neurim"});
  Preprocess scaled = kSmall;
  scaled.decode.scaled = true;
  expect_words(error_of([&] { dali(data, scaled, {}, {}); }, Fault::usage), {"decode=exact", "loader=neurim"});
  error_of([&] { dali(data, kSmall, {.hflip = 2}, {}); }, Fault::usage);
}

TEST(Dali, Trains) {
  const TempFolder temp, runs;
  write_classes(temp, "", {"a", "b"}, 40);
  double loss[2];
  for (const bool with_dali : {false, true}) {
    TrainOptions options{.data = temp.path(), .model = "resnet20", .epochs = 2, .batch = 8};
    options.loader = with_dali ? "dali" : "neurim";
    options.project = runs.path();
    options.plots = false;
    loss[with_dali] = train(options).metrics["loss"];
  }
  EXPECT_NEAR(loss[1], loss[0], 0.02 + 0.05 * loss[0]);
}

}  // namespace
}  // namespace neurim
