// A model as it is run when it no longer learns.
#pragma once
#include "neurim/compile/plan.h"
#include "neurim/model/model.h"

namespace neurim {

/// The frozen plan of the model for one input of this type, on the device where the model lies. Later changes of its
/// weights are not seen. Of the options those of arithmetic and of kernels count. Throws what the model says of such an
/// input.
Plan inference_plan(const Model& model, const Type& input, PlanOptions options = {});

/// PlanOptions::compute_dtype of a precision: f32, bf16 or fp16, or auto for the one whose products this machine
/// computes fastest, which is measured once. Throws Error(usage) for another one.
DType compute_dtype_named(std::string_view precision);
/// The precision of that name.
std::string_view precision_of(DType compute_dtype);

}  // namespace neurim
