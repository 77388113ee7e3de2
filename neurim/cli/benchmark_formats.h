// neurim benchmark formats=…: one model in several formats and runtimes.
#pragma once
#include <string>
#include <vector>

#include "neurim/cli/command_line.h"
#include "neurim/train/checkpoint.h"

namespace neurim::cli {

struct FormatsBenchmark {
  std::vector<std::string> formats;                   ///< of kBenchmarkFormats
  std::string data;                                   ///< images to measure the accuracy on; "": those of training
  std::string python = "python3";                     ///< that has onnxruntime and openvino
  std::int64_t batch = 1, rounds = 5, images = 1000;  ///< images: of the data, at most
  double seconds = 2;                                 ///< of a round
};
inline constexpr const char* kBenchmarkFormats[] = {"native", "onnx", "ort", "openvino"};

/// Measures a model of images as Neurim has it, and its ONNX file in Neurim, ONNX Runtime and OpenVINO, in alternating
/// rounds: accuracy, latency, throughput and size in one table. What is not there is said. Returns the exit code.
int benchmark_formats(const FormatsBenchmark& benchmark, const Checkpoint& checkpoint, const CommandLine& line,
                      Console& console);

}  // namespace neurim::cli
