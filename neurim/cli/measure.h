// Timing of calls, and the protocol by which programs take turns being measured.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "neurim/base/json.h"

namespace neurim::cli {

/// Repeats the call for so many seconds, at least once. Returns the seconds of each call.
std::vector<double> times_of(const std::function<void()>& call, double seconds);

/// Answers "go KEY SECONDS" with the times of calls of `batch` samples each, until "quit" or the end of the input: the
/// line protocol of benchmarks/peers/serve.py. `base` describes what is measured.
void serve(const JsonObject& base, std::int64_t batch, const std::function<void()>& call);

}  // namespace neurim::cli
