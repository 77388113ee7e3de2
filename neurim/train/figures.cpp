#include "neurim/train/figures.h"

#include "neurim/evaluate/evaluation.h"

namespace neurim {

Figures figures_of(const Evaluation& evaluation) {
  return {.top1 = evaluation.accuracy(),
          .top5 = evaluation.top_k(5),
          .loss = evaluation.loss(),
          .f1_macro = evaluation.average(Average::macro).f1,
          .samples = evaluation.samples()};
}

}  // namespace neurim
