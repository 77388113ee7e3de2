#include "neurim/nn/prelu.h"

#include "neurim/base/error.h"
#include "neurim/ops/prelu.h"

namespace neurim::nn {

PReLU::PReLU(std::int64_t num_parameters, double init_) : init(init_) {
  require(num_parameters > 0, "PReLU: num_parameters (", num_parameters, ") must be 1 or more");
  weight = parameter({num_parameters}, constant(init));
}

void PReLU::parts(Parts& p) { p("weight", weight, constant(init)); }

Tensor PReLU::operator()(const Tensor& x) const { return prelu(x, weight); }

}  // namespace neurim::nn
