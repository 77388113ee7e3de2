#include "neurim/graph/kernel.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "neurim/base/error.h"

namespace neurim {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, std::vector<Kernel>, std::less<>> lists;
};
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

}  // namespace

void add(const Kernel& kernel) {
  const std::lock_guard lock(registry().mutex);
  auto& list = registry().lists[{std::string(kernel.op), kernel.device}];
  const auto at = std::find_if(list.begin(), list.end(), [&](const Kernel& other) { return other.rank < kernel.rank; });
  list.insert(at, kernel);
}

std::span<const Kernel> kernels(std::string_view op, std::uint8_t device) {
  const std::lock_guard lock(registry().mutex);
  require(!registry().lists.empty(), "no kernels are registered; call neurim::initialize() first");
  const auto at = registry().lists.find({std::string(op), device});
  return at == registry().lists.end() ? std::span<const Kernel>() : std::span<const Kernel>(at->second);
}

}  // namespace neurim
