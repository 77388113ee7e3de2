// Learning-rate schedules: pure functions of the time, so that resuming needs no state.
#pragma once
#include <string>
#include <vector>

namespace neurim {

// Time is counted in epochs or steps, whole or fractional; all lengths of one call in the same unit.

/// lr * gamma^floor(at / every). Throws Error(usage) unless every > 0.
double step_lr(double lr, double at, double every, double gamma = 0.1);
/// lr * gamma^(how many milestones are at or before `at`).
double multistep_lr(double lr, double at, const std::vector<double>& milestones, double gamma = 0.1);
/// Half a cosine from lr at 0 to min_lr at `total`, and min_lr after that (Loshchilov and Hutter, arXiv
/// 1608.03983).
double cosine_lr(double lr, double at, double total, double min_lr = 0);
/// min_lr + (lr - min_lr) * (1 - at/total)^power, and min_lr after `total`.
double polynomial_lr(double lr, double at, double total, double power = 1, double min_lr = 0);
/// The straight line from `start` at 0 to lr at `warmup`.
double warmup_lr(double lr, double at, double warmup, double start = 0);

/// A schedule as options describe it: a linear warm-up, then the curve called `kind`.
struct Schedule {
  std::string kind = "constant";   ///< constant, step, multistep, cosine, polynomial
  double lr = 0.1;                 ///< where the curve begins, after the warm-up
  double total = 0;                ///< the whole length, warm-up included; cosine and polynomial end there
  double warmup = 0;               ///< cosine and polynomial begin after it; step and multistep count from 0
  double warmup_start = 0;         ///< the learning rate that the warm-up rises from
  double min_lr = 0;               ///< cosine, polynomial
  double every = 30;               ///< step
  double gamma = 0.1;              ///< step, multistep
  double power = 1;                ///< polynomial
  std::vector<double> milestones;  ///< multistep, ascending

  /// Throws Error(usage) on an unknown kind (with the nearest one) or lengths that do not fit.
  void check() const;
  /// The learning rate of a step that begins at `time` and is `step` long. In the warm-up it is that of the line at the
  /// end of the step: the first of W steps has a W-th of the way, and the last one lr.
  double at(double time, double step = 0) const;
};

std::vector<std::string> schedule_names();  ///< those that options name

}  // namespace neurim
