#include "neurim/core/random.h"

#include <cmath>

namespace neurim {

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(6.283185307179586 * uniform());
}

}  // namespace neurim
