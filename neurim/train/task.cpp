#include "neurim/train/task.h"

#include <algorithm>

#include "neurim/train/sequence_task.h"

namespace neurim {

const TaskMetric* TaskInfo::find(std::string_view metric) const {
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&](const TaskMetric& one) { return metric == one.name; });
  return found == metrics.end() ? nullptr : &*found;
}

const TaskInfo& classify_task() {
  static const TaskInfo task{
      .name = "classify",
      .data = "images of one class",
      .sample = "image",
      .rate = "images_per_second",
      .rate_title = "img/s",
      .train_metric = "top1",
      .monitor = "top1",
      .answer = Answer::one_class,
      .output = "logits",
      .metrics = {{"loss", true}, {"top1"}, {"top5"}, {"f1_macro"}},
      .shown = {{"top1", "top1"}, {"f1", "f1_macro"}},
      .results = {{"top1", "top1"}, {"top5", "top5"}, {"macro-F1", "f1_macro"}},
      .curves_title = "Accuracy",
      .curves = {{"training", ""}, {"validation", "top1", true}, {.title = "top-5", .metric = "top5", .classes = 5}}};
  return task;
}

const TaskInfo& multi_label_task() {
  static const TaskInfo task{
      .name = "multi-label",
      .data = "multi-label images",
      .sample = "image",
      .rate = "images_per_second",
      .rate_title = "img/s",
      .train_metric = "exact_match",
      .monitor = "map",
      .answer = Answer::classes,
      .output = "logits",
      .metrics = {{"loss", true}, {"map"}, {"f1_macro"}, {"f1_micro"}, {"exact_match"}},
      .shown = {{"map", "map"}, {"f1", "f1_macro"}},
      .results = {{"mAP", "map"}, {"macro-F1", "f1_macro"}, {"micro-F1", "f1_micro"}, {"exact match", "exact_match"}},
      .curves_title = "Validation",
      .curves = {{"mAP", "map", true}, {"macro-F1", "f1_macro"}, {"exact match", "exact_match"}},
      .folder = "classify"};
  return task;
}

const TaskInfo& regress_task() {
  static const TaskInfo task{
      .name = "regress",
      .data = "images with numbers",
      .sample = "image",
      .rate = "images_per_second",
      .rate_title = "img/s",
      .train_metric = "mae",
      .monitor = "r2",
      .answer = Answer::values,
      .output = "values",
      .metrics = {{"loss", true}, {"mae", true}, {"rmse", true}, {"r2"}},
      .shown = {{"mae", "mae", false}, {"r2", "r2", false}},
      .results = {{"MAE", "mae", -1, false}, {"RMSE", "rmse", -1, false}, {"R2", "r2", 4, false}},
      .curves_title = "Mean absolute error",
      .curves = {{"training", ""}, {"validation", "mae", true}},
      .percent = false};
  return task;
}

const TaskInfo& forecast_task() {
  static const TaskInfo task{
      .name = "forecast",
      .data = "a series",
      .sample = "forecast",
      .rate = "sequences_per_second",
      .rate_title = "seq/s",
      .train_metric = "mae",
      .monitor = "mae",
      .answer = Answer::values,
      .output = "forecast",
      .metrics = {{"loss", true}, {"mae", true}, {"rmse", true}, {"naive_mae", true}, {"seasonal_naive_mae", true}},
      .shown = {{"mae", "mae", false}, {"rmse", "rmse", false}},
      .results = {{"MAE", "mae", -1, false},
                  {"RMSE", "rmse", -1, false},
                  {"last value", "naive_mae", -1, false, "mae"},
                  {"last season", "seasonal_naive_mae", -1, false, "mae"}},
      .curves_title = "Mean absolute error",
      .curves = {{"training", ""},
                 {"validation", "mae", true},
                 {"last value", "naive_mae"},
                 {"last season", "seasonal_naive_mae"}},
      .percent = false,
      .takes = is_forecast,
      .prepare = prepare_forecast};
  return task;
}

const TaskInfo& language_task() {
  static const TaskInfo task{
      .name = "language",
      .data = "a text",
      .sample = "character",
      .rate = "sequences_per_second",
      .rate_title = "seq/s",
      .train_metric = "top1",
      .monitor = "loss",
      .answer = Answer::characters,
      .output = "logits",
      .metrics = {{"loss", true}, {"bits_per_character", true}, {"bigram_bits_per_character", true}, {"top1"}},
      .shown = {{"bits", "bits_per_character", false}, {"top1", "top1"}},
      .results = {{"bits per character", "bits_per_character", 3, false},
                  {"bigram", "bigram_bits_per_character", -1, false, "bits_per_character"},
                  {"top1", "top1"}},
      .curves_title = "Bits per character",
      .curves = {{"validation", "bits_per_character", true}, {"bigram", "bigram_bits_per_character"}},
      .percent = false,
      .takes = is_language,
      .prepare = prepare_language};
  return task;
}

const std::vector<const TaskInfo*>& tasks() {
  static const std::vector<const TaskInfo*> all{&classify_task(), &multi_label_task(), &regress_task(),
                                                &forecast_task(), &language_task()};
  return all;
}

const TaskInfo* task_that_takes(const TrainOptions& options) {
  const auto found = std::find_if(tasks().begin(), tasks().end(),
                                  [&](const TaskInfo* one) { return one->takes && one->takes(options); });
  return found == tasks().end() ? nullptr : *found;
}

}  // namespace neurim
