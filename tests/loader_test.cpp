// The loader: order, pixels, bad samples and limits.
#include "neurim/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "tests/epochs.h"
#include "tests/images.h"
#include "tests/in_child.h"

namespace neurim {
namespace {

const Preprocess kSmall{.height = 16, .width = 12, .mean = {0.4, 0.5, 0.6}, .std = {0.2}};
const Augment kMuch{.augmentations = parse_augmentations("rotate(15),jitter(0.2,0.1,0.1,0.1),trivial,erase(0.5)"),
                    .crop_padding = 2,
                    .hflip = 0.5};

TEST(Loader, SameForAnyNumberOfWorkersAndAnyCache) {
  const TempFolder temp, cache_home;
  ::setenv("XDG_CACHE_HOME", cache_home.path().c_str(), 1);
  write_classes(temp, "", {"a", "b", "c"}, 15);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  for (const bool part : {false, true}) {
    Augment augment = kMuch;
    augment.random_resized_crop = part;
    std::optional<Epoch> first, second;
    for (const int workers : {0, 1, 2, 7})
      for (const Cache cache : {Cache::none, Cache::automatic, Cache::ram, Cache::disk}) {
        Loader loader(data, Split::train, kSmall, augment,
                      {.batch = 4, .workers = workers, .shuffle = true, .cache = cache});
        const Epoch e0 = epoch_of(loader, 0), e1 = epoch_of(loader, 1);
        if (!first) first = e0, second = e1;
        EXPECT_TRUE(e0 == *first) << workers << " workers, cache " << static_cast<int>(cache);
        EXPECT_TRUE(e1 == *second) << workers << " workers, cache " << static_cast<int>(cache);
        EXPECT_TRUE(epoch_of(loader, 0) == *first);  // history has no influence
      }
    EXPECT_NE(first->indices, second->indices);
    EXPECT_NE(first->images, second->images);
    std::vector<std::int64_t> sorted = first->indices, all(45);
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    EXPECT_EQ(first->sizes.size(), 12u);
    EXPECT_EQ(first->sizes.back(), 1);
  }
}

TEST(Loader, CacheOnDiskServesLaterRunsAndNoticesChanges) {
  const TempFolder temp, cache_home;
  ::setenv("XDG_CACHE_HOME", cache_home.path().c_str(), 1);
  write_classes(temp, "", {"a", "b"}, 6);
  const auto gradient = [](int y, int x, int) { return static_cast<std::uint8_t>(7 * y + 3 * x); };
  write(temp.at("a/turned.jpg"), jpeg_of(image_of(20, 30, 3, gradient), {.orientation = 6}));
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  const LoaderOptions options{.batch = 4, .cache = Cache::disk};
  const auto epoch = [&](std::int64_t decoded_turned) {
    Loader loader(data, Split::train, kSmall, {}, options);
    const Epoch all = epoch_of(loader, 0);
    EXPECT_EQ(loader.turned(), decoded_turned);  // counts images when they are decoded
    return all;
  };
  const Epoch first = epoch(1);
  EXPECT_TRUE(epoch(0) == first);
  std::vector<fs::path> files(fs::directory_iterator(cache_home.path() + "/neurim"), {});
  ASSERT_EQ(files.size(), 1u);
  std::string bytes = read_file(files[0]);
  bytes.back() = static_cast<char>(bytes.back() + 1);  // of the last sample, which is not the turned one
  bytes[4096 + 2 * 6 * 16 * 12 * 3 / 2 + 5] ^= 1;      // of "turned", the seventh
  write(files[0].string(), bytes);
  EXPECT_TRUE(epoch(1) == first);
  write(temp.at("a/turned.jpg"), jpeg_of(image_of(20, 30, 3, gradient), {.orientation = 8}));
  EXPECT_FALSE(epoch(1) == first);
  write(cache_home.path() + "/file", "x");
  ::setenv("XDG_CACHE_HOME", (cache_home.path() + "/file").c_str(), 1);
  expect_words(error_of([&] { Loader(data, Split::train, kSmall, {}, options); }, Fault::resource),
               {"cache", "XDG_CACHE_HOME"});
}

TEST(Loader, CacheOnDiskKeepsScaledDecodingApart) {
  const TempFolder temp, cache_home;
  ::setenv("XDG_CACHE_HOME", cache_home.path().c_str(), 1);
  for (const int i : {0, 1, 2, 3}) {
    const Image waves = image_of(90, 110, 3, [i](int y, int x, int c) {
      return static_cast<std::uint8_t>(128 + 90 * std::sin(0.3 * x + 0.2 * y + c + i));
    });
    write(temp.at(text(i % 2 ? "a/" : "b/", i, ".jpg")), jpeg_of(waves));
  }
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  std::vector<Epoch> kept;
  for (const bool scaled : {false, true}) {
    Preprocess preprocess = kSmall;
    preprocess.decode.scaled = scaled;
    for (const Cache cache : {Cache::none, Cache::ram, Cache::disk, Cache::disk}) {
      Loader loader(data, Split::train, preprocess, {}, {.batch = 2, .cache = cache});
      const Epoch all = epoch_of(loader, 0);
      if (cache == Cache::none) kept.push_back(all);
      EXPECT_TRUE(all == kept.back());
    }
  }
  EXPECT_NE(kept[0].images, kept[1].images);
}

TEST(Loader, PixelsAreThoseOfTheTransform) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 5);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  Loader loader(data, Split::train, kSmall, {}, {.batch = 3, .workers = 2});
  const Epoch all = epoch_of(loader, 0);
  for (std::int64_t i = 0; i < 10; ++i) {
    Decoder decoder;
    std::vector<std::byte> buffer;
    decoder.open(data.read(Split::train, i, buffer));
    std::vector<float> expected(kSmall.size().bytes());
    Transform transform(kSmall);
    transform(decoder, expected.data());
    const auto begin = all.images.begin() + i * static_cast<std::int64_t>(expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), begin));
    EXPECT_EQ(all.labels[i], data.label(Split::train, i));
  }
}

TEST(Loader, TargetsOfAMultiLabelSet) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 3);
  write(temp.at("m.csv"), "path,label,weight\na/0.JPG,x|z,1\na/1.png,y,1\nb/0.JPG,,0\na/2.JPG,z|y|x,1\nb/1.png,z,1\n");
  const Dataset data = Dataset::open(temp.at("m.csv"), {.val_split = 0.0});
  Loader loader(data, Split::train, kSmall, {}, {.batch = 2, .workers = 2});
  loader.start(0);
  std::vector<float> targets;
  for (Batch batch; loader.next(batch);) {
    EXPECT_TRUE(batch.labels.empty());
    EXPECT_EQ(batch.targets.size(), static_cast<std::size_t>(batch.size) * 3);
    targets.insert(targets.end(), batch.targets.begin(), batch.targets.end());
  }
  EXPECT_EQ(targets, (std::vector<float>{1, 0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1}));
  expect_words(error_of([&] { Loader(data, Split::train, kSmall, {}, {.sampler = Sampler::balanced}); }, Fault::usage),
               {"sampler=balanced", "one class an image"});
  Loader weighted(data, Split::train, kSmall, {}, {.sampler = Sampler::weighted});
  for (const std::int64_t index : epoch_of(weighted, 0).indices) EXPECT_NE(index, 2);
}

TEST(Loader, StartsAnywhereAndDropsTheRest) {
  const TempFolder temp;
  write_idx(temp, cycle(6, 3));
  const Dataset data = Dataset::open(temp.path());
  const Preprocess preprocess{.channels = 1, .height = 4, .width = 5};
  for (const int workers : {0, 2}) {
    Loader loader(data, Split::train, preprocess, {}, {.batch = 8, .workers = workers, .shuffle = true});
    EXPECT_EQ(loader.batches(), 4);
    const Epoch whole = epoch_of(loader, 3);
    Batch batch;
    loader.start(5);
    ASSERT_TRUE(loader.next(batch));  // and leave
    const Epoch rest = epoch_of(loader, 3, 2);
    EXPECT_EQ(rest.indices, std::vector<std::int64_t>(whole.indices.begin() + 16, whole.indices.end()));
    EXPECT_EQ(rest.images, std::vector<float>(whole.images.begin() + 16 * 20, whole.images.end()));
    Loader dropping(data, Split::train, preprocess, {},
                    {.batch = 8, .workers = workers, .shuffle = true, .drop_last = true});
    EXPECT_EQ(epoch_of(dropping, 3).sizes, std::vector<int>(3, 8));
  }
  error_of([&] { Loader(data, Split::train, preprocess, {}, {.batch = 31, .drop_last = true}); }, Fault::usage);
  error_of([&] { Loader(data, Split::train, preprocess, {}, {.batch = 0}); }, Fault::usage);
  error_of([&] { Loader(data, Split::train, preprocess, {.hflip = 2}); }, Fault::usage);
  Loader unstarted(data, Split::train, preprocess);
  Batch batch;
  error_of([&] { unstarted.next(batch); }, Fault::usage);
}

// A run that is resumed anywhere in an epoch, with any number of workers and after whatever it had seen, goes on with
// the same samples and pixels, broken files and random changes included.
TEST(Loader, GoesOnAnywhereForAnyNumberOfWorkers) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 12);
  write(temp.at("a/3.png"), "no image");
  write(temp.at("b/11.png"), read_file(temp.at("b/11.png")).substr(0, 40));
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  Augment augment = kMuch;
  augment.random_resized_crop = true;
  std::optional<Epoch> whole;
  for (const int workers : {0, 1, 2, 7})
    for (const std::int64_t first : {0, 1, 2, 3, 4, 5}) {
      Loader loader(data, Split::train, kSmall, augment,
                    {.batch = 4, .workers = workers, .shuffle = true, .max_bad = 2});
      if (first % 2 == 1) epoch_of(loader, 7);  // what was seen before has no influence
      const Epoch rest = epoch_of(loader, 2, first);
      if (!whole) whole = rest;
      const std::size_t samples = static_cast<std::size_t>(first) * 4, size = kSmall.size().values();
      EXPECT_TRUE(std::equal(rest.indices.begin(), rest.indices.end(),
                             whole->indices.begin() + static_cast<std::ptrdiff_t>(samples), whole->indices.end()))
          << workers << " workers from batch " << first;
      EXPECT_TRUE(std::equal(rest.images.begin(), rest.images.end(),
                             whole->images.begin() + static_cast<std::ptrdiff_t>(samples * size), whole->images.end()))
          << workers << " workers from batch " << first;
    }
}

TEST(Loader, BadSamplesAreReplacedNamedAndLimited) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 10);
  write(temp.at("a/3.png"), "no image");
  write(temp.at("b/9.png"), read_file(temp.at("b/9.png")).substr(0, 40));  // the last sample: replaced by the first
  write(temp.at("a/4.JPG"), jpeg_of(plain(20, 24, {1, 2, 3}), {.orientation = 6}));
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  for (const int workers : {0, 2}) {
    Loader loader(data, Split::train, kSmall, {}, {.batch = 4, .workers = workers, .max_bad = 2});
    const Epoch all = epoch_of(loader, 0);
    EXPECT_EQ(all.indices[3], 4);
    EXPECT_EQ(all.indices[19], 0);
    EXPECT_EQ(all.labels[19], 0);
    EXPECT_TRUE(std::equal(all.images.begin() + 3 * 576, all.images.begin() + 4 * 576, all.images.begin() + 4 * 576));
    EXPECT_TRUE(epoch_of(loader, 0) == all);
    const std::vector<BadSample> bad = loader.bad();
    ASSERT_EQ(bad.size(), 2u);  // once each, after two epochs
    EXPECT_EQ(bad[0].index, 3);
    expect_words(bad[0].reason, {"a/3.png", "not an image"});
    expect_words(bad[1].reason, {"b/9.png", "cannot decode"});
    EXPECT_EQ(loader.turned(), 1);

    Loader strict(data, Split::train, kSmall, {}, {.batch = 4, .workers = workers});  // 1 % of 20: one sample
    const std::string message = error_of([&] { epoch_of(strict, 0); });
    expect_words(message, {"at least 2 of the 20 samples of the train split", "a/3.png", "b/9.png", "max_bad",
                           "neurim data scan"});
    error_of([&] { epoch_of(strict, 1); });  // and it stays so
  }
}

// A file may be damaged where no random part of an epoch lies: it is refused all the same, in each epoch, and the
// others keep their pixels.
TEST(Loader, DamageOutsideOfARandomPartIsFoundAtOnce) {
  const TempFolder sound, damaged;
  const Image noise = image_of(
      96, 96, 3, [](int y, int x, int c) { return static_cast<std::uint8_t>(y * 31 + x * 17 * (c + 1)); });
  for (const TempFolder* folder : {&sound, &damaged}) {
    write_classes(*folder, "", {"a", "b"}, 10);
    for (const char* file : {"a/0.JPG", "a/2.JPG", "b/4.JPG"}) write(folder->at(file), jpeg_of(noise));
  }
  for (const char* file : {"a/0.JPG", "b/4.JPG"}) {
    std::string bytes = jpeg_of(noise);
    write(damaged.at(file), bytes.replace(bytes.size() * 9 / 10, 40, 40, '\xFF'));
  }
  const Dataset data = Dataset::open(damaged.path(), {.val_split = 0.0});
  const Dataset whole = Dataset::open(sound.path(), {.val_split = 0.0});
  const Augment augment{.random_resized_crop = true, .scale = {0.01, 0.1}};
  LoaderOptions options{.batch = 4, .shuffle = true, .max_bad = 10};
  for (const int workers : {0, 1, 3}) {
    options.workers = workers;
    Loader through(data, Split::train, kSmall, augment, options), other(whole, Split::train, kSmall, augment, options);
    for (std::uint32_t epoch = 0; epoch < 8; ++epoch) {
      const Epoch all = epoch_of(through, epoch), expected = epoch_of(other, epoch);
      Loader fresh(data, Split::train, kSmall, augment, options);
      EXPECT_TRUE(epoch_of(fresh, epoch) == all);  // history has no influence
      EXPECT_EQ(fresh.bad().size(), 2u);
      EXPECT_EQ(through.bad().size(), 2u);
      std::size_t replaced = 0;
      for (std::size_t i = 0; i < all.indices.size(); ++i) {
        EXPECT_TRUE(all.indices[i] != 0 && all.indices[i] != 14);
        if (all.indices[i] != expected.indices[i]) {
          ++replaced;
          continue;
        }
        const auto at = static_cast<std::ptrdiff_t>(i * kSmall.size().values());
        EXPECT_TRUE(std::equal(all.images.begin() + at,
                               all.images.begin() + at + static_cast<std::ptrdiff_t>(kSmall.size().values()),
                               expected.images.begin() + at));
      }
      EXPECT_EQ(replaced, 2u);
    }
  }
}

TEST(Loader, AShareThatMayBeBadIsOneOfAllSplits) {
  const TempFolder temp;
  write_classes(temp, "train/", {"a", "b"}, 50);
  write_classes(temp, "val/", {"a", "b"}, 50);
  for (const char* file : {"train/a/3.png", "train/b/9.png"}) write(temp.at(file), "no image");
  Loader loader(Dataset::open(temp.path()), Split::train, kSmall, {}, {.batch = 4});  // 1 % of 200
  epoch_of(loader, 0);
  EXPECT_EQ(loader.bad().size(), 2u);
  write(temp.at("train/b/11.png"), "no image");
  Loader strict(Dataset::open(temp.path()), Split::train, kSmall, {}, {.batch = 4});
  expect_words(error_of([&] { epoch_of(strict, 0); }), {"3 of the 100 samples", "more than the 2"});
}

TEST(Loader, RanksShareAnEpoch) {
  const TempFolder temp;
  write_idx(temp, cycle(6, 3));
  const Dataset data = Dataset::open(temp.path());
  const Preprocess preprocess{.channels = 1, .height = 4, .width = 5};
  for (const bool shuffled : {false, true})
    for (const int ranks : {1, 2, 7, 30}) {
      std::vector<std::int64_t> all;
      std::set<std::size_t> sizes;
      for (int rank = 0; rank < ranks; ++rank) {
        Loader loader(data, Split::train, preprocess, {},
                      {.batch = 4, .shuffle = shuffled, .rank = rank, .ranks = ranks});
        const std::vector<std::int64_t> share = epoch_of(loader, 5).indices;
        all.insert(all.end(), share.begin(), share.end());
        sizes.insert(share.size());
      }
      std::sort(all.begin(), all.end());
      std::vector<std::int64_t> expected(static_cast<std::size_t>(data.size(Split::train)));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected);
      EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1u);
    }
  error_of([&] { Loader(data, Split::train, preprocess, {}, {.rank = 2, .ranks = 2}); }, Fault::usage);
}

TEST(Loader, BalancedEpochsHaveAllClassesEquallyOften) {
  const TempFolder temp;
  std::vector<int> labels(100, 0);
  for (std::size_t i = 0; i < 7; ++i) labels[i * 9] = 1;
  for (std::size_t i = 0; i < 3; ++i) labels[i * 9 + 1] = 2;
  write(temp.at("train-images-idx3-ubyte"), idx_images(100, 4, 5));
  write(temp.at("train-labels-idx1-ubyte"), idx_labels(labels));
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  const Preprocess preprocess{.channels = 1, .height = 4, .width = 5};
  const LoaderOptions options{.batch = 16, .shuffle = true, .sampler = Sampler::balanced};
  Loader loader(data, Split::train, preprocess, {}, options);
  std::set<std::int64_t> seen;
  std::vector<std::int64_t> before;
  for (std::uint32_t epoch = 0; epoch < 20; ++epoch) {
    const Epoch all = epoch_of(loader, epoch);
    const auto size = static_cast<std::int64_t>(all.labels.size());
    EXPECT_EQ(size, data.size(Split::train));
    for (const std::int64_t c : {0, 1, 2}) {
      const std::int64_t count = std::count(all.labels.begin(), all.labels.end(), c);
      EXPECT_GE(count, size / 3);
      EXPECT_LE(count, size / 3 + 1);
    }
    EXPECT_NE(all.indices, before);
    before = all.indices;
    seen.insert(all.indices.begin(), all.indices.end());
  }
  EXPECT_EQ(static_cast<std::int64_t>(seen.size()), data.size(Split::train));  // none is left out for good
  Loader fresh(data, Split::train, preprocess, {}, options);
  EXPECT_EQ(epoch_of(fresh, 19).indices, before);
}

TEST(Loader, WeightedEpochsDrawInProportion) {
  const TempFolder temp;
  std::string table = "path,label,weight\n";
  for (int i = 0; i < 8; ++i) {
    write(temp.at(text(i, ".png")), png_of(plain(4, 4, {1, 2, 3})));
    table += text(i, ".png,", i % 2 ? "a" : "b", ',', i, '\n');
  }
  write(temp.at("set.csv"), table);
  const Dataset data = Dataset::open(temp.at("set.csv"), {.val_split = 0.0});
  const LoaderOptions options{.batch = 8, .shuffle = true, .sampler = Sampler::weighted};
  Loader loader(data, Split::train, kSmall, {}, options);
  std::vector<int> counts(8, 0);
  constexpr int kEpochs = 700;
  for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch)
    for (const std::int64_t i : epoch_of(loader, epoch).indices) ++counts[i];
  EXPECT_EQ(counts[0], 0);
  for (int i = 1; i < 8; ++i) {
    const double expected = 8.0 * kEpochs * i / 28, std = std::sqrt(expected * (1 - i / 28.0));
    EXPECT_NEAR(counts[i], expected, 5 * std) << i;
  }
  Loader fresh(data, Split::train, kSmall, {}, options);
  EXPECT_EQ(epoch_of(fresh, 3).indices, epoch_of(loader, 3).indices);
}

TEST(Loader, WeightedNeedsWeights) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 2);
  write(temp.at("ones.csv"), "path,label,weight\na/0.JPG,a,1\nb/0.JPG,b,1\n");
  for (const std::string& path : {temp.path(), temp.at("ones.csv")}) {
    const Dataset data = Dataset::open(path, {.val_split = 0.0});
    expect_words(
        error_of([&] { Loader(data, Split::train, kSmall, {}, {.sampler = Sampler::weighted}); }, Fault::usage),
        {"sampler=weighted", "column weight", "sampler=balanced"});
  }
}

// A sample that comes again in an epoch is another image each time, the first time the one of an epoch that has each
// once; and so from any batch on, for any number of workers and of ranks.
TEST(Loader, RepeatsWithinAnEpochAreOtherImages) {
  const TempFolder temp;
  std::string table = "path,label,weight\n";
  for (int i = 0; i < 8; ++i) {
    const Image image = image_of(
        24, 24, 3, [i](int y, int x, int c) { return static_cast<std::uint8_t>(y * 31 + x * 17 * (c + 1) + i); });
    write(temp.at(text(i, ".png")), png_of(image));
    table += text(i, ".png,", i == 7 ? "rare" : "often", ',', i < 2 ? 1 : 0, '\n');
  }
  write(temp.at("set.csv"), table);
  const Dataset data = Dataset::open(temp.at("set.csv"), {.val_split = 0.0});
  Augment augment = kMuch;
  augment.random_resized_crop = true;
  constexpr std::uint32_t kEpoch = 2;
  const auto image_of = [](const Epoch& all, std::size_t at) {
    const auto size = static_cast<std::ptrdiff_t>(kSmall.size().values());
    const auto begin = all.images.begin() + static_cast<std::ptrdiff_t>(at) * size;
    return std::vector<float>(begin, begin + size);
  };
  Loader each(data, Split::train, kSmall, augment, {.batch = 3});
  const Epoch once = epoch_of(each, kEpoch);  // in the order of the samples
  LoaderOptions options{.batch = 3, .shuffle = true};
  for (const Sampler sampler : {Sampler::balanced, Sampler::weighted}) {
    options.sampler = sampler;
    Loader loader(data, Split::train, kSmall, augment, options);
    const Epoch whole = epoch_of(loader, kEpoch);
    std::map<std::int64_t, std::set<std::vector<float>>> images;
    for (std::size_t i = 0; i < whole.indices.size(); ++i) {
      const std::int64_t index = whole.indices[i];
      const std::vector<float> image = image_of(whole, i);
      if (!images.contains(index)) {
        EXPECT_EQ(image, image_of(once, static_cast<std::size_t>(index)));
      }
      EXPECT_TRUE(images[index].insert(image).second) << "sample " << index << " at " << i;
    }
    EXPECT_LT(images.size(), whole.indices.size());
    for (const int workers : {0, 3})
      for (const std::int64_t first : {1, 2}) {
        LoaderOptions others = options;
        others.workers = workers;
        Loader resumed(data, Split::train, kSmall, augment, others);
        const Epoch rest = epoch_of(resumed, kEpoch, first);
        const auto from = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) * 3 * kSmall.size().values());
        EXPECT_EQ(rest.images, std::vector<float>(whole.images.begin() + from, whole.images.end()));
      }
    for (const int rank : {0, 1}) {
      LoaderOptions shared = options;
      shared.rank = rank;
      shared.ranks = 2;
      Loader share(data, Split::train, kSmall, augment, shared);
      const Epoch part = epoch_of(share, kEpoch);
      for (std::size_t i = 0; i < part.indices.size(); ++i)
        EXPECT_EQ(image_of(part, i), image_of(whole, 2 * i + static_cast<std::size_t>(rank)));
    }
  }
}

TEST(Loader, AllBadEnds) {
  const TempFolder temp;
  for (const std::string file : {"a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg"}) write(temp.at(file), "x");
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  for (const int workers : {0, 2}) {
    Loader loader(data, Split::train, kSmall, {}, {.batch = 2, .workers = workers, .max_bad = 100});
    expect_words(error_of([&] { epoch_of(loader, 0); }), {"train split has no sample that can be decoded, of 4"});
  }
}

/// Fails in a way that is not the data's fault.
class BrokenSource : public Source {
 public:
  std::string name(std::int64_t) const override { return "broken"; }
  StoredImage read(std::int64_t, std::vector<std::byte>&) const override { throw std::logic_error("cable pulled"); }
};

TEST(Loader, WorkersErrorsReachTheUser) {
  Listing listing{std::make_shared<BrokenSource>(), {"a", "b"}, {0, 1, 0, 1}, {}, {}};
  listing[Split::train] = {0, 1, 2, 3};
  const Dataset data(listing, {.val_split = 0.0}, "broken");
  for (const int workers : {0, 2}) {
    Loader loader(data, Split::train, kSmall, {}, {.workers = workers});
    expect_words(error_of([&] { epoch_of(loader, 0); }, Fault::failure), {"cable pulled"});
  }
}

TEST(Loader, RealPhotos) {
  NEED_DATA(archive, "photos-clothing-10-classes.tar");
  const TempFolder temp;
  ASSERT_EQ(std::system(text("tar xf '", archive, "' -C '", temp.path(), "'").c_str()), 0);
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"did you mean", "clothing"});
  const Dataset data = Dataset::open(temp.path() + "/clothing");
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"dress", "hat", "longsleeve", "outwear", "pants", "shirt",
                                                          "shoes", "shorts", "skirt", "t-shirt"}));
  EXPECT_EQ(data.class_counts(Split::train), std::vector<std::int64_t>(10, 100));
  EXPECT_EQ(data.size(Split::train) + data.size(Split::val) + data.size(Split::test), 1431);
  const Preprocess preprocess{.height = 64, .width = 64, .crop_pct = 0.875};
  const Augment augment{.random_resized_crop = true, .hflip = 0.5};
  std::optional<Epoch> first;
  for (const int workers : {0, 2}) {
    Loader loader(data, Split::val, preprocess, augment, {.batch = 32, .workers = workers, .shuffle = true});
    const Epoch all = epoch_of(loader, 0);
    EXPECT_TRUE(loader.bad().empty());
    if (!first) first = all;
    EXPECT_TRUE(all == *first);
  }
}

TEST(Loader, InAForkedProcessSaysThatItsWorkersAreElsewhere) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 6);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  for (const int workers : {0, 2}) {
    auto loader = std::make_unique<Loader>(data, Split::train, kSmall, Augment{},
                                           LoaderOptions{.batch = 4, .workers = workers});
    const Epoch expected = epoch_of(*loader, 0);
    EXPECT_EQ(in_child([&] {
                if (workers == 0) return epoch_of(*loader, 0) == expected;
                expect_words(error_of([&] { epoch_of(*loader, 0); }, Fault::usage), {"loader", "forked", "workers=0"});
                loader.reset();
                Loader own(data, Split::train, kSmall, {}, {.batch = 4, .workers = workers});
                return epoch_of(own, 0) == expected && !testing::Test::HasFailure();
              }),
              0);
    EXPECT_TRUE(epoch_of(*loader, 0) == expected) << "the parent";
  }
}

}  // namespace
}  // namespace neurim
