#include "neurim/evaluate/forecast_evaluation.h"

#include <cmath>

#include "neurim/base/error.h"

namespace neurim {

namespace {

/// The mean of what `value` gives of the forecasts for which it is a number.
template <class Value>
double mean_of(const std::vector<Forecast>& forecasts, const Value& value) {
  double sum = 0;
  std::int64_t count = 0;
  for (const Forecast& one : forecasts) {
    const double found = value(one);
    if (std::isnan(found)) continue;
    sum += found;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::nan("");
}

}  // namespace

void ForecastEvaluation::add(const Forecast& forecast) {
  if (!std::isfinite(forecast.forecast))
    fail(Fault::failure, "the model's forecast of step ", forecast.step + 1,
         " is no finite number; its weights are damaged, or it was trained with too high a learning rate");
  forecasts_.push_back(forecast);
}

double ForecastEvaluation::mae() const {
  return mean_of(forecasts_, [](const Forecast& one) { return std::abs(one.forecast - one.actual); });
}

double ForecastEvaluation::rmse() const {
  return std::sqrt(mean_of(forecasts_, [](const Forecast& one) {
    return (one.forecast - one.actual) * (one.forecast - one.actual);
  }));
}

double ForecastEvaluation::naive_mae() const {
  return mean_of(forecasts_, [](const Forecast& one) { return std::abs(one.naive - one.actual); });
}

double ForecastEvaluation::seasonal_naive_mae() const {
  return mean_of(forecasts_, [](const Forecast& one) { return std::abs(one.seasonal_naive - one.actual); });
}

std::string forecasts_csv(const ForecastEvaluation& evaluation) {
  std::string out = "step,ahead,actual,forecast,naive,seasonal_naive\n";
  for (const Forecast& one : evaluation.forecasts())
    out += text(one.step + 1, ',', one.ahead, ',', one.actual, ',', one.forecast, ',', one.naive, ',',
                std::isnan(one.seasonal_naive) ? std::string() : text(one.seasonal_naive), '\n');
  return out;
}

}  // namespace neurim
