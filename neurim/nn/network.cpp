#include "neurim/nn/network.h"

#include "neurim/base/error.h"

namespace neurim::nn {

Network& Network::add(std::string name, Layer layer, std::size_t from) {
  require(from <= steps_.size(), "network: '", name, "' takes result ", from, " of ", steps_.size() + 1);
  steps_.push_back({std::move(name), std::move(layer), {}, {from}});
  return *this;
}

Network& Network::join(Join join, std::vector<std::size_t> from) {
  for (const std::size_t result : from)
    require(result <= steps_.size(), "network: a join takes result ", result, " of ", steps_.size() + 1);
  steps_.push_back({{}, {}, std::move(join), std::move(from)});
  return *this;
}

void Network::parts(Parts& p) {
  for (Step& step : steps_)
    if (step.layer) p(step.name, *step.layer);
}

Tensor Network::operator()(const Tensor& x) const {
  Tensors results{x};
  for (const Step& step : steps_) {
    Tensors in;
    for (const std::size_t result : step.from) in.push_back(results[result]);
    results.push_back(step.layer ? in_part(step.name, [&] { return (*step.layer)(in[0]); }) : step.join(in));
  }
  return results.back();
}

}  // namespace neurim::nn
