#include "neurim/train/figures.h"

#include "neurim/evaluate/multi_label.h"

namespace neurim {

namespace {

constexpr NamedFigure kOneClass[] = {{"loss", &Figures::loss, true},
                                     {"top1", &Figures::top1},
                                     {"top5", &Figures::top5},
                                     {"f1_macro", &Figures::f1_macro}};
constexpr NamedFigure kMultiLabel[] = {{"loss", &Figures::loss, true},
                                       {"map", &Figures::map},
                                       {"f1_macro", &Figures::f1_macro},
                                       {"f1_micro", &Figures::f1_micro},
                                       {"exact_match", &Figures::exact_match}};
constexpr NamedFigure kForecast[] = {{"loss", &Figures::loss, true},
                                     {"mae", &Figures::mae, true},
                                     {"rmse", &Figures::rmse, true},
                                     {"naive_mae", &Figures::naive_mae, true},
                                     {"seasonal_naive_mae", &Figures::seasonal_naive_mae, true}};
constexpr NamedFigure kLanguage[] = {{"loss", &Figures::loss, true},
                                     {"bits_per_character", &Figures::bits_per_character, true},
                                     {"bigram_bits_per_character", &Figures::bigram_bits_per_character, true},
                                     {"top1", &Figures::top1}};

}  // namespace

const TaskNames& names_of(TaskKind task) {
  static const TaskNames kNames[] = {
      {"classify", "pictures of one class", "picture", "images_per_second", "img/s", "top1", "top1", kOneClass,
       {{{"top1", &Figures::top1}, {"f1", &Figures::f1_macro}}}},
      {"multi-label", "multi-label pictures", "picture", "images_per_second", "img/s", "exact_match", "map",
       kMultiLabel, {{{"map", &Figures::map}, {"f1", &Figures::f1_macro}}}},
      {"forecast", "a series", "forecast", "sequences_per_second", "seq/s", "mae", "mae", kForecast,
       {{{"mae", &Figures::mae, false}, {"rmse", &Figures::rmse, false}}}},
      {"language", "a text", "character", "sequences_per_second", "seq/s", "top1", "loss", kLanguage,
       {{{"bits", &Figures::bits_per_character, false}, {"top1", &Figures::top1}}}},
  };
  return kNames[static_cast<std::size_t>(task)];
}

Figures figures_of(const Evaluation& evaluation) {
  return {.loss = evaluation.loss(),
          .f1_macro = evaluation.average(Average::macro).f1,
          .top1 = evaluation.accuracy(),
          .top5 = evaluation.top_k(5),
          .samples = evaluation.samples()};
}

Figures figures_of(const MultiLabelEvaluation& evaluation) {
  return {.loss = evaluation.loss(),
          .f1_macro = evaluation.average(Average::macro).f1,
          .map = evaluation.mean_average_precision(),
          .f1_micro = evaluation.average(Average::micro).f1,
          .exact_match = evaluation.exact_match(),
          .samples = evaluation.samples(),
          .task = TaskKind::multi_label};
}

}  // namespace neurim
