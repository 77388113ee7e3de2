#include "neurim/train/image_evaluation.h"

#include <map>
#include <utility>

#include "neurim/evaluate/calibration.h"
#include "neurim/evaluate/report.h"
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

std::optional<ImageEvaluation> evaluate_classes(const Model& model, const Dataset& dataset,
                                                const ImageEvaluationOptions& o, const Validation::Watch& watch) {
  const Split split = o.subject.split;
  ImageEvaluation out;
  Predictions predictions(dataset.class_names());
  std::optional<Evaluation> evaluation;
  if (o.views.size() > 1) {
    evaluation = validate_views(model, dataset, split, o.preprocess, o.options, o.views, out.unreadable, predictions,
                                watch);
  } else {
    Validation validation(model, dataset, split, o.preprocess, o.options, o.compute_dtype);
    evaluation = validation.run(watch, &predictions);
    out.unreadable = validation.bad();
  }
  if (!evaluation) return {};
  if (o.calibrate) {
    out.temperature = fitted_temperature(predictions);
    Predictions after = tempered(predictions, out.temperature);
    out.calibration_note = calibration_note(out.temperature, predictions.probabilities(), after.probabilities());
    predictions = std::move(after);
    const double loss = evaluation->loss();
    evaluation = evaluation_of(predictions);  // with confidences that are as sure now
    evaluation->add_loss(loss, evaluation->samples());
  }
  if (o.allow_subset) evaluation->leave_out_empty();
  out.extras.slices_by = o.slice_by;
  if (!o.slice_by.empty()) out.extras.slices = slices(predictions, o, dataset);
  if (o.corruptions) out.extras.corrupted = with_corruptions(model, dataset, split, o.preprocess, o.options, watch);
  const ClassAreas areas = predictions.probabilities().areas();
  out.metrics = metrics_of(*evaluation);
  out.headline = headline_metrics(*evaluation, predictions.probabilities(), areas);
  out.table = per_class_table(*evaluation);
  if (o.reject) out.kept = evaluation->kept(*o.reject);
  out.reject_threshold = evaluation->reject_threshold(o.options.reject_keep);
  out.write = [evaluation = std::move(*evaluation), predictions = std::move(predictions), areas,
               headline = out.headline, extras = out.extras, subject = o.subject, dataset](const fs::path& folder) {
    write_evaluation(evaluation, predictions, areas, headline, dataset, subject, extras, folder);
  };
  return out;
}

std::optional<ImageEvaluation> evaluate_multi_label(const Model& model, const Dataset& dataset,
                                                    const ImageEvaluationOptions& o, const Validation::Watch& watch) {
  Validation validation(model, dataset, o.subject.split, o.preprocess, o.options, o.compute_dtype);
  std::vector<NamedSample> names;
  std::optional<MultiLabelEvaluation> evaluation = validation.run_multi_label(watch, &names);
  if (!evaluation) return {};
  if (!o.thresholds.empty()) evaluation->set_thresholds(o.thresholds);
  const ClassAreas areas = evaluation->areas();
  const std::vector<HeadlineMetric> headline = headline_metrics(*evaluation, areas);
  return ImageEvaluation{.metrics = metrics_of(*evaluation),
                         .headline = headline,
                         .table = per_class_table(*evaluation),
                         .unreadable = validation.bad(),
                         .write = [evaluation = std::move(*evaluation), names = std::move(names), areas, headline,
                                   subject = o.subject, dataset](const fs::path& folder) {
                           write_evaluation(evaluation, names, areas, headline, dataset, subject, folder);
                         }};
}

std::optional<ImageEvaluation> evaluate_numbers(const Model& model, const Dataset& dataset,
                                                const ImageEvaluationOptions& o, const Validation::Watch& watch) {
  Validation validation(model, dataset, o.subject.split, o.preprocess, o.options, o.compute_dtype);
  std::vector<NamedSample> names;
  std::optional<RegressionEvaluation> evaluation = validation.run_regression(watch, &names);
  if (!evaluation) return {};
  const std::vector<HeadlineMetric> headline = headline_metrics(*evaluation);
  return ImageEvaluation{.metrics = metrics_of(*evaluation),
                         .headline = headline,
                         .table = "",
                         .unreadable = validation.bad(),
                         .write = [evaluation = std::move(*evaluation), names = std::move(names), headline,
                                   subject = o.subject, dataset](const fs::path& folder) {
                           write_evaluation(evaluation, names, headline, dataset, subject, folder);
                         }};
}

}  // namespace

std::optional<ImageEvaluation> evaluate_images(const Model& model, const Dataset& dataset,
                                               const ImageEvaluationOptions& o, const Validation::Watch& watch) {
  if (dataset.regression()) return evaluate_numbers(model, dataset, o, watch);
  if (dataset.multi_label()) return evaluate_multi_label(model, dataset, o, watch);
  return evaluate_classes(model, dataset, o, watch);
}

}  // namespace neurim
