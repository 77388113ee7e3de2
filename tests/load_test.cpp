// Load as MLPerf has it: what is asked, when, and what is made of the answers.
#include "neurim/infer/load.h"

#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "errors.h"

namespace neurim {

namespace {

void busy(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(Load, DrawsFollowFromTheSeed) {
  LoadOptions options{.library = 50, .rate = 100, .seed = 7};
  EXPECT_EQ(drawn_samples(options, 1000), drawn_samples(options, 1000));
  EXPECT_EQ(arrival_times(options, 1000), arrival_times(options, 1000));
  std::vector<int> counts(50);
  for (const std::int64_t sample : drawn_samples(options, 5000)) ++counts.at(static_cast<std::size_t>(sample));
  for (const int count : counts) EXPECT_NEAR(count, 100, 50);
  LoadOptions other = options;
  other.seed = 8;
  EXPECT_NE(drawn_samples(options, 100), drawn_samples(other, 100));
  EXPECT_NE(arrival_times(options, 100), arrival_times(other, 100));
}

/// Gaps of a Poisson process have the mean 1 / rate, and as std the same.
TEST(Load, ArrivalsAreAPoissonProcess) {
  const std::vector<double> times = arrival_times({.rate = 250}, 100'000);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  double sum = 0, squares = 0, last = 0;
  for (const double time : times) sum += time - last, squares += (time - last) * (time - last), last = time;
  const double mean = sum / 1e5;
  EXPECT_NEAR(mean, 1 / 250., 1e-4);
  EXPECT_NEAR(std::sqrt(squares / 1e5 - mean * mean), 1 / 250., 1e-4);
}

TEST(Load, StreamsAskOneQueryAfterTheOther) {
  for (const Scenario scenario : {Scenario::single_stream, Scenario::multi_stream}) {
    const LoadOptions options{.scenario = scenario, .library = 9, .seconds = 0.01, .min_queries = 40, .batch = 5};
    const std::size_t together = scenario == Scenario::single_stream ? 1 : 5;
    std::vector<std::int64_t> asked;
    const LoadResult result = put_load(options, [&](std::span<const std::int64_t> samples) {
      EXPECT_EQ(samples.size(), together);
      asked.insert(asked.end(), samples.begin(), samples.end());
      busy(1e-4);
    });
    EXPECT_GE(result.queries, 40);
    EXPECT_GE(result.seconds, 0.01);
    EXPECT_EQ(result.samples, std::ssize(asked));
    EXPECT_EQ(asked, drawn_samples(options, result.samples));
    EXPECT_EQ(std::ssize(result.latencies), result.queries);
    EXPECT_GE(result.latencies.front(), 1e-4);
    EXPECT_NEAR(result.samples_per_second * result.seconds, static_cast<double>(result.samples), 1e-6);
  }
}

TEST(Load, OfflineAsksForAllAtOnce) {
  const LoadOptions options{
      .scenario = Scenario::offline, .library = 9, .seconds = 0.1, .min_queries = 10, .batch = 8, .rate = 1000};
  std::vector<std::int64_t> asked;
  const LoadResult result = put_load(options, [&](std::span<const std::int64_t> samples) {
    EXPECT_LE(samples.size(), 8u);
    asked.insert(asked.end(), samples.begin(), samples.end());
  });
  EXPECT_EQ(result.samples, 110);  // a tenth more than the rate gives in that time
  EXPECT_EQ(asked, drawn_samples(options, 110));
}

/// A server that is fast enough answers all of it in time; one that is too slow collects what waits, and ends early.
TEST(Load, ServerCountsFromWhenQueriesWereDue) {
  LoadOptions options{.scenario = Scenario::server,
                      .library = 9,
                      .seconds = 0.2,
                      .min_queries = 100,
                      .batch = 4,
                      .rate = 500,
                      .latency_bound = 10};
  std::vector<std::int64_t> asked;
  LoadResult result = put_load(options, [&](std::span<const std::int64_t> samples) {
    asked.insert(asked.end(), samples.begin(), samples.end());
  });
  EXPECT_TRUE(result.valid);
  EXPECT_EQ(result.queries, 100);
  EXPECT_EQ(asked, drawn_samples(options, 100));
  EXPECT_GE(result.seconds, arrival_times(options, 100).back());

  options.latency_bound = 0.02, options.rate = 2000;
  std::size_t most = 0;
  result = put_load(options, [&](std::span<const std::int64_t> samples) {
    most = std::max(most, samples.size());
    busy(0.01);
  });
  EXPECT_FALSE(result.valid);
  EXPECT_EQ(most, 4u);
  EXPECT_LT(result.queries, 400);
  EXPECT_GT(result.latencies.back(), 0.02);
}

TEST(Load, OptionsAreChecked) {
  const auto nothing = [](std::span<const std::int64_t>) {};
  EXPECT_THROW(put_load({.library = 0}, nothing), Error);
  EXPECT_THROW(put_load({.seconds = 0}, nothing), Error);
  EXPECT_THROW(put_load({.scenario = Scenario::server}, nothing), Error);
  EXPECT_THROW(scenario_named("serial"), Error);
  EXPECT_EQ(scenario_named("multi-stream"), Scenario::multi_stream);
}

/// Of n numbers below 1 the k-th smallest lies above the share p as often as a binomial says; drawn, it holds in 99 of
/// a hundred cases.
TEST(Load, BoundsOfPercentilesHold) {
  std::vector<double> numbers(1000);
  int held = 0;
  for (int draw = 0; draw < 400; ++draw) {
    const LoadOptions options{.library = 1 << 20, .seed = static_cast<std::uint64_t>(draw)};
    const std::vector<std::int64_t> drawn = drawn_samples(options, 1000);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(drawn[i]) / (1 << 20);
    std::sort(numbers.begin(), numbers.end());
    held += percentile_bound(numbers, 0.9) >= 0.9;
    EXPECT_LT(percentile_bound(numbers, 0.9), 0.95);
  }
  EXPECT_GE(held, 390);
  EXPECT_TRUE(std::isinf(percentile_bound({1, 2, 3}, 0.9)));
}

}  // namespace

}  // namespace neurim
