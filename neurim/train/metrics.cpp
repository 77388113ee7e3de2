#include "neurim/train/metrics.h"

#include "neurim/evaluate/multi_label.h"

namespace neurim {

namespace {

constexpr NamedMetric kOneClass[] = {{"loss", &Metrics::loss, true},
                                     {"top1", &Metrics::top1},
                                     {"top5", &Metrics::top5},
                                     {"f1_macro", &Metrics::f1_macro}};
constexpr NamedMetric kMultiLabel[] = {{"loss", &Metrics::loss, true},
                                       {"map", &Metrics::map},
                                       {"f1_macro", &Metrics::f1_macro},
                                       {"f1_micro", &Metrics::f1_micro},
                                       {"exact_match", &Metrics::exact_match}};
constexpr NamedMetric kForecast[] = {{"loss", &Metrics::loss, true},
                                     {"mae", &Metrics::mae, true},
                                     {"rmse", &Metrics::rmse, true},
                                     {"naive_mae", &Metrics::naive_mae, true},
                                     {"seasonal_naive_mae", &Metrics::seasonal_naive_mae, true}};
constexpr NamedMetric kLanguage[] = {{"loss", &Metrics::loss, true},
                                     {"bits_per_character", &Metrics::bits_per_character, true},
                                     {"bigram_bits_per_character", &Metrics::bigram_bits_per_character, true},
                                     {"top1", &Metrics::top1}};

}  // namespace

const TaskNames& names_of(TaskKind task) {
  static const TaskNames kNames[] = {
      {"classify",
       "images of one class",
       "image",
       "images_per_second",
       "img/s",
       "top1",
       "top1",
       kOneClass,
       {{{"top1", &Metrics::top1}, {"f1", &Metrics::f1_macro}}}},
      {"multi-label",
       "multi-label images",
       "image",
       "images_per_second",
       "img/s",
       "exact_match",
       "map",
       kMultiLabel,
       {{{"map", &Metrics::map}, {"f1", &Metrics::f1_macro}}}},
      {"forecast",
       "a series",
       "forecast",
       "sequences_per_second",
       "seq/s",
       "mae",
       "mae",
       kForecast,
       {{{"mae", &Metrics::mae, false}, {"rmse", &Metrics::rmse, false}}}},
      {"language",
       "a text",
       "character",
       "sequences_per_second",
       "seq/s",
       "top1",
       "loss",
       kLanguage,
       {{{"bits", &Metrics::bits_per_character, false}, {"top1", &Metrics::top1}}}},
  };
  return kNames[static_cast<std::size_t>(task)];
}

Metrics metrics_of(const Evaluation& evaluation) {
  return {.loss = evaluation.loss(),
          .f1_macro = evaluation.average(Average::macro).f1,
          .top1 = evaluation.accuracy(),
          .top5 = evaluation.top_k(5),
          .samples = evaluation.samples()};
}

Metrics metrics_of(const MultiLabelEvaluation& evaluation) {
  return {.loss = evaluation.loss(),
          .f1_macro = evaluation.average(Average::macro).f1,
          .map = evaluation.mean_average_precision(),
          .f1_micro = evaluation.average(Average::micro).f1,
          .exact_match = evaluation.exact_match(),
          .samples = evaluation.samples(),
          .task = TaskKind::multi_label};
}

}  // namespace neurim
