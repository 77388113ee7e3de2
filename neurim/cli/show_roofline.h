// A plan beside what the machine allows, as `neurim info --roofline` prints it.
#pragma once
#include "neurim/compile/plan.h"
#include "neurim/train/console.h"

namespace neurim::cli {

inline constexpr int kReplays = 10;  ///< of a plan that is shown

/// Measures the peaks of the compute threads and the tasks of the plan over drawn inputs with labels in [0,
/// classes); prints each task and the sums of each kind.
void show_roofline(const Plan& plan, std::int64_t classes, Console& console);

}  // namespace neurim::cli
