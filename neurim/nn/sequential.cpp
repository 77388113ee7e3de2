#include "neurim/nn/sequential.h"

namespace neurim::nn {

void Sequential::parts(Parts& p) {
  for (std::size_t i = 0; i < layers_.size(); ++i) p(std::to_string(i), layers_[i]);
}

Tensor Sequential::operator()(const Tensor& x) const {
  Tensor y = x;
  for (const Layer& layer : layers_) y = layer(y);
  return y;
}

}  // namespace neurim::nn
