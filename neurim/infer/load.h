// Load as MLPerf Inference puts it on a system: mlcommons.org/benchmarks/inference, "Inference Rules", section 3.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace neurim {

/// How queries come.
enum class Scenario : std::uint8_t {
  single_stream,  ///< one sample after the other
  multi_stream,   ///< several samples together, the next when these are answered
  server,         ///< single samples at random times (a Poisson process), whether the others are answered or not
  offline,        ///< all samples at once
};
std::string_view name(Scenario scenario);        ///< "single-stream", …
Scenario scenario_named(std::string_view name);  ///< throws Error(usage) for an unknown name

/// What is asked.
struct LoadOptions {
  Scenario scenario = Scenario::single_stream;
  std::int64_t library = 256;      ///< samples that are there, of which each query draws with replacement
  double seconds = 60;             ///< the least length; MLPerf's own is 600
  std::int64_t min_queries = 100;  ///< the least number; of offline, samples
  std::int64_t batch = 8;          ///< samples of a query of multi_stream; the most that the others answer together
  double rate = 0;                 ///< of server: queries a second; of offline: samples a second that are expected
  double latency_bound = 0.1;      ///< of server: seconds within which 99 % are to be answered
  std::uint64_t seed = 0;          ///< of samples and times
};

/// What was found. Latencies are those of queries; of server from when they were due.
struct LoadResult {
  std::int64_t queries = 0, samples = 0;
  double seconds = 0;
  std::vector<double> latencies;  ///< sorted, in seconds
  double samples_per_second = 0;
  double rate = 0;    ///< LoadOptions::rate
  bool valid = true;  ///< of server: whether 99 % were within the bound
};

/// The samples of the first `count` queries, drawn with replacement.
std::vector<std::int64_t> drawn_samples(const LoadOptions& options, std::int64_t count);
/// When the first `count` queries of server are due, in seconds from the beginning.
std::vector<double> arrival_times(const LoadOptions& options, std::int64_t count);

/// Puts the load on `answer`, which is given the numbers of samples to compute, at most `batch`, from this thread. Of
/// server a run ends early once it cannot be valid any more. Throws Error(usage) for options out of range.
LoadResult put_load(const LoadOptions& options, const std::function<void(std::span<const std::int64_t>)>& answer);

/// The highest rate at which server is valid, by bisection between half and all of what `answer` gives offline, from
/// runs of a tenth of the seconds; the result is of a last run of full length. At rates that fail there a twentieth is
/// taken off until one holds.
LoadResult find_server_rate(LoadOptions options, const std::function<void(std::span<const std::int64_t>)>& answer,
                            double offline_rate);

/// The latency below which a share of all future ones lies with this confidence, by order statistics: MLPerf's early
/// stopping. Infinity where there are too few.
double percentile_bound(const std::vector<double>& sorted, double share, double confidence = 0.99);

}  // namespace neurim
