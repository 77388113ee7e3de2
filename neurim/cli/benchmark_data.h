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
  std::int64_t threads = 2, rounds = 5;  ///< loader threads; 0: batches are loaded by the caller
  double seconds = 2;                    ///< of a round
  double max_bad = 0.01;
  std::int64_t seed = 42;  ///< of order and augmentation
};

/// The median; of an even number of rounds, the mean of the middle two.
double median(std::vector<double> rounds);

/// Measures how fast the training split is loaded in batches, and how fast its images are decoded alone. Returns the
/// exit code.
int benchmark_data(const DataBenchmark& benchmark, const CommandLine& line, Console& console);

}  // namespace neurim::cli
