// Trains a network of one's own on a folder of images (root/train/<class>/*.png, root/val/<class>/*.png), looks at how
// well it does, and exports it. Without an argument the images are hand-drawn-like digits, rendered here. Ends with 0
// when more than 90 of 100 validation images are classified correctly.
#include <iostream>
#include <random>

#include "neurim/neurim.h"

using namespace neurim;

int main(int argc, char** argv) try {
  initialize();
  const fs::path work = fs::temp_directory_path() / text("neurim-example-", std::random_device()());
  if (argc < 2) write_digits(work / "digits", /*seed=*/1, /*train_per_class=*/300, /*val_per_class=*/50);
  const Dataset data = Dataset::open(argc > 1 ? argv[1] : (work / "digits").string());
  const auto classes = static_cast<std::int64_t>(data.class_names().size());

  const nn::Sequential net(nn::Conv2d(1, 16, {.kernel = 3, .pad = 1}), nn::BatchNorm2d(16), nn::ReLU(),
                           nn::MaxPool2d(2), nn::Conv2d(16, 32, {.kernel = 3, .pad = 1}), nn::BatchNorm2d(32),
                           nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Linear(32 * 7 * 7, classes));
  const Model model{
      .name = "own", .image_size = 28, .in_chans = 1, .num_classes = classes, .mean = {0.5}, .std = {0.5}, .net = net};
  const TrainResult run = train(model, data,
                                {.epochs = 4, .batch = 64, .lr = 2e-3, .project = (work / "runs").string()});
  std::cout << "top-1 " << run.metrics["top1"] << ", macro F1 " << run.metrics["f1_macro"] << ", saved in " << run.run
            << '\n';

  export_onnx(model, work / "own.onnx", {.image = {1, 28, 28}});
  return run.metrics["top1"] > 0.9 ? 0 : 1;
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return static_cast<int>(error.fault());
}
