// Inputs for plans that are measured and not evaluated.
#pragma once
#include "neurim/compile/plan.h"

namespace neurim::cli {

/// Fills a plan's input buffers: floats with normal numbers, whole numbers with labels or characters in [0,
/// classes).
void draw_batch(const Plan& plan, std::int64_t classes);

/// These options for a plan that trains; dropout draws from a key that is the same each time.
PlanOptions training_options(Device device, PlanOptions options);

}  // namespace neurim::cli
