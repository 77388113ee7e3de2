#include "neurim/nn/module.h"

#include <unordered_map>
#include <unordered_set>

#include "neurim/base/error.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

class Collect final : public PathParts {
 public:
  void param(std::string_view name, Tensor& tensor, Role role, const nn::Init& init) override {
    std::string full = path() + std::string(name);
    require(seen_.insert(full).second, full,
            ": two tensors of the module have this name; give each part another name in parts()");
    if (tensor.name().empty()) tensor.set_name(full);
    tensor.value()->state = role == Role::state;
    found.push_back({std::move(full), tensor, role, init});
  }

  Parameters found;

 private:
  std::unordered_set<std::string> seen_;
};

class Unshare final : public Parts {
 public:
  void param(std::string_view, Tensor& tensor, Role, const nn::Init&) override {
    Tensor& own = own_[tensor.value()];
    if (!own) {
      own = tensor.clone();
      own.set_name(std::string(tensor.name()));
      shared_.push_back(tensor);
    }
    tensor = own;
  }
  void enter(std::string_view) override {}
  void leave() override {}

 private:
  std::unordered_map<const Value*, Tensor> own_;
  Tensors shared_;  // keeps the old Values, whose addresses are keys, alive
};

}  // namespace

void PathParts::enter(std::string_view name) {
  lengths_.push_back(path_.size());
  path_ += name;
  path_ += '.';
}

void PathParts::leave() {
  path_.resize(lengths_.back());
  lengths_.pop_back();
}

Parameters named_parameters(ModuleRef module) {
  Collect collect;
  module.parts(collect);
  return std::move(collect.found);
}

std::int64_t parameter_count(ModuleRef module) {
  std::unordered_set<const Value*> counted;
  std::int64_t count = 0;
  for (const Parameter& p : named_parameters(module))
    if (p.role == Role::weight && counted.insert(p.tensor.value()).second) count += p.tensor.numel();
  return count;
}

void initialise(ModuleRef module, std::uint64_t seed) {
  std::unordered_set<const Value*> done;  // a tied weight is drawn under its first name
  for (const Parameter& p : named_parameters(module))
    if (done.insert(p.tensor.value()).second) nn::fill(p.tensor, p.init, seed, p.name);
}

void unshare(ModuleRef module) {
  Unshare visit;
  module.parts(visit);
}

}  // namespace neurim
