// Loads a plug-in with an op of one's own (squareplus.cpp), has the op checked, trains the network of a model
// file that names it as a layer (squareplus.toml) on drawn digits, and exports it. usage: own_op PLUGIN
// MODEL_FILE. Ends with 0 when nothing is wrong with the op and more than 90 of 100 digits are right.
#include <iostream>
#include <random>

#include "neurim/neurim.h"

using namespace neurim;

int main(int argc, char** argv) try {
  require(argc == 3, "usage: own_op PLUGIN MODEL_FILE");
  initialize();
  load_library(argv[1]);
  const std::vector<std::string> faults = check_op("squareplus");
  for (const std::string& fault : faults) std::cerr << fault << '\n';
  if (!faults.empty()) return 1;

  const fs::path work = fs::temp_directory_path() / text("neurim-example-", std::random_device()());
  write_digits(work / "digits", /*seed=*/1, /*train_per_class=*/300, /*val_per_class=*/50);
  const Dataset data = Dataset::open((work / "digits").string());
  const Model model = create_model_file(argv[2], {.num_classes = static_cast<std::int64_t>(data.class_names().size())});
  const TrainResult run = train(model, data,
                                {.epochs = 6, .batch = 64, .lr = 2e-3, .project = (work / "runs").string()});
  std::cout << "top-1 " << run.metrics["top1"] << ", saved in " << run.run << '\n';
  export_onnx(load_checkpoint(run.run).model, work / "own.onnx");
  return run.metrics["top1"] > 0.9 ? 0 : 1;
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return static_cast<int>(error.fault());
}
