// Random inputs for plans that are measured, not evaluated.
#pragma once
#include <vector>

#include "neurim/compile/plan.h"

namespace neurim::cli {

/// Normal numbers, the same in every call.
std::vector<float> drawn_numbers(std::size_t count);

/// Fills a plan's inputs: floats with normal numbers, integers with labels or characters in [0, classes).
void draw_batch(const Plan& plan, std::int64_t classes);

/// These options for a training plan. Dropout has a fixed key.
PlanOptions training_options(Device device, PlanOptions options);

}  // namespace neurim::cli
