// Modules. A module is any class with `void parts(Parts&)` that names its tensors and inner modules;
// parameters, naming, initialising, saving and optimizing all follow from that one visit. No base class.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/graph/tensor.h"
#include "neurim/nn/init.h"

namespace neurim {

/// What a tensor of a module is for.
enum class Role : std::uint8_t {
  weight,  ///< learnt: optimizers step it
  state,   ///< kept but not learnt: running statistics, optimizer state
};

class Parts;
/// A class whose objects list their tensors and inner modules in `parts`.
template <class M>
concept HasParts = requires(M& module, Parts& parts) { module.parts(parts); };

/// Runs what the part `name` of a module computes; its errors begin with its path, "3: linear: …". Sequential calls its
/// layers so, and so does all that has a list of them. Of a class of one's own errors know the parts by the names of
/// their tensors, which those have from the first named_parameters on: an optimizer, save_model and create_model begin
/// with one.
template <class Name, class Compute>
auto in_part(const Name& name, const Compute& compute) {
  try {
    return compute();
  } catch (const Error& error) {
    throw error.inside(text(name));
  }
}

/// The visitor of parts().
class Parts {
 public:
  virtual ~Parts() = default;
  /// Visits a defined tensor.
  virtual void param(std::string_view name, Tensor& tensor, Role role, const nn::Init& init) = 0;
  virtual void enter(std::string_view name) = 0;  ///< begins the visit of an inner module or list
  virtual void leave() = 0;                       ///< ends the visit of the last one entered

  /// A tensor. An undefined one (no bias) is not visited.
  Parts& operator()(std::string_view name, Tensor& tensor, Role role = Role::weight, const nn::Init& init = {}) {
    if (tensor) param(name, tensor, role, init);
    return *this;
  }
  /// A learnt tensor that is drawn from init.
  Parts& operator()(std::string_view name, Tensor& tensor, const nn::Init& init) {
    return (*this)(name, tensor, Role::weight, init);
  }
  /// An inner module.
  template <HasParts M>
  Parts& operator()(std::string_view name, M& module) {
    enter(name);
    module.parts(*this);
    leave();
    return *this;
  }
  /// A list of modules or tensors, named "0", "1", …
  template <class List>
    requires(!HasParts<List> && requires(List& list) { list.begin(), list.size(); })
  Parts& operator()(std::string_view name, List& list) {
    enter(name);
    std::size_t i = 0;
    for (auto& item : list) (*this)(std::to_string(i++), item);
    leave();
    return *this;
  }
};

/// Base of visitors that need full names.
class PathParts : public Parts {
 public:
  void enter(std::string_view name) final;  ///< appends "name." to the path
  void leave() final;                       ///< takes the last name off the path

 protected:
  const std::string& path() const { return path_; }  ///< of the visited module: "layer1.0.", or ""

 private:
  std::string path_;
  std::vector<std::size_t> lengths_;
};

/// Any module, for the length of a call; a const one where no handle is replaced, which unshare alone does.
class ModuleRef {
 public:
  /// Refers to the module, which has to outlive it.
  template <class M, class Module = std::remove_cvref_t<M>>
    requires(!std::same_as<Module, ModuleRef> && HasParts<Module>)
  ModuleRef(M&& module)
      : module_(const_cast<void*>(static_cast<const void*>(&module))),
        visit_([](void* m, Parts& parts) { static_cast<Module*>(m)->parts(parts); }) {}
  void parts(Parts& parts) const { visit_(module_, parts); }

 private:
  void* module_;
  void (*visit_)(void* module, Parts& parts);
};

/// A visited tensor under its full name, "layer1.0.conv1.weight".
struct Parameter {
  std::string name;          ///< full, as in checkpoints: "layer1.0.conv1.weight"
  Tensor tensor;             ///< shares the module's data
  Role role = Role::weight;  ///< whether it is learnt
  nn::Init init = {};        ///< the distribution of its first values
};
/// In the order of the visit.
using Parameters = std::vector<Parameter>;

/// The tensors in the order of the visit; a tied tensor comes under each of its names. Tensors without a name
/// take the full one. Throws Error(usage) when a name is met twice.
Parameters named_parameters(ModuleRef module);

/// The number of learnt values; tied weights count once.
std::int64_t parameter_count(ModuleRef module);

/// Redraws every parameter that has an initialiser, by seed and full name: see nn::fill.
void initialise(ModuleRef module, std::uint64_t seed);

/// Gives the module tensors of its own, equal to those it shared. Tied weights stay tied.
void unshare(ModuleRef module);
template <class M>
  requires std::is_const_v<M>
void unshare(M& module) = delete;

/// A module with data of its own; the plain C++ copy of a module shares its tensors.
template <HasParts M>
M clone(const M& module) {
  M copy = module;
  unshare(copy);
  return copy;
}

}  // namespace neurim
