#include "neurim/infer/behind.h"

#include <functional>
#include <set>

#include "neurim/graph/value.h"

namespace neurim {

std::vector<const Graph::Node*> nodes_behind(const Tensor& value) {
  std::set<int, std::greater<>> left{value.value()->id};
  std::vector<const Graph::Node*> out;
  while (!left.empty()) {
    const int id = *left.begin();
    left.erase(left.begin());
    const Graph::Node* node = producer(traced_value(id));
    if (!node) continue;
    out.push_back(node);
    left.insert(node->in.begin(), node->in.end());
  }
  return out;
}

}  // namespace neurim
