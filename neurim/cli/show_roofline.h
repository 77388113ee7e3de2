// Compares a plan with the machine's peaks, for `neurim info --roofline`.
#pragma once
#include "neurim/compile/plan.h"
#include "neurim/train/console.h"

namespace neurim::cli {

inline constexpr int kReplays = 10;  ///< of the plan, for its timing

/// Measures the peaks of the compute threads and the tasks of the plan on random inputs with labels in [0, classes).
/// Prints each task and the sums of each kind.
void show_roofline(const Plan& plan, std::int64_t classes, Console& console);

}  // namespace neurim::cli
