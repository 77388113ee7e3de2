// Packed files: the same pixels, resumed writing, damage.
#include "neurim/data/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "neurim/data/fingerprint.h"
#include "neurim/data/loader.h"
#include "neurim/data/sources/memory.h"
#include "tests/epochs.h"
#include "tests/images.h"

namespace neurim {
namespace {

/// A set of all kinds of files: JPEGs of several sizes and kinds, PNGs, one turned by EXIF.
void write_mixed(const TempFolder& temp) {
  for (int c = 0; c < 2; ++c)
    for (int i = 0; i < 9; ++i) {
      const Image image = image_of(60 + 17 * i, 150 - 11 * i, i == 4 ? 1 : 3, [&](int y, int x, int channel) {
        return static_cast<std::uint8_t>(128 + 60 * std::sin(0.1 * x + c) + 60 * std::cos(0.07 * y * (channel + 1)));
      });
      const std::string bytes = i % 3 == 2 ? png_of(image)
                                           : jpeg_of(image, {.progressive = i % 2 == 1,
                                                             .orientation = i == 3 ? 6 : 0,
                                                             .across = i % 2 ? 2 : 0,
                                                             .down = i % 2 ? 2 : 0});
      write(temp.at(text("set/", c ? "cat/" : "dog/", i, i % 3 == 2 ? ".png" : ".jpg")), bytes);
    }
}

/// What Pillow's bilinear filter with antialiasing makes of one row or column, in double: weights of a triangle that is
/// as wide as `from / to` pixels, or 1.
std::vector<double> resized_line(const std::vector<double>& line, std::size_t to) {
  const double ratio = static_cast<double>(line.size()) / static_cast<double>(to), width = std::max(ratio, 1.0);
  std::vector<double> out(to);
  for (std::size_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * ratio;
    double sum = 0, weights = 0;
    for (std::size_t j = 0; j < line.size(); ++j) {
      const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - center) / width);
      sum += weight * line[j], weights += weight;
    }
    out[i] = sum / weights;
  }
  return out;
}

/// A part of an image at another size, channel by channel.
std::vector<double> resized_part(const Image& image, const Box& part, std::size_t height, std::size_t width) {
  std::vector<double> out;
  for (int c = 0; c < 3; ++c) {
    std::vector<std::vector<double>> rows;
    for (int y = part.top; y < part.top + part.height; ++y) {
      std::vector<double> row;
      for (int x = part.left; x < part.left + part.width; ++x)
        row.push_back(image.row(y)[x * image.channels() + c % image.channels()]);
      rows.push_back(resized_line(row, width));
    }
    std::vector<std::vector<double>> columns;
    for (std::size_t x = 0; x < width; ++x) {
      std::vector<double> column;
      for (const std::vector<double>& row : rows) column.push_back(row[x]);
      columns.push_back(resized_line(column, height));
    }
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x) out.push_back(columns[x][y]);
  }
  return out;
}

const Preprocess kPreprocess{.height = 32, .width = 24, .crop_pct = 0.9};
const LoaderOptions kOptions{.batch = 5, .shuffle = true};

TEST(Pack, HasThePixelsOfTheFiles) {
  const TempFolder temp;
  write_mixed(temp);
  const Dataset files = Dataset::open(temp.path() + "/set", {.val_split = 0.0});
  const std::string path = temp.at("set.pack");
  const PackResult packed = pack(files, path, 2);
  EXPECT_EQ(packed.samples, 18);
  EXPECT_TRUE(packed.skipped.empty());
  EXPECT_EQ(packed.bytes, fs::file_size(path));
  const Dataset again = Dataset::open(path, {.val_split = 0.0});
  EXPECT_EQ(again.class_names(), files.class_names());
  EXPECT_EQ(again.class_counts(Split::train), files.class_counts(Split::train));
  expect_words(again.name(Split::train, 0), {"set.pack: ", "cat/0.jpg"});
  for (const Augment& augment : {Augment{}, Augment{.random_resized_crop = true, .hflip = 0.5}}) {
    std::vector<Epoch> exact;
    for (const bool scaled : {false, true}) {
      Preprocess preprocess = kPreprocess;
      preprocess.decode.scaled = scaled;
      Loader one(files, Split::train, preprocess, augment, kOptions);
      Loader other(again, Split::train, preprocess, augment, kOptions);
      for (const std::uint32_t epoch : {0, 1}) {
        const Epoch all = epoch_of(one, epoch);
        EXPECT_TRUE(all == epoch_of(other, epoch));
        if (scaled)
          EXPECT_NE(all.images, exact[epoch].images);
        else
          exact.push_back(all);
      }
    }
  }
}

TEST(Pack, ARandomPartIsWhatTheWholeImageHasThere) {
  const TempFolder temp;
  write_mixed(temp);
  const Dataset files = Dataset::open(temp.path() + "/set", {.val_split = 0.0});
  pack(files, temp.at("set.pack"), 2);
  const Preprocess levels{.height = 32, .width = 24, .mean = {0}, .std = {1.0 / 255}};
  const Augment augment{.random_resized_crop = true};
  for (const std::string& path : {temp.path() + "/set", temp.at("set.pack")}) {
    const Dataset data = Dataset::open(path, {.val_split = 0.0});
    Loader loader(data, Split::train, levels, augment, {.batch = 18, .seed = 5});
    for (const std::uint32_t epoch : {0, 1, 2}) {
      const Epoch all = epoch_of(loader, epoch);
      for (std::int64_t i = 0; i < 18; ++i) {
        Decoder decoder;
        std::vector<std::byte> buffer;
        Image whole;
        decoder.open(data.read(Split::train, i, buffer));
        decoder.read(whole);
        Random random(5, static_cast<std::uint64_t>(i), epoch);
        const std::vector<double> expected = resized_part(
            whole, random_part(augment, whole.height(), whole.width(), random), 32, 24);
        const float* found = all.images.data() + i * static_cast<std::int64_t>(expected.size());
        double sum = 0, most = 0;
        for (std::size_t k = 0; k < expected.size(); ++k) {
          const double off = std::abs(static_cast<double>(found[k]) - expected[k]);
          sum += off, most = std::max(most, off);
        }
        EXPECT_LE(sum / static_cast<double>(expected.size()), 0.5) << data.name(Split::train, i);
        EXPECT_LE(most, 2) << data.name(Split::train, i);
      }
    }
  }
}

TEST(Pack, KeepsTheBytesOfWhatCannotBeWrittenAgain) {
  const TempFolder temp;
  const Image image = image_of(40, 50, 3,
                               [](int y, int x, int c) { return static_cast<std::uint8_t>(5 * y + x + 60 * c); });
  const std::string odd = jpeg_of(image, {.separate = true});
  write(temp.at("set/a/odd.jpg"), odd);
  write(temp.at("set/b/usual.jpg"), jpeg_of(image));
  const Dataset files = Dataset::open(temp.path() + "/set", {.val_split = 0.0});
  const PackResult packed = pack(files, temp.at("set.pack"), 1);
  EXPECT_EQ(packed.samples, 2);
  EXPECT_TRUE(packed.skipped.empty());
  const Dataset again = Dataset::open(temp.at("set.pack"), {.val_split = 0.0});
  std::vector<std::byte> buffer;
  const StoredImage kept = again.read(Split::train, 0, buffer);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(kept.bytes.data()), kept.bytes.size()), odd);
  EXPECT_TRUE(kept.rows.empty());
}

TEST(Pack, KeepsLabelSets) {
  const TempFolder temp;
  write_mixed(temp);
  write(temp.at("set/m.csv"), "path,label,split\ncat/0.jpg,a|c,\ncat/1.jpg,,\ndog/0.jpg,b,\ndog/1.jpg,c|b|a,val\n");
  const Dataset files = Dataset::open(temp.at("set/m.csv"));
  pack(files, temp.at("set.pack"), 1);
  const Dataset again = Dataset::open(temp.at("set.pack"));
  EXPECT_EQ(again.class_names(), files.class_names());
  for (const Split split : kSplits) {
    ASSERT_EQ(again.size(split), files.size(split));
    for (std::int64_t i = 0; i < files.size(split); ++i)
      EXPECT_EQ(again.label_name(split, i), files.label_name(split, i));
  }
  expect_words(error_of([&] { Dataset::open(temp.at("set.pack"), {.multi_label = false}); }),
               {"set.pack", "any number of classes", "multi_label=false"});
}

TEST(Pack, KeepsWeightsAndGroups) {
  const TempFolder temp;
  write(temp.at("set/broken.jpg"), "no image");
  std::string table = "path,label,weight,person\nbroken.jpg,cat,7,x\n";
  for (int i = 0; i < 150; ++i) {
    write(temp.at(text("set/", i, ".png")), png_of(plain(9, 12, {static_cast<std::uint8_t>(i), 0, 0})));
    table += text(i, ".png,", i % 2 ? "cat," : "dog,", i / 7.0, ",\"p, ", i % 5, "\"\n");
  }
  write(temp.at("set/m.csv"), table);
  const Dataset files = Dataset::open(temp.at("set/m.csv"), {.val_split = 0.0, .group_by = "person"});
  const std::string path = temp.at("set.pack");
  EXPECT_LT(pack(files, path, 2, [](std::int64_t, std::int64_t) { return false; }).samples, 150);
  EXPECT_GT(pack(files, path, 2).resumed, 0);
  const Dataset again = Dataset::open(path, {.val_split = 0.0});
  ASSERT_EQ(again.size(Split::train), 150);
  for (std::int64_t i = 0; i < 150; ++i) {
    EXPECT_EQ(again.weight(Split::train, i), files.weight(Split::train, i + 1));
    EXPECT_EQ(again.group(Split::train, i), files.group(Split::train, i + 1));
  }
  // A split that is cut from the packed file separates no group.
  const Dataset cut = Dataset::open(path, {.val_split = 0.4});
  std::set<std::string> train, val;
  for (std::int64_t i = 0; i < cut.size(Split::train); ++i) train.insert(cut.group(Split::train, i));
  for (std::int64_t i = 0; i < cut.size(Split::val); ++i) val.insert(cut.group(Split::val, i));
  EXPECT_EQ(train.size(), 3u);
  EXPECT_EQ(val.size(), 2u);
  expect_words(error_of([&] { Dataset::open(path, {.group_by = "person"}); }, Fault::usage),
               {"set.pack", "group_by", "neurim data pack"});
}

TEST(Pack, KeepsSplitsAndLevelsThatAreNoFiles) {
  const TempFolder temp;
  write_idx(temp, cycle(6, 3));
  const Dataset arrays = Dataset::open(temp.path(), {.val_split = 0.0});
  pack(arrays, temp.at("set.pack"), 1);
  const Dataset again = Dataset::open(temp.at("set.pack"), {.val_split = 0.0});
  const Preprocess preprocess{.channels = 1, .height = 4, .width = 5};
  for (const Split split : {Split::train, Split::test}) {
    ASSERT_EQ(again.size(split), arrays.size(split));
    Loader one(arrays, split, preprocess), other(again, split, preprocess);
    EXPECT_TRUE(epoch_of(one, 0) == epoch_of(other, 0));
  }
}

TEST(Pack, KeepsChannelsAndBits) {
  const TempFolder temp;
  const ImageSize size{4, 5, 6, 16};
  std::vector<std::uint8_t> pixels(4 * size.bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 7);
  Listing listing{.class_names = {"a", "b"}, .labels = {0, 1, 0, 1}};
  listing.source = std::make_shared<MemorySource>(size, std::vector<MemorySource::Part>{{"x.npy", 0, pixels}});
  listing[Split::train] = {0, 1, 2, 3};
  const Dataset arrays(std::move(listing), {.val_split = 0.0}, "x");
  pack(arrays, temp.at("set.pack"), 1);
  const Dataset again = Dataset::open(temp.at("set.pack"), {.val_split = 0.0});
  std::vector<std::byte> buffer;
  for (std::int64_t i = 0; i < 4; ++i) {
    const StoredImage before = arrays.read(Split::train, i, buffer), after = again.read(Split::train, i, buffer);
    EXPECT_EQ(after.pixels, size);
    EXPECT_TRUE(std::equal(before.bytes.begin(), before.bytes.end(), after.bytes.begin(), after.bytes.end()));
  }
}

TEST(Pack, GoesOnWhereItStopped) {
  const TempFolder temp;
  for (int c = 0; c < 2; ++c)
    for (int i = 0; i < 100; ++i)
      write(temp.at(text("set/", c, "/", 1000 + i, ".jpg")),
            i == 7 ? "no image"
                   : jpeg_of(plain(9, 12, {static_cast<std::uint8_t>(i), 100, static_cast<std::uint8_t>(c)})));
  const Dataset data = Dataset::open(temp.path() + "/set", {.val_split = 0.0});
  const PackResult whole = pack(data, temp.at("whole.pack"), 2);
  EXPECT_EQ(whole.samples, 198);
  ASSERT_EQ(whole.skipped.size(), 2u);
  expect_words(whole.skipped[0], {"0/1007.jpg", "not an image"});

  const std::string path = temp.at("parts.pack");
  const PackResult first = pack(data, path, 2, [](std::int64_t done, std::int64_t) { return done < 100; });
  EXPECT_LT(first.samples, 198);
  EXPECT_GT(first.samples, 60);
  EXPECT_FALSE(fs::exists(path));
  // The last record is cut as a full disk would.
  fs::resize_file(path + ".part", fs::file_size(path + ".part") - 5);
  const PackResult second = pack(data, path, 1);
  EXPECT_EQ(second.resumed, first.samples - 1);
  EXPECT_EQ(second.samples, 198);
  EXPECT_EQ(read_file(path), read_file(temp.at("whole.pack")));
  EXPECT_FALSE(fs::exists(path + ".part"));

  // What was left of another set is not gone on from.
  pack(data, path, 1, [](std::int64_t, std::int64_t) { return false; });
  fs::remove(temp.at("set/1/1099.jpg"));
  const Dataset smaller = Dataset::open(temp.path() + "/set", {.val_split = 0.0});
  const PackResult other = pack(smaller, path, 2);
  EXPECT_EQ(other.resumed, 0);
  EXPECT_TRUE(other.begun_anew);
}

TEST(Pack, IsWrittenByOneAtATime) {
  const TempFolder temp;
  write_mixed(temp);
  const Dataset data = Dataset::open(temp.path() + "/set", {.val_split = 0.0});
  const std::string path = temp.at("set.pack");
  pack(data, path, 1, [&](std::int64_t, std::int64_t) {
    for (const auto& other :
         {std::function([&] { pack(data, path, 1); }), std::function([&] { check_pack(data, path); })})
      expect_words(error_of(other, Fault::resource), {"set.pack is being written"});
    return true;
  });
  EXPECT_EQ(Dataset::open(path, {.val_split = 0.0}).size(Split::train), 18);
}

TEST(Pack, BeginsAnewWhereAFileHasChanged) {
  const TempFolder temp;
  for (int i = 0; i < 200; ++i)
    write(temp.at(text("set/", i % 2, "/", 1000 + i, ".png")),
          png_of(plain(9, 12, {static_cast<std::uint8_t>(i), 0, 0})));
  const Dataset data = Dataset::open(temp.path() + "/set", {.val_split = 0.0});
  const std::string path = temp.at("set.pack"), changed = temp.at("set/0/1080.png");
  const auto stop = [](std::int64_t done, std::int64_t) { return done < 100; };
  EXPECT_FALSE(pack(data, path, 2, stop).begun_anew);
  EXPECT_FALSE(pack(data, path, 2, stop).begun_anew);
  const auto before = fs::last_write_time(changed);
  const std::string fresh = png_of(plain(9, 12, {77, 0, 0}));
  ASSERT_EQ(fresh.size(), read_file(changed).size());
  write(changed, fresh);
  fs::last_write_time(changed, before + std::chrono::seconds(1));
  const PackResult again = pack(data, path, 2);
  EXPECT_TRUE(again.begun_anew);
  EXPECT_EQ(again.resumed, 0);
  std::vector<std::byte> buffer;
  const Dataset packed = Dataset::open(path, {.val_split = 0.0});
  const StoredImage stored = packed.read(Split::train, 40, buffer);
  EXPECT_TRUE(std::ranges::equal(stored.bytes, std::as_bytes(std::span(fresh))));

  write(temp.at("mine.pack.part"), "my own notes");
  expect_words(error_of([&] { pack(data, temp.at("mine.pack"), 1); }, Fault::usage),
               {"mine.pack.part", "exists already"});
  EXPECT_EQ(read_file(temp.at("mine.pack.part")), "my own notes");
}

TEST(Fingerprint, OfContentsKnowsThePixels) {
  const TempFolder temp;
  for (int i = 0; i < 4; ++i)
    write(temp.at(text("set/", i % 2, "/", i, ".png")), png_of(plain(9, 12, {static_cast<std::uint8_t>(i), 0, 0})));
  const Dataset data = Dataset::open(temp.path() + "/set", {.val_split = 0.5});
  const std::string names = fingerprint(data, Split::train), files = file_fingerprint(data, Split::train);
  const ContentPrint before = content_fingerprint(data);
  EXPECT_TRUE(before.whole);
  const std::string changed = data.name(Split::train, 0), bytes = read_file(changed);
  fs::last_write_time(changed, fs::last_write_time(changed) + std::chrono::seconds(1));
  EXPECT_EQ(content_fingerprint(data).splits, before.splits);
  EXPECT_NE(file_fingerprint(data, Split::train), files);
  write(changed, png_of(plain(9, 12, {99, 0, 0})));
  const ContentPrint after = content_fingerprint(data);
  EXPECT_EQ(fingerprint(data, Split::train), names);
  EXPECT_NE(after.splits[0], before.splits[0]);
  EXPECT_EQ(after.splits[1], before.splits[1]);

  // More than 256 MiB are not read: sizes and times stand for them.
  fs::resize_file(changed, (std::uint64_t{256} << 20) + 1);
  const ContentPrint large = content_fingerprint(data);
  EXPECT_FALSE(large.whole);
  EXPECT_EQ(large.splits[0], file_fingerprint(data, Split::train));

  // Samples that lie in one file have its size and time.
  fs::remove(changed);
  pack(Dataset::open(temp.path() + "/set", {.val_split = 0.0}), temp.at("set.pack"), 1);
  const Dataset packed = Dataset::open(temp.at("set.pack"));
  const std::string stamped = file_fingerprint(packed, Split::train);
  fs::last_write_time(temp.at("set.pack"), fs::last_write_time(temp.at("set.pack")) + std::chrono::seconds(1));
  EXPECT_NE(file_fingerprint(packed, Split::train), stamped);
}

TEST(Pack, DamageIsFound) {
  const TempFolder temp;
  write_mixed(temp);
  const std::string path = temp.at("set.pack"), cut = temp.at("cut.pack");
  pack(Dataset::open(temp.path() + "/set", {.val_split = 0.0}), path, 2);
  const std::string bytes = read_file(path);
  for (const std::size_t size : {std::size_t{8}, std::size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    write(cut, bytes.substr(0, size));
    expect_words(error_of([&] { Dataset::open(cut); }), {"cut.pack", "damaged", "pack the data again"});
  }
  int named = 0;
  for (std::uint64_t round = 0; round < 200; ++round) {
    Random random(4, round);
    std::string changed = bytes;
    const std::size_t at = 208 + random.below(static_cast<std::uint32_t>(bytes.size() - 208));
    changed[at] = static_cast<char>(changed[at] + 1 + static_cast<char>(random.below(255)));
    write(cut, changed);
    try {
      const Dataset data = Dataset::open(cut, {.val_split = 0.0});
      std::vector<std::byte> buffer;
      Decoder decoder;
      Image image;
      for (std::int64_t i = 0; i < data.size(Split::train); ++i) {
        decoder.open(data.read(Split::train, i, buffer));
        decoder.read(image);
      }
      ADD_FAILURE() << "nothing noticed at " << at;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);
      expect_words(error.what(), {"pack"});
      ++named;
    }
  }
  EXPECT_EQ(named, 200);
}

}  // namespace
}  // namespace neurim
