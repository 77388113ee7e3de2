#include "neurim/model/inference.h"

#include "neurim/model/state.h"

namespace neurim {

Plan inference_plan(const Model& model, const Type& input, DType products) {
  return plan([&](const Tensors& in) { return Tensors{model(in[0])}; }, {input},
              {.freeze = true, .products = products, .device = device_of(model)});
}

}  // namespace neurim
