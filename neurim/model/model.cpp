#include "neurim/model/model.h"

#include <numeric>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"

namespace neurim {

Tensor Model::operator()(const Tensor& x) const {
  if (!training()) return net(x);
  named_parameters(*this);  // all of its parts have names now
  const std::size_t before = captured().size();
  const Tensor y = net(x);
  const Tensors read = captured();
  for (std::size_t i = before; i < read.size(); ++i)
    require(!read[i].value()->parameter || !read[i].name().empty(), name, ": the network reads a parameter ", read[i].type(),
            " that no parts() names, so that it would be neither trained nor saved; list its layer there");
  return y;
}

std::vector<double> per_channel(const std::vector<double>& values, std::int64_t channels) {
  if (std::ssize(values) == channels) return values;
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return std::vector<double>(static_cast<std::size_t>(channels), sum / static_cast<double>(values.size()));
}

}  // namespace neurim
