// Curves, counts of classes and sheets of small images: their sizes, and what is and what is not drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/base/text.h"
#include "neurim/evaluate/canvas.h"
#include "neurim/evaluate/class_counts.h"
#include "neurim/evaluate/contact_sheet.h"
#include "neurim/evaluate/curves.h"
#include "neurim/train/batch_image.h"
#include "tests/images.h"

namespace neurim {
namespace {

TEST(Charts, CurvesWithGaps) {
  const double none = std::nan("");
  const std::string two = curves_image(
      {}, {{"Loss", {{"training", {2, 1, 0.5}}, {"validation", {none, 1.2, none}, Best::lowest}}},
           {"Accuracy", {{"validation", {none, 0.4, none}, Best::highest}}, true}});
  const std::string one = curves_image({}, {{"Loss", {{"training", {none}}}}}, 7);
  EXPECT_EQ(decoded(two).width(), 2 * decoded(one).width());
  EXPECT_EQ(decoded(two).height(), decoded(one).height());
}

struct Extent {
  int left = 1 << 20, right = -1, top = 1 << 20, bottom = -1;
  int height() const { return bottom - top; }
};

/// Of the pixels of the first curve's colour, below the legend and the values of outliers.
Extent first_curve_in(const std::string& png) {
  const Image image = decoded(png);
  Extent extent;
  for (int y = 264; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x)
      if (const std::uint8_t* rgb = image.row(y) + 3 * x; rgb[2] > rgb[0] + 100) {
        extent.left = std::min(extent.left, x), extent.right = std::max(extent.right, x);
        extent.top = std::min(extent.top, y), extent.bottom = std::max(extent.bottom, y);
      }
  return extent;
}

TEST(Charts, ASingleEpochStandsInTheMiddle) {
  const Extent dot = first_curve_in(curves_image({}, {{"Loss", {{"training", {0.5}}}}}));
  EXPECT_NEAR(dot.left + dot.right, 2 * (62 + 400 / 2) * 2, 4);  // at 2 pixels a unit
}

TEST(Charts, AxesOfConstantsAreOfTheirSize) {
  const auto image = [](double value) { return curves_image({}, {{"Learning rate", {{"", {value, value}}}}}); };
  for (const double value : {2e-3, 2e-4, 2e-7}) EXPECT_NE(image(value), image(value / 10)) << value;
  EXPECT_FALSE(image(0).empty());
}

TEST(Charts, OutliersLeaveTheAxisToTheOthers) {
  const double none = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(axis_top({2.1, 1.5, 1.2, 25, 1.8, 1.4}), 2.1);
  EXPECT_EQ(axis_top({2.1, none, 1.5, infinite, 25, 1.8}), 2.1);
  EXPECT_EQ(axis_top({2.3, 1.9, 1.6, 1.4, 1.3, 1.2}), 2.3);  // falls as losses do
  EXPECT_EQ(axis_top({2, 25}), 25);                          // either may be the usual one
  EXPECT_EQ(axis_top({1, 1.1, 25, 1, 1.2, 25}), 25);         // a third of the values
  EXPECT_EQ(axis_top({0.5, 0.5, 0.5, 25}), 0.5);
  EXPECT_EQ(axis_top({}), 1);
  std::vector<double> many(20, 1.0);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] += 0.05 * static_cast<double>(i % 7);
  many[0] = 50, many[1] = 51;
  EXPECT_DOUBLE_EQ(axis_top(many), 1.3);
  many[2] = 52;
  EXPECT_EQ(axis_top(many), 52);  // more than a tenth

  const auto image = [](double first, bool clipped) {
    return curves_image({},
                        {{.title = "Loss",
                          .curves = {{"training", {2.1, 1.5, 1.2}}, {"validation", {first, 1.8, 1.4}, Best::lowest}},
                          .clipped = clipped}});
  };
  EXPECT_GT(first_curve_in(image(25, true)).height(), 5 * first_curve_in(image(25, false)).height());
  EXPECT_EQ(first_curve_in(image(25, true)).height(), first_curve_in(image(30, true)).height());
  EXPECT_NE(image(25, true), image(30, true));  // the value is written
  EXPECT_NE(image(25, true), image(none, true));
  EXPECT_NE(image(infinite, true), image(none, true));
  EXPECT_EQ(image(2, true), image(2, false));

  // Of the first curve: the triangle at the upper end, over the first epoch.
  const std::string spike = curves_image(
      {}, {{.title = "Loss", .curves = {{"training", {25, 1.8, 1.4, 1.2}}}, .clipped = true}});
  const Extent drawn = first_curve_in(spike);
  EXPECT_NEAR(drawn.left, 62 * 2 - 9, 2);  // half as wide as it is to the left of the axis
  EXPECT_NEAR(drawn.top, first_curve_in(curves_image({}, {{"Loss", {{"training", {1.8, 1.8, 1.4, 1.2}}}}})).top, 2);
}

/// An image of classes whose names and counts are given, with a second split of one sample each.
std::string counts_image(const std::vector<std::string>& names, const std::vector<std::int64_t>& counts,
                         const std::string& data = "photos", std::int64_t samples = 100) {
  return class_counts_image(
      data, names,
      {{"train", counts, samples}, {"val", std::vector<std::int64_t>(counts.size(), 1), std::ssize(counts)}});
}

TEST(Charts, CountsOfClassesFallAndTheTitleTellsOfWhat) {
  const std::string image = counts_image({"b", "d", "a", "c"}, {40, 30, 20, 10});
  EXPECT_EQ(image, counts_image({"a", "b", "c", "d"}, {20, 40, 10, 30}));
  EXPECT_EQ(counts_image({"x", "y", "z"}, {1, 2, 2}), counts_image({"y", "z", "x"}, {2, 2, 1}));
  EXPECT_NE(image, counts_image({"b", "d", "a", "c"}, {40, 30, 20, 10}, "drawings"));
  EXPECT_NE(image, counts_image({"b", "d", "a", "c"}, {40, 30, 20, 10}, "photos", 101));
  EXPECT_EQ(decoded(image).size(),
            decoded(counts_image({"b", "d", "a", "c"}, {40, 30, 20, 10}, std::string(900, 'p'))).size());
}

TEST(Charts, CountsOfManyClassesAreACurve) {
  const auto image = [](int classes, const std::string& changed = "", int at = 0, int by = 0) {
    std::vector<std::string> names;
    std::vector<std::int64_t> counts;
    for (int c = 0; c < classes; ++c) names.push_back(text("class ", c)), counts.push_back(classes - c);
    if (!changed.empty()) names[at] = changed;
    counts[at] += by;
    return counts_image(names, counts);
  };
  int before = 0;
  for (const int classes : {2, 10, 40, 41, 100, 1000, 5000}) {
    const ImageSize size = decoded(image(classes)).size();
    EXPECT_EQ(size.width, 1540);
    EXPECT_GE(size.height, 200);
    EXPECT_LE(size.height, 1900) << classes;
    if (classes <= 40) {
      EXPECT_GT(size.height, before);
    }
    before = size.height;
  }
  EXPECT_EQ(decoded(image(100)).size(), decoded(image(1000)).size());
  EXPECT_NE(image(130), image(140));
  EXPECT_EQ(image(100), image(100, "changed", 50));  // one between has no name
  EXPECT_NE(image(100), image(100, "changed", 14));
  EXPECT_NE(image(100), image(100, "changed", 85));
  EXPECT_NE(image(100), image(100, "class 15", 15, -30));  // the curve has its count
}

// A black and a white pixel side by side.
TEST(ContactSheet, SmallOnesShowTheirPixels) {
  const auto sheet = [](int height, int width, const std::vector<std::string>& caption) {
    Thumbnail one{.rgb = std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * 3)),
                  .height = height,
                  .width = width,
                  .caption = caption};
    for (int i = 0; i < height * width; ++i)
      if (i % width >= width / 2) std::fill_n(one.rgb.begin() + 3 * i, 3, std::uint8_t{255});
    return decoded(contact_sheet(std::vector{one}, 8, 160));
  };
  // The columns of levels between black and white, of the row through the middle.
  const auto between = [](const Image& image) {
    int count = 0;
    for (int x = 0; x < image.width(); ++x)
      if (const int level = image.row(6 + 80)[3 * x]; level > 60 && level < 195) ++count;
    return count;
  };
  const auto black = [](const Image& image) {
    int count = 0;
    for (int x = 0; x < image.width(); ++x) count += image.row(6 + 80)[3 * x] < 128;
    return count;
  };
  for (const int side : {2, 28, 32, 62}) {
    const Image image = sheet(side, side, {"cat"});
    EXPECT_EQ(between(image), 0) << side;
    EXPECT_EQ(black(image), 160 / side * (side / 2)) << side;
  }
  EXPECT_GT(between(sheet(64, 64, {"cat"})), 0);
  EXPECT_NEAR(black(sheet(64, 64, {"cat"})), 80, 2);
  const int one_line = sheet(28, 28, {"cat"}).height();
  EXPECT_EQ(sheet(28, 28, {"cat", "dog"}).height(), one_line);
  EXPECT_EQ(sheet(28, 28, {std::string(300, 'n')}).height(), one_line);
  EXPECT_GT(sheet(28, 28, {"golden retriever 60%", "labrador 40%"}).height(), one_line + 14);
  EXPECT_EQ(sheet(28, 28, {std::string(300, 'n')}).width(), sheet(28, 28, {}).width());
}

TEST(BatchImage, TheLargestShareOfAMixComesFirst) {
  float levels[4] = {}, targets[] = {1, 0, 1};
  std::int64_t label[] = {0};
  Batch batch{.images = levels, .labels = label, .targets = {}, .indices = {}, .size = 1};
  const Preprocess preprocess{.channels = 1, .height = 2, .width = 2, .mean = {0}, .std = {1}};
  const auto sheet = [](const std::vector<std::string>& caption) {
    return contact_sheet(
        std::vector{Thumbnail{.rgb = std::vector<std::uint8_t>(12), .height = 2, .width = 2, .caption = caption}}, 8,
        160);
  };
  const std::int64_t partner[] = {2};
  const std::vector<std::string> names{"ant", "bee", "cat"};
  EXPECT_EQ(batch_image(batch, preprocess, names), sheet({"ant"}));
  EXPECT_EQ(batch_image(batch, preprocess, names, {.lambda = 0.7, .labels = partner}), sheet({"ant 70%", "cat 30%"}));
  EXPECT_EQ(batch_image(batch, preprocess, names, {.lambda = 0.2, .labels = partner}), sheet({"cat 80%", "ant 20%"}));
  batch.targets = targets;
  EXPECT_EQ(batch_image(batch, preprocess, names), sheet({"ant", "cat"}));
}

TEST(Canvas, AxisSteps) {
  EXPECT_DOUBLE_EQ(axis_step(1), 1);
  EXPECT_DOUBLE_EQ(axis_step(1.01), 2);
  EXPECT_DOUBLE_EQ(axis_step(30), 50);
  EXPECT_DOUBLE_EQ(axis_step(0.06), 0.1);
  EXPECT_DOUBLE_EQ(axis_step(0.0012), 0.002);
}

}  // namespace
}  // namespace neurim
