// Trains a model from given weights on given batches, for training_curve_test.py to compare with PyTorch.
//   training_curve MODEL CLASSES STEPS FOLDER [norm=MOST|value=MOST|accumulate=BATCHES]
// reads FOLDER/weights.safetensors, images_0.npy … and labels_0.npy …; writes trained.safetensors and the
// trained model's logits.npy for images_0; prints the losses of the steps as a JSON list.
#include <iostream>
#include <nlohmann/json.hpp>

#include "neurim/neurim.h"

namespace neurim {
namespace {

void train(const std::string& name, std::int64_t classes, std::int64_t steps, const fs::path& folder,
           const std::string& gradients) {
  const auto batch = [&](std::int64_t step) -> Tensors {
    return {read_npy(folder / text("images_", step, ".npy")), read_npy(folder / text("labels_", step, ".npy"))};
  };
  const Tensors first = batch(0);
  const Types types{first[0].type(), first[1].type()};
  Model model = create_model(name, {.num_classes = classes, .in_chans = first[0].size(1), .seed = {}});
  load_model(model, folder / "weights.safetensors");
  SGD optimizer(named_parameters(model), {.lr = 0.01, .momentum = 0.9});

  const std::string what = gradients.substr(0, gradients.find('='));
  const double number = what.empty() ? 1 : std::stod(gradients.substr(what.size() + 1));
  if (what == "norm") optimizer.add(std::make_unique<ClipGradientNorm>(number));
  if (what == "value") optimizer.add(std::make_unique<ClipGradientValue>(number));
  const auto together = static_cast<std::int64_t>(what == "accumulate" ? number : 1);
  if (together > 1) optimizer.accumulate();
  const auto planned = [&](bool holds) {
    optimizer.hold(holds);
    return plan(training_step(model, optimizer, {}), types, {.training = true});
  };
  const Plan step = planned(false), hold = together > 1 ? planned(true) : step;
  nlohmann::json losses = nlohmann::json::array();
  for (std::int64_t i = 0; i < steps; ++i)
    losses.push_back(((i + 1) % together == 0 ? step : hold)(batch(i))[0].item());

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
    require(argc == 5 || argc == 6, "usage: training_curve MODEL CLASSES STEPS FOLDER [GRADIENTS]");
    initialize();
    train(argv[1], std::stoll(argv[2]), std::stoll(argv[3]), argv[4], argc == 6 ? argv[5] : "");
  } catch (const std::exception& error) {
    std::cerr << "training_curve: " << error.what() << '\n';
    return 1;
  }
}
