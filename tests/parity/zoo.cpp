// Runs models of the zoo, for zoo_test.py to compare with their PyTorch twins; prints JSON.
//   zoo names                              the known names
//   zoo cost MODEL                         what it was published for, and what one image costs
//   zoo initial MODEL SEED CLASSES FOLDER  writes initial.safetensors: the model as it is created
//   zoo run MODEL FOLDER TASK...           reads weights.safetensors (of 10 classes), images.npy, labels.npy;
//                                          writes logits.npy; MODEL may be unet or unet_padded; the tasks:
//     save       writes saved.safetensors
//     onnx       writes model.onnx
//     gradients  writes gradients.safetensors (of the loss, by every weight) and state.safetensors (with the
//                running statistics of after the step); gives the loss
//     a number   trains three steps at that learning rate; gives their losses
//   zoo convert MODEL FROM TO              reads weights (of 10 classes), saves them as the model's and gives
//                                          the notes of reading
#include <nlohmann/json.hpp>

#include "neurim/neurim.h"
#include "tests/parity/answer.h"

namespace neurim {
namespace {

using nlohmann::json;

constexpr std::int64_t kClasses = 10;
constexpr int kSteps = 3;

json cost(const std::string& name) {
  const Model model = create_model(name, {.seed = {}});
  const ModelCost all = total(layer_costs(model, {model.in_chans, model.image_size, model.image_size}));
  return {{"imgsz", model.image_size},
          {"in_chans", model.in_chans},
          {"parameters", parameter_count(Model(model))},
          {"multiply_adds", all.multiply_adds},
          {"activations", all.activations},
          {"mean", model.mean},
          {"deviation", model.std}};
}

/// Writes the gradients by name and returns the loss.
double write_gradients(Model& model, const Tensors& batch, const fs::path& folder) {
  std::vector<std::string> names;
  Tensors weights;
  for (const Parameter& p : named_parameters(model))
    if (p.role == Role::weight) {
      names.push_back(p.name);
      weights.push_back(p.tensor);
    }
  const Plan step = plan(
      [&](const Tensors& in) {
        const Tensor loss = cross_entropy(model(in[0]), in[1]);
        Tensors results = gradients(std::span(&loss, 1), weights);
        results.push_back(loss);
        return results;
      },
      {batch[0].type(), batch[1].type()}, {.training = true});
  const Tensors results = step(batch);
  std::vector<std::pair<std::string, Tensor>> named;
  for (std::size_t i = 0; i < names.size(); ++i) named.emplace_back(names[i], results[i]);
  write_safetensors(folder / "gradients.safetensors", named, {});
  save_model(model, folder / "state.safetensors");
  return results.back().item();
}

json train(Model& model, const Tensors& batch, double lr) {
  SGD optimizer(named_parameters(model), {.lr = lr, .momentum = 0.9});
  const Plan step = plan(training_step(model, optimizer, {}), {batch[0].type(), batch[1].type()}, {.training = true});
  json losses = json::array();
  for (int i = 0; i < kSteps; ++i) losses.push_back(step(batch)[0].item());
  return losses;
}

/// Where nothing is left to chance.
Model created(const std::string& name, std::int64_t channels) {
  if (name != "unet" && name != "unet_padded")
    return create_model(name,
                        {.num_classes = kClasses, .in_chans = channels, .dropout = 0, .drop_path = 0, .seed = {}});
  const UNet net(channels, kClasses, {.channels = 4, .pad = name == "unet_padded", .dropout = 0});
  return {name, 0, channels, kClasses, {0}, {1}, net};
}

json run(const std::string& name, const fs::path& folder, const std::vector<std::string>& tasks) {
  const Tensor images = read_npy(folder / "images.npy");
  Model model = created(name, images.size(1));
  load_model(model, folder / "weights.safetensors");
  const auto forward = [&](const Tensors& in) -> Tensors { return {model(in[0])}; };
  write_npy(folder / "logits.npy", plan(forward, {images.type()}, {.freeze = true})({images})[0]);

  json answer = json::object();
  const Tensors batch{images, read_npy(folder / "labels.npy")};
  for (const std::string& task : tasks)
    if (task == "save")
      save_model(model, folder / "saved.safetensors");
    else if (task == "onnx")
      export_onnx(model, folder / "model.onnx", {.image = {images.size(1), images.size(2), images.size(3)}});
    else if (task == "gradients")
      answer["loss"] = write_gradients(model, batch, folder);
    else
      answer["losses"] = train(model, batch, std::stod(task));
  return answer;
}

json answer(const std::vector<std::string>& words) {
  const std::string task = words.empty() ? "" : words[0];
  if (task == "names") return model_names();
  if (task == "cost" && words.size() == 2) return cost(words[1]);
  if (task == "initial" && words.size() == 5) {
    const Model model = create_model(words[1], {.num_classes = std::stoll(words[3]), .seed = std::stoull(words[2])});
    save_model(Model(model), fs::path(words[4]) / "initial.safetensors");
    return json::object();
  }
  if (task == "convert" && words.size() == 4) {
    Model model = create_model(words[1], {.num_classes = kClasses, .seed = {}});
    const LoadReport report = load_model(model, fs::path(words[2]));
    save_model(model, words[3]);
    json answer = json::object();
    answer["notes"] = report.notes;
    return answer;
  }
  require(task == "run" && words.size() >= 3,
          "usage: zoo names | cost MODEL | initial MODEL SEED CLASSES FOLDER | run MODEL FOLDER [TASK…] | "
          "convert MODEL FROM TO");
  return run(words[1], words[2], {words.begin() + 3, words.end()});
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) { return neurim::print_answer("zoo", argc, argv, neurim::answer); }
