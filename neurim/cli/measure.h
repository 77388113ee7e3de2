// Measurements of calls, and how a program that makes them takes turns with others.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "neurim/base/json.h"

namespace neurim::cli {

/// The seconds of each call, for so many seconds; at least one.
std::vector<double> times_of(const std::function<void()>& call, double seconds);

/// Answers "go KEY SECONDS" with the times of the calls, of `batch` samples each, until "quit" or the end of the input:
/// the line protocol of benchmarks/peers/serve.py. `base`: what is measured.
void serve(const JsonObject& base, std::int64_t batch, const std::function<void()>& call);

}  // namespace neurim::cli
