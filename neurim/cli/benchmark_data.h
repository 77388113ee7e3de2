// neurim benchmark mode=data: the loader alone.
#pragma once
#include <string>

#include "neurim/cli/command_line.h"
#include "neurim/data/augment.h"

namespace neurim::cli {

struct DataBenchmark {
  std::string data, augment = "rrc,hflip", loader = "neurim";
  std::int64_t batch = 64;
  PictureSize imgsz = 224;
  std::int64_t threads = 2, rounds = 5;
  double seconds = 2;  ///< of a round
  std::int64_t seed = 42;  ///< of order and augmentation
};

/// Measures how fast the training split becomes batches, and how fast its pictures can be decoded at all.
/// Gives the exit code of the process.
int benchmark_data(const DataBenchmark& benchmark, const CommandLine& line, Console& console);

}  // namespace neurim::cli
