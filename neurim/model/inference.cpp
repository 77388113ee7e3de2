#include "neurim/model/inference.h"

#include "neurim/model/state.h"

namespace neurim {

Plan inference_plan(const Model& model, const Type& input, PlanOptions options) {
  options.freeze = true;
  options.device = device_of(model);
  return plan([&](const Tensors& in) { return Tensors{model(in[0])}; }, {input}, options);
}

DType compute_dtype_named(std::string_view precision) {
  require(precision == "f32" || precision == "bf16" || precision == "fp16", "precision: there is no '", precision,
          "'; known are f32, bf16, fp16");
  return precision == "bf16" ? DType::bf16 : precision == "fp16" ? DType::f16 : DType::f32;
}

}  // namespace neurim
