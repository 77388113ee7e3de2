#include "neurim/infer/load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

using LoadClock = std::chrono::steady_clock;

constexpr std::string_view kScenarios[] = {"single-stream", "multi-stream", "server", "offline"};
constexpr double kServerShare = 0.99;

double since(LoadClock::time_point begin) { return std::chrono::duration<double>(LoadClock::now() - begin).count(); }

/// Sleeps, and spins for the last part, as a thread that sleeps wakes late.
void wait_until(LoadClock::time_point due) {
  constexpr std::chrono::microseconds kLate{200};
  if (LoadClock::now() + kLate < due) std::this_thread::sleep_until(due - kLate);
  while (LoadClock::now() < due) {
  }
}

/// Samples without end; the same as drawn_samples gives.
class SampleDraws {
 public:
  explicit SampleDraws(const LoadOptions& options)
      : random_(options.seed), library_(static_cast<std::uint64_t>(options.library)) {}
  std::int64_t next() { return static_cast<std::int64_t>(random_() % library_); }

 private:
  std::mt19937_64 random_;
  std::uint64_t library_;
};

void check_load(const LoadOptions& options) {
  require(options.library >= 1 && options.batch >= 1 && options.min_queries >= 1, "library is ", options.library,
          ", batch ", options.batch, " and min_queries ", options.min_queries, "; each is at least 1");
  require(options.seconds > 0, "seconds is ", options.seconds, "; it is above 0");
  require(options.rate > 0 || options.scenario == Scenario::single_stream || options.scenario == Scenario::multi_stream,
          "rate is ", options.rate, "; it is above 0");
  require(options.latency_bound > 0, "latency_bound is ", options.latency_bound, "; it is above 0");
}

LoadResult finished(LoadResult result) {
  result.samples_per_second = static_cast<double>(result.samples) / result.seconds;
  std::sort(result.latencies.begin(), result.latencies.end());
  return result;
}

/// One query of `count` samples after the other.
LoadResult streams(const LoadOptions& options, std::int64_t count,
                   const std::function<void(std::span<const std::int64_t>)>& answer) {
  SampleDraws draws(options);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(count));
  LoadResult result;
  const LoadClock::time_point begin = LoadClock::now();
  while (result.seconds < options.seconds || result.queries < options.min_queries) {
    std::generate(samples.begin(), samples.end(), [&] { return draws.next(); });
    const LoadClock::time_point asked = LoadClock::now();
    answer(samples);
    result.latencies.push_back(since(asked));
    ++result.queries, result.samples += count;
    result.seconds = since(begin);
  }
  return finished(std::move(result));
}

LoadResult serves(const LoadOptions& options, const std::function<void(std::span<const std::int64_t>)>& answer) {
  const auto count = std::max(options.min_queries, static_cast<std::int64_t>(options.seconds * options.rate));
  const std::vector<std::int64_t> samples = drawn_samples(options, count);
  const std::vector<double> due = arrival_times(options, count);
  LoadResult result;
  std::int64_t late = 0;
  result.rate = options.rate;
  const auto most_late = static_cast<std::int64_t>((1 - kServerShare) * static_cast<double>(count));
  const LoadClock::time_point begin = LoadClock::now();
  const auto at = [&](std::int64_t query) { return due[static_cast<std::size_t>(query)]; };
  for (std::int64_t first = 0; first < count && late <= most_late;) {
    wait_until(begin + std::chrono::duration_cast<LoadClock::duration>(std::chrono::duration<double>(at(first))));
    std::int64_t last = first + 1;
    for (const double now = since(begin); last < count && last - first < options.batch && at(last) <= now;) ++last;
    answer(std::span(samples).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)));
    for (const double now = since(begin); first < last; ++first) {
      result.latencies.push_back(now - at(first));
      late += result.latencies.back() > options.latency_bound;
    }
  }
  result.queries = result.samples = std::ssize(result.latencies);
  result.seconds = since(begin);
  result.valid = late <= most_late;
  return finished(std::move(result));
}

LoadResult all_at_once(const LoadOptions& options, const std::function<void(std::span<const std::int64_t>)>& answer) {
  // A tenth more than is expected in that time, as MLPerf asks.
  const auto count = std::max(options.min_queries, static_cast<std::int64_t>(1.1 * options.rate * options.seconds));
  const std::vector<std::int64_t> samples = drawn_samples(options, count);
  const LoadClock::time_point begin = LoadClock::now();
  for (std::int64_t first = 0; first < count; first += options.batch)
    answer(std::span(samples).subspan(static_cast<std::size_t>(first),
                                      static_cast<std::size_t>(std::min(options.batch, count - first))));
  LoadResult result{.queries = 1, .samples = count, .seconds = since(begin), .rate = options.rate};
  result.latencies = {result.seconds};
  return finished(std::move(result));
}

}  // namespace

std::string_view name(Scenario scenario) { return kScenarios[static_cast<std::size_t>(scenario)]; }

Scenario scenario_named(std::string_view name) {
  const auto* found = std::find(std::begin(kScenarios), std::end(kScenarios), name);
  require(found != std::end(kScenarios), "scenario: there is no '", name, "'; known are ",
          join({std::begin(kScenarios), std::end(kScenarios)}, ", "));
  return static_cast<Scenario>(found - std::begin(kScenarios));
}

std::vector<std::int64_t> drawn_samples(const LoadOptions& options, std::int64_t count) {
  SampleDraws draws(options);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(count));
  std::generate(samples.begin(), samples.end(), [&] { return draws.next(); });
  return samples;
}

std::vector<double> arrival_times(const LoadOptions& options, std::int64_t count) {
  std::mt19937_64 random(options.seed ^ 0x9e3779b97f4a7c15u);  // other numbers than those of samples
  std::vector<double> times(static_cast<std::size_t>(count));
  double now = 0;
  for (double& time : times) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;  // in [0, 1)
    time = now += -std::log1p(-uniform) / options.rate;
  }
  return times;
}

LoadResult put_load(const LoadOptions& options, const std::function<void(std::span<const std::int64_t>)>& answer) {
  check_load(options);
  switch (options.scenario) {
    case Scenario::single_stream: return streams(options, 1, answer);
    case Scenario::multi_stream: return streams(options, options.batch, answer);
    case Scenario::server: return serves(options, answer);
    case Scenario::offline: return all_at_once(options, answer);
  }
  return {};
}

LoadResult find_server_rate(LoadOptions options, const std::function<void(std::span<const std::int64_t>)>& answer,
                            double offline_rate) {
  constexpr int kSteps = 6;
  options.scenario = Scenario::server;
  LoadOptions trial = options;
  trial.seconds = options.seconds / 10;
  double holds = offline_rate / 2, fails = offline_rate;
  for (int step = 0; step < kSteps; ++step) {
    trial.rate = (holds + fails) / 2;
    (put_load(trial, answer).valid ? holds : fails) = trial.rate;
  }
  options.rate = holds;
  for (;;) {
    LoadResult result = put_load(options, answer);
    if (result.valid || options.rate < offline_rate / 100) return result;
    options.rate *= 0.95;
  }
}

double percentile_bound(const std::vector<double>& sorted, double share, double confidence) {
  // The k-th smallest of n lies above the percentile with the probability that fewer than k of n lie below it:
  // P(Binomial(n, share) < k) >= confidence.
  const auto n = static_cast<double>(sorted.size());
  double below = 0;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    const auto successes = static_cast<double>(k);
    below += std::exp(std::lgamma(n + 1) - std::lgamma(successes + 1) - std::lgamma(n - successes + 1) +
                      successes * std::log(share) + (n - successes) * std::log1p(-share));
    if (below >= confidence) return sorted[k];
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace neurim
