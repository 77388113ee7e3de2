// Timing of calls, and the protocol by which programs take turns being measured.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "neurim/base/json.h"

namespace neurim::cli {

/// Repeats the call for so many seconds, at least once. Returns the seconds of each call.
std::vector<double> times_of(const std::function<void()>& call, double seconds);

/// The element so far along a sorted list: of 0.5 the median, of 1 the last.
double sorted_at(const std::vector<double>& sorted, double share);

/// Samples a second of calls that took so long, each of `batch` samples.
double rate_of(const std::vector<double>& times, std::int64_t batch);

/// Answers "go KEY SECONDS" with the times of calls of `batch` samples each, until "quit" or the end of the input: the
/// line protocol of benchmarks/peers/serve.py. `base` describes what is measured.
void serve(const JsonObject& base, std::int64_t batch, const std::function<void()>& call);

}  // namespace neurim::cli
