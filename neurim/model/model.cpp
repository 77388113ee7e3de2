#include "neurim/model/model.h"

#include <cmath>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"
#include "neurim/ops/add.h"
#include "neurim/ops/mul.h"

namespace neurim {

Tensor row_of(const std::vector<double>& values, Device device) {
  const std::vector<float> row(values.begin(), values.end());
  const Untraced untraced;
  return Tensor::from({std::ssize(row)}, std::span<const float>(row), device);
}

Tensor Model::operator()(const Tensor& x) const {
  if (!training()) {
    const Tensor y = net(x);
    if (!targets.empty() && !gives_units) return y * row_of(targets.std, y.device()) + row_of(targets.mean, y.device());
    return temperature == 1 ? y : y * (1 / temperature);
  }
  named_parameters(*this);  // all of its parts have names now
  const std::size_t before = captured().size();
  const Tensor y = net(x);
  const Tensors read = captured();
  for (std::size_t i = before; i < read.size(); ++i)
    require(!read[i].value()->parameter || !read[i].name().empty(), name, ": the network reads a parameter ",
            read[i].type(),
            " that no parts() names, so that it would be neither trained nor saved; list its layer there");
  return y;
}

std::vector<double> per_channel(const std::vector<double>& values, std::int64_t channels) {
  if (std::ssize(values) == channels) return values;
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return std::vector<double>(static_cast<std::size_t>(channels), sum / static_cast<double>(values.size()));
}

void check_scaling(std::string_view option, const std::vector<double>& values) {
  // A std of such pixels is at most 0.5. What is some times larger scales on purpose; what is of levels up to 255 is
  // above.
  constexpr double kMostStd = 4;
  const bool is_mean = option == "mean";
  for (const double value : values) {
    const bool holds = is_mean ? std::abs(value) <= 1 : value > 0 && value <= kMostStd;
    require(holds, option, " is ", value, "; pixels are scaled to 0 to 1, and it lies in ",
            is_mean ? "[-1, 1]" : text("(0, ", kMostStd, ']'),
            value <= 1 ? ""
                       : text("; values for levels up to ",
                              value <= 255 ? "255 are divided by 255" : "65535 are divided by 65535"));
  }
}

}  // namespace neurim
