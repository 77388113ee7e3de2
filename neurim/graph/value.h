// Values after Tensor handles. For the graph, the compiler and the device placement; users see Tensor.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "neurim/core/device.h"
#include "neurim/graph/tensor.h"

namespace neurim {

/// What a constant was made of.
struct Origin {
  std::string key;                         ///< says all of it; equal keys of data that live, equal constants
  std::vector<std::weak_ptr<Storage>> of;  ///< the data that the key names by their addresses
};

/// What a Tensor handle points to.
struct Value {
  Type type;         ///< dtype and shape
  Device device;     ///< where the data are
  std::string name;  ///< Tensor::name

  std::shared_ptr<Storage> storage;  ///< the data of a stored one, in their physical layout; null of a traced one
  Layout layout;                     ///< of `storage`
  /// Whoever replaces `storage` or `layout` counts it up, so that plans that hold the old pointer notice.
  std::uint64_t epoch = 0;

  std::shared_ptr<void> frozen;          ///< Storage::frozen, of one that needs the data as they are
  std::shared_ptr<const Origin> origin;  ///< of a constant that a plan has made; else null

  bool constant = false;   ///< made inside a trace: its data never change and may be folded
  bool parameter = false;  ///< made to be a part of some module
  bool state = false;      ///< of a part: kept but not learnt

  std::uint64_t trace = 0;  ///< of a traced one: which trace; 0: a stored one
  int id = -1;              ///< of a traced one: which value of the graph
};

/// Whether a stored tensor is a parameter that training learns: no constant, and no state.
bool is_learnt(const Tensor& tensor);

/// To be called before the data of a stored tensor change. Where a snapshot shares them, the tensor gets a copy of its
/// own, and its epoch counts up; else the version of the data does.
void about_to_change(Value& value);
/// A constant that has the data of a stored tensor as they are now: shared until one of the two changes.
Tensor snapshot(const Tensor& tensor);

/// The same data in the plain layout: the handle itself when it is plain already.
Tensor plain(const Tensor& tensor);
/// A copy in another physical layout.
Tensor repacked(const Tensor& tensor, const Layout& layout);
/// Changes the physical layout of a stored tensor, keeping the handle; counts the epoch up.
void repack(const Tensor& tensor, const Layout& layout);

}  // namespace neurim
