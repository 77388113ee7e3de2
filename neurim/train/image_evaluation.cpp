#include "neurim/train/image_evaluation.h"

#include <map>
#include <utility>

#include "neurim/evaluate/calibration.h"
#include "neurim/train/view_validation.h"

namespace neurim {

namespace {

std::string calibration_note(double temperature, const Probabilities& before, const Probabilities& after) {
  return text("temperature ", fixed(temperature, 4), ": log-loss ", fixed(before.log_loss().mean(), 4), " -> ",
              fixed(after.log_loss().mean(), 4), ", calibration error ", fixed(before.calibration_error().mean(), 4),
              " -> ", fixed(after.calibration_error().mean(), 4));
}

/// The cells of a column by the names of samples: groups of the same data by that column.
std::map<std::string, std::string> cells_of(const std::string& column, const ImageEvaluationOptions& o,
                                            const Dataset& dataset) {
  DatasetOptions grouped = dataset_of(o.options);
  grouped.class_names = dataset.class_names();
  grouped.group_by = column;
  const Dataset data = Dataset::open(o.options.data, grouped);
  std::map<std::string, std::string> cells;
  for (const Split split : kSplits)
    for (std::int64_t i = 0; i < data.size(split); ++i) cells[data.name(split, i)] = data.group(split, i);
  return cells;
}

std::vector<DataSlice> slices(const Predictions& predictions, const ImageEvaluationOptions& o, const Dataset& dataset) {
  const bool of_image = o.slice_by == "size" || o.slice_by == "brightness" || o.slice_by == "folder";
  const auto cells = of_image ? std::map<std::string, std::string>() : cells_of(o.slice_by, o, dataset);
  return slices_by(o.slice_by, predictions, dataset, o.subject.split, [&](const std::string& name) {
    const auto found = cells.find(name);
    return found == cells.end() ? std::string() : found->second;
  });
}

}  // namespace

ImageEvaluation evaluate_images(const Checkpoint& checkpoint, const Dataset& dataset, const ImageEvaluationOptions& o,
                                const Validation::Watch& watch) {
  const Split split = o.subject.split;
  ImageEvaluation out{.evaluation = Evaluation(dataset.class_names()),
                      .predictions = Predictions(dataset.class_names()),
                      .areas = {},
                      .headline = {},
                      .extras = {.slices_by = o.slice_by},
                      .unreadable = {},
                      .temperature = checkpoint.config.temperature,
                      .calibration_note = {}};
  if (o.views.size() > 1) {
    out.evaluation = *validate_views(checkpoint.model, dataset, split, o.preprocess, o.options, o.views, out.unreadable,
                                     out.predictions, watch);
  } else {
    Validation validation(checkpoint.model, dataset, split, o.preprocess, o.options, o.compute_dtype);
    out.evaluation = *validation.run(watch, &out.predictions);
    out.unreadable = validation.bad();
  }
  if (o.calibrate) {
    const double temperature = fitted_temperature(out.predictions);
    Predictions after = tempered(out.predictions, temperature);
    out.calibration_note = calibration_note(temperature, out.predictions.probabilities(), after.probabilities());
    out.predictions = std::move(after);
    const double loss = out.evaluation.loss();
    out.evaluation = evaluation_of(out.predictions);  // with confidences that are as sure now
    out.evaluation.add_loss(loss, out.evaluation.samples());
    out.temperature *= temperature;
  }
  if (o.allow_subset) out.evaluation.leave_out_empty();
  if (!o.slice_by.empty()) out.extras.slices = slices(out.predictions, o, dataset);
  if (o.corruptions)
    out.extras.corrupted = with_corruptions(checkpoint.model, dataset, split, o.preprocess, o.options, watch);
  out.areas = out.predictions.probabilities().areas();
  out.headline = headline_metrics(out.evaluation, out.predictions.probabilities(), out.areas);
  return out;
}

}  // namespace neurim
