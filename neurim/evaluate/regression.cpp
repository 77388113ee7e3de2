#include "neurim/evaluate/regression.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/base/error.h"

namespace neurim {

void Regression::add(std::span<const double> predicted, std::span<const double> truth) {
  require(predicted.size() == truth.size(), "regression: ", predicted.size(), " predictions for ", truth.size(),
          " true values");
  for (std::size_t i = 0; i < truth.size(); ++i)
    if (!std::isfinite(predicted[i]) || !std::isfinite(truth[i]))
      fail(Fault::failure, "regression: sample ", i, " is ", predicted[i], " where ", truth[i], " is true");
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double error = truth[i] - predicted[i];
    absolute_.add(std::abs(error));
    squared_.add(error * error);
    relative_.add(std::abs(error) / std::max(std::abs(truth[i]), std::numeric_limits<double>::epsilon()));
    truths_.add(truth[i]);
  }
}

void Regression::merge(const Regression& other) {
  absolute_.merge(other.absolute_);
  squared_.merge(other.squared_);
  relative_.merge(other.relative_);
  truths_.merge(other.truths_);
}

double Regression::rmse() const { return std::sqrt(squared_.mean()); }

double Regression::r2() const {
  const double n = static_cast<double>(samples()), spread = truths_.variance() * (n - 1);
  if (std::isnan(spread)) return spread;
  const double errors = squared_.mean() * n;
  if (spread == 0) return errors == 0 ? 1 : 0;
  return 1 - errors / spread;
}

}  // namespace neurim
