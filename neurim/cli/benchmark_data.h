// neurim benchmark mode=data: the loader alone.
#pragma once
#include <string>
#include <vector>

#include "neurim/cli/command_line.h"
#include "neurim/data/augment.h"

namespace neurim::cli {

struct DataBenchmark {
  std::string data, augment = "rrc,hflip", decode = "exact", loader = "neurim";
  std::int64_t batch = 64;
  InputSize imgsz = 224;
  std::int64_t threads = 2, rounds = 5;  ///< threads that load; 0: the one that asks for batches
  double seconds = 2;                    ///< of a round
  double max_bad = 0.01;
  std::int64_t seed = 42;  ///< of order and augmentation
};

/// What is told of several rounds: the middle one, or the mean of the middle two.
double median(std::vector<double> rounds);

/// Measures how fast the training split becomes batches, and how fast its images can be decoded at all.
/// Gives the exit code of the process.
int benchmark_data(const DataBenchmark& benchmark, const CommandLine& line, Console& console);

}  // namespace neurim::cli
