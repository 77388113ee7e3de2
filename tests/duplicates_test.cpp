// Duplicates: equal files, files that look alike, and files that do not.
#include "neurim/data/duplicates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/images.h"

namespace neurim {
namespace {

Image scene(int height, int width, int number, double lighter = 0, double times = 1) {
  return image_of(height, width, 3, [&](int y, int x, int c) {
    const double u = 2 * M_PI * x / width, v = 2 * M_PI * y / height;
    const double level = 128 + 50 * std::sin((1 + number % 3) * u + number) +
                         50 * std::cos((1 + number % 4) * v + number * c);
    return static_cast<std::uint8_t>(std::clamp(level * times + lighter, 0.0, 255.0));
  });
}

TEST(Duplicates, AreFoundAcrossSplitsAndClasses) {
  const TempFolder temp;
  for (int i = 0; i < 12; ++i) {
    const std::string folder = i % 2 ? "train/a/" : "train/b/";
    write(temp.at(text(folder, i, ".png")), png_of(scene(80, 96, i)));
  }
  write(temp.at("train/a/again.png"), png_of(scene(80, 96, 3)));    // equal
  write(temp.at("val/b/small.jpg"), jpeg_of(scene(60, 72, 4, 4)));  // smaller, lighter, compressed
  write(temp.at("val/b/wrong.jpg"), jpeg_of(scene(80, 96, 5)));     // of the other class
  write(temp.at("val/b/new.png"), png_of(scene(80, 96, 30)));
  write(temp.at("val/b/broken.png"), "x");
  fs::create_directories(temp.path() + "/val/a");
  const Dataset data = Dataset::open(temp.path());
  for (const int threads : {1, 3}) {
    const Duplicates found = find_duplicates(data, threads);
    ASSERT_EQ(found.unreadable.size(), 1u);
    expect_words(found.unreadable[0], {"broken.png"});
    std::vector<std::string> groups;
    for (const DuplicateGroup& group : found.groups) {
      std::string line = text(group.exact, group.across_splits, group.labels_differ);
      for (const SampleId& id : group.samples)
        line += text(' ', fs::path(data.name(id.split, id.index)).filename().string());
      groups.push_back(line);
    }
    EXPECT_EQ(groups, (std::vector<std::string>{"falsetruetrue 5.png wrong.jpg", "falsetruefalse 4.png small.jpg",
                                                "truefalsefalse 3.png again.png"}));
  }
}

TEST(Duplicates, AreFoundInAnotherLight) {
  const TempFolder temp;
  const double times[] = {1.2, 0.8, 1.2, 0.8}, plus[] = {0, 0, -25.6, 25.6};
  for (int i = 0; i < 12; ++i) {
    write(temp.at(text("a/", 10 + i, ".png")), png_of(scene(80, 96, i)));
    write(temp.at(text("b/", 10 + i, ".jpg")), jpeg_of(scene(60, 72, i, plus[i % 4], times[i % 4])));
  }
  // Images of one level have no structure: their levels are compared.
  write(temp.at("a/dark.png"), png_of(plain(20, 20, {40, 40, 40})));
  write(temp.at("b/dark.png"), png_of(plain(30, 20, {41, 41, 41})));
  write(temp.at("b/light.png"), png_of(plain(20, 20, {200, 200, 200})));
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  const Duplicates found = find_duplicates(data, 2);
  EXPECT_EQ(found.groups.size(), 13u);
  for (const DuplicateGroup& group : found.groups) {
    ASSERT_EQ(group.samples.size(), 2u);
    std::vector<std::string> stems;
    for (const SampleId& id : group.samples) stems.push_back(fs::path(data.name(id.split, id.index)).stem().string());
    EXPECT_EQ(stems[0], stems[1]);
  }
}

}  // namespace
}  // namespace neurim
