#include "neurim/train/figures.h"

#include "neurim/evaluate/multi_label.h"

namespace neurim {

std::span<const NamedFigure> named_figures(bool multi_label) {
  static constexpr NamedFigure kOneClass[] = {{"loss", &Figures::loss},
                                              {"top1", &Figures::top1},
                                              {"top5", &Figures::top5},
                                              {"f1_macro", &Figures::f1_macro}};
  static constexpr NamedFigure kMultiLabel[] = {{"loss", &Figures::loss},
                                                {"map", &Figures::map},
                                                {"f1_macro", &Figures::f1_macro},
                                                {"f1_micro", &Figures::f1_micro},
                                                {"exact_match", &Figures::exact_match}};
  return multi_label ? std::span<const NamedFigure>(kMultiLabel) : kOneClass;
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
          .multi_label = true};
}

}  // namespace neurim
