#include "neurim/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "neurim/base/error.h"

namespace neurim {

namespace {

/// How much of the way is done, in [0, 1]. A way of no length is done.
double share(double at, double total) { return total > 0 ? std::clamp(at / total, 0.0, 1.0) : 1; }

}  // namespace

double step_lr(double lr, double at, double every, double gamma) {
  require(every > 0, "schedule: step needs `every` above 0, got ", every);
  return lr * std::pow(gamma, std::floor(at / every));
}

double multistep_lr(double lr, double at, const std::vector<double>& milestones, double gamma) {
  const auto passed = std::count_if(milestones.begin(), milestones.end(), [&](double m) { return m <= at; });
  return lr * std::pow(gamma, static_cast<double>(passed));
}

double cosine_lr(double lr, double at, double total, double min_lr) {
  return min_lr + (lr - min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * share(at, total)));
}

double polynomial_lr(double lr, double at, double total, double power, double min_lr) {
  return min_lr + (lr - min_lr) * std::pow(1 - share(at, total), power);
}

double warmup_lr(double lr, double at, double warmup, double start) { return start + (lr - start) * share(at, warmup); }

void Schedule::check() const {
  const std::vector<std::string> names = schedule_names();
  if (std::find(names.begin(), names.end(), kind) == names.end()) {
    const std::string near = nearest(kind, names);
    fail(Fault::usage, "schedule: there is no '", kind, "'; ", near.empty() ? "" : text("did you mean '", near, "'? "),
         "known are ", join(names, ", "));
  }
  require(warmup >= 0, "schedule: the warm-up is ", warmup, " long, it must not be negative");
  if (kind == "cosine" || kind == "polynomial")
    require(total > warmup, "schedule: ", kind, " needs a total length (", total, ") above the warm-up's (", warmup,
            ")");
  if (kind == "step") require(every > 0, "schedule: step needs `every` above 0, got ", every);
  require(std::is_sorted(milestones.begin(), milestones.end()), "schedule: the milestones must ascend");
}

double Schedule::at(double time, double step) const {
  if (time < warmup) return warmup_lr(lr, time + step, warmup, warmup_start);
  if (kind == "step") return step_lr(lr, time, every, gamma);
  if (kind == "multistep") return multistep_lr(lr, time, milestones, gamma);
  if (kind == "cosine") return cosine_lr(lr, time - warmup, total - warmup, min_lr);
  if (kind == "polynomial") return polynomial_lr(lr, time - warmup, total - warmup, power, min_lr);
  return lr;
}

std::vector<std::string> schedule_names() { return {"constant", "step", "multistep", "cosine", "polynomial"}; }

}  // namespace neurim
