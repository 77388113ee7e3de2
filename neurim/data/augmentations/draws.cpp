#include "neurim/data/augmentations/draws.h"

#include <algorithm>
#include <cmath>

namespace neurim {

double log_gamma_variate(double shape, Random& random) {
  // A shape below 1 is one larger, times a power of a uniform number.
  const double boost = shape < 1 ? std::log(1 - random.uniform()) / shape : 0;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), root = 1 + c * x, u = 1 - random.uniform();
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return std::log(d * v) + boost;
  }
}

double beta_variate(double alpha, Random& random) {
  const double a = log_gamma_variate(alpha, random), b = log_gamma_variate(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

void dirichlet_variate(double alpha, Random& random, std::span<double> out) {
  for (double& value : out) value = log_gamma_variate(alpha, random);
  const double largest = *std::max_element(out.begin(), out.end());
  double sum = 0;
  for (double& value : out) sum += value = std::exp(value - largest);
  for (double& value : out) value /= sum;
}

}  // namespace neurim
