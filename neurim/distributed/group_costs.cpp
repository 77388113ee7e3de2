#include "neurim/distributed/group_costs.h"

#include <algorithm>
#include <chrono>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr int kLeastRepetitions = 5, kMostRepetitions = 10000, kWarmUps = 3;

}  // namespace

std::vector<GroupCost> measured_sums(ProcessGroup& group, std::span<const std::size_t> sizes, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<GroupCost> costs;
  for (const std::size_t bytes : sizes) {
    require(bytes >= sizeof(float) && bytes % sizeof(float) == 0, "sums: ", bytes, " bytes are no numbers of 4 bytes");
    std::vector<float> values(bytes / sizeof(float), 1);
    std::vector<float> times;
    const auto once = [&] {
      group.barrier();
      std::fill(values.begin(), values.end(), 1.0f);
      const Clock::time_point start = Clock::now();
      group.all_reduce(values);
      return std::chrono::duration<float>(Clock::now() - start).count();
    };
    for (int i = 0; i < kWarmUps; ++i) once();
    std::vector<float> of_one{once()};
    group.all_reduce(of_one, Reduction::max);
    const int repetitions = static_cast<int>(std::clamp(seconds / std::max(1e-6, static_cast<double>(of_one[0])),
                                                        1.0 * kLeastRepetitions, 1.0 * kMostRepetitions));
    for (int i = 0; i < repetitions; ++i) times.push_back(once());
    group.all_reduce(times, Reduction::max);
    std::sort(times.begin(), times.end());
    costs.push_back({bytes, times[times.size() / 2], times.front(), times.back(), repetitions});
    if (values[0] != static_cast<float>(group.size()))
      fail(Fault::failure, "the sum of ", group.size(), " ones came to ", values[0]);
  }
  return costs;
}

std::optional<LinkCosts> fitted_link(std::span<const GroupCost> costs, int ranks) {
  require(costs.size() >= 2 && ranks >= 2, "a link is fitted to sums of two sizes at least, of two ranks at least");
  // Least squares of (a x + b y - 1), where a is the latency, b the time of a byte, and x and y what a sum has of them
  // by its time.
  double xx = 0, xy = 0, yy = 0, sx = 0, sy = 0;
  for (const GroupCost& cost : costs) {
    const bool whole = cost.bytes <= kSentWhole;
    const double messages = (whole ? 1.0 : 2.0) * (ranks - 1),
                 of_message = static_cast<double>(cost.bytes) / (whole ? 1 : ranks);
    const double x = messages / cost.seconds, y = messages * of_message / cost.seconds;
    xx += x * x, xy += x * y, yy += y * y, sx += x, sy += y;
  }
  const double determinant = xx * yy - xy * xy;
  const double latency = (sx * yy - sy * xy) / determinant, of_byte = (xx * sy - xy * sx) / determinant;
  if (!(determinant > 0 && latency >= 0 && of_byte > 0)) return std::nullopt;
  return LinkCosts{latency, 1 / of_byte};
}

}  // namespace neurim
