#include "neurim/train/forecast.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/core/device.h"
#include "neurim/model/inference.h"

namespace neurim {

namespace {

std::vector<std::int64_t> counted(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

double value_at(const Series& series, std::int64_t step, std::int64_t column) {
  return series.values[step * series.width() + column];
}

/// A statistic of each column, measured in training.
std::vector<double> measured(const Model& forecaster, std::string_view name) {
  for (const Parameter& parameter : named_parameters(Model(forecaster)))
    if (parameter.name == name) return parameter.tensor.values<double>();
  fail(Fault::usage, forecaster.name, ": has no tensor '", name, "', so it is none of create_forecaster");
}

}  // namespace

void ForecastData::copy(Split split, std::span<const std::int64_t> samples, std::vector<double>& steps,
                        std::vector<double>& following) const {
  const std::int64_t window = windows.options().inputs, horizon = windows.options().targets;
  const std::vector<std::int64_t> columns = counted(0, series.width());
  steps.resize(samples.size() * static_cast<std::size_t>(window * series.width()));
  following.resize(samples.size() * static_cast<std::size_t>(horizon));
  double *to_steps = steps.data(), *to_following = following.data();
  for (const std::int64_t sample : samples) {
    copy_steps(series, windows.first_input(split, sample), window, columns, to_steps);
    copy_steps(series, windows.first_target(split, sample), horizon, {&target, 1}, to_following);
    to_steps += window * series.width();
    to_following += horizon;
  }
}

double ForecastData::naive_mae() const {
  double sum = 0;
  const std::int64_t steps = windows.training_steps();
  for (std::int64_t step = 1; step < steps; ++step)
    sum += std::abs(value_at(series, step, target) - value_at(series, step - 1, target)) /
           static_cast<double>(steps - 1);
  return sum;
}

std::vector<std::string> ForecastData::notes(Split split) const {
  std::vector<std::string> notes = series.notes;
  if (const std::int64_t left_out = windows.left_out(split); windows.size(split) > 0 && left_out > 0)
    notes.push_back(text("not evaluated in the ", split, " split: ", plural(left_out, "step"),
                         " that no whole forecast of ", windows.options().targets, " covers"));
  return notes;
}

double std_of(const Model& forecaster, std::int64_t column) { return measured(forecaster, "deviation")[column]; }

ForecastValidation::ForecastValidation(const Model& model, const ForecastData& data, Split split, std::int64_t season,
                                       const TrainOptions& options)
    : data_(data),
      split_(split),
      season_(season),
      batch_(*options.batch),
      plans_([model](const Tensors& in) { return Tensors{model(in[0])}; },
             {.deterministic = options.deterministic, .device = device_named(options.device)}) {}

void ForecastValidation::add(std::int64_t sample, std::span<const double> forecast,
                             ForecastEvaluation& evaluation) const {
  const std::int64_t first = data_.windows.first_target(split_, sample), known = first - 1;
  for (std::int64_t i = 0; i < std::ssize(forecast); ++i) {
    Forecast one{.step = first + i,
                 .ahead = i + 1,
                 .actual = value_at(data_.series, first + i, data_.target),
                 .forecast = forecast[i],
                 .naive = value_at(data_.series, known, data_.target)};
    if (season_ > 0) {  // whole seasons back, the fewest that lead to a known value
      const std::int64_t before = one.step - (i / season_ + 1) * season_;
      if (before >= 0) one.seasonal_naive = value_at(data_.series, before, data_.target);
    }
    evaluation.add(one);
  }
}

std::optional<ForecastEvaluation> ForecastValidation::run(const TrainingTask::Watch& watch) {
  ForecastEvaluation evaluation;
  const std::int64_t samples = data_.windows.size(split_);
  const std::int64_t window = data_.windows.options().inputs;
  const auto horizon = static_cast<std::size_t>(data_.windows.options().targets);
  for (std::int64_t first = 0; first < samples; first += batch_) {
    const std::int64_t size = std::min(batch_, samples - first);
    data_.copy(split_, counted(first, size), steps_, following_);
    const Plan& plan = plans_.plan_for({{DType::f64, {size, window, data_.series.width()}}});
    plan.inputs()[0].write(steps_.data());
    plan.run(plan.inputs(), plan.outputs());
    forecasts_.resize(following_.size());
    plan.outputs()[0].read(forecasts_.data());
    for (std::int64_t i = 0; i < size; ++i)
      add(first + i, std::span(forecasts_).subspan(static_cast<std::size_t>(i) * horizon, horizon), evaluation);
    const bool go_on = !watch || watch(static_cast<double>(first + size) / static_cast<double>(samples));
    if (!go_on && first + size < samples) return {};
  }
  return evaluation;
}

Metrics metrics_of(const ForecastEvaluation& evaluation, double std) {
  const double scaled = evaluation.rmse() / std;
  return Metrics(forecast_task(), std::ssize(evaluation.forecasts()),
                 {{"loss", scaled * scaled},
                  {"mae", evaluation.mae()},
                  {"rmse", evaluation.rmse()},
                  {"naive_mae", evaluation.naive_mae()},
                  {"seasonal_naive_mae", evaluation.seasonal_naive_mae()}});
}

void check_forecast(const Checkpoint& checkpoint, const Series& series) {
  require(checkpoint.config.task() == forecast_task(), checkpoint.path.string(), ": is a model of ",
          checkpoint.config.task().data, ", which forecasts no series");
  const SequenceConfig& config = *checkpoint.config.sequence;
  require(series.columns == config.columns, series.path, ": has the columns ", join(series.columns, ", "),
          ", but the model sees ", join(config.columns, ", "));
  if (series.steps() < config.window)
    fail(Fault::data, series.path, ": has ", series.steps(), " steps, but the model looks back on ", config.window,
         "; give a longer series");
}

std::vector<double> forecast(const Checkpoint& checkpoint, const Series& series) {
  check_forecast(checkpoint, series);
  const SequenceConfig& config = *checkpoint.config.sequence;
  std::vector<double> steps(config.window * series.width());
  copy_steps(series, series.steps() - config.window, config.window, counted(0, series.width()), steps.data());
  const Type seen{DType::f64, {1, config.window, series.width()}};
  const Plan planned = inference_plan(checkpoint.model, seen);
  const std::vector<double> values = planned({Tensor::from(seen, steps.data())})[0].values<double>();
  if (!std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }))
    fail(Fault::failure, checkpoint.path.string(),
         ": the forecast is not finite; the weights are damaged, or were trained with too high a learning rate");
  return values;
}

std::string lost_in_f32(const Checkpoint& checkpoint) {
  constexpr double kShare = 1e-3;  // of the std: rounding up to this is not worth a note
  const std::vector<double> means = measured(checkpoint.model, "mean"), stds = measured(checkpoint.model, "deviation");
  std::string lost;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const std::string& column = checkpoint.config.sequence->columns[i];
    const double mean = means[i], std = stds[i];
    const auto level = static_cast<float>(std::abs(mean) + std), scale = static_cast<float>(std);
    if (!std::isfinite(level) || !std::isnormal(scale))
      fail(Fault::data, checkpoint.path.string(), ": the column ", column, " has the mean ", significant(mean),
           " and the std ", significant(std),
           ", which f32 cannot hold; an ONNX file takes f32 in the units of the series: train on the column in other "
           "units");
    const double step = std::nextafter(level, INFINITY) - level;
    if (lost.empty() && step > kShare * std)
      lost = text("f32, which an ONNX file takes and gives in the units of the series, rounds values of ", column,
                  " near ", significant(mean), " to steps of ", significant(step), ", and they change by ",
                  significant(std), "; predict does not round: to export, train on the column less its level");
  }
  return lost;
}

}  // namespace neurim
