// neurim benchmark mode=data: the loader alone.
#pragma once
#include <string>

#include "neurim/data/augment.h"
#include "neurim/train/console.h"
#include "neurim/train/options.h"

namespace neurim::cli {

struct DataBenchmark {
  std::string data, augment = "rrc,hflip", loader = "neurim";
  std::int64_t batch = 64;
  PictureSize imgsz = 224;
  std::int64_t threads = 2, rounds = 5;
  double seconds = 2;  ///< of a round
};

/// Measures how fast the training split becomes batches, and how fast its pictures can be decoded at all.
void benchmark_data(const DataBenchmark& benchmark, Console& console);

}  // namespace neurim::cli
