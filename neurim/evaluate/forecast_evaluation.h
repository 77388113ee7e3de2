// How good the forecasts of a series are.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace neurim {

/// One value of a series that was forecast, beside the forecasts that anyone can make (Hyndman and
/// Athanasopoulos, Forecasting: Principles and Practice, 3rd edition, section 5.2): the last value that was
/// known, and the last one that was known of the same place in the season.
struct Forecast {
  std::int64_t step = 0;   ///< of the series, from 0
  std::int64_t ahead = 0;  ///< how many steps after the last one that was known, from 1
  double actual = 0,       ///< the value that came
      forecast = 0,        ///< what the model said
      naive = 0;           ///< the last value that was known
  double seasonal_naive = std::numeric_limits<double>::quiet_NaN();  ///< NaN: there is no season, or nothing before it
};

/// The forecasts of a split, and the figures that follow from them, in the units of the series; NaN without
/// any.
class ForecastEvaluation {
 public:
  /// Throws Error(failure) where the forecast is not finite.
  void add(const Forecast& forecast);

  const std::vector<Forecast>& forecasts() const { return forecasts_; }  ///< as they were added
  double mae() const;                                                    ///< mean absolute error
  double rmse() const;                                                   ///< root of the mean squared error
  double naive_mae() const;                                              ///< mean absolute error of Forecast::naive
  double seasonal_naive_mae() const;  ///< of Forecast::seasonal_naive, where there is one

 private:
  std::vector<Forecast> forecasts_;
};

/// Columns step (from 1, as the rows of a table are counted), ahead, actual, forecast, naive and
/// seasonal_naive; a value that is none is empty.
std::string forecasts_csv(const ForecastEvaluation& evaluation);

}  // namespace neurim
