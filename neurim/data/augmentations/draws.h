// Random numbers of the distributions that augmentation draws from.
#pragma once
#include <span>

#include "neurim/core/random.h"

namespace neurim {

/// Whether an event of this probability happens. Draws one number, also when the answer is certain.
inline bool happens(double probability, Random& random) { return random.uniform() < probability; }

/// The logarithm of a number of the gamma distribution with this shape > 0 and scale 1 (Marsaglia and Tsang,
/// "A simple method for generating gamma variables", 2000). The logarithm stays finite where the number of a
/// small shape underflows.
double log_gamma_variate(double shape, Random& random);

/// A number of Beta(alpha, alpha), alpha > 0.
double beta_variate(double alpha, Random& random);

/// Numbers of the symmetric Dirichlet distribution; they sum to 1.
void dirichlet_variate(double alpha, Random& random, std::span<double> out);

}  // namespace neurim
