// Trains a model from given weights on given batches, for training_curve_test.py to compare with PyTorch.
//   training_curve MODEL CLASSES STEPS FOLDER
// reads FOLDER/weights.safetensors, images_0.npy … and labels_0.npy …; writes trained.safetensors and the
// trained model's logits.npy for images_0; prints the losses of the steps as a JSON list.
#include <iostream>
#include <nlohmann/json.hpp>

#include "neurim/neurim.h"

namespace neurim {
namespace {

void train(const std::string& name, std::int64_t classes, std::int64_t steps, const fs::path& folder) {
  const auto batch = [&](std::int64_t step) -> Tensors {
    return {read_npy(folder / text("images_", step, ".npy")), read_npy(folder / text("labels_", step, ".npy"))};
  };
  const Tensors first = batch(0);
  const Types types{first[0].type(), first[1].type()};
  Model model = create_model(name, {.num_classes = classes, .in_chans = first[0].size(1), .seed = {}});
  load_model(model, folder / "weights.safetensors");
  SGD optimizer(named_parameters(model), {.lr = 0.01, .momentum = 0.9});

  const Plan step = plan(training_step(model, optimizer, {}), types, {.training = true});
  nlohmann::json losses = nlohmann::json::array();
  for (std::int64_t i = 0; i < steps; ++i) losses.push_back(step(batch(i))[0].item());

  save_model(model, folder / "trained.safetensors");
  const Plan forward = plan([&](const Tensors& in) -> Tensors { return {model(in[0])}; }, {types[0]}, {.freeze = true});
  write_npy(folder / "logits.npy", forward({first[0]})[0]);
  std::cout << losses << '\n';
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) {
  using namespace neurim;
  try {
    require(argc == 5, "usage: training_curve MODEL CLASSES STEPS FOLDER");
    initialize();
    train(argv[1], std::stoll(argv[2]), std::stoll(argv[3]), argv[4]);
  } catch (const std::exception& error) {
    std::cerr << "training_curve: " << error.what() << '\n';
    return 1;
  }
}
