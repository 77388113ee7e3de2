#include "neurim/model/model.h"

#include <numeric>

namespace neurim {

std::vector<double> per_channel(const std::vector<double>& values, std::int64_t channels) {
  if (std::ssize(values) == channels) return values;
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return std::vector<double>(static_cast<std::size_t>(channels), sum / static_cast<double>(values.size()));
}

}  // namespace neurim
