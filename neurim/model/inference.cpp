#include "neurim/model/inference.h"

#include "neurim/core/device.h"
#include "neurim/hardware/peaks.h"
#include "neurim/model/state.h"

namespace neurim {

Plan inference_plan(const Model& model, const Type& input, PlanOptions options) {
  options.freeze = true;
  options.device = device_of(model);
  return plan([&](const Tensors& in) { return Tensors{model(in[0])}; }, {input}, options);
}

DType compute_dtype_named(std::string_view precision) {
  if (precision == "auto") {
    static const std::string_view fastest = measured_precision(threads());
    precision = fastest;
  }
  require(precision == "f32" || precision == "bf16" || precision == "fp16", "precision: there is no '", precision,
          "'; known are f32, bf16, fp16, auto");
  return precision == "bf16" ? DType::bf16 : precision == "fp16" ? DType::f16 : DType::f32;
}

std::string_view precision_of(DType compute_dtype) {
  return compute_dtype == DType::bf16 ? "bf16" : compute_dtype == DType::f16 ? "fp16" : "f32";
}

}  // namespace neurim
