// Exports with their preprocessing inside: the file makes of an image what Transform makes of it.
#include "neurim/train/onnx_preprocess.h"

#include <gtest/gtest.h>

#include <cmath>

#include "neurim/core/random.h"
#include "neurim/data/transform.h"
#include "neurim/infer/session.h"
#include "neurim/model/zoo.h"
#include "neurim/train/export_checkpoint.h"
#include "neurim/train/onnx_checkpoint.h"

namespace neurim {
namespace {

struct Case {
  ResizeMode resize;
  Interpolation interpolation;
  int channels;
  double crop_pct = 1;
  std::uint8_t fill = 0;
};

Preprocess preprocess_of(const Case& c) {
  Preprocess p;
  p.channels = c.channels, p.height = 24, p.width = 32;
  p.resize = c.resize, p.crop_pct = c.crop_pct, p.interpolation = c.interpolation, p.fill = c.fill;
  p.mean.clear(), p.std.clear();
  for (int i = 0; i < c.channels; ++i) p.mean.push_back(0.3 + 0.1 * i), p.std.push_back(0.2 + 0.05 * i);
  return p;
}

Checkpoint checkpoint_of(const Preprocess& p, bool multi_label = false) {
  ModelOptions options;
  options.in_chans = p.channels, options.num_classes = 5;
  Checkpoint checkpoint{{}, {}, create_model("resnet20", options)};
  checkpoint.config.model = "resnet20";
  checkpoint.config.in_chans = p.channels;
  checkpoint.config.class_names = {"a", "b", "c", "d", "e"};
  checkpoint.config.preprocess = p;
  if (multi_label) checkpoint.config.thresholds.assign(5, 0.5);
  return checkpoint;
}

Image noise(int height, int width, int channels, Random& random) {
  Image image;
  image.reshape({height, width, channels});
  for (std::size_t i = 0; i < image.size().bytes(); ++i)
    image.data()[i] = static_cast<std::uint8_t>(random.below(2) ? random.below(256) : random.below(2) * 255);
  return image;
}

StoredImage stored(const Image& image) {
  return {.bytes = std::as_bytes(std::span(image.data(), image.size().bytes())), .pixels = image.size()};
}

class OnnxPreprocess : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  const fs::path folder = fs::temp_directory_path() / ("neurim-preprocess-" + std::to_string(::getpid()));
};

TEST_F(OnnxPreprocess, PixelsAreThoseOfTransform) {
  const std::vector<Case> cases{{ResizeMode::crop, Interpolation::bilinear, 3, 0.875},
                                {ResizeMode::crop, Interpolation::bicubic, 3, 0.95},
                                {ResizeMode::crop, Interpolation::nearest, 1},
                                {ResizeMode::squash, Interpolation::bilinear, 1},
                                {ResizeMode::squash, Interpolation::bicubic, 4},
                                {ResizeMode::squash, Interpolation::nearest, 3},
                                {ResizeMode::letterbox, Interpolation::bilinear, 3, 1, 114},
                                {ResizeMode::letterbox, Interpolation::bicubic, 1, 1, 0},
                                {ResizeMode::letterbox, Interpolation::nearest, 2, 1, 200}};
  const std::vector<std::pair<int, int>> sizes{{24, 32},  {31, 47},  {100, 75}, {7, 5},   {1, 1},
                                               {240, 33}, {13, 400}, {48, 64},  {23, 32}, {333, 501}};
  Random random(3);
  for (const Case& c : cases) {
    const Preprocess p = preprocess_of(c);
    const Checkpoint checkpoint = checkpoint_of(p);
    export_checkpoint(checkpoint, folder / "model.onnx", {}, ExportedPreprocess::embedded);
    const InferenceSession file(OnnxModel::open(folder / "model.onnx", {.part = OnnxPart::preprocess}));
    Transform transform(p);
    for (const auto& [height, width] : sizes) {
      const Image image = noise(height, width, p.channels, random);
      Decoder decoder;
      decoder.open(stored(image), p.decoding());
      std::vector<float> expected(p.size().values());
      transform(decoder, expected.data());
      Tensor in = Tensor::empty({DType::u8, {1, height, width, p.channels}});
      in.write(image.data());
      ASSERT_EQ(file.eager_because({in.type()}), "");
      const std::vector<float> found = file.run(Tensors{in})[0].values<float>();
      ASSERT_EQ(found.size(), expected.size());
      std::size_t others = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t channel = i / (expected.size() / static_cast<std::size_t>(p.channels));
        const double levels = std::abs(found[i] - expected[i]) * 255 * p.std[channel];
        ASSERT_TRUE(c.interpolation == Interpolation::nearest || levels < 1.01)
            << height << "x" << width << " at " << i;
        others += levels > 0.01;
      }
      // What is rounded falls to the other side where a sum is a half; of nearest a pixel between two to the other one.
      const double share = c.interpolation == Interpolation::nearest ? 0.1 : 0.005;
      EXPECT_LE(static_cast<double>(others), share * static_cast<double>(found.size()))
          << name(c.resize) << ' ' << name(c.interpolation) << ' ' << height << 'x' << width;
    }
  }
}

TEST_F(OnnxPreprocess, TheWholeFileAnswersAsTheModel) {
  for (const bool multi_label : {false, true}) {
    const Preprocess p = preprocess_of({ResizeMode::crop, Interpolation::bilinear, 3, 0.9});
    const Checkpoint checkpoint = checkpoint_of(p, multi_label);
    export_checkpoint(checkpoint, folder / "model.onnx", {}, ExportedPreprocess::embedded);
    const InferenceSession file = InferenceSession::open(folder / "model.onnx"), model(checkpoint);
    EXPECT_EQ(text(file.inputs()[0]), "u8(batch,height,width,3)");
    EXPECT_EQ(file.outputs()[0].name, "probabilities");
    Random random(4);
    Transform transform(p);
    for (int i = 0; i < 5; ++i) {
      const Image image = noise(40 + 7 * i, 90 - 11 * i, 3, random);
      Decoder decoder;
      decoder.open(stored(image), p.decoding());
      std::vector<float> pixels(p.size().values());
      transform(decoder, pixels.data());
      Tensor in = Tensor::empty({DType::u8, {1, image.height(), image.width(), 3}});
      in.write(image.data());
      const std::vector<double> found = file.run(Tensors{in})[0].values<double>();
      std::vector<double> expected = model.run(Tensors{Tensor::from(image_type(p, 1), pixels.data())})[0]
                                         .values<double>();
      double sum = 0;
      for (double& value : expected) value = multi_label ? 1 / (1 + std::exp(-value)) : std::exp(value), sum += value;
      for (std::size_t j = 0; j < expected.size(); ++j)
        EXPECT_NEAR(found[j], multi_label ? expected[j] : expected[j] / sum, 2e-3);
    }
  }
}

TEST_F(OnnxPreprocess, TheNetworkIsFoundInIt) {
  const Preprocess p = preprocess_of({ResizeMode::letterbox, Interpolation::bilinear, 3, 1, 114});
  const Checkpoint checkpoint = checkpoint_of(p);
  const fs::path path = folder / "model.onnx";
  export_checkpoint(checkpoint, path, {}, ExportedPreprocess::embedded);
  const Checkpoint read = load_onnx_checkpoint(path);
  EXPECT_EQ(read.config.preprocess, p);
  EXPECT_EQ(read.config.class_names, checkpoint.config.class_names);
  EXPECT_TRUE(read.notes.empty()) << text(read.notes.front());
  const Tensor x = Tensor::full({DType::f32, {2, 3, 24, 32}}, 0.25);
  const std::vector<double> one = InferenceSession(checkpoint).run(Tensors{x})[0].values<double>(),
                            other = InferenceSession(read).run(Tensors{x})[0].values<double>();
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], 1e-5);  // logits, not probabilities
  const Model trainable = trainable_onnx(path, 3, 1);
  EXPECT_EQ(trainable.num_classes, 3);
  ModelConfig config = read.config;
  config.source = trainable.source;
  EXPECT_EQ(model_of_onnx_source(trainable.source, config).num_classes, 3);  // which holds the network alone
}

TEST_F(OnnxPreprocess, WhatCannotBeEmbeddedIsRefused) {
  Preprocess p = preprocess_of({ResizeMode::crop, Interpolation::bilinear, 3});
  p.bits = 16;
  EXPECT_THROW(export_checkpoint(checkpoint_of(p), folder / "x.onnx", {}, ExportedPreprocess::embedded), Error);
}

}  // namespace
}  // namespace neurim
