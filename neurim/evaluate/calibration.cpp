#include "neurim/evaluate/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/base/error.h"

namespace neurim {

namespace {

/// Logits of which these are the softmax.
std::vector<double> logits_of(std::span<const float> probabilities) {
  std::vector<double> logits;
  for (const float p : probabilities)
    logits.push_back(std::log(std::max<double>(p, std::numeric_limits<float>::denorm_min())));
  return logits;
}

/// The first and second derivative of the sum of the losses by the factor of the logits.
struct Slope {
  double first = 0, second = 0;

  Slope(const std::vector<std::vector<double>>& logits, const std::vector<Prediction>& samples, double factor) {
    ExactSum slope, curvature;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double most = *std::max_element(logits[i].begin(), logits[i].end());
      double sum = 0, mean = 0, square = 0;
      for (const double z : logits[i]) {
        const double share = std::exp(factor * (z - most));
        sum += share, mean += share * z, square += share * z * z;
      }
      mean /= sum;
      slope.add(mean - logits[i][static_cast<std::size_t>(samples[i].label)]);
      curvature.add(square / sum - mean * mean);
    }
    first = slope.value(), second = curvature.value();
  }
};

}  // namespace

double fitted_temperature(const Predictions& predictions) {
  const std::vector<Prediction>& samples = predictions.samples();
  require(!samples.empty(), "calibration: there are no samples");
  std::vector<std::vector<double>> logits;
  for (std::size_t i = 0; i < samples.size(); ++i) logits.push_back(logits_of(predictions.probabilities().row(i)));
  // The loss is convex in the factor: Newton's steps, halved where they leave what holds the least.
  double low = 1e-3, high = 1e3, factor = 1;
  for (int step = 0; step < 60 && high - low > 1e-9; ++step) {
    const Slope slope(logits, samples, factor);
    (slope.first > 0 ? high : low) = factor;
    const double newton = factor - slope.first / slope.second;
    const double next = newton > low && newton < high ? newton : (low + high) / 2;
    if (std::abs(next - factor) < 1e-10) break;
    factor = next;
  }
  return 1 / factor;
}

Predictions tempered(const Predictions& predictions, double temperature) {
  Predictions out(predictions.class_names());
  std::vector<float> probabilities;
  for (std::size_t i = 0; i < predictions.samples().size(); ++i) {
    const Prediction& one = predictions.samples()[i];
    std::vector<double> shares = logits_of(predictions.probabilities().row(i));
    const double most = *std::max_element(shares.begin(), shares.end());
    double sum = 0;
    for (double& share : shares) sum += share = std::exp((share - most) / temperature);
    probabilities.clear();
    for (const double share : shares) probabilities.push_back(static_cast<float>(share / sum));
    out.add_answer(one.sample, one.name, probabilities, one.label, static_cast<std::size_t>(one.predicted));
  }
  return out;
}

Evaluation evaluation_of(const Predictions& predictions) {
  Evaluation out(predictions.class_names());
  for (std::size_t i = 0; i < predictions.samples().size(); ++i) {
    const Prediction& one = predictions.samples()[i];
    out.add_answer(predictions.probabilities().row(i), one.predicted, one.label);
  }
  return out;
}

}  // namespace neurim
