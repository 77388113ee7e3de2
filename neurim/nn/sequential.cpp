#include "neurim/nn/sequential.h"

namespace neurim::nn {

void Sequential::parts(Parts& p) {
  for (std::size_t i = 0; i < layers_.size(); ++i) p(std::to_string(i), layers_[i]);
}

Tensor Sequential::operator()(const Tensor& x) const {
  Tensor y = x;
  for (std::size_t i = 0; i < layers_.size(); ++i) y = in_part(i, [&] { return layers_[i](y); });
  return y;
}

}  // namespace neurim::nn
