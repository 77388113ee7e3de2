#include "neurim/train/mirrored.h"

#include <memory>
#include <utility>
#include <vector>

#include "neurim/base/text.h"
#include "neurim/distributed/local_wire.h"
#include "neurim/distributed/reduce_gradients.h"

namespace neurim {

Replica::Replica(std::string device, std::shared_ptr<ProcessGroup> group)
    : device_(std::move(device)), job_(std::move(group)) {}

void Replica::mirror(ModuleRef module) const {
  for (const Parameter& parameter : named_parameters(module)) parameter.tensor.place(device());
  job_.broadcast(module);
}

void Replica::share_gradients(Optimizer& optimizer) const {
  if (!job_.alone()) optimizer.add(std::make_unique<ReduceGradients>(job_.data_number()));
}

double Replica::sum(double value) const {
  std::vector<double> all{value};
  job_.group().all_reduce(all);
  return all[0];
}

void mirrored(const std::string& devices, const std::function<void(const Replica&)>& body) {
  const std::vector<std::string> list = split(devices, ',');
  for (const std::string& device : list) device_named(device);  // throws
  as_local_ranks(static_cast<int>(list.size()), [&](const std::shared_ptr<ProcessGroup>& group) {
    body(Replica(list[static_cast<std::size_t>(group->rank())], group));
  });
}

}  // namespace neurim
