// ImageClassifier: the same answers for one image and many, from files and from memory, from one thread and several.
#include "neurim/infer/classifier.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "neurim/core/random.h"
#include "neurim/data/encode.h"
#include "neurim/model/zoo.h"

namespace neurim {
namespace {

Checkpoint checkpoint_of(bool multi_label = false) {
  ModelOptions options;
  options.in_chans = 3, options.num_classes = 4;
  Checkpoint checkpoint{{}, {}, create_model("resnet20", options)};
  checkpoint.config.model = "resnet20";
  checkpoint.config.in_chans = 3;
  checkpoint.config.class_names = {"a", "b", "c", "d"};
  checkpoint.config.preprocess.height = checkpoint.config.preprocess.width = 32;
  if (multi_label) checkpoint.config.thresholds = {0, 1, 0, 1};
  return checkpoint;
}

class Classifier : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder);
    Random random(1);
    for (int i = 0; i < 21; ++i) {
      Image& image = images.emplace_back();
      image.reshape({20 + 5 * i, 70 - 2 * i, 3});
      const std::array<std::uint32_t, 3> most{random.below(255) + 1, random.below(255) + 1, random.below(255) + 1};
      for (std::size_t at = 0; at < image.size().bytes(); ++at)
        image.data()[at] = static_cast<std::uint8_t>(random.below(most[at % 3]));
      files.push_back(folder / (std::to_string(i) + ".png"));
      std::ofstream(files.back(), std::ios::binary) << encode_png(image);
    }
  }
  void TearDown() override { fs::remove_all(folder); }

  std::vector<StoredImage> stored() const {
    std::vector<StoredImage> all;
    for (const Image& image : images)
      all.push_back({.bytes = std::as_bytes(std::span(image.data(), image.size().bytes())), .pixels = image.size()});
    return all;
  }

  const fs::path folder = fs::temp_directory_path() / ("neurim-classifier-" + std::to_string(::getpid()));
  std::vector<Image> images;
  std::vector<fs::path> files;
};

void expect_same(const std::vector<Classification>& a, const std::vector<Classification>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].classes, b[i].classes) << i;
    ASSERT_EQ(a[i].probabilities.size(), b[i].probabilities.size()) << i;
    for (std::size_t c = 0; c < a[i].probabilities.size(); ++c)
      EXPECT_NEAR(a[i].probabilities[c], b[i].probabilities[c], tolerance) << i;
  }
}

TEST_F(Classifier, BatchesAndWorkersChangeNothing) {
  const Checkpoint checkpoint = checkpoint_of();
  const std::vector<Classification> one = ImageClassifier(checkpoint, {.batch = 1, .workers = 1}).predict(files);
  ASSERT_EQ(one.size(), files.size());
  EXPECT_NE(one[0].probabilities, one[1].probabilities);
  for (const std::int64_t batch : {2, 8, 21, 100})
    for (const std::int64_t workers : {0, 1, 3})
      expect_same(ImageClassifier(checkpoint, {.batch = batch, .workers = workers}).predict(files), one, 1e-5);
  expect_same(ImageClassifier(checkpoint).predict(stored()), one, 1e-5);
  EXPECT_TRUE(ImageClassifier(checkpoint).predict(std::span<const fs::path>()).empty());
}

TEST_F(Classifier, ThreadsGetTheirOwnAnswers) {
  const ImageClassifier classifier(checkpoint_of(), {.batch = 5});
  const std::vector<Classification> expected = classifier.predict(files);
  std::vector<std::vector<Classification>> found(4);
  std::vector<std::thread> threads;
  for (auto& mine : found) threads.emplace_back([&] { mine = classifier.predict(files); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : found) expect_same(each, expected, 0);
}

TEST_F(Classifier, WhatCannotBeReadIsSaidInItsPlace) {
  std::ofstream(files[3]) << "no image";
  fs::remove(files[7]);
  const std::vector<Classification> all = ImageClassifier(checkpoint_of(), {.batch = 4}).predict(files);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].unreadable.empty(), i != 3 && i != 7) << i;
    EXPECT_EQ(all[i].probabilities.size(), all[i].unreadable.empty() ? 4u : 0u) << i;
  }
  EXPECT_NE(all[3].unreadable.find("3.png"), std::string::npos) << all[3].unreadable;
}

TEST_F(Classifier, ThresholdsDecide) {
  for (const Classification& one : ImageClassifier(checkpoint_of(), {.reject_below = 1.1}).predict(files))
    EXPECT_TRUE(one.rejected);
  for (const Classification& one : ImageClassifier(checkpoint_of(), {.reject_below = 0.1}).predict(files))
    EXPECT_FALSE(one.rejected);
  for (const Classification& one : ImageClassifier(checkpoint_of(true)).predict(files)) {
    EXPECT_EQ(one.classes.size(), 2u);  // thresholds 0 and 1
    for (const std::size_t c : one.classes) EXPECT_TRUE(c == 0 || c == 2);
  }
  EXPECT_THROW(ImageClassifier(checkpoint_of(), {.batch = 0}), Error);
}

}  // namespace
}  // namespace neurim
