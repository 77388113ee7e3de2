#include "neurim/evaluate/forecast_evaluation.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "neurim/base/error.h"

namespace neurim {

namespace {

/// The root of the mean of the squares, or the mean, of the errors beside `actual` of what `value` gives, where it is a
/// number. They are counted in a power of two near the largest, so that no sum and no square is too large for a double.
template <class Value>
double mean_error(const std::vector<Forecast>& forecasts, const Value& value, bool squared = false) {
  std::vector<double> errors;
  for (const Forecast& one : forecasts)
    if (const double error = std::abs(value(one) - one.actual); !std::isnan(error)) errors.push_back(error);
  if (errors.empty()) return std::nan("");
  const double largest = *std::max_element(errors.begin(), errors.end());
  if (largest == 0 || !std::isfinite(largest)) return largest;
  const double unit = std::exp2(std::ilogb(largest));
  double sum = 0;
  for (const double error : errors) sum += squared ? error / unit * (error / unit) : error / unit;
  const double mean = sum / static_cast<double>(errors.size());
  return unit * (squared ? std::sqrt(mean) : mean);
}

}  // namespace

void ForecastEvaluation::add(const Forecast& forecast) {
  if (!std::isfinite(forecast.forecast))
    fail(Fault::failure, "the model's forecast of step ", forecast.step + 1,
         " is no finite number; its weights are damaged, or it was trained with too high a learning rate");
  forecasts_.push_back(forecast);
}

double ForecastEvaluation::mae() const { return mean_error(forecasts_, std::mem_fn(&Forecast::forecast)); }

double ForecastEvaluation::rmse() const { return mean_error(forecasts_, std::mem_fn(&Forecast::forecast), true); }

double ForecastEvaluation::naive_mae() const { return mean_error(forecasts_, std::mem_fn(&Forecast::naive)); }

double ForecastEvaluation::seasonal_naive_mae() const {
  return mean_error(forecasts_, std::mem_fn(&Forecast::seasonal_naive));
}

std::string forecasts_csv(const ForecastEvaluation& evaluation) {
  std::string out = "step,ahead,actual,forecast,naive,seasonal_naive\n";
  for (const Forecast& one : evaluation.forecasts())
    out += text(one.step + 1, ',', one.ahead, ',', one.actual, ',', one.forecast, ',', one.naive, ',',
                std::isnan(one.seasonal_naive) ? std::string() : text(one.seasonal_naive), '\n');
  return out;
}

}  // namespace neurim
