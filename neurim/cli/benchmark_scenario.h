// `neurim benchmark scenario=…`: a model under the load of MLPerf Inference.
#pragma once
#include <optional>
#include <string>

#include "neurim/cli/command_line.h"
#include "neurim/infer/load.h"
#include "neurim/train/checkpoint.h"

namespace neurim::cli {

/// The options of the verb that count.
struct ScenarioBenchmark {
  LoadOptions load;            ///< its rate is found
  std::optional<double> rate;  ///< of server: queries a second; none: the highest that holds
  Preprocess preprocess;       ///< of images
  std::string data;            ///< images to draw from; "": of training, else drawn ones
  bool accuracy = false;       ///< every image once instead, and how many are right
};

int benchmark_scenario(const ScenarioBenchmark& o, const Checkpoint& checkpoint, const CommandLine& line,
                       Console& console);

}  // namespace neurim::cli
